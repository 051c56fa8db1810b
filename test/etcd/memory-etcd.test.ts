import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EtcdError, type EtcdKv, type KeyChange } from '../../src/etcd/kv.ts'
import { MemoryEtcd, type MemoryEtcdOptions } from '../../src/etcd/memory-etcd.ts'
import { type EtcdCall, faultyEtcd } from '../../src/etcd/memory-etcd-faults.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

const { signal } = new AbortController()
const unreachable = new EtcdError('Unreachable', 'connection reset')

function setUp(options: Omit<MemoryEtcdOptions, 'clock'> = {}) {
  const time = new VirtualClock()
  const clock = time.view()
  const store = new MemoryEtcd({ ...options, clock })
  return { time, clock, store, etcd: store.client() }
}

function bytes(text: string): Uint8Array {
  return Buffer.from(text)
}

async function keys(etcd: EtcdKv, prefix = '/'): Promise<string[]> {
  return (await etcd.list(prefix, { signal })).items.map(({ key }) => key)
}

/** Follows a prefix. Each entry is the argument of one call of `onChange`, `undefined` included. */
function follow(etcd: EtcdKv, prefix: string) {
  const received: (readonly KeyChange[] | undefined)[] = []
  const reports: unknown[] = []
  const end = new AbortController()
  const ended = etcd.watch(prefix, {
    onChange: (changes) => void received.push(changes),
    report: (error) => void reports.push(error),
    signal: end.signal,
  })
  const stop = async () => {
    end.abort()
    await ended
  }
  return { received, reports, stop, texts: () => received.map((changes) => changes?.map(textOf)) }
}

function textOf({ type, key, value, previousValue }: KeyChange): string {
  return [type, key, Buffer.from(value), previousValue === undefined ? '-' : Buffer.from(previousValue)].join(' ')
}

test('an etcd lease of less than two seconds lasts two, and its keys expire together in one revision', async () => {
  const { time, store, etcd } = setUp()
  const lease = (await etcd.grantLease(1, signal)).id
  await etcd.create('/b', bytes('1'), { lease, signal })
  await etcd.create('/a', bytes('1'), { lease, signal })
  const before = store.revision
  await time.advance(1_999)
  assert.deepEqual(await keys(etcd), ['/a', '/b'])
  await time.advance(1)
  assert.deepEqual(await keys(etcd), [])
  assert.equal(store.revision, before + 1n)
})

test('with an expiry step a key expires at the next step after its lease, not before', async () => {
  const { time, clock, etcd } = setUp({ expiryStepMs: 500 })
  await time.advance(100)
  const { received, stop } = follow(etcd, '/')
  await etcd.create('/a', bytes('1'), { lease: (await etcd.grantLease(2, signal)).id, signal })
  const stepMs = Math.ceil((clock.monotonicMs() + 2_000) / 500) * 500
  await time.advance(stepMs - 1 - clock.monotonicMs())
  assert.deepEqual(await keys(etcd), ['/a'])
  await time.advance(1)
  assert.deepEqual(await keys(etcd), [])
  assert.deepEqual(
    received.at(-1)?.map(({ type }) => type),
    ['deleted'],
  )
  await stop()
})

test('a watch receives the expiry of a key at the moment of expiry, without any read', async () => {
  for (const [options, endMs] of [
    [{}, 2_000],
    [{ flavour: 'kine' }, 2_000],
    [{ expiryStepMs: 500 }, 2_000],
    [{ expiryStepMs: 500, expiryPhaseMs: 200 }, 2_200],
  ] as const) {
    const { time, clock, etcd } = setUp(options)
    // The expiry steps follow the clock of the store, which does not begin at zero.
    await time.advance(1_000_000 - (clock.monotonicMs() % 1_000_000))
    const { received, stop } = follow(etcd, '/')
    await etcd.create('/a', bytes('1'), { lease: (await etcd.grantLease(2, signal)).id, signal })
    await time.advance(endMs - 1)
    assert.deepEqual(received.flat().at(-1)?.type, 'created')
    await time.advance(1)
    assert.deepEqual(received.flat().at(-1)?.type, 'deleted')
    await stop()
  }
})

test('a new watch receives the expiry of a key that was created before it', async () => {
  const { time, etcd } = setUp()
  await etcd.create('/a', bytes('1'), { lease: (await etcd.grantLease(2, signal)).id, signal })
  const { received, stop } = follow(etcd, '/')
  await time.advance(2_000)
  assert.deepEqual(received.flat().at(-1)?.type, 'deleted')
  await stop()
})

test('only a watch sets an expiry timer, and only for keys with a lease', async () => {
  const { time, clock, etcd } = setUp()
  await etcd.create('/a', bytes('1'), { signal })
  const first = follow(etcd, '/')
  await time.advance(0)
  assert.equal(clock.timers, 0)
  await etcd.create('/b', bytes('1'), { lease: (await etcd.grantLease(2, signal)).id, signal })
  assert.equal(clock.timers, 1)
  await first.stop()
  assert.equal(clock.timers, 0)
  await etcd.create('/c', bytes('1'), { lease: (await etcd.grantLease(2, signal)).id, signal })
  assert.equal(clock.timers, 0)
})

test('without an expiry step a key expires with its lease, to the fraction of a millisecond', async () => {
  const { time, etcd } = setUp()
  await time.advance(0.25)
  await etcd.create('/a', bytes('1'), { lease: (await etcd.grantLease(2, signal)).id, signal })
  await time.advance(2_000)
  assert.deepEqual(await keys(etcd), [])
})

test('the minimum TTL of a lease is configurable', async () => {
  const { etcd } = setUp({ leastTtlSeconds: 5 })
  assert.equal((await etcd.grantLease(3, signal)).grantedSeconds, 5n)
  assert.equal((await etcd.grantLease(6, signal)).grantedSeconds, 6n)
})

test('on kine a lease is its number of seconds, and each put sets the expiry of that key alone', async () => {
  const { time, etcd } = setUp({ flavour: 'kine' })
  const lease = (await etcd.grantLease(5, signal)).id
  assert.equal(lease, 5n)
  await etcd.create('/a', bytes('1'), { lease, signal })
  await time.advance(3_000)
  await etcd.create('/b', bytes('1'), { lease: (await etcd.grantLease(5, signal)).id, signal })
  await time.advance(2_000)
  assert.deepEqual(await keys(etcd), ['/b'])
  const [item] = (await etcd.list('/', { signal })).items
  assert.ok(item !== undefined)
  await etcd.update('/b', bytes('2'), item.modRevision, { lease, signal })
  await time.advance(4_999)
  assert.deepEqual(await keys(etcd), ['/b'])
  await time.advance(1)
  assert.deepEqual(await keys(etcd), [])
  await assert.rejects(etcd.timeToLive(5n, signal), { code: 'Unsupported' })
})

test('a put without a lease removes the expiry of a key, on etcd and kine', async () => {
  for (const flavour of ['etcd', 'kine'] as const) {
    const { time, etcd } = setUp({ flavour })
    const revision = await etcd.create('/a', bytes('1'), { lease: (await etcd.grantLease(2, signal)).id, signal })
    await etcd.update('/a', bytes('2'), revision ?? 0n, { signal })
    await time.advance(60_000)
    assert.deepEqual(await keys(etcd), ['/a'], flavour)
  }
})

test('leases that start over last their full TTL again', async () => {
  const { time, store, etcd } = setUp()
  await etcd.create('/a', bytes('1'), { lease: (await etcd.grantLease(5, signal)).id, signal })
  await time.advance(4_000)
  store.startLeasesOver()
  await time.advance(4_000)
  assert.deepEqual(await keys(etcd), ['/a'])
  await time.advance(1_000)
  assert.deepEqual(await keys(etcd), [])
})

test('a store limited to a few revisions compacts older ones by itself, and preserves all current keys', async () => {
  const { store, etcd } = setUp({ revisions: 10 })
  await etcd.create('/steady', bytes('here'), { signal })
  for (let write = 0; write < 100; write++) {
    const before = await etcd.get('/busy', signal)
    if (before === undefined) await etcd.create('/busy', bytes('0'), { signal })
    else await etcd.update('/busy', bytes(`${write}`), before.modRevision, { signal })
    const listed = await etcd.list('/', { revision: store.revision > 10n ? store.revision - 10n : 1n, signal })
    assert.ok(listed.items.length <= 2)
  }
  assert.deepEqual(await keys(etcd), ['/busy', '/steady'])
  await assert.rejects(etcd.list('/', { revision: store.revision - 21n, signal }), { code: 'Compacted' })
})

test('past revisions can be listed with their values until they are compacted', async () => {
  const { store, etcd } = setUp()
  const listed = async (revision: bigint | undefined): Promise<readonly string[]> => {
    const { items } = await etcd.list('/', { revision, signal })
    return items.map(({ key, value }) => `${key} ${Buffer.from(value)}`)
  }
  const first = (await etcd.create('/a', bytes('1'), { signal })) ?? 0n
  const changed = (await etcd.update('/a', bytes('2'), first, { signal })) ?? 0n
  await etcd.delete('/a', changed, signal)
  const deleted = store.revision
  const second = await etcd.create('/b', bytes('1'), { signal })
  assert.deepEqual([await listed(first), await listed(changed), await listed(deleted)], [['/a 1'], ['/a 2'], []])
  store.compact()
  for (const revision of [first, changed, deleted]) await assert.rejects(listed(revision), { code: 'Compacted' })
  assert.deepEqual(await listed(second), ['/b 1'])
})

test('no answer and no watch event is delivered before the turn of the caller has ended', async () => {
  const { etcd } = setUp()
  const watch = follow(etcd, '/')
  const events: string[] = []
  const write = etcd.create('/a', bytes('1'), { signal }).then(() => events.push('answered'))
  events.push('asked')
  assert.deepEqual(watch.received, [])
  await write
  assert.deepEqual(events, ['asked', 'answered'])
  await Promise.resolve()
  assert.deepEqual(watch.texts(), [undefined, ['created /a 1 -']])
  await watch.stop()
})

test('a call aborted before its turn has no effect', async () => {
  const { etcd } = setUp()
  const caller = new AbortController()
  const write = etcd.create('/a', bytes('1'), { signal: caller.signal })
  caller.abort(new Error('given up'))
  await assert.rejects(write, /given up/)
  assert.deepEqual(await keys(etcd), [])
})

test('an injected fault fails a call before it takes effect, or loses the answer afterwards', async () => {
  const { clock, etcd: inner } = setUp()
  const calls: string[] = []
  let fault: 'before' | 'after' | undefined
  const at = (place: 'before' | 'after') => async (call: EtcdCall) => {
    if (place === 'before') calls.push(`${call.method} ${call.key}`)
    if (fault === place) throw unreachable
  }
  const etcd = faultyEtcd(inner, { clock, before: at('before'), after: at('after') })
  fault = 'before'
  await assert.rejects(etcd.create('/a', bytes('1'), { signal }), unreachable)
  assert.deepEqual(await keys(inner), [])
  fault = 'after'
  await assert.rejects(etcd.create('/a', bytes('1'), { signal }), unreachable)
  assert.deepEqual(await keys(inner), ['/a'])
  assert.deepEqual(calls, ['create /a', 'create /a'])
})

test('a watch that breaks reports it, is established again and reports that anything may have changed', async () => {
  const { time, clock, etcd: inner } = setUp()
  let down = false
  const etcd = faultyEtcd(inner, {
    clock,
    before: async ({ method }) => {
      if (down && method === 'watch') throw unreachable
    },
  })
  const watch = follow(etcd, '/')
  await time.advance(10)
  down = true
  etcd.breakWatches(unreachable)
  await time.advance(10)
  await inner.create('/a', bytes('1'), { signal })
  await time.advance(5_000)
  assert.deepEqual(watch.texts(), [undefined])
  down = false
  await time.advance(1_000)
  await inner.create('/b', bytes('1'), { signal })
  await time.advance(10)
  assert.deepEqual(watch.texts(), [undefined, undefined, ['created /b 1 -']])
  assert.equal(watch.reports[0], undefined)
  assert.equal(watch.reports[1], unreachable)
  assert.equal(watch.reports.at(-1), undefined)
  await watch.stop()
})

test('delayed watch events are delivered in order', async () => {
  const { time, clock, etcd: inner } = setUp()
  const held: PromiseWithResolvers<void>[] = []
  const etcd = faultyEtcd(inner, {
    clock,
    after: ({ method }) => {
      if (method !== 'watch') return Promise.resolve()
      const gate = Promise.withResolvers<void>()
      held.push(gate)
      return gate.promise
    },
  })
  const watch = follow(etcd, '/')
  await time.advance(0)
  for (const key of ['/a', '/b']) {
    await inner.create(key, bytes('1'), { signal })
    await time.advance(0)
  }
  assert.deepEqual(watch.received, [])
  for (let count = 1; count <= 3; count++) {
    assert.equal(held.length, count, 'an event is held only after the previous one was delivered')
    held[count - 1]?.resolve()
    await time.advance(0)
    assert.equal(watch.received.length, count)
  }
  assert.deepEqual(watch.texts(), [undefined, ['created /a 1 -'], ['created /b 1 -']])
  await watch.stop()
})

test('compaction discards overwritten versions before its revision, and preserves every later version', async () => {
  const { store, etcd } = setUp()
  const write = async (key: string, text: string, before?: bigint): Promise<bigint> =>
    (before === undefined
      ? await etcd.create(key, bytes(text), { signal })
      : await etcd.update(key, bytes(text), before, { signal })) ?? 0n
  const old = await write('/old', '1')
  const compacted = await write('/old', '2', old)
  const first = await write('/new', '1')
  const second = await write('/new', '2', first)
  store.compact(compacted)
  const valueAt = async (key: string, revision: bigint): Promise<string | undefined> => {
    const { items } = await etcd.list(key, { revision, signal })
    return items[0] && Buffer.from(items[0].value).toString()
  }
  assert.equal(await valueAt('/new', first), '1')
  assert.equal(await valueAt('/new', second), '2')
  assert.equal(await valueAt('/old', second), '2')
  await assert.rejects(valueAt('/old', old), { code: 'Compacted' })
})

test('a key that was deleted and created again survives the compaction of its deletion', async () => {
  const { store, etcd } = setUp()
  const first = await etcd.create('/a', bytes('1'), { signal })
  await etcd.delete('/a', first ?? 0n, signal)
  const deletion = store.revision
  await etcd.create('/a', bytes('2'), { signal })
  store.compact(deletion)
  assert.deepEqual(await keys(etcd), ['/a'])
  assert.deepEqual((await etcd.list('/', { revision: deletion, signal })).items, [])
})

test('compaction of a future revision is refused, and nothing is lost', async () => {
  const { store, etcd } = setUp()
  await etcd.create('/a', bytes('1'), { signal })
  assert.throws(() => store.compact(store.revision + 1n), { code: 'Refused' })
  assert.deepEqual(await keys(etcd), ['/a'])
})
