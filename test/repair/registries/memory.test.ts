import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryEtcd } from '../../../src/etcd/memory-etcd.ts'
import { EtcdRangeRegistry } from '../../../src/repair/registries/etcd.ts'
import { DryRunRangeRegistry, MemoryRangeRegistry } from '../../../src/repair/registries/memory.ts'
import { noneRegistry, type RangeName, rangeNames } from '../../../src/repair/registries/range-registry.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { patient, put, summaryOf, watching } from './contract.ts'
import { overwriteKey } from './store-keys.ts'

const name = 'servicenodeports'

function setUp() {
  const logger = memoryLogger()
  const inner = new MemoryRangeRegistry()
  const registry = new DryRunRangeRegistry(inner, logger)
  const write = async (range: string, ...data: readonly number[]) =>
    registry.write(name, { range, data: Buffer.from(data) }, await registry.read(name, patient))
  return { logger, inner, registry, write }
}

test('dry run: a write is logged instead of made, and returns what is stored', async () => {
  const { logger, inner, write } = setUp()
  assert.deepEqual(await write('1-9', 0b101), { type: 'absent' })
  inner.put(name, { range: '1-9', data: Buffer.of(0b1, 0b10) })
  assert.equal(summaryOf(await write('2-9', 0b11, 0b11_1111)), '1-9 0102')
  assert.equal(summaryOf(await inner.read(name, patient)), '1-9 0102')
  const where = 'servicenodeports in memory'
  assert.deepEqual(logger.lines, [
    {
      level: 'info',
      message: 'dry run: would write',
      fields: { where, range: '1-9', added: '2: 0, 2', removed: '0' },
    },
    {
      level: 'info',
      message: 'dry run: would write',
      fields: { where, range: '2-9', previousRange: '1-9', added: '6: 0, 2, 3, 4, 5, …', removed: '0' },
    },
  ])
})

test('dry run: a repeated write is logged once, until another write of that range is planned', async () => {
  const { logger, inner, write, registry } = setUp()
  inner.put(name, { range: '1-9', data: Buffer.of(0b1111) })
  for (const data of [0b1110, 0b1110, 0b1100, 0b1110]) await write('1-9', data)
  await registry.write('serviceips', { range: '10.0.0.0/24', data: Buffer.of() }, { type: 'absent' })
  await write('1-9', 0b1110)
  assert.deepEqual(
    logger.lines.map(({ fields }) => fields.removed),
    ['1: 0', '2: 0, 1', '1: 0', '0'],
  )
})

test('dry run: a write that is not allowed is not logged as planned', async () => {
  const { logger, inner, write } = setUp()
  inner.put(name, { unreadable: 'is encrypted' })
  await assert.rejects(write('1-9', 1), TypeError)
  assert.equal(logger.lines.length, 0)

  const etcd = new MemoryEtcd({ clock: new VirtualClock().view() }).client()
  const json = '{"kind":"RangeAllocation","apiVersion":"v1","range":"1-9","data":"gA=="}'
  await overwriteKey(etcd, `/registry/ranges/${name}`, Buffer.from(json))
  const registry = new DryRunRangeRegistry(new EtcdRangeRegistry({ etcd, prefix: '/registry' }), logger)
  const stored = await registry.read(name, patient)
  for (const data of [1, 2]) {
    assert.equal(await registry.write(name, { range: '1-9', data: Buffer.of(data) }, stored), stored)
  }
  assert.deepEqual(
    logger.lines.map(({ message, fields }) => `${message} ${fields.where} ${fields.reason}`),
    [
      `dry run: would not write /registry/ranges/${name} in etcd is JSON, written by an old kube-apiserver, and is not rewritten`,
    ],
  )
})

test('dry run: reads and the watch use the real registry', async (t) => {
  const { inner, registry } = setUp()
  const time = new VirtualClock()
  const target = { pass: (ms: number) => time.advance(ms) }
  assert.deepEqual([registry.writable, registry.where(name)], [true, inner.where(name)])
  const seen = await watching(target, registry, t)
  await put(inner, name, '1-9', 1)
  assert.equal(summaryOf(await registry.read(name, patient)), '1-9 01')
  assert.deepEqual(seen.log, ['established', 'read', `${name} 1-9 01`])
})

test('none: every range is absent, writes are refused, and a watch reports no changes', async (t) => {
  const time = new VirtualClock()
  const target = { pass: (ms: number) => time.advance(ms) }
  for (const registry of [noneRegistry, new DryRunRangeRegistry(noneRegistry, memoryLogger())]) {
    assert.equal(registry.writable, false)
    const seen = await watching(target, registry, t)
    for (const each of rangeNames satisfies readonly RangeName[]) {
      assert.deepEqual(await registry.read(each, patient), { type: 'absent' })
      const content = { range: '1-9', data: Buffer.of(1) }
      await assert.rejects(registry.write(each, content, { type: 'absent' }, patient), TypeError)
    }
    await assert.rejects(noneRegistry.read(name, AbortSignal.abort(new Error('given up'))), { message: 'given up' })
    assert.deepEqual(seen.log, ['established', 'read'])
    await seen.end()
  }
})
