import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointSlices, endpoints, services } from '../../../src/kube/resources.ts'
import { runControllers, shellLine } from '../../../src/verify/cluster/finding.ts'
import { findingsOf } from './findings.ts'
import { bootstrapped } from './world.ts'

const flags = { kubectl: [], 'apiserver-bootstrap': [] }

test('the repair of Endpoints and slices states which controller to stop first, and when the command ends', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const { items } = await api.list(endpointSlices, { labelSelector: 'kubernetes.io/service-name=web' })
  await api.delete(endpoints, { namespace: 'default', name: 'web' })
  await api.delete(endpointSlices, { namespace: 'default', name: items[0]?.metadata?.name ?? '' })
  const found = findingsOf(await verify())
  assert.deepEqual(
    found.map(({ found }) => found),
    ['no Endpoints', 'no slice of the controller'],
  )
  for (const { remedy } of found) {
    assert.match(
      shellLine(remedy, flags),
      /^apiserver-bootstrap run .* # first stop kube-controller-manager's (\S+) \(--controllers=\*,-\1\), .* until Ctrl-C/,
    )
  }
})

test('for a Service without Pods, Endpoints and slices both findings are clear sentences', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const spec = { selector: { app: 'nobody' }, ports: [{ port: 80 }] }
  await api.create(services, { metadata: { namespace: 'default', name: 'empty' }, spec } as never)
  assert.deepEqual(
    findingsOf(await verify()).map(({ expected, found }) => `expected ${expected}, found ${found}`),
    [
      'expected Endpoints with 0 addresses, from 0 Pods, found no Endpoints',
      'expected slices with the endpoints of its 0 Pods, found no slice of the controller',
    ],
  )
})

test('a new slice is not a duplicate of one that is being deleted', async () => {
  const { api, verify, execute } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const { items } = await api.list(endpointSlices, { labelSelector: 'kubernetes.io/service-name=web' })
  const old = { namespace: 'default', name: items[0]?.metadata?.name ?? '' }
  // The finalizer of an operator may hold it for minutes.
  const body = { metadata: { finalizers: ['example.com/slow'] } }
  await api.patch(endpointSlices, old, { type: 'merge', body })
  await api.delete(endpointSlices, old)
  await execute(runControllers('endpointslice'))
  assert.deepEqual(findingsOf(await verify()), [])
})

test('Endpoints without a managed-by label hold, but those labelled by another controller do not', async () => {
  const { api, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const label = async (value: string | null) => {
    const body = { metadata: { labels: { 'endpoints.kubernetes.io/managed-by': value } } }
    for (const name of ['web', 'db'])
      await api.patch(endpoints, { namespace: 'default', name }, { type: 'merge', body })
    return findingsOf(await verify()).map(({ object }) => object)
  }
  assert.deepEqual(await label(null), [])
  assert.deepEqual(await label('another'), ['Endpoints default/db', 'Endpoints default/web'])
})
