import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { defaultNamespace, startApiServer } from '../../src/apiserver/http-start.ts'
import { MastersSource, openMasters } from '../../src/commands/masters-source.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { tempDir } from '../support/temp-dir.ts'

test('close waits until its parts are closed', async () => {
  const closing = Promise.withResolvers<void>()
  const order: string[] = []
  const source = new MastersSource({
    clock: new VirtualClock().view(),
    leaseStore: 'etcd',
    place: 'here',
    inspector: { inspect: async () => [], evict: async () => false },
    api: 'no API server',
    close() {
      order.push('closing')
      return closing.promise
    },
  })
  const closed = source.close().then(() => order.push('closed'))
  await new Promise(setImmediate)
  assert.deepEqual(order, ['closing'])
  closing.resolve()
  await closed
})

test('close writes the Events of removals before it closes the connections', async (t) => {
  const labels = { 'apiserver-bootstrap/lease': 'master' }
  const server = await startApiServer({
    objects: [
      defaultNamespace,
      { ...defaultNamespace, metadata: { name: 'kube-system' } },
      {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { namespace: 'kube-system', name: 'a', labels },
      },
    ],
  })
  t.after(() => server.close())
  const kubeconfig = join(await tempDir(t), 'kubeconfig')
  await server.writeKubeconfig(kubeconfig)
  const source = await openMasters({ kubeconfig, logLevel: 'error' }, true)
  t.after(() => source.close())
  const { signal } = new AbortController()
  const [lease, ...others] = (await source.read(signal)).leases
  assert.ok(lease !== undefined && others.length === 0)
  assert.equal(await source.evict(lease, ['stale'], signal), true)
  await source.close()
  const path = '/apis/events.k8s.io/v1/events'
  const answer = await server.server.handle({ method: 'GET', path, query: [], headers: {} }, signal)
  const { items } = ('body' in answer ? answer.body : {}) as { readonly items: readonly { readonly reason: string }[] }
  assert.deepEqual(
    items.map(({ reason }) => reason),
    ['MasterEvicted'],
  )
})
