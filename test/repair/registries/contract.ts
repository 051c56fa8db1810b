import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import {
  type RangeChange,
  type RangeName,
  type RangeRegistry,
  rangeNames,
  type StoredRange,
} from '../../../src/repair/registries/range-registry.ts'
import { patient, until } from '../../etcd/contract/contract-case.ts'

export { patient, until }

/** The store against which the contract is tested; it is empty. */
export interface RangeRegistryTarget {
  /** One master's connection to it. */
  open(): RangeRegistry
  /** Deletes a range, as another client might. */
  remove(name: RangeName): Promise<void>
  /** Stores a value that is not a range. */
  damage(name: RangeName): Promise<void>
  /** Lets `ms` milliseconds pass, for the store as for everything else. */
  pass(ms: number): Promise<void>
}

type Case = (target: RangeRegistryTarget, t: TestContext) => Promise<void>

/** What every registry does, wherever it stores the ranges. */
export function rangeRegistryContract(
  define: (name: string, run: (t: TestContext) => Promise<void>) => unknown,
  makeTarget: (t: TestContext) => RangeRegistryTarget | Promise<RangeRegistryTarget>,
): void {
  for (const [name, run] of Object.entries(cases)) define(name, async (t) => run(await makeTarget(t), t))
}

const ports = 'servicenodeports'
const addresses = 'serviceips'

/** Overwrites what it reads, and fails if that has changed in between. */
export async function put(
  registry: RangeRegistry,
  name: RangeName,
  range: string,
  ...data: readonly number[]
): Promise<StoredRange> {
  const previous = await registry.read(name, patient)
  const stored = await registry.write(name, { range, data: Buffer.from(data) }, previous, patient)
  return stored ?? assert.fail(`${registry.where(name)} was changed meanwhile`)
}

/** A range in few words. */
export function summaryOf(stored: StoredRange | undefined): string {
  if (stored?.type === 'range') return `${stored.range} ${Buffer.from(stored.data).toString('hex')}`.trim()
  return stored?.type ?? 'overtaken'
}

/** What a watch reported: `read`, `established`, `failed`, and each change as `name words`. */
export interface SeenRanges {
  readonly log: readonly string[]
  /** The changes alone, in order. */
  readonly received: readonly StoredRange[]
  /** The changes of one range. */
  of(name: RangeName): readonly StoredRange[]
  /** Ends the watch and waits for it. */
  end(): Promise<void>
}

/** Watches until the test ends it; resolves when the watch is established. */
export async function watching(
  target: Pick<RangeRegistryTarget, 'pass'>,
  registry: RangeRegistry,
  t: Pick<TestContext, 'after'>,
): Promise<SeenRanges> {
  const stop = new AbortController()
  const log: string[] = []
  const received: StoredRange[] = []
  const changes: RangeChange[] = []
  const done = registry.watch({
    signal: stop.signal,
    onChange(change) {
      log.push(change === undefined ? 'read' : `${change.name} ${summaryOf(change.stored)}`)
      if (change === undefined) return
      received.push(change.stored)
      changes.push(change)
    },
    report: (error) => void log.push(error === undefined ? 'established' : 'failed'),
  })
  const end = async (): Promise<void> => {
    stop.abort(new Error('the test is over'))
    await target.pass(0)
    await done
  }
  t.after(end)
  await until(target, 'the watch', () => log.includes('read') && log.includes('established'))
  const of = (name: RangeName) => changes.filter((change) => change.name === name).map(({ stored }) => stored)
  return { log, received, of, end }
}

const cases: Readonly<Record<string, Case>> = {
  async 'every range is absent until it is written'({ open }) {
    const registry = open()
    assert.equal(registry.writable, true)
    for (const name of rangeNames) {
      assert.deepEqual(await registry.read(name, patient), { type: 'absent' })
      assert.match(registry.where(name), new RegExp(`\\b${name}\\b`))
    }
  },

  async 'each range that one master writes is read by the others'({ open }) {
    const [a, b] = [open(), open()]
    const written: StoredRange[] = []
    for (const [index, name] of rangeNames.entries()) written.push(await put(a, name, `range ${index}`, 1, index))
    for (const [index, name] of rangeNames.entries()) {
      const stored = await b.read(name, patient)
      assert.equal(summaryOf(stored), `range ${index} 010${index}`)
      assert.equal(summaryOf(written[index]), summaryOf(stored))
      assert.equal(revisionOf(written[index]), revisionOf(stored))
    }
  },

  async 'bitmaps of all sizes, from empty to the largest, are read as written'({ open }) {
    const registry = open()
    const largest = Buffer.alloc(2 ** 17, 0xa5)
    for (const data of [Buffer.of(), Buffer.of(1), largest, Buffer.of()]) {
      const previous = await registry.read(addresses, patient)
      const written = await registry.write(addresses, { range: '10.96.0.0/12', data }, previous, patient)
      for (const stored of [written, await registry.read(addresses, patient)]) {
        assert.ok(stored?.type === 'range')
        assert.ok(Buffer.from(stored.data).equals(data), `${data.length} bytes`)
      }
    }
  },

  async 'changes of bytes that were read or written do not change the stored range'({ open }) {
    const registry = open()
    const data = Buffer.of(1, 2, 3)
    await registry.write(ports, { range: '1-9', data }, { type: 'absent' }, patient)
    data.fill(0xff)
    const first = await registry.read(ports, patient)
    if (first.type === 'range') first.data.fill(0xff)
    assert.equal(summaryOf(await registry.read(ports, patient)), '1-9 010203')
  },

  async 'of five concurrent writes one succeeds, and the others return that the range has changed'({ open }) {
    const masters = Array.from({ length: 5 }, open)
    for (let round = 1; round <= 3; round++) {
      const previous = await Promise.all(masters.map((master) => master.read(ports, patient)))
      const results = await Promise.all(
        masters.map((master, index) =>
          master.write(ports, { range: '1-9', data: Buffer.of(round, index) }, previous[index] as StoredRange, patient),
        ),
      )
      const winners = results.flatMap((result, index) => (result === undefined ? [] : [index]))
      assert.equal(winners.length, 1, `round ${round}: ${winners}`)
      assert.equal(summaryOf(await open().read(ports, patient)), `1-9 0${round}0${winners[0]}`)
    }
  },

  async 'a write based on an earlier state returns that the range has changed, and writes nothing'({ open, remove }) {
    const [a, b] = [open(), open()]
    const first = await put(a, ports, '1-9', 1)
    const second = await put(b, ports, '1-9', 2)
    // The same bytes as at first: the registry does not compare the content.
    const third = await put(b, ports, '1-9', 1)
    for (const old of [first, second, { type: 'absent' } as const]) {
      assert.equal(await a.write(ports, { range: '1-9', data: Buffer.of(9) }, old, patient), undefined)
    }
    assert.equal(summaryOf(await a.read(ports, patient)), '1-9 01')
    assert.equal(new Set([first, second, third].map(revisionOf)).size, 3)
    await remove(ports)
    assert.equal(await a.write(ports, { range: '1-9', data: Buffer.of(9) }, third, patient), undefined)
    assert.deepEqual(await a.read(ports, patient), { type: 'absent' })
    assert.equal(summaryOf(await put(a, ports, '1-9', 3)), '1-9 03')
    assert.equal(await a.write(ports, { range: '1-9', data: Buffer.of(9) }, third, patient), undefined)
  },

  async 'a write can be based on the result of the previous write, without a read'({ open }) {
    const registry = open()
    let stored: StoredRange = { type: 'absent' }
    for (let round = 0; round < 5; round++) {
      stored = (await registry.write(ports, { range: '1-9', data: Buffer.of(round) }, stored, patient)) ?? assert.fail()
    }
    assert.equal(summaryOf(await registry.read(ports, patient)), '1-9 04')
  },

  async 'a write can change the range itself'({ open }) {
    const registry = open()
    await put(registry, ports, '30000-32767', 1)
    assert.equal(summaryOf(await put(registry, ports, '20000-22767', 2)), '20000-22767 02')
    assert.equal(summaryOf(await open().read(ports, patient)), '20000-22767 02')
  },

  async 'an unreadable range is never overwritten'({ open, damage }) {
    const registry = open()
    const before = await put(registry, ports, '1-9', 1)
    await damage(ports)
    const stored = await registry.read(ports, patient)
    assert.ok(stored.type === 'unreadable', stored.type)
    assert.match(stored.reason, /^is [^\n]{5,120}$/)
    await assert.rejects(registry.write(ports, { range: '1-9', data: Buffer.of(2) }, stored, patient), TypeError)
    for (const old of [before, { type: 'absent' } as const]) {
      assert.equal(await registry.write(ports, { range: '1-9', data: Buffer.of(2) }, old, patient), undefined)
    }
    assert.deepEqual(await registry.read(ports, patient), stored)
    assert.deepEqual(await registry.read(addresses, patient), { type: 'absent' })
  },

  async 'a watch reports once that it is established and that the ranges must be read, and then each change in order'(
    target,
    t,
  ) {
    const { open, remove, damage } = target
    const [a, b] = [open(), open()]
    await put(a, ports, '1-9', 7)
    const seen = await watching(target, b, t)
    assert.deepEqual(seen.log.toSorted(), ['established', 'read'])
    const written: StoredRange[] = []
    for (let round = 1; round <= 20; round++) written.push(await put(a, ports, '1-9', round))
    const beside = await put(a, addresses, '10.96.0.0/24', 1)
    await until(target, 'the changes', () => seen.received.length >= 21)
    assert.deepEqual(seen.of(ports).map(summaryOf), written.map(summaryOf))
    assert.deepEqual(seen.of(ports).map(revisionOf), written.map(revisionOf))
    assert.deepEqual(seen.of(addresses).map(revisionOf), [revisionOf(beside)])
    await remove(ports)
    await damage(addresses)
    await until(target, 'the end of both', () => seen.received.length >= 23)
    assert.equal(summaryOf(seen.of(ports).at(-1)), 'absent')
    assert.equal(summaryOf(seen.of(addresses).at(-1)), 'unreadable')
    assert.equal(seen.log.filter((line) => line === 'read').length, 1)
  },

  async 'a watch reports both changes of a bit that is cleared and set again at once'(target, t) {
    const [a, b] = [target.open(), target.open()]
    let stored = await put(a, ports, '1-9', 1)
    const seen = await watching(target, b, t)
    for (const data of [0, 1]) {
      stored = (await a.write(ports, { range: '1-9', data: Buffer.of(data) }, stored, patient)) ?? assert.fail()
    }
    await until(target, 'both changes', () => seen.received.length >= 2)
    assert.deepEqual(seen.received.map(summaryOf), ['1-9 00', '1-9 01'])
    assert.equal(revisionOf(seen.received[1]), revisionOf(await b.read(ports, patient)))
  },

  async 'a write can be based on a reported change until the range changes again'(target, t) {
    const [a, b] = [target.open(), target.open()]
    const seen = await watching(target, b, t)
    await put(a, ports, '1-9', 1)
    await until(target, 'the change', () => seen.received.length >= 1)
    const change = seen.received[0] as StoredRange
    assert.equal(summaryOf(await b.write(ports, { range: '1-9', data: Buffer.of(3) }, change, patient)), '1-9 03')
    assert.equal(await b.write(ports, { range: '1-9', data: Buffer.of(5) }, change, patient), undefined)
  },

  async 'reads and writes with an aborted signal reject with its reason, and nothing is written'({ open }) {
    const registry = open()
    const reason = new Error('given up')
    const signal = AbortSignal.abort(reason)
    const content = { range: '1-9', data: Buffer.of(1) }
    await assert.rejects(registry.read(ports, signal), reason)
    await assert.rejects(registry.write(ports, content, { type: 'absent' }, signal), reason)
    assert.deepEqual(await registry.read(ports, patient), { type: 'absent' })
  },

  async 'an ended watch reports nothing more'(target, t) {
    const [a, b] = [target.open(), target.open()]
    const seen = await watching(target, b, t)
    await seen.end()
    await put(a, ports, '1-9', 1)
    await target.pass(200)
    assert.deepEqual(seen.received, [])
    const stop = AbortSignal.abort(new Error('ended before'))
    const fail = (): void => assert.fail('the watch reported something')
    await b.watch({ onChange: fail, report: fail, signal: stop })
  },
}

function revisionOf(stored: StoredRange | undefined): string | undefined {
  return stored?.type === 'range' ? stored.revision : undefined
}
