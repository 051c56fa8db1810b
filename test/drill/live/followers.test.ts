import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { WriteCounts } from '../../../src/drill/live/followers.ts'
import { listenAnywhere } from '../../../src/drill/live/tcp-proxy.ts'
import { isWrite } from '../../../src/verify/observation.ts'

test('each write that the metrics tell of is told once; one that mends two things is one', async (t) => {
  let text = ''
  const server = createServer((_, response) => response.end(text))
  const where = { host: '127.0.0.1', port: await listenAnywhere(server) }
  t.after(() => void server.close())
  const counts = new WriteCounts(true)

  text = [
    '# TYPE apiserver_bootstrap_writes_total counter',
    'apiserver_bootstrap_writes_total{kind="Endpoints",verb="create",reason="missing"} 1',
    'apiserver_bootstrap_lease_renewals_total{result="success"} 2',
    'apiserver_bootstrap_lease_renewals_total{result="failure"} 7',
  ].join('\n')
  const first = await counts.next(where)
  assert.deepEqual(
    first.map(({ method, path }) => `${method} ${path.split('/').slice(-2)[0]}`),
    ['POST endpoints', 'PUT leases', 'PUT leases'],
  )
  assert.deepEqual(await counts.next(where), [])

  text += [
    '\napiserver_bootstrap_writes_total{kind="EndpointSlice",verb="update",reason="ports"} 1',
    'apiserver_bootstrap_writes_total{kind="EndpointSlice",verb="update",reason="labels"} 1',
  ].join('\n')
  const second = await counts.next(where)
  assert.deepEqual(second, [
    { method: 'PUT', path: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes' },
  ])
  for (const request of [...first, ...second]) assert.ok(isWrite({ atMs: 0, by: 'a', request }))
})

test('whoever does not answer has written nothing', async () => {
  assert.deepEqual(await new WriteCounts(false).next({ host: '127.0.0.1', port: 1 }), [])
})
