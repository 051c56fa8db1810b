import assert from 'node:assert/strict'
import { test } from 'node:test'
import { faultyTransport } from '../../../src/apiserver/faults.ts'
import { type ConfigMap, configMaps, namespaces } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../../src/kube/transport.ts'
import { ConfigMapRangeRegistry, decodeLedger, encodeLedger } from '../../../src/repair/registries/config-map.ts'
import { RemoteError } from '../../../src/runtime/errors.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { Embedded } from '../../apiserver/embedded.ts'
import { patient, put, summaryOf, until, watching } from './contract.ts'

const name = 'servicenodeports'
const ref = { namespace: 'kube-system', name: 'apiserver-bootstrap-servicenodeports' }
const label = 'app.kubernetes.io/managed-by'

async function setUp({ withNamespace = true } = {}) {
  const embedded = new Embedded()
  const { api, clock, time, server } = embedded
  const requests: ApiRequest[] = []
  const random = seededRandom(1, 'faults')
  const recorded: Transport = {
    send(request, signal) {
      requests.push(request)
      return embedded.transport.send(request, signal)
    },
    close: () => embedded.transport.close(),
  }
  const transport = faultyTransport(recorded, { clock, random })
  const make = (through: Transport) =>
    new ConfigMapRangeRegistry({
      api: restKubeApi({ transport: through, clock, random: seededRandom(1, 'client') }),
      clock,
      random: seededRandom(1, 'registry'),
      logger: silentLogger,
    })
  const makeNamespace = () => api.create(namespaces, { metadata: { name: ref.namespace } })
  if (withNamespace) await makeNamespace()
  return {
    api,
    server,
    requests,
    makeNamespace,
    faults: transport.faults,
    registry: make(transport),
    other: make(embedded.transport),
    pass: (ms: number) => time.advance(ms),
    ledger: () => api.get(configMaps, ref),
    edit: (body: unknown) => api.patch(configMaps, ref, { type: 'merge', body }),
  }
}

test('configmap: a range is stored as a ConfigMap in kube-system with a managed-by label', async () => {
  const { registry, ledger } = await setUp()
  await put(registry, name, '30000-32767', 1, 0)
  const { metadata, data, binaryData } = await ledger()
  assert.deepEqual(metadata?.labels, { [label]: 'apiserver-bootstrap' })
  assert.deepEqual([data, binaryData], [{ range: '30000-32767' }, { data: 'AQA=' }])
  assert.equal(registry.where(name), 'ConfigMap kube-system/apiserver-bootstrap-servicenodeports')
})

test('configmap: a write preserves the data of others and restores the label', async () => {
  const { registry, ledger, edit } = await setUp()
  await put(registry, name, '1-9', 1)
  await edit({
    metadata: {
      annotations: { theirs: 'yes' },
      labels: { theirs: 'yes', [label]: null },
      finalizers: ['theirs/yes'],
    },
    data: { theirs: 'yes' },
    binaryData: { theirBytes: 'AAAA' },
  })
  assert.equal(summaryOf(await put(registry, name, '1-9', 2)), '1-9 02')
  const { metadata, data, binaryData } = await ledger()
  assert.equal(metadata?.annotations?.theirs, 'yes')
  assert.deepEqual(metadata?.labels, { theirs: 'yes', [label]: 'apiserver-bootstrap' })
  assert.deepEqual(metadata?.finalizers, ['theirs/yes'])
  assert.deepEqual(
    [data, binaryData],
    [
      { theirs: 'yes', range: '1-9' },
      { theirBytes: 'AAAA', data: 'Ag==' },
    ],
  )
})

test('configmap: unknown fields survive a write', () => {
  const before = { future: { field: 1 }, immutable: false, data: { range: '1-9' }, binaryData: { data: 'AA==' } }
  const { future, immutable } = encodeLedger(name, { range: '1-9', data: Buffer.of(1) }, before) as typeof before
  assert.deepEqual([future, immutable], [{ field: 1 }, false])
})

test('configmap: a ConfigMap of that name with other content is unreadable and is not changed', async () => {
  const contents: readonly Partial<ConfigMap>[] = [
    {},
    { data: { range: '1-9' } },
    { binaryData: { data: 'AA==' } },
    { data: { range: '' }, binaryData: { data: 'AA==' } },
    { data: { range: '1-9' }, binaryData: { other: 'AA==' } },
    { data: { range: '1-9', data: 'AA==' } },
  ]
  for (const content of contents) {
    const { api, registry, ledger } = await setUp()
    await api.create(configMaps, { metadata: ref, ...content })
    const before = await ledger()
    const stored = await registry.read(name, patient)
    assert.ok(stored.type === 'unreadable', JSON.stringify(content))
    assert.match(stored.reason, /^is not a valid range allocation: [^\n]+$/)
    const again = { range: '1-9', data: Buffer.of(1) }
    await assert.rejects(registry.write(name, again, stored, patient), TypeError)
    assert.equal(await registry.write(name, again, { type: 'absent' }, patient), undefined)
    assert.deepEqual(await ledger(), before)
  }
})

test('configmap: an empty bitmap is read whether the server writes it as empty text or as null', async () => {
  const { registry, ledger } = await setUp()
  await put(registry, name, '1-9')
  assert.deepEqual((await ledger()).binaryData, { data: '' })
  assert.equal(summaryOf(await registry.read(name, patient)), '1-9')
  const none = { data: { range: '1-9' }, binaryData: { data: null } } as unknown as ConfigMap
  assert.equal(summaryOf(decodeLedger(none)), '1-9')
})

test('configmap: an immutable ConfigMap is read, and a write to it fails permanently', async () => {
  const { registry, edit } = await setUp()
  await put(registry, name, '1-9', 1)
  await edit({ immutable: true })
  const stored = await registry.read(name, patient)
  assert.equal(summaryOf(stored), '1-9 01')
  await assert.rejects(registry.write(name, { range: '1-9', data: Buffer.of() }, stored, patient), {
    name: 'KubeError',
    nature: 'lasting',
    message: 'ConfigMap kube-system/apiserver-bootstrap-servicenodeports is marked immutable',
  })
})

test('configmap: while kube-system is missing, every range is absent and writes fail temporarily', async (t) => {
  const world = await setUp({ withNamespace: false })
  const { registry, makeNamespace } = world
  const seen = await watching(world, registry, t)
  assert.deepEqual(await registry.read(name, patient), { type: 'absent' })
  const content = { range: '1-9', data: Buffer.of(1) }
  await assert.rejects(
    registry.write(name, content, { type: 'absent' }, patient),
    (error) => error instanceof RemoteError && error.nature === 'passing',
  )
  await makeNamespace()
  assert.equal(summaryOf(await registry.write(name, content, { type: 'absent' }, patient)), '1-9 01')
  await until(world, 'the change', () => seen.received.length === 1)
  assert.deepEqual(seen.log.toSorted(), ['established', 'read', `${name} 1-9 01`])
})

test('configmap: requests concern only the ConfigMaps of the ranges, each by its name', async (t) => {
  const world = await setUp()
  const { registry, requests } = world
  await watching(world, registry, t)
  await put(registry, name, '1-9', 1)
  await put(registry, name, '1-9', 2)
  const asked = requests.map(({ method, path, query }) => {
    const selector = query?.find(([parameter]) => parameter === 'fieldSelector')?.[1] ?? ''
    return `${method} ${path.replace('/api/v1/namespaces/kube-system/configmaps', '')} ${selector}`.trim()
  })
  const own = 'apiserver-bootstrap-'
  assert.deepEqual(asked, [
    `GET  metadata.name=${own}serviceips`,
    `GET  metadata.name=${own}secondaryserviceips`,
    `GET  metadata.name=${own}servicenodeports`,
    `GET /${own}servicenodeports`,
    'POST',
    `GET /${own}servicenodeports`,
    `PUT /${own}servicenodeports`,
  ])
})

test('configmap: reads and writes report that the server is unreachable', async () => {
  const { registry, faults } = await setUp()
  const before = await put(registry, name, '1-9', 1)
  faults.add({ fault: { type: 'refuse' } })
  const isAway = (error: unknown) => error instanceof RemoteError && error.nature === 'away'
  await assert.rejects(registry.read(name, patient), isAway)
  await assert.rejects(registry.write(name, { range: '1-9', data: Buffer.of(2) }, before, patient), isAway)
  faults.clear()
  assert.equal(summaryOf(await registry.read(name, patient)), '1-9 01')
})

test('configmap: a write whose answer is lost is found by the next read, and a second try does not write again', async () => {
  const { registry, faults, pass } = await setUp()
  const before = await put(registry, name, '1-9', 1)
  const content = { range: '1-9', data: Buffer.of(2) }
  faults.add({ fault: { type: 'drop', lost: 'answer' }, methods: ['PUT'], times: 1 })
  const lost = assert.rejects(
    registry.write(name, content, before, patient),
    (error) => error instanceof RemoteError && error.nature === 'away',
  )
  await pass(120_000)
  await lost
  assert.equal(await registry.write(name, content, before, patient), undefined)
  assert.equal(summaryOf(await registry.read(name, patient)), '1-9 02')
})

test('configmap: a watch that is cut off resumes and delivers every change in order', async (t) => {
  const world = await setUp()
  const { registry, other, faults } = world
  const seen = await watching(world, registry, t)
  await world.pass(10_000)
  faults.add({ fault: { type: 'refuse' } })
  faults.resetStreams()
  await world.pass(100)
  for (const data of [1, 0, 1]) await put(other, name, '1-9', data)
  await until(world, 'the report of the outage', () => seen.log.includes('failed'))
  faults.clear()
  await until(world, 'the changes', () => seen.received.length === 3)
  await until(
    world,
    'the report of its end',
    () => seen.log.at(-1) === 'established' || seen.log.at(-2) === 'established',
  )
  const [established, read] = ['established', 'read'].map((word) => seen.log.filter((line) => line === word).length)
  assert.deepEqual([established, read], [2, 1])
  assert.deepEqual(seen.received.map(summaryOf), ['1-9 01', '1-9 00', '1-9 01'])
})

test('configmap: a watch whose history was compacted reports that the ranges must be read again', async (t) => {
  const world = await setUp()
  const { registry, other, faults, server } = world
  const seen = await watching(world, registry, t)
  await world.pass(10_000)
  faults.add({ fault: { type: 'refuse' } })
  faults.resetStreams()
  for (const data of [1, 0, 1]) await put(other, name, '1-9', data)
  await world.pass(2_000)
  server.compact()
  faults.clear()
  await until(world, 'a read for each watch', () => seen.log.filter((line) => line === 'read').length === 4)
  assert.deepEqual(seen.received, [])
  await put(other, name, '1-9', 3)
  await until(world, 'the change', () => seen.received.length === 1)
  assert.deepEqual(seen.received.map(summaryOf), ['1-9 03'])
})

test('configmap: a day without changes does not interrupt the watch', async (t) => {
  const world = await setUp()
  const seen = await watching(world, world.registry, t)
  await world.pass(24 * 3_600_000)
  await put(world.other, name, '1-9', 1)
  await until(world, 'the change', () => seen.received.length === 1)
  assert.deepEqual(seen.log.toSorted(), ['established', 'read', `${name} 1-9 01`])
})

test('configmap: an error that the watcher throws ends the whole watch', async () => {
  const world = await setUp()
  const mistake = new Error('a mistake')
  const received: unknown[] = []
  const ended = world.registry.watch({
    onChange(change) {
      received.push(change)
      if (change !== undefined) throw mistake
    },
    report: () => {},
    signal: patient,
  })
  const rejected = assert.rejects(ended, mistake)
  await until(world, 'the watch', () => received.length === 1)
  await put(world.other, name, '1-9', 1)
  await put(world.other, 'serviceips', '10.0.0.0/24', 1)
  await world.pass(1_000)
  await rejected
  const before = received.length
  await put(world.other, 'secondaryserviceips', 'fd00::/112', 1)
  await world.pass(1_000)
  assert.equal(received.length, before)
})
