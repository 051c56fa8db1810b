import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { describeChange, EmbeddedScreen, renderView, rowOf } from '../../src/commands/embedded.ts'
import { type KubeObject, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'

/** What a screen writes while it watches an empty server, to which the test adds namespace `blue` and removes it. */
async function watched(terminal: { isTTY?: boolean; columns?: number; rows?: number }): Promise<readonly string[]> {
  const surroundings = { clock: systemClock, random: systemRandom(), logger: silentLogger }
  const transport = inProcessTransport(createApiServer(surroundings))
  const api = restKubeApi({ transport, ...surroundings })
  const writes: string[] = []
  const screen = new EmbeddedScreen({ ...terminal, write: (text) => writes.push(text) })
  const end = new AbortController()
  const running = screen.run({ ...surroundings, api }, 'head', end.signal)
  const seen = async (pattern: RegExp): Promise<void> => {
    for (let i = 0; i < 400 && !pattern.test(writes.at(-1) ?? ''); i++) await sleep(5)
    assert.match(writes.at(-1) ?? '', pattern)
  }
  await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'blue' } })
  await seen(/Namespace +blue/)
  screen.write('a log line\n')
  await api.delete(namespaces, { name: 'blue' })
  await seen(terminal.isTTY ? /STATE\n\na log line/ : /^- Namespace blue/)
  screen.write('the last line\n')
  end.abort()
  await running
  await transport.close()
  return writes
}

test('on a terminal each change redraws the table in place, with the log below', async () => {
  const writes = await watched({ isTTY: true, columns: 80, rows: 24 })
  assert.ok(writes[0]?.startsWith('\u001b[0Jhead\n\nKIND'), writes[0])
  for (const [index, text] of writes.entries()) {
    const before = writes[index - 1]
    if (before !== undefined) assert.ok(text.startsWith(`\u001b[${before.split('\n').length - 1}A\u001b[0J`), text)
  }
  assert.match(writes.at(-1) ?? '', /a log line\nthe last line\n$/, 'the last change is drawn at the end')
})

test('without a terminal each change is a line', async () => {
  const writes = await watched({})
  assert.equal(writes[0], 'head\n')
  assert.equal(writes[1], '+ Namespace blue: Active\n')
  assert.equal(writes.at(-1), '- Namespace blue\n')
  for (const text of writes) assert.ok(!text.includes('\u001b') && !text.includes('a log line'), text)
})

function row(kind: Parameters<typeof rowOf>[0], object: object): ReturnType<typeof rowOf> {
  return rowOf(kind, object as KubeObject)
}

const service = row('Service', {
  metadata: { namespace: 'default', name: 'kubernetes' },
  spec: { type: 'ClusterIP', clusterIP: '10.0.0.1', ports: [{ port: 443, targetPort: 6443 }] },
})
const endpoints = row('Endpoints', {
  metadata: { namespace: 'default', name: 'kubernetes' },
  subsets: [{ addresses: [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }], ports: [{ port: 6443 }] }],
})

test('the detail of each kind shows its essential fields', () => {
  assert.deepEqual(service, { kind: 'Service', name: 'default/kubernetes', detail: 'ClusterIP 10.0.0.1 443->6443' })
  assert.equal(endpoints.detail, '192.0.2.1,192.0.2.2 :6443')
  assert.equal(row('Endpoints', { metadata: { name: 'x' } }).detail, 'no addresses')
  assert.equal(row('Namespace', { metadata: { name: 'x' }, status: { phase: 'Active' } }).detail, 'Active')
  const nodePort = {
    type: 'NodePort',
    clusterIP: '10.0.0.1',
    ports: [{ port: 443, targetPort: 6443, nodePort: 30443 }],
  }
  assert.equal(row('Service', { spec: nodePort }).detail, 'NodePort 10.0.0.1 443->6443 (node port 30443)')
  const ready = { spec: { cidrs: ['10.0.0.0/24'] }, status: { conditions: [{ type: 'Ready', status: 'True' }] } }
  assert.equal(row('ServiceCIDR', ready).detail, '10.0.0.0/24 Ready')
  assert.equal(row('ServiceCIDR', { spec: ready.spec }).detail, '10.0.0.0/24 not ready')
  const slice = { addressType: 'IPv4', endpoints: [{ addresses: ['192.0.2.1'] }], ports: [{ port: 6443 }] }
  assert.equal(row('EndpointSlice', slice).detail, 'IPv4 192.0.2.1 :6443')
})

test('the renewal of a Lease is not a change', () => {
  const lease = (renewTime: string): object => ({
    metadata: { namespace: 'kube-system', name: 'a' },
    spec: { holderIdentity: 'host_7a0c', leaseDurationSeconds: 15, renewTime },
  })
  const before = row('Lease', lease('2026-01-01T00:00:00.000000Z'))
  assert.equal(before.detail, 'held by host for 15s')
  assert.equal(describeChange(before, row('Lease', lease('2026-01-01T00:00:10.000000Z'))), undefined)
})

test('each change is described in one line', () => {
  assert.equal(describeChange(undefined, service), '+ Service default/kubernetes: ClusterIP 10.0.0.1 443->6443')
  assert.equal(
    describeChange(endpoints, { ...endpoints, detail: 'no addresses' }),
    '~ Endpoints default/kubernetes: no addresses',
  )
  assert.equal(describeChange(endpoints, undefined), '- Endpoints default/kubernetes')
  assert.equal(describeChange(undefined, undefined), undefined)
})

test('the table has a fixed order, and the log below it', () => {
  const objects = [
    endpoints,
    service,
    row('Namespace', { metadata: { name: 'kube-system' }, status: { phase: 'Active' } }),
    row('Namespace', { metadata: { name: 'default' }, status: { phase: 'Active' } }),
  ]
  assert.deepEqual(renderView({ head: 'head', objects, log: ['one', 'two'], rows: 20 }), [
    'head',
    '',
    'KIND       NAME                STATE',
    'Namespace  default             Active',
    'Namespace  kube-system         Active',
    'Service    default/kubernetes  ClusterIP 10.0.0.1 443->6443',
    'Endpoints  default/kubernetes  192.0.2.1,192.0.2.2 :6443',
    '',
    'one',
    'two',
  ])
})

test('a small terminal omits the oldest log lines first, then the end of the table', () => {
  const view = { head: 'head', objects: [service], log: ['one', 'two', 'three'] }
  assert.deepEqual(renderView({ ...view, rows: 7 }).slice(4), ['', 'two', 'three'])
  assert.equal(renderView({ ...view, rows: 5 }).length, 4)
  assert.equal(renderView({ ...view, rows: 3 }).length, 3)
  assert.equal(renderView({ ...view, log: [], rows: 9 }).length, 4)
})
