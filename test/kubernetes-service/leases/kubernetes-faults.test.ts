import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Lease, leases as leaseResource } from '../../../src/kube/resources.ts'
import { sleep } from '../../../src/runtime/clock.ts'
import { passedOn } from '../../kube/passed-on.ts'
import { addressesOf, holder } from './holders.ts'
import { follow, keepRenewed, openWorld } from './lease-world.ts'

const { signal } = new AbortController()
const [self, other] = [holder('192.0.2.1'), holder('192.0.2.2', { host: 'other' })]

for (const [what, fault] of [
  ['forbidden', { type: 'status', status: 403 }],
  ['put off', { type: 'status', status: 429, retryAfterSeconds: 20 }],
  ['failed', { type: 'status', status: 500 }],
  ['answered with a conflict', { type: 'status', status: 409 }],
  ['never answered', { type: 'drop', lost: 'request' }],
] as const) {
  test(`an expired lease counts as gone while its deletion is ${what}; that is logged once, and the deletion is retried`, async (t) => {
    const { time, direct, open } = await openWorld()
    const [observer, dying] = [open(), open()]
    observer.add({ methods: ['DELETE'], fault })
    const seen = follow(t, time, observer)
    await dying.leases.update(other, signal)
    await time.advance(15_000 + 1_001)
    assert.match(seen.at(-1) ?? '', / $/, 'the master counts as gone a second after the expiry')
    await time.advance(300_000)
    const deletions = observer.sent.filter((line) => line.endsWith('DELETE')).length
    assert.ok(deletions >= 4 && deletions <= 10, `${deletions} tries in five minutes`)
    const lines = observer.logger.lines.filter(({ message }) => message.includes('lease'))
    assert.deepEqual(
      lines.map(({ level, message, fields }) => [level, message, fields.address]),
      [
        ['info', 'lease expired without renewal', '192.0.2.2'],
        ['warn', 'an expired lease cannot be deleted; this master ignores it', '192.0.2.2'],
      ],
    )
    assert.match(seen.at(-1) ?? '', / $/)
    observer.clear()
    await time.advance(70_000)
    assert.deepEqual((await direct.list(leaseResource)).items, [], 'the Lease is deleted later')
    await dying.leases.update(other, signal)
    await time.advance(100)
    assert.match(seen.at(-1) ?? '', / 192.0.2.2$/, 'a master that renews again is listed at once')
  })
}

test('a write that always conflicts fails with that conflict after five attempts', async () => {
  const { direct, open } = await openWorld()
  const { leases, sent, add } = open()
  await leases.update(self, signal)
  add({ methods: ['PUT', 'DELETE'], fault: { type: 'status', status: 409 } })
  for (const write of ['update', 'mark', 'remove'] as const) {
    sent.splice(0)
    await assert.rejects(leases[write](self, signal), { code: 'Conflict' })
    assert.equal(sent.filter((line) => /PUT|DELETE/.test(line)).length, 5)
  }
  assert.equal((await direct.list(leaseResource)).items.length, 1)
})

test('a Lease without a valid record is logged once, until its record has been valid again', async () => {
  const { direct, open } = await openWorld()
  const { leases, logger } = open()
  await leases.update(self, signal)
  const [lease] = (await direct.list(leaseResource)).items
  const ref = { namespace: 'kube-system', name: lease?.metadata?.name ?? '' }
  const write = async (record: string | undefined): Promise<void> => {
    const body = { metadata: { annotations: { 'apiserver-bootstrap/holder': record } } }
    await direct.patch(leaseResource, ref, { type: 'merge', body })
    for (let times = 0; times < 2; times++) await leases.list(signal)
  }
  const record = lease?.metadata?.annotations?.['apiserver-bootstrap/holder']
  for (const text of ['nonsense', record, 'nonsense']) await write(text)
  assert.deepEqual(
    logger.lines.map(({ level, message, fields }) => [level, message, fields.name]),
    Array(2).fill(['warn', 'ignoring a Lease without a valid holder record', ref.name]),
  )
})

test('a lease that is renewed just before its deletion stays live', async (t) => {
  const { time, direct, open } = await openWorld()
  const [observer, late] = [open(), open()]
  const seen = follow(t, time, observer)
  await late.leases.update(other, signal)
  await time.advance(14_000)
  observer.add({ methods: ['DELETE'], fault: { type: 'delay', ms: 500 } })
  await time.advance(1_200)
  await late.leases.update(other, signal)
  await time.advance(14_000)
  assert.deepEqual(seen.map((line) => line.split(' ')[1]).slice(1), ['192.0.2.2'], 'the master was always listed')
  assert.equal((await direct.list(leaseResource)).items.length, 1)
})

test('watches that are cut again and again do not extend a lease', async (t) => {
  const { time, clock, open } = await openWorld()
  const [observer, living, dying] = [open(), open(), open()]
  const seen = follow(t, time, observer)
  const stop = keepRenewed(time, living, self)
  await dying.leases.update(other, signal)
  const cut = (): void => {
    observer.resetStreams()
    if (time.nowMs < 60_000) clock.schedule(3_000, cut)
  }
  cut()
  await time.advance(60_000)
  stop()
  assert.deepEqual(
    seen.slice(-2).map((line) => line.split(' ')[1]),
    ['192.0.2.1,192.0.2.2', '192.0.2.1'],
  )
  assert.ok(Number.parseInt(seen.at(-1) ?? '', 10) < 16_000, seen.at(-1))
})

test('a renewal that the watch reports during a list is not lost through the older answer of the list', async (t) => {
  const { time, clock, direct, open } = await openWorld()
  const [observer, dying] = [open(), open()]
  let delayMs = 0
  const api = passedOn(direct, {
    list: async (...args) => {
      const page = await direct.list(...args)
      await sleep(clock, delayMs)
      return page
    },
  })
  const leases = observer.leasesWith(api)
  await dying.leases.update(other, signal)
  const seen = follow(t, time, { ...observer, leases })
  await time.advance(9_900)
  delayMs = 1_000
  await time.advance(500)
  await dying.leases.update(other, signal)
  await time.advance(1_000)
  delayMs = 0
  await time.advance(30_000)
  assert.deepEqual(seen, ['0 192.0.2.2', '25400 '], 'a TTL after its last renewal')
})

test('without any watch, lists alone detect a dead master, and a live one stays listed', async (t) => {
  const { time, open } = await openWorld()
  const [observer, living, dying] = [open(), open(), open()]
  observer.add({ stream: true, fault: { type: 'status', status: 403 } })
  const stop = keepRenewed(time, living, self)
  await dying.leases.update(other, signal)
  const seen = follow(t, time, observer)
  await time.advance(120_000)
  stop()
  assert.deepEqual(
    seen.map((line) => line.split(' ')[1]),
    ['192.0.2.1,192.0.2.2', '192.0.2.1'],
  )
  assert.ok(Number(seen[1]?.split(' ')[0]) <= 30_000, seen[1])
})

test('an outage of the lists expires no lease, and a lease that had expired before stays expired', async (t) => {
  const { time, open } = await openWorld()
  const [observer, living, dying] = [open(), open(), open()]
  observer.add({ methods: ['DELETE'], fault: { type: 'status', status: 403 } })
  const seen = follow(t, time, observer)
  const stop = keepRenewed(time, living, self)
  await dying.leases.update(other, signal)
  await time.advance(16_000)
  stop()
  const recover = observer.add({ methods: ['GET'], fault: { type: 'refuse' } })
  observer.resetStreams()
  await time.advance(30_000)
  recover()
  await time.advance(14_000)
  await living.leases.update(self, signal)
  await time.advance(10_000)
  assert.deepEqual(
    seen.slice(-2).map((line) => line.split(' ')[1]),
    ['192.0.2.1,192.0.2.2', '192.0.2.1'],
  )
})

test('after a failed list a lease expires only when it has been seen without a renewal for a whole TTL again', async () => {
  const { time, open } = await openWorld()
  const [observer, silent] = [open(), open()]
  await silent.leases.update(other, signal)
  await addressesOf(observer.leases)
  await time.advance(5_000)
  const recover = observer.add({ methods: ['GET'], fault: { type: 'refuse' } })
  await assert.rejects(addressesOf(observer.leases))
  recover()
  for (const [ms, listed] of [
    [9_000, ['192.0.2.2']],
    [3_000, ['192.0.2.2']],
    [10_500, ['192.0.2.2']],
    [2_500, []],
  ] as const) {
    await time.advance(ms)
    assert.deepEqual(await addressesOf(observer.leases), listed, `${time.nowMs}`)
  }
})

test('an older state of a Lease from the watch of an outdated server does not count as a renewal', async (t) => {
  const { time, direct, open } = await openWorld()
  const [observer, dying] = [open(), open()]
  await dying.leases.update(other, signal)
  const [older] = (await direct.list(leaseResource)).items
  const late = Promise.withResolvers<void>()
  const api = passedOn(direct, {
    async *watch(resource, options) {
      const events = direct.watch(resource, options)[Symbol.asyncIterator]()
      let isLate = false
      const lateEvent = late.promise.then(() => 'late' as const)
      for (let next = events.next(); ; ) {
        const event = await Promise.race(isLate ? [next] : [next, lateEvent])
        if (event === 'late') {
          isLate = true
          yield { type: 'MODIFIED', object: { ...older, kind: 'Lease' } } as never
          continue
        }
        if (event.done) return
        yield event.value
        next = events.next()
      }
    },
  })
  const seen = follow(t, time, { ...observer, leases: observer.leasesWith(api) })
  await time.advance(1_000)
  await dying.leases.update(other, signal)
  await time.advance(8_000)
  late.resolve()
  await time.advance(20_000)
  assert.deepEqual(seen, ['0 192.0.2.2', '16000 '], 'a TTL after its last renewal')
})

test('the duration in a Lease is limited to five minutes', async (t) => {
  const { time, direct, open } = await openWorld()
  const [observer, dying] = [open(), open()]
  await dying.leases.update(other, signal)
  const [made] = (await direct.list(leaseResource)).items
  const ref = { namespace: 'kube-system', name: made?.metadata?.name ?? '' }
  await direct.patch(leaseResource, ref, { type: 'merge', body: { spec: { leaseDurationSeconds: 86_400 } } })
  const seen = follow(t, time, observer)
  await time.advance(299_000)
  assert.equal(seen.length, 1)
  await time.advance(2_000)
  assert.deepEqual(seen, ['0 192.0.2.2', '300000 '])
})

test('a Lease with a duration of zero or less, as other programs may write it into etcd, lasts a second', async (t) => {
  for (const leaseDurationSeconds of [0, -60]) {
    const { time, direct, open } = await openWorld()
    const [observer, dying] = [open(), open()]
    await dying.leases.update(other, signal)
    const short = <T>(lease: T): T => ({ ...lease, spec: { ...(lease as Lease).spec, leaseDurationSeconds } })
    const api = passedOn(direct, {
      async list(...args) {
        const page = await direct.list(...args)
        return { ...page, items: page.items.map((lease) => short(lease)) }
      },
      async *watch(...args) {
        for await (const event of direct.watch(...args)) yield { ...event, object: short(event.object) } as typeof event
      },
    })
    const seen = follow(t, time, { ...observer, leases: observer.leasesWith(api) })
    await time.advance(999)
    assert.deepEqual(seen, ['0 192.0.2.2'])
    await time.advance(1_000)
    assert.deepEqual(seen, ['0 192.0.2.2', '1000 '], `${leaseDurationSeconds} s`)
  }
})

test('requests for leases do not wait for a Retry-After; they fail at once and carry its time', async () => {
  const { time, open } = await openWorld()
  const master = open()
  await master.leases.update(self, signal)
  master.add({ fault: { type: 'status', status: 429, retryAfterSeconds: 6 } })
  const refused = { code: 'TooManyRequests', nature: 'away', retryAfterMs: 6_000 }
  for (const attempt of [
    () => master.leases.update(self, signal),
    () => master.leases.mark(self, signal),
    () => master.leases.remove(self, signal),
    () => master.leases.list(signal),
  ]) {
    await assert.rejects(attempt(), refused)
  }
  assert.equal(time.nowMs, 0)
})

test('the next renewal finds a renewal that was done without an answer, and continues from it', async () => {
  const { time, direct, open } = await openWorld()
  const master = open()
  for (let round = 0; round < 3; round++) {
    for (const lost of ['answer', 'request', 'answer'] as const) {
      master.add({ methods: ['POST', 'PUT'], times: 1, fault: { type: 'drop', lost } })
      const limit = new AbortController()
      const reason = new Error('out of time')
      const attempt = assert.rejects(master.leases.update(self, limit.signal), (error) => error === reason)
      await time.advance(2_000)
      limit.abort(reason)
      await attempt
    }
    master.sent.length = 0
    await master.leases.update(self, signal)
    assert.deepEqual(
      master.sent.map((line) => line.split(' ')[1]),
      [round === 0 ? 'POST' : 'PUT', 'GET', 'PUT'],
    )
    await master.leases.update(self, signal)
    assert.equal(master.sent.length, 4, 'the following renewal needs no read')
  }
  const [lease] = (await direct.list(leaseResource)).items
  assert.equal(lease?.spec?.leaseTransitions, 0)
})

test('a later life that takes the lease over during the removal by its earlier life retains it', async () => {
  const { time, direct, open } = await openWorld()
  const [earlier, later] = [open(), open()]
  const second = holder('192.0.2.1', { instanceId: '192.0.2.1 second', startedAt: '2026-01-01T00:00:01Z' })
  await earlier.leases.update(self, signal)
  earlier.add({ methods: ['DELETE'], fault: { type: 'delay', ms: 500 } })
  const removed = earlier.leases.remove(self, signal)
  await time.advance(200)
  await later.leases.update(second, signal)
  await time.advance(1_000)
  await removed
  const { items } = await direct.list(leaseResource)
  assert.deepEqual(
    items.map(({ spec }) => spec?.holderIdentity),
    ['host_192.0.2.1 second'],
  )
})
