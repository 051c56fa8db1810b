import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJsonPath } from '../../src/apiserver/json-path.ts'
import { parseListOptions } from '../../src/apiserver/query.ts'
import { configMapKind } from '../../src/apiserver/resources/plain-kinds.ts'
import { Store, type StoredObject } from '../../src/apiserver/store.ts'
import { mergeFields } from '../../src/apiserver/typed-fields.ts'
import { openWatch } from '../../src/apiserver/watch.ts'
import type { ApiRequest } from '../../src/kube/transport.ts'
import { parsePortRange } from '../../src/net/host-port.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { Embedded } from '../apiserver/embedded.ts'

/**
 * CPU time of this process, independent of the rest of the machine. Code that compares each item with every other item,
 * or moves all items for each one, takes longer, and answers no other request meanwhile.
 */
const LONG_MS = 8000

async function soon(work: () => unknown, what = 'it'): Promise<void> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  const tookMs = (user + system) / 1000
  assert.ok(tookMs < LONG_MS, `${what} took ${Math.round(tookMs)} ms`)
}

const numbered = (count: number): string[] => Array.from({ length: count }, (_, index) => `a/${index + 1e6}`)

test('a terminating object with 100,000 finalizers is updated quickly', async () => {
  const embedded = await Embedded.started()
  const path = '/api/v1/namespaces/default/configmaps'
  const metadata = { name: 'a', finalizers: numbered(100_000) }
  await embedded.send('POST', path, { metadata })
  await embedded.send('DELETE', `${path}/a`)
  const again = { ...metadata, finalizers: numbered(100_000).reverse() }
  await soon(async () => assert.equal((await embedded.send('PUT', `${path}/a`, { metadata: again })).status, 200))
})

const merge = 'application/merge-patch+json'
const pods = '/api/v1/namespaces/default/pods'
const services = '/api/v1/namespaces/default/services'
const endpoints = '/api/v1/namespaces/default/endpoints'
const objects = <T>(count: number, of: (text: string, index: number) => T): T[] => numbered(count).map(of)

/** Requests whose answers are the tables that kubectl prints, and the expected statuses. */
const long: readonly (readonly [method: ApiRequest['method'], path: string, body: () => unknown, status: number])[] = [
  [
    'POST',
    endpoints,
    () => {
      const addresses = objects(30_000, () => ({ ip: '192.0.2.1' }))
      const ports = objects(20_000, (_, index) => ({ name: `p${index}`, port: 1 }))
      return { metadata: { name: 'e' }, subsets: [{ addresses, ports }] }
    },
    201,
  ],
  [
    'POST',
    services,
    () => ({ metadata: { name: 's' }, spec: { ports: [{ port: 1 }], ipFamilies: numbered(100_000) } }),
    422,
  ],
  [
    'POST',
    services,
    () => {
      const ports = objects(60_000, (_, index) => ({ name: `p${index}`, port: index + 1, nodePort: index + 1 }))
      return { metadata: { name: 's' }, spec: { type: 'NodePort', ports } }
    },
    201,
  ],
  ['PATCH', `${services}/s`, () => ({ spec: { type: 'ClusterIP' } }), 200],
  [
    'POST',
    pods,
    () => {
      const volumes = objects(100_000, (name) => ({ name }))
      const volumeMounts = volumes.toReversed().map(({ name }) => ({ name, mountPath: '/' }))
      const containers = [{ name: 'c', image: 'i', volumeMounts }]
      return { metadata: { name: 'v' }, spec: { containers, volumes } }
    },
    201,
  ],
  [
    'POST',
    pods,
    () => {
      const tolerations = objects(30_000, (key) => ({ key }))
      const schedulingGates = objects(60_000, (name) => ({ name }))
      const readinessGates = objects(60_000, (conditionType) => ({ conditionType }))
      const containers = [{ name: 'c', image: 'i' }]
      return { metadata: { name: 'p' }, spec: { containers, tolerations, schedulingGates, readinessGates } }
    },
    201,
  ],
  [
    'PATCH',
    `${pods}/p`,
    () => {
      const tolerations = objects(30_000, (key) => ({ key, tolerationSeconds: 1 })).reverse()
      return { spec: { tolerations, schedulingGates: objects(60_000, (name) => ({ name })).reverse() } }
    },
    200,
  ],
  [
    'PATCH',
    `${pods}/p/status`,
    () => ({ status: { conditions: objects(60_000, (type) => ({ type, status: 'True' })).reverse() } }),
    200,
  ],
]

test('objects with very long lists are stored, changed and printed as tables quickly', async (t) => {
  const { server } = await Embedded.started([], { serviceAllocators: 'none' })
  const headers = { 'content-type': merge, accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' }
  for (const [method, path, make, status] of long) {
    const body = make()
    await soon(async () => {
      const answer = await server.handle({ method, path, query: [], headers, body }, t.signal)
      assert.equal(answer.status, status, `${method} ${path}: ${JSON.stringify(answer).slice(0, 1000)}`)
    }, `${method} ${path}`)
  }
})

/** The ports of Services, by the kind of their NodePorts. */
const manyPorts = {
  given: objects(60_000, (_, index) => ({ name: `p${index}`, port: index + 1, nodePort: index + 1 })),
  'allocated by the server': objects(30_000, (_, index) => ({ name: `p${index}`, port: index + 1 })),
  'shared with the same port of another protocol': ['TCP', 'UDP'].flatMap((protocol) =>
    objects(30_000, (_, index) => {
      const nodePort = protocol === 'TCP' ? index + 1 : undefined
      return { name: `${protocol.toLowerCase()}${index}`, protocol, port: index + 1, nodePort }
    }),
  ),
}

for (const [which, ports] of Object.entries(manyPorts)) {
  test(`a Service with tens of thousands of NodePorts is created quickly: ${which}`, async () => {
    const embedded = await Embedded.started(['10.96.0.0/16'], { serviceNodePortRange: parsePortRange('1-65535') })
    const body = { metadata: { name: 's' }, spec: { type: 'NodePort', ports } }
    await soon(async () => {
      const answer = await embedded.send('POST', services, body)
      assert.equal(answer.status, 201, JSON.stringify(answer.body).slice(0, 1000))
    })
  })
}

test('1,000 columns each read the first of 300,000 values quickly', () =>
  soon(() => {
    const list = numbered(300_000)
    for (let column = 0; column < 1000; column++) assert.equal(parseJsonPath('.list[*]')?.({ list }), list[0])
  }))

test('a list of 250,000 items is merged with itself quickly', () =>
  soon(() => {
    const items = numbered(250_000)
    assert.deepEqual(mergeFields(items, [...items], { type: 'list', items: { type: 'string' }, keys: 'value' }), items)
  }))

test('a watch quickly sends each of 200,000 present objects first', async () => {
  const store = new Store(1)
  const count = 200_000
  for (const [index, name] of numbered(count).entries()) {
    const metadata = { name, uid: String(index), resourceVersion: '' }
    store.objects(configMapKind).put(name, { kind: 'ConfigMap', apiVersion: 'v1', metadata } satisfies StoredObject)
  }
  const context = { store, clock: new VirtualClock().view(), random: seededRandom(1, 'watch'), bufferLimit: 1 }
  const options = parseListOptions([['watch', 'true']], configMapKind)
  const { signal } = new AbortController()
  await soon(async () => {
    let read = 0
    for await (const _ of openWatch(context, configMapKind, undefined, options, signal)) if (++read === count) break
    assert.equal(read, count)
  })
})
