import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EtcdError, type EtcdKv, type KeyChange } from '../../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../../src/etcd/memory-etcd.ts'
import { type EtcdCall, faultyEtcd } from '../../../src/etcd/memory-etcd-faults.ts'
import { EtcdRangeRegistry } from '../../../src/repair/registries/etcd.ts'
import { MemoryRangeRegistry } from '../../../src/repair/registries/memory.ts'
import type { StoredRange } from '../../../src/repair/registries/range-registry.ts'
import { RemoteError } from '../../../src/runtime/errors.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { patient, put, summaryOf, until, watching } from './contract.ts'
import { overwriteKey } from './store-keys.ts'

/** What kube-apiserver 1.36.3 stored when 30007 was taken. */
const written =
  '6b3873000a150a027631120f52616e6765416c6c6f636174696f6e12220a100a0012001a0022002a00320038004200120b33303030302d33323736371a01801a002200'
const key = '/registry/ranges/servicenodeports'
const name = 'servicenodeports'
const unreachable = new EtcdError('Unreachable', 'connection reset')

function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const store = new MemoryEtcd({ clock })
  const etcd = store.client()
  const calls: string[] = []
  const world = {
    /** The error that a call throws, before it is made or after. */
    fault: (_call: EtcdCall, _place: 'before' | 'after'): unknown => undefined,
  }
  const at = (place: 'before' | 'after') => async (call: EtcdCall) => {
    if (place === 'before') calls.push(`${call.method} ${call.key}`)
    const error = world.fault(call, place)
    if (error !== undefined) throw error
  }
  const faulty = faultyEtcd(store.client(), { clock, before: at('before'), after: at('after') })
  return Object.assign(world, {
    store,
    etcd,
    calls,
    faulty,
    registry: new EtcdRangeRegistry({ etcd: faulty, prefix: '/registry' }),
    other: new EtcdRangeRegistry({ etcd, prefix: '/registry' }),
    pass: (ms: number) => time.advance(ms),
    stored: async () => Buffer.from((await etcd.get(key, patient))?.value ?? []),
  })
}

async function away(call: Promise<unknown>): Promise<void> {
  await assert.rejects(call, (error) => error instanceof RemoteError && error.nature === 'away')
}

test('etcd: a range is stored under the key and with the bytes of kube-apiserver', async () => {
  const { registry, stored } = setUp()
  const data = Buffer.of(0x80)
  assert.equal(registry.where(name), `${key} in etcd`)
  await registry.write(name, { range: '30000-32767', data }, { type: 'absent' }, patient)
  assert.equal((await stored()).toString('hex'), written)
})

test('etcd: unknown fields survive a write', async () => {
  const { registry, etcd, stored } = setUp()
  const unknown = 'fa3e03010203'
  await overwriteKey(etcd, key, Buffer.from(written + unknown, 'hex'))
  assert.equal(summaryOf(await put(registry, name, '30000-32767', 0x81)), '30000-32767 81')
  assert.equal((await stored()).toString('hex'), written.replace('1a0180', '1a0181') + unknown)
})

test('etcd: a read takes one request, and a write takes one more', async () => {
  const { registry, calls } = setUp()
  const first = await put(registry, name, '1-9', 1)
  await registry.write(name, { range: '1-9', data: Buffer.of(2) }, first, patient)
  assert.deepEqual(calls, [`get ${key}`, `create ${key}`, `update ${key}`])
})

test('etcd: JSON is read and never rewritten', async (t) => {
  const world = setUp()
  const { registry, etcd, stored } = world
  const seen = await watching(world, registry, t)
  const json = JSON.stringify({ kind: 'RangeAllocation', apiVersion: 'v1', range: '30000-32767', data: 'gA==' })
  await overwriteKey(etcd, key, Buffer.from(json))
  const read = await registry.read(name, patient)
  await until(world, 'the change', () => seen.received.length === 1)
  for (const found of [read, seen.received[0]]) {
    assert.equal(summaryOf(found), '30000-32767 80')
    assert.ok(found?.type === 'range')
    assert.equal(found.fixed, 'is JSON, written by an old kube-apiserver, and is not rewritten')
    await assert.rejects(registry.write(name, { range: '30000-32767', data: Buffer.of() }, found, patient), {
      name: 'EtcdError',
      code: 'Refused',
      nature: 'lasting',
      message: `${key} in etcd is JSON, written by an old kube-apiserver, and is not rewritten`,
    })
  }
  assert.equal((await stored()).toString(), json)
})

test('etcd: a JSON range that kube-apiserver has rewritten as protobuf can be written again', async () => {
  const { registry, etcd } = setUp()
  await overwriteKey(etcd, key, Buffer.from('{"kind":"RangeAllocation","apiVersion":"v1","range":"1-9","data":"gA=="}'))
  const old = await registry.read(name, patient)
  await overwriteKey(etcd, key, Buffer.from(written, 'hex'))
  await assert.rejects(registry.write(name, { range: '1-9', data: Buffer.of() }, old, patient), { code: 'Refused' })
  assert.equal(summaryOf(await put(registry, name, '30000-32767', 1)), '30000-32767 01')
})

test('etcd: a value that is no range is unreadable with a one-line reason, and is not changed', async () => {
  const { registry, etcd, stored } = setUp()
  const damaged = [
    '',
    'k8s:enc:aescbc:v1:key1:secret',
    'k8s\0',
    '{',
    '{}',
    '{"kind":"RangeAllocation","apiVersion":"v1"}',
    Buffer.from(written.slice(0, -2), 'hex').toString('latin1'),
    Buffer.from(written.replace('52616e6765', '72616e6765'), 'hex').toString('latin1'),
  ]
  for (const text of damaged) {
    await overwriteKey(etcd, key, Buffer.from(text, 'latin1'))
    const read = await registry.read(name, patient)
    assert.ok(read.type === 'unreadable', text)
    assert.match(read.reason, /^(is|holds|begins) [^\n]+$/)
    await assert.rejects(registry.write(name, { range: '1-9', data: Buffer.of() }, read, patient), {
      name: 'TypeError',
      message: `${key} in etcd ${read.reason}`,
    })
    assert.equal((await stored()).toString('latin1'), text)
  }
})

test('etcd: a write that is based on a read from another registry is refused', async () => {
  const { registry } = setUp()
  const memory = new MemoryRangeRegistry()
  const foreign = await put(memory, name, '1-9', 1)
  await put(registry, name, '1-9', 1)
  await assert.rejects(registry.write(name, { range: '1-9', data: Buffer.of() }, foreign, patient), TypeError)
})

test('etcd: a watch reports only the keys of the ranges', async (t) => {
  const world = setUp()
  const seen = await watching(world, world.registry, t)
  for (const beside of ['ranges/other', 'ranges/serviceips/more', 'ranges/', 'rangesserviceips', 'services/a']) {
    await overwriteKey(world.etcd, `/registry/${beside}`, Buffer.from(written, 'hex'))
  }
  await overwriteKey(world.etcd, '/other/ranges/serviceips', Buffer.from(written, 'hex'))
  await put(world.other, 'serviceips', '10.0.0.0/24', 1)
  await until(world, 'the change', () => seen.received.length > 0)
  assert.deepEqual(seen.log, ['established', 'read', 'serviceips 10.0.0.0/24 01'])
})

test('etcd: each of several changes that arrive together is reported, in order', async (t) => {
  const world = setUp()
  const held: KeyChange[] = []
  const etcd: EtcdKv = {
    ...world.etcd,
    watch: (prefix, options) =>
      world.etcd.watch(prefix, {
        ...options,
        onChange(changes) {
          held.push(...(changes ?? []))
          if (changes === undefined || held.length === 3) options.onChange(changes && held.splice(0))
        },
      }),
  }
  const seen = await watching(world, new EtcdRangeRegistry({ etcd, prefix: '/registry' }), t)
  for (const data of [1, 0, 1]) await put(world.other, name, '30000-30007', data)
  await until(world, 'the changes', () => seen.received.length > 0)
  assert.deepEqual(seen.received.map(summaryOf), ['30000-30007 01', '30000-30007 00', '30000-30007 01'])
})

test('etcd: reads and writes report that etcd is unreachable, and nothing is written', async () => {
  const world = setUp()
  const { registry, stored } = world
  const before = await put(registry, name, '1-9', 1)
  world.fault = (_call, place) => (place === 'before' ? unreachable : undefined)
  await away(registry.read(name, patient))
  await away(registry.write(name, { range: '1-9', data: Buffer.of(2) }, before, patient))
  world.fault = () => undefined
  assert.equal(summaryOf(await registry.read(name, patient)), '1-9 01')
  assert.ok((await stored()).length > 0)
  assert.equal(summaryOf(await registry.write(name, { range: '1-9', data: Buffer.of(2) }, before, patient)), '1-9 02')
})

test('etcd: a write whose answer is lost is found by the next read, and a second try does not write again', async () => {
  for (const first of [true, false]) {
    const world = setUp()
    const { registry } = world
    const before: StoredRange = first ? { type: 'absent' } : await put(registry, name, '1-9', 1)
    const content = { range: '1-9', data: Buffer.of(2) }
    world.fault = ({ method }, place) =>
      place === 'after' && (method === 'create' || method === 'update')
        ? new EtcdError('Timeout', 'no answer in time')
        : undefined
    await away(registry.write(name, content, before, patient))
    world.fault = () => undefined
    assert.equal(await registry.write(name, content, before, patient), undefined)
    const now = await registry.read(name, patient)
    assert.equal(summaryOf(now), '1-9 02')
    assert.equal(summaryOf(await registry.write(name, { ...content, data: Buffer.of(3) }, now, patient)), '1-9 03')
  }
})

for (const [what, error] of Object.entries({
  'is cut off': unreachable,
  'falls behind a compaction': new EtcdError('Compacted', 'the watch fell behind and its revision was compacted'),
})) {
  test(`etcd: a watch that ${what} reports that, and when it is established again that the ranges must be read`, async (t) => {
    const world = setUp()
    const { registry, other, faulty, store } = world
    await put(other, name, '1-9', 1)
    const seen = await watching(world, registry, t)
    await put(other, name, '1-9', 2)
    await until(world, 'the change', () => seen.received.length === 1)
    faulty.breakWatches(error)
    // Cleared and set again: another write stores the same bits as before.
    await put(other, name, '1-9', 0)
    await put(other, name, '1-9', 2)
    store.compact()
    const [change] = seen.received
    const read = await registry.read(name, patient)
    assert.ok(change?.type === 'range' && read.type === 'range' && change.revision !== read.revision)
    await until(world, 'the watch', () => seen.log.filter((line) => line === 'read').length === 2)
    await put(other, name, '1-9', 3)
    await until(world, 'the change', () => seen.received.length === 2)
    assert.deepEqual(seen.log, [
      'established',
      'read',
      `${name} 1-9 02`,
      'failed',
      'established',
      'read',
      `${name} 1-9 03`,
    ])
  })
}
