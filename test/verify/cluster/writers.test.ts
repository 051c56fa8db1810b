import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi } from '../../../src/kube/api.ts'
import { endpointSlices, endpoints, services } from '../../../src/kube/resources.ts'
import { shellLine } from '../../../src/verify/cluster/finding.ts'
import { failedIn } from '../../../src/verify/cluster/verify-cluster.ts'
import { findingsOf } from './findings.ts'
import { bootstrapped } from './world.ts'

const kubernetes = { namespace: 'default', name: 'kubernetes' } as const

/** Watches for ten seconds, and makes each write at its second. */
async function watched(writes: readonly (readonly [second: number, write: (api: KubeApi) => Promise<unknown>])[]) {
  const { api, time, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  for (const [second, write] of writes) time.view().schedule(second * 1_000, () => void write(api))
  const report = await verify({ source: { api, watchMs: 10_000 }, only: ['single-writer'] })
  const [finding] = findingsOf(report)
  const flags = { kubectl: [], 'apiserver-bootstrap': [] }
  return { report, finding, repair: shellLine(finding?.remedy ?? [], flags) }
}

function list(address: string, fieldManager: string) {
  return async (api: KubeApi): Promise<unknown> => {
    const { subsets = [] } = await api.get(endpoints, kubernetes)
    const body = { subsets: subsets.map((subset) => ({ ...subset, addresses: [{ ip: address }] })) }
    return api.patch(endpoints, kubernetes, { type: 'merge', body }, { fieldManager })
  }
}

test('unchanged objects, or objects changed by a single writer, hold', async () => {
  const { report } = await watched([
    [2, list('192.0.2.2', 'one')],
    [4, list('192.0.2.3', 'one')],
    [5, (api) => api.patch(services, kubernetes, { type: 'merge', body: { metadata: { labels: { a: 'b' } } } })],
  ])
  assert.deepEqual(failedIn(report), [])
  const [result] = report.results
  assert.equal(result?.status === 'held' && result.found, 'no writer overwrote 3 objects in 10s')
})

test('Endpoints that two writers overwrite in turn are reported with the writers and their counts', async () => {
  const { report, finding, repair } = await watched([
    [2, list('192.0.2.2', 'kube-apiserver')],
    [3, list('192.0.2.1', 'apiserver-bootstrap')],
    [5, list('192.0.2.2', 'kube-apiserver')],
    [6, list('192.0.2.1', 'apiserver-bootstrap')],
  ])
  assert.deepEqual(failedIn(report), ['single-writer'])
  assert.deepEqual(
    [finding?.object, finding?.found],
    ['Endpoints default/kubernetes', 'changed 4 times in 10s and back: 2 by kube-apiserver, 2 by apiserver-bootstrap'],
  )
  assert.match(repair, /^# an API server's own endpoint reconciler is on: .*--endpoint-reconciler-type=none/)
})

test('an overwrite corrected by another writer is reported, one reverted by the same writer is not', async () => {
  const corrected = await watched([
    [2, list('192.0.2.2', 'kubectl-edit')],
    [3, list('192.0.2.1', 'apiserver-bootstrap')],
  ])
  assert.match(corrected.finding?.found ?? '', /1 by kubectl-edit, 1 by apiserver-bootstrap/)
  assert.equal(corrected.repair, '# stop all of them but one')
  const takenBack = await watched([
    [2, list('192.0.2.2', 'kubectl-edit')],
    [3, list('192.0.2.1', 'kubectl-edit')],
  ])
  assert.deepEqual(failedIn(takenBack.report), [])
})

test('fighting masters are reported under one name, and a deletion by an unknown writer', async () => {
  const masters = await watched(
    [2, 3, 4, 5].map((second) => [second, list(`192.0.2.${second % 2}`, 'apiserver-bootstrap')] as const),
  )
  assert.match(masters.finding?.found ?? '', /: 4 by apiserver-bootstrap$/)
  assert.match(masters.repair, /^# give all masters the same options/)
  const deletion = await watched([
    [2, (api) => api.delete(endpointSlices, kubernetes)],
    [
      3,
      async (api) => {
        const { subsets } = await api.get(endpoints, kubernetes)
        const [subset] = subsets ?? []
        const listed = (subset?.addresses ?? []).map(({ ip }) => ({ addresses: [ip], conditions: { ready: true } }))
        const labels = { 'kubernetes.io/service-name': 'kubernetes' }
        const slice = { metadata: { ...kubernetes, labels }, addressType: 'IPv4', endpoints: listed }
        return api.create(endpointSlices, { ...slice, ports: subset?.ports } as never, {
          fieldManager: 'kube-apiserver',
        })
      },
    ],
  ])
  assert.equal(deletion.finding?.object, 'EndpointSlice default/kubernetes')
  assert.match(deletion.finding?.found ?? '', /1 by an unknown writer \(not in managedFields\), 1 by kube-apiserver/)
  assert.match(deletion.repair, /audit log/)
})
