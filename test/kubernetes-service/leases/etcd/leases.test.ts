import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Holder,
  LeaseWithdrawn,
  type MasterLease,
  type MasterLeases,
} from '../../../../src/kubernetes-service/leases/master-leases.ts'
import { decodeMasterLease, encodeMasterLease } from '../../../../src/protobuf/master-lease.ts'
import { sleep } from '../../../../src/runtime/clock.ts'
import { withOddField } from '../../../protobuf/odd-lease.ts'
import { openWorld, signal, ttlMs, unreachable } from '../etcd-world.ts'
import { addressesOf, holder } from '../holders.ts'

const leaseKey = '/registry/masterleases/192.0.2.1'
const recordKey = '/registry/apiserver-bootstrap/holders/192.0.2.1/host'
const self = holder('192.0.2.1')
interface Delays {
  readonly leaseMs: number
  readonly recordMs: number
  readonly leastTtlSeconds?: number
}

const other = holder('192.0.2.1', { host: 'other', instanceId: 'other' })

test('a lease has the bytes that a kube-apiserver stores; its record names the holder and lasts a second longer', async () => {
  const { etcd, open } = openWorld()
  const { leases } = open()
  await leases.update(self, signal)
  const lease = await etcd.get(leaseKey, signal)
  const record = await etcd.get(recordKey, signal)
  assert.ok(lease !== undefined && record !== undefined)
  assert.deepEqual(Buffer.from(lease.value), Buffer.from(encodeMasterLease('192.0.2.1')))
  assert.deepEqual(JSON.parse(Buffer.from(record.value).toString()), self)
  assert.equal((await etcd.timeToLive(lease.lease, signal))?.grantedSeconds, 15n)
  assert.equal((await etcd.timeToLive(record.lease, signal))?.grantedSeconds, 16n)
  assert.ok(record.modRevision < lease.modRevision, 'the record is written before the lease')

  await leases.update(self, signal)
  const renewed = decodeMasterLease((await etcd.get(leaseKey, signal))?.value ?? new Uint8Array())
  assert.ok(renewed.type === 'protobuf')
  assert.deepEqual([renewed.address, renewed.generation], ['192.0.2.1', 2n])
})

test('addresses are written in the form of Go, and the host is one escaped part of the key', async () => {
  const { etcd, open } = openWorld()
  await open().leases.update(holder('2001:db8::1', { host: 'a/b %' }), signal)
  const keys = (await etcd.list('/registry/', { signal })).items.map(({ key }) => key)
  assert.deepEqual(keys, [
    '/registry/apiserver-bootstrap/holders/2001:db8::1/a%2Fb%20%25',
    '/registry/masterleases/2001:db8::1',
  ])
})

test('a steady renewal is two grants and two guarded writes, and a watching master sends no request', async (t) => {
  for (const flavour of ['etcd', 'kine'] as const) {
    const { time, open } = openWorld(flavour)
    const [renewing, watching] = [open(), open()]
    const end = new AbortController()
    let notifications = 0
    const ended = watching.leases.watch(() => notifications++, end.signal)
    t.after(() => {
      end.abort()
      return ended
    })
    await renewing.leases.update(self, signal)
    await time.advance(0)
    notifications = 0
    renewing.calls.length = 0
    for (let round = 0; round < 360; round++) {
      await time.advance(10_000)
      await renewing.leases.update(self, signal)
    }
    assert.equal(renewing.calls.length, 360 * 4)
    assert.deepEqual(renewing.calls.slice(-4), [
      'grantLease',
      'grantLease',
      'update apiserver-bootstrap/holders/192.0.2.1/host',
      'update masterleases/192.0.2.1',
    ])
    assert.deepEqual([notifications, watching.calls], [0, []])
    end.abort()
    await ended
  }
})

type World = ReturnType<typeof openWorld>

async function isMissing(etcd: World['etcd'], key: string): Promise<boolean> {
  return (await etcd.get(key, signal)) === undefined
}

/** Waits until the lease and its record have ended. Resolves with how much longer the record lasted. */
async function outlastedMs({ time, etcd }: World): Promise<number> {
  while (!(await isMissing(etcd, leaseKey))) await time.advance(50)
  const endedMs = time.nowMs
  while (!(await isMissing(etcd, recordKey))) await time.advance(50)
  return time.nowMs - endedMs
}

for (const [name, { leaseMs, recordMs, leastTtlSeconds }, times, outlastsMs] of [
  ['that are both slow', { leaseMs: 400, recordMs: 400 }, 2, 500],
  ['of which that of the record is answered first', { leaseMs: 450, recordMs: 0 }, 2, 500],
  ['of which that of the record is answered much earlier', { leaseMs: 550, recordMs: 0 }, 3, 1_000],
  ['of which that of the lease is answered much earlier', { leaseMs: 0, recordMs: 550 }, 3, 1_000],
  ['to which the store gives the same TTL', { leaseMs: 400, recordMs: 100, leastTtlSeconds: 20 }, 3, 1_000],
] as const satisfies readonly [string, Delays, number, number][]) {
  test(`a renewal requests its two grants in parallel, and the record outlasts its lease: grants ${name}`, async () => {
    const world = openWorld('etcd', { leastTtlSeconds })
    const { time, open } = world
    const master = open()
    await master.leases.update(self, signal)
    await time.advance(10_000)
    master.calls.length = 0
    const clock = time.view()
    let grants = 0
    master.fault = ({ method }, place) => {
      if (method !== 'grantLease' || place !== 'before') return undefined
      return sleep(clock, [leaseMs, recordMs][grants++] ?? 100)
    }
    const renewed = master.leases.update(self, signal)
    await time.advance(Math.max(leaseMs, recordMs) + (times === 3 ? 100 : 0))
    await renewed
    const asked = master.calls.map((call) => call.split(' ')[0])
    assert.deepEqual(asked, [...Array.from({ length: times }, () => 'grantLease'), 'update', 'update'])
    const outlasted = await outlastedMs(world)
    assert.ok(outlasted >= outlastsMs, `${outlasted} ms`)
  })
}

test('on a slow store that lengthens TTLs the granted TTLs decide whether the record outlasts its lease', async () => {
  const { time, etcd, open } = openWorld('etcd', { leastTtlSeconds: 8 })
  const master = open({ ttlMs: 6_000 })
  const clock = time.view()
  let delays: readonly number[] = [700, 700]
  let grants = 0
  master.fault = ({ method }, place) =>
    method === 'grantLease' && place === 'before' ? sleep(clock, delays[grants++] ?? 0) : undefined
  const renew = async (): Promise<void> => {
    grants = 0
    const renewed = master.leases.update(self, signal)
    await time.advance(2_000)
    await renewed
  }
  await renew()
  // The store raises the TTL of the lease to 8 s, and the record gets 9 s.
  delays = [1_250, 10]
  await renew()
  while (!(await isMissing(etcd, leaseKey))) await time.advance(50)
  assert.equal(await isMissing(etcd, recordKey), false)
})

test('on a store that lengthens TTLs a record outlasts its lease even after both TTLs have started anew', async () => {
  const { time, store, etcd, open } = openWorld('etcd', { leastTtlSeconds: 4 })
  await open({ ttlMs: 3_000 }).leases.update(self, signal)
  await time.advance(1_000)
  store.startLeasesOver()
  await time.advance(4_500)
  assert.deepEqual([await isMissing(etcd, leaseKey), await isMissing(etcd, recordKey)], [true, false])
})

test('a TTL below the minimum of etcd is logged once; one that the store grants is not', async () => {
  for (const [flavour, leastTtlSeconds, granted] of [
    ['etcd', 30, [30]],
    ['etcd', 15, []],
    ['kine', 30, []],
  ] as const) {
    const { time, open } = openWorld(flavour, { leastTtlSeconds })
    const { leases, logger } = open()
    for (let renewal = 1; renewal <= 3; renewal++) {
      await leases.update(self, signal)
      await time.advance(1_000)
    }
    const warnings = logger.lines.filter(({ message }) => message.startsWith('etcd grants a longer TTL than'))
    assert.deepEqual(
      warnings.map(({ level, fields: { wantedSeconds, grantedSeconds } }) => [level, wantedSeconds, grantedSeconds]),
      granted.map((seconds) => ['warn', 15, seconds]),
    )
  }
})

const later = { ...self, instanceId: 'later', startedAt: '2026-01-01T00:00:02Z' }

/** A master whose store answers each call late. `renew` makes `times` renewals, and returns the states of the lease. */
function onSlowStore({ time, etcd, open }: World, own: { readonly answerMs: number; readonly ttlMs?: number }) {
  const { answerMs, ttlMs = 3_000 } = own
  const master = open({ ttlMs })
  const clock = time.view()
  master.fault = (_, place) => (place === 'after' ? sleep(clock, answerMs) : undefined)
  const renew = async (holder: Holder, times: number): Promise<readonly string[]> => {
    const seen: string[] = []
    let isDone = false
    // Each renewal takes longer than the interval, so the next one begins at once.
    const renewed = (async () => {
      for (let renewal = 1; renewal <= times; renewal++) await master.leases.update(holder, signal)
    })().finally(() => {
      isDone = true
    })
    while (!isDone) {
      const state = (await etcd.get(leaseKey, signal)) === undefined ? 'missing' : 'there'
      if (seen.at(-1) !== state) seen.push(state)
      await time.advance(50)
    }
    await renewed
    return seen
  }
  return { master, renew }
}

test('on a slow store an expired lease that is created again lasts until its next renewal', async () => {
  const world = openWorld()
  const { master, renew } = onSlowStore(world, { answerMs: 400 })
  const renewed = master.leases.update(self, signal)
  await world.time.advance(2_000)
  await renewed
  await world.time.advance(3_500)
  assert.deepEqual(await renew(self, 3), ['missing', 'there'])
})

test('on a slow store a life that finds the record of the previous life does not lose its lease', async () => {
  const world = openWorld()
  await world.open({ ttlMs: 3_000 }).leases.update(self, signal)
  const { renew } = onSlowStore(world, { answerMs: 400 })
  assert.deepEqual(await renew(later, 3), ['there'])
})

test('on a slow store a life that finds that record without a lease creates a lease that lasts', async () => {
  const world = openWorld()
  const { time, open } = world
  await open({ ttlMs: 3_000 }).leases.update(self, signal)
  await time.advance(3_100)
  const { renew } = onSlowStore(world, { answerMs: 450 })
  assert.deepEqual(await renew(later, 3), ['missing', 'there'])
})

test('after repeated grants the record outlasts its lease', async () => {
  const world = openWorld()
  const { time, open } = world
  await open({ ttlMs: 3_000 }).leases.update(self, signal)
  await time.advance(3_100)
  const { renew } = onSlowStore(world, { answerMs: 400 })
  await renew(later, 1)
  const outlasted = await outlastedMs(world)
  assert.ok(outlasted >= 500, `${outlasted} ms`)
})

test('a restart keeps the lease live; on a slow store it takes as many answer times as on a fast one, on a very slow one one more', async () => {
  const answerTimes = async (answerMs: number): Promise<number> => {
    const world = openWorld()
    const { time, open } = world
    await open().leases.update(self, signal)
    const { renew } = onSlowStore(world, { answerMs, ttlMs })
    const beganMs = time.nowMs
    assert.deepEqual(await renew(later, 1), ['there'])
    return (time.nowMs - beganMs) / answerMs
  }
  assert.deepEqual([await answerTimes(50), await answerTimes(400), await answerTimes(1_200)], [8, 8, 9])
})

test('on a very slow store only the first renewal requests a third grant, and the record outlasts its lease', async () => {
  const world = openWorld()
  const { time, etcd } = world
  const { master, renew } = onSlowStore(world, { answerMs: 1_300, ttlMs })
  const took: number[] = []
  for (let renewal = 1; renewal <= 3; renewal++) {
    const beganMs = time.nowMs
    await renew(self, 1)
    took.push((time.nowMs - beganMs) / 1_300)
  }
  assert.deepEqual(took, [4, 3, 3])
  master.fault = () => undefined
  const outlasted = await outlastedMs(world)
  assert.ok(outlasted >= 500, `${outlasted} ms`)
  // A fast store gets the shorter time again.
  for (let renewal = 1; renewal <= 2; renewal++) await master.leases.update(self, signal)
  await time.advance(ttlMs + 1_100)
  assert.deepEqual([await isMissing(etcd, leaseKey), await isMissing(etcd, recordKey)], [true, true])
})

test('if repeated grants fail, a renewal uses the grants that it already has', async () => {
  const { time, etcd, open } = openWorld()
  await open().leases.update(self, signal)
  const master = open()
  const clock = time.view()
  let grants = 0
  master.fault = async ({ method }, place) => {
    if (place === 'after') return sleep(clock, 400)
    return method === 'grantLease' && ++grants > 2 ? unreachable : undefined
  }
  const renewed = master.leases.update(later, signal)
  await time.advance(6_000)
  await renewed
  assert.ok(grants > 2)
  assert.equal(JSON.parse(Buffer.from((await etcd.get(recordKey, signal))?.value ?? []).toString()).instanceId, 'later')
})

test('a renewal that conflicts again and again gives up with LeaseNotFound', async () => {
  const { time, etcd, open } = openWorld()
  const master = open({ ttlMs: 3_000 })
  await master.leases.update(self, signal)
  const clock = time.view()
  const beganMs = time.nowMs
  master.fault = async ({ method, key }, place) => {
    if (place === 'after') return sleep(clock, 400)
    if (method !== 'update' || key !== leaseKey || time.nowMs - beganMs > 60_000) return undefined
    const stored = await etcd.get(leaseKey, signal)
    const { id } = await etcd.grantLease(15, signal)
    if (stored) await etcd.update(leaseKey, stored.value, stored.modRevision, { lease: id, signal })
    return undefined
  }
  let end: unknown
  const renewed = master.leases.update(self, signal).catch((error) => {
    end = error
  })
  while (end === undefined && time.nowMs - beganMs < 70_000) await time.advance(100)
  await renewed
  assert.equal((end as { code?: string } | undefined)?.code, 'LeaseNotFound')
  // Two TTLs, and the time that a record lasts longer than its lease.
  assert.ok(time.nowMs - beganMs < 2 * 3_000 + 3_000 + 1_000, `${time.nowMs - beganMs} ms`)
})

test('a lease without a record counts as a kube-apiserver; a JSON lease has the address of its key', async () => {
  const { etcd, open } = openWorld()
  await etcd.create('/registry/masterleases/192.0.2.7', encodeMasterLease('192.0.2.7'), { signal })
  await etcd.create('/registry/masterleases/192.0.2.8', Buffer.from('{"kind":"Endpoints","apiVersion":"v1"}'), {
    signal,
  })
  assert.deepEqual(await liveIn(open().leases), [
    { address: '192.0.2.7', neverEnds: true },
    { address: '192.0.2.8', neverEnds: true },
  ])
})

test('a lease with an odd value counts, by the address in the value or else in its key, and is logged once', async () => {
  const { etcd, open } = openWorld()
  const { leases, logger } = open()
  const values: Readonly<Record<string, Uint8Array>> = {
    '192.0.2.1': Buffer.from('garbage'),
    '192.0.2.2': withOddField('192.0.2.2'),
    // A kube-apiserver also lists the address in the value.
    '192.0.2.3': withOddField('192.0.2.33'),
    '192.0.2.4': encodeMasterLease('010.0.0.1'),
    '192.0.2.5': Buffer.from('k8s:enc:aescbc:v1:key1:x'),
  }
  for (const [address, value] of Object.entries(values)) {
    const lease = (await etcd.grantLease(15, signal)).id
    await etcd.create(`/registry/masterleases/${address}`, value, { lease, signal })
  }
  const live = ['192.0.2.1', '192.0.2.2', '192.0.2.33', '192.0.2.4', '192.0.2.5'].map((address) => ({ address }))
  for (let read = 1; read <= 3; read++) assert.deepEqual(await liveIn(leases), live)
  assert.deepEqual(
    logger.lines.map(({ fields }) => fields.reason),
    [
      'is neither protobuf nor JSON; using the address of its key until the lease expires',
      'is protobuf, but not a valid Kubernetes object; using its address',
      'is protobuf, but not a valid Kubernetes object; using its address',
      'contains "010.0.0.1", which cannot be listed; using the address of its key',
      'is encrypted (aescbc); using the address of its key until the lease expires',
    ],
  )
})

test('unusable leases and records are ignored and logged once; the others are listed', async () => {
  const { etcd, open } = openWorld()
  const { leases, logger } = open()
  const bad = {
    'masterleases/127.0.0.1': encodeMasterLease('127.0.0.1'),
    'masterleases/not-an-address': encodeMasterLease('192.0.2.67'),
    'masterleases/192.0.2.68/more': encodeMasterLease('192.0.2.68'),
    'apiserver-bootstrap/holders/192.0.2.1/broken': 'garbage',
    'apiserver-bootstrap/holders/192.0.2.2/host': JSON.stringify(self),
    'apiserver-bootstrap/holders/rubbish': JSON.stringify(self),
  }
  for (const [key, value] of Object.entries(bad)) {
    await etcd.create(`/registry/${key}`, Buffer.from(value), { signal })
  }
  await leases.update(self, signal)
  for (let read = 1; read <= 3; read++) assert.deepEqual(await liveIn(leases), [{ address: '192.0.2.1', holder: self }])
  const logged = logger.lines.map(({ level, fields }) => `${level} ${String(fields.key).replace('/registry/', '')}`)
  assert.deepEqual(
    logged.sort(),
    Object.keys(bad)
      .map((key) => `warn ${key}`)
      .sort(),
  )
})

for (const [what, value] of Object.entries({
  JSON: Buffer.from('{"kind":"Endpoints","apiVersion":"v1","theirs":[1]}'),
  'protobuf that encodes to other bytes': withOddField('192.0.2.1'),
})) {
  test(`a value at the own address that is ${what} is renewed with unchanged bytes`, async () => {
    const { time, etcd, open } = openWorld()
    await etcd.create(leaseKey, value, { lease: (await etcd.grantLease(15, signal)).id, signal })
    const { leases } = open()
    for (let round = 0; round < 4; round++) {
      await leases.update(self, signal)
      assert.deepEqual(Buffer.from((await etcd.get(leaseKey, signal))?.value ?? []), value)
      await time.advance(10_000)
    }
    assert.deepEqual(await liveIn(leases), [{ address: '192.0.2.1', holder: self }])
  })
}

test('an unreadable value at the own address is not overwritten, counts until it expires, and is then created anew', async () => {
  const { time, etcd, open } = openWorld()
  const garbage = Buffer.from('garbage')
  await etcd.create(leaseKey, garbage, { lease: (await etcd.grantLease(15, signal)).id, signal })
  const { leases, logger } = open()
  for (let round = 0; round < 2; round++) {
    await leases.update(self, signal)
    assert.deepEqual(Buffer.from((await etcd.get(leaseKey, signal))?.value ?? []), garbage)
    assert.deepEqual(await liveIn(leases), [{ address: '192.0.2.1', holder: self }])
    await time.advance(8_000)
  }
  assert.deepEqual(
    logger.lines.map(({ fields }) => `${fields.key} ${fields.reason}`),
    [`${leaseKey} is neither protobuf nor JSON; using the address of its key until the lease expires`],
  )
  await leases.update(self, signal)
  const made = decodeMasterLease((await etcd.get(leaseKey, signal))?.value ?? new Uint8Array())
  assert.equal(made.type, 'protobuf')
})

test('leases and records are read at one revision; the read is repeated if that revision was compacted', async () => {
  const { store, open } = openWorld()
  const { leases } = open()
  await leases.update(self, signal)
  const observer = open()
  let once = true
  let compacts = false
  observer.fault = async ({ method, key }, place) => {
    if (place === 'after' || method !== 'list' || !key.endsWith('/holders/') || !once) return
    once = false
    await leases.remove(self, signal)
    if (compacts) store.compact()
  }
  // Without its record the lease would count as the lease of a kube-apiserver.
  assert.deepEqual(await liveIn(observer.leases), [{ address: '192.0.2.1', holder: self }])
  await leases.update(self, signal)
  once = true
  compacts = true
  assert.deepEqual(await liveIn(observer.leases), [])
  observer.calls.length = 0
  observer.fault = ({ key }, place) => (place === 'after' && key.endsWith('/holders/') ? unreachable : undefined)
  await assert.rejects(observer.leases.list(signal), unreachable)
  assert.equal(observer.calls.length, 2)
})

test('a master that is withdrawn during its renewal does not create its lease again', async () => {
  const { etcd, open } = openWorld()
  const [master, operator] = [open(), open()]
  await master.leases.update(self, signal)
  master.fault = async ({ key }, place) => {
    if (place === 'before' && key === leaseKey) await operator.leases.mark({ ...self, state: 'withdrawn' }, signal)
  }
  await assert.rejects(master.leases.update(self, signal), LeaseWithdrawn)
  assert.equal(await etcd.get(leaseKey, signal), undefined)
})

test('a record that expires while it is marked is not created again', async () => {
  const { time, etcd, open } = openWorld()
  const master = open()
  await master.leases.update(self, signal)
  const thawed = Promise.withResolvers<void>()
  master.fault = ({ method }, place) => (place === 'before' && method === 'update' ? thawed.promise : undefined)
  const marking = master.leases.mark({ ...self, state: 'leaving' }, signal)
  await time.advance(60_000)
  thawed.resolve()
  await marking
  assert.deepEqual((await etcd.list('/registry/', { signal })).items, [])
})

test('a life whose clock was set back yields to the record of its earlier life only while that has a lease', async () => {
  const later = { ...self, instanceId: 'later', startedAt: '2025-12-31T00:00:00Z' }
  for (const leaseEnds of [false, true]) {
    const { etcd, open } = openWorld()
    await open().leases.update(self, signal)
    const stored = await etcd.get(leaseKey, signal)
    if (leaseEnds) await etcd.delete(leaseKey, stored?.modRevision ?? 0n, signal)
    const { leases } = open()
    await leases.update(later, signal)
    const [lease] = await leases.list(signal)
    assert.equal(lease?.holder?.instanceId, leaseEnds ? 'later' : self.instanceId)
    assert.ok(await etcd.get(leaseKey, signal))
  }
})

test('an unready or withdrawn master has only its record and no lease; a master that is ready again has one', async () => {
  const { time, etcd, open } = openWorld()
  const { leases } = open()
  for (const [state, instanceId] of [
    ['unready', self.instanceId],
    ['withdrawn', 'again'],
  ] as const) {
    const life = { ...self, instanceId }
    await leases.update(life, signal)
    await leases.mark({ ...life, state: 'failing' }, signal)
    assert.ok(await etcd.get(leaseKey, signal))
    await leases.mark({ ...life, state }, signal)
    assert.equal(await etcd.get(leaseKey, signal), undefined)
    assert.equal((await leases.list(signal))[0]?.holder?.state, state)
    if (state === 'unready') {
      await time.advance(10_000)
      await leases.update({ ...life, state }, signal)
      assert.equal(await etcd.get(leaseKey, signal), undefined)
      await time.advance(10_000)
      assert.deepEqual(await addressesOf(leases), ['192.0.2.1'])
      await leases.mark(life, signal)
      assert.ok(await etcd.get(leaseKey, signal))
    }
  }
})

test('the lease of a shared address remains while another master there needs it', async () => {
  const { etcd, open } = openWorld()
  const [a, b] = [open().leases, open().leases]
  await a.update(self, signal)
  await b.update(other, signal)
  await a.mark({ ...self, state: 'unready' }, signal)
  assert.ok(await etcd.get(leaseKey, signal))
  await a.update({ ...self, state: 'unready' }, signal)
  await b.update(other, signal)
  assert.deepEqual((await b.list(signal)).map((lease) => lease.holder?.state).sort(), ['ready', 'unready'])
  await b.mark({ ...other, state: 'unready' }, signal)
  assert.equal(await etcd.get(leaseKey, signal), undefined)
  await a.mark(self, signal)
  assert.ok(await etcd.get(leaseKey, signal))
  await b.remove({ ...other, state: 'unready' }, signal)
  assert.deepEqual(await liveIn(a), [{ address: '192.0.2.1', holder: self }])
})

test('a master does not delete a lease that a kube-apiserver renews too, and the address stays listed', async () => {
  const { time, etcd, open } = openWorld()
  const [one, watcher] = [open(), open().leases]
  const renewAsKubeApiserver = async (): Promise<void> => {
    const stored = await etcd.get(leaseKey, signal)
    assert.ok(stored !== undefined)
    const lease = (await etcd.grantLease(15, signal)).id
    assert.ok(await etcd.update(leaseKey, encodeMasterLease('192.0.2.1'), stored.modRevision, { lease, signal }))
  }
  await one.leases.update(self, signal)
  const warnings = () => one.logger.lines.filter(({ level }) => level === 'warn').length
  for (const expected of [0, 1, 1]) {
    await time.advance(5_000)
    await renewAsKubeApiserver()
    await time.advance(5_000)
    await one.leases.update(self, signal)
    assert.equal(warnings(), expected)
  }
  await one.leases.mark({ ...self, state: 'leaving' }, signal)
  assert.deepEqual(await liveIn(watcher), [{ address: '192.0.2.1', holder: { ...self, coHolder: true } }])

  const restarted = open()
  const later = { ...self, instanceId: 'later', startedAt: '2026-01-02T00:00:00.000000Z' }
  await restarted.leases.update(later, signal)
  await restarted.leases.remove(later, signal)
  assert.deepEqual(await liveIn(watcher), [{ address: '192.0.2.1' }], 'the next life knows it from the record')
})

test('a master notices a kube-apiserver at its address at once, even if the answer to its first record was lost', async () => {
  const { etcd, open } = openWorld()
  const lease = (await etcd.grantLease(15, signal)).id
  await etcd.create(leaseKey, encodeMasterLease('192.0.2.1'), { lease, signal })
  const one = open()
  one.fault = (call, place) => (place === 'after' && call.method === 'create' ? unreachable : undefined)
  await assert.rejects(one.leases.update(self, signal), unreachable)
  one.fault = () => undefined
  await one.leases.update(self, signal)
  await one.leases.remove(self, signal)
  assert.deepEqual(await liveIn(one.leases), [{ address: '192.0.2.1' }])
})

test('an unready master counts as failing while a kube-apiserver renews the lease of its address', async () => {
  const { time, etcd, open } = openWorld()
  const [one, watcher] = [open(), open().leases]
  const unready: Holder = { ...self, state: 'unready' }
  const stateSeen = async () => (await watcher.list(signal))[0]?.holder?.state
  await one.leases.update(self, signal)
  await one.leases.mark(unready, signal)
  assert.equal(await stateSeen(), 'unready')

  const lease = (await etcd.grantLease(15, signal)).id
  let revision = await etcd.create(leaseKey, encodeMasterLease('192.0.2.1'), { lease, signal })
  assert.equal(await stateSeen(), 'failing', 'the master counts as failing before it has read the lease')
  await one.leases.list(signal)
  const warnings = one.logger.lines.filter(({ level }) => level === 'warn')
  assert.deepEqual(warnings.length, 1)
  for (let round = 0; round < 5; round++) {
    await time.advance(5_000)
    await one.leases.update(unready, signal)
    await one.leases.list(signal)
    assert.equal(await stateSeen(), 'failing', 'the record states the co-holder')
    await time.advance(5_000)
    const next = (await etcd.grantLease(15, signal)).id
    revision = await etcd.update(leaseKey, encodeMasterLease('192.0.2.1'), revision ?? 0n, { lease: next, signal })
    await one.leases.list(signal)
  }
  await time.advance(8_000)
  await one.leases.update(unready, signal)
  await time.advance(8_000)
  assert.equal(await stateSeen(), 'unready', 'the lease of the kube-apiserver has expired')
})

for (const begins of ['as a new life', 'after a return that failed', 'and reads nothing before its record'] as const) {
  test(`a master that is unready ${begins} counts as failing while a kube-apiserver renews its lease`, async () => {
    const { time, etcd, open } = openWorld()
    const [one, later, watcher] = [open(), open(), open().leases]
    let unready: Holder = { ...self, state: 'unready' }
    let master = one
    await one.leases.update(self, signal)
    await one.leases.mark(unready, signal)
    if (begins === 'as a new life') {
      master = later
      unready = { ...unready, instanceId: 'later', startedAt: '2026-01-02T00:00:00.000000Z' }
    }
    if (begins === 'after a return that failed') {
      one.fault = ({ method }, place) => (place === 'before' && method === 'grantLease' ? unreachable : undefined)
      await assert.rejects(one.leases.mark(self, signal), unreachable)
      one.fault = () => undefined
    }
    await master.leases.update(unready, signal)
    let revision = 0n
    for (let round = 0; round < 5; round++) {
      await time.advance(5_000)
      const lease = (await etcd.grantLease(15, signal)).id
      const value = encodeMasterLease('192.0.2.1')
      const sent =
        round === 0
          ? etcd.create(leaseKey, value, { lease, signal })
          : etcd.update(leaseKey, value, revision, { lease, signal })
      revision = (await sent) ?? 0n
      if (begins !== 'and reads nothing before its record') await master.leases.list(signal)
      await master.leases.update(unready, signal)
      await time.advance(5_000)
      assert.equal((await watcher.list(signal))[0]?.holder?.state, 'failing', `round ${round}`)
    }
  })
}

for (const goes of ['turns unready', 'is stopped'] as const) {
  test(`an unready master does not take another master at its address that ${goes} for a kube-apiserver`, async () => {
    const { time, open } = openWorld()
    const [a, b] = [open(), open()]
    await a.leases.update(self, signal)
    await b.leases.update(other, signal)
    await a.leases.mark({ ...self, state: 'unready' }, signal)
    await time.advance(1_000)
    await b.leases.update(other, signal)
    let reads = 0
    b.fault = async ({ method, key }, place) => {
      if (place === 'before' && method === 'get' && key === leaseKey) {
        await a.leases.list(signal)
        reads++
      }
      return undefined
    }
    if (goes === 'is stopped') await b.leases.remove(other, signal)
    else await b.leases.mark({ ...other, state: 'unready' }, signal)
    assert.ok(reads > 0)
    assert.deepEqual(a.logger.lines, [])
  })
}

test("the next life of an unready master does not delete a kube-apiserver's lease that its record does not name yet", async () => {
  const { etcd, open } = openWorld()
  const [one, later] = [open(), open()]
  await one.leases.update(self, signal)
  await one.leases.mark({ ...self, state: 'unready' }, signal)
  const lease = (await etcd.grantLease(15, signal)).id
  await etcd.create(leaseKey, encodeMasterLease('192.0.2.1'), { lease, signal })
  const next: Holder = { ...self, instanceId: 'later', startedAt: '2026-01-02T00:00:00.000000Z' }
  await later.leases.update({ ...next, state: 'failing' }, signal)
  await later.leases.mark({ ...next, state: 'unready' }, signal)
  assert.ok(await etcd.get(leaseKey, signal))
})

test('a lease that was left to a kube-apiserver which no longer renews it is deleted when the master leaves', async () => {
  const { time, etcd, open } = openWorld()
  const one = open()
  const lease = (await etcd.grantLease(15, signal)).id
  await etcd.create(leaseKey, encodeMasterLease('192.0.2.1'), { lease, signal })
  await one.leases.update(self, signal)
  for (let round = 0; round < 3; round++) {
    await time.advance(10_000)
    await one.leases.update(self, signal)
    await time.advance(1_000)
    await one.leases.update({ ...self, state: 'unready' }, signal)
    await one.leases.list(signal)
    await time.advance(5_000)
    await one.leases.list(signal)
    await one.leases.mark(self, signal)
  }
  await one.leases.remove(self, signal)
  assert.equal(await etcd.get(leaseKey, signal), undefined)
})

test('the late write of an unready master is not taken for that of a kube-apiserver', async () => {
  const { etcd, open } = openWorld()
  const one = open()
  one.fault = ({ key }, place) => (place === 'after' && key === leaseKey ? unreachable : undefined)
  await assert.rejects(one.leases.update(self, signal), unreachable)
  one.fault = () => undefined
  const late = await etcd.get(leaseKey, signal)
  assert.ok(late !== undefined)
  await etcd.delete(leaseKey, late.modRevision, signal)

  await one.leases.mark({ ...self, state: 'unready' }, signal)
  await etcd.create(leaseKey, late.value, { lease: late.lease, signal })
  await one.leases.list(signal)
  assert.deepEqual(one.logger.lines, [])
})

test("a lease without a record that a master finds at its start is a kube-apiserver's and remains when the master leaves", async () => {
  const { etcd, open } = openWorld()
  const lease = (await etcd.grantLease(15, signal)).id
  await etcd.create(leaseKey, encodeMasterLease('192.0.2.1'), { lease, signal })
  const { leases } = open()
  await leases.update(self, signal)
  await leases.remove(self, signal)
  assert.deepEqual(await liveIn(leases), [{ address: '192.0.2.1' }])
})

test('a kube-apiserver that renews less often than the master is noticed at its second renewal, not at the first', async () => {
  const { time, etcd, open } = openWorld()
  const one = open({ ttlMs: 3_000 })
  /** The seconds after which the master has warned that it has noticed the kube-apiserver. */
  const noticed: number[] = []
  await one.leases.update(self, signal)
  for (let second = 1; second <= 22; second++) {
    await time.advance(1_000)
    if (second % 10 === 0) {
      const stored = await etcd.get(leaseKey, signal)
      const lease = (await etcd.grantLease(15, signal)).id
      await etcd.update(leaseKey, encodeMasterLease('192.0.2.1'), stored?.modRevision ?? 0n, { lease, signal })
    }
    await one.leases.update(self, signal)
    const warnings = one.logger.lines.filter(({ level }) => level === 'warn').length
    while (noticed.length < warnings) noticed.push(second)
  }
  assert.deepEqual(noticed, [20])
  await one.leases.remove(self, signal)
  assert.deepEqual(await liveIn(one.leases), [{ address: '192.0.2.1' }])
})

test('another master that has left the address is not taken for a kube-apiserver', async () => {
  const { etcd, open } = openWorld()
  const [a, b] = [open(), open()]
  await a.leases.update(self, signal)
  await b.leases.update(other, signal)
  await b.leases.remove(other, signal)
  await a.leases.update(self, signal)
  await a.leases.remove(self, signal)
  assert.equal(await etcd.get(leaseKey, signal), undefined)
})

for (const flavour of ['etcd', 'kine'] as const) {
  test(`${flavour}: a lease that was left to a dead master at the address is not taken for that of a kube-apiserver`, async () => {
    const { time, etcd, open } = openWorld(flavour)
    const [a, b] = [open(), open()]
    await a.leases.update(self, signal)
    await b.leases.update(other, signal)
    await time.advance(9_000)
    await a.leases.update(self, signal)
    await a.leases.remove(self, signal)
    // The record of the dead master expires before the lease, which the other master renewed.
    await time.advance(8_000)
    assert.deepEqual(
      (await a.leases.list(signal)).map((lease) => lease.holder?.state),
      ['withdrawn'],
    )
    const next = open()
    const nextLife = { ...self, instanceId: 'next', startedAt: '2026-01-01T00:01:00Z' }
    await next.leases.update(nextLife, signal)
    await next.leases.remove(nextLife, signal)
    assert.equal(await etcd.get(leaseKey, signal), undefined)
    assert.deepEqual(next.logger.lines, [])
  })
}

test('a master that left its lease to another master may join again', async () => {
  const { time, etcd, open } = openWorld()
  const [a, b] = [open().leases, open().leases]
  await a.update(self, signal)
  await b.update(other, signal)
  await a.update(self, signal)
  await a.remove(self, signal)
  assert.deepEqual((await b.list(signal)).map((lease) => lease.holder?.state).sort(), ['ready', 'withdrawn'])
  await a.update(self, signal)
  assert.deepEqual((await b.list(signal)).map((lease) => lease.holder?.state).sort(), ['ready', 'ready'])
  await a.remove(self, signal)
  await b.remove(other, signal)
  await time.advance(ttlMs + 1_000)
  assert.deepEqual((await etcd.list('/registry/', { signal })).items, [])
})

test('an unready master that stops marks its record withdrawn if another master shares the lease', async () => {
  const { open } = openWorld()
  const [a, b] = [open().leases, open().leases]
  await b.update(other, signal)
  await a.update(self, signal)
  const unready = { ...self, state: 'unready' } as const
  await a.mark(unready, signal)
  await a.remove(unready, signal)
  assert.deepEqual((await b.list(signal)).map((lease) => lease.holder?.state).sort(), ['ready', 'withdrawn'])
})

test('a kube-apiserver at the same address is remembered from one renewal of a long lease to the next', async () => {
  const { time, etcd, open } = openWorld()
  const one = open({ ttlMs: 60_000 })
  await one.leases.update(self, signal)
  for (let round = 0; round < 2; round++) {
    await time.advance(20_000)
    const stored = await etcd.get(leaseKey, signal)
    const lease = (await etcd.grantLease(60, signal)).id
    await etcd.update(leaseKey, encodeMasterLease('192.0.2.1'), stored?.modRevision ?? 0n, { lease, signal })
    await time.advance(20_000)
    await one.leases.update(self, signal)
  }
  await time.advance(39_000)
  await one.leases.remove(self, signal)
  assert.deepEqual(await liveIn(one.leases), [{ address: '192.0.2.1' }])
})

test('neither a renewal whose answer was lost nor another master at the address is taken for a kube-apiserver', async () => {
  const { etcd, open } = openWorld()
  const [a, b] = [open(), open()]
  await a.leases.update(self, signal)
  a.fault = (call, place) => (place === 'after' && call.method === 'update' ? unreachable : undefined)
  await assert.rejects(a.leases.update(self, signal))
  a.fault = () => undefined
  for (let round = 0; round < 3; round++) {
    await a.leases.update(self, signal)
    await b.leases.update(other, signal)
  }
  await b.leases.remove(other, signal)
  await a.leases.remove(self, signal)
  assert.equal(await etcd.get(leaseKey, signal), undefined)
  assert.deepEqual([a.logger.lines, b.logger.lines], [[], []])
})

for (const flavour of ['etcd', 'kine'] as const) {
  test(`${flavour}: renewals whose answers are lost or late count as the master's own`, async () => {
    const { time, etcd, open } = openWorld(flavour)
    const master = open()
    await master.leases.update(self, signal)
    for (let round = 0; round < 4; round++) {
      await time.advance(5_000)
      for (const place of ['after', 'before', 'after'] as const) {
        const limit = new AbortController()
        master.fault = ({ key }, at) => (at === place && key === leaseKey ? new Promise(() => {}) : undefined)
        const given = assert.rejects(master.leases.update(self, limit.signal), { name: 'AbortError' })
        await time.advance(1_000)
        limit.abort()
        await given
      }
      master.fault = () => undefined
      await master.leases.update(self, signal)
    }
    assert.deepEqual(master.logger.lines, [])
    await master.leases.mark({ ...self, state: 'unready' }, signal)
    assert.equal(await etcd.get(leaseKey, signal), undefined, 'the lease is deleted')
  })
}

for (const flavour of ['etcd', 'kine'] as const) {
  for (const arrives of ['at once', 'late'] as const) {
    test(`${flavour}: an unready master deletes a lease whose creation was not answered and arrived ${arrives}`, async () => {
      const { etcd, open } = openWorld(flavour)
      const unready: Holder = { ...self, state: 'unready' }
      const master = open()
      await master.leases.update(self, signal)
      await master.leases.mark(unready, signal)
      master.fault = ({ key }, place) => (place === 'after' && key === leaseKey ? unreachable : undefined)
      await assert.rejects(master.leases.mark(self, signal), unreachable)
      master.fault = () => undefined
      const created = await etcd.get(leaseKey, signal)
      assert.ok(created !== undefined)
      if (arrives === 'late') {
        await etcd.delete(leaseKey, created.modRevision, signal)
        await master.leases.update(unready, signal)
        await etcd.create(leaseKey, created.value, { lease: created.lease, signal })
      }
      await master.leases.update(unready, signal)
      assert.equal(await etcd.get(leaseKey, signal), undefined)
      assert.equal((await master.leases.list(signal))[0]?.holder?.state, 'unready')
      await master.leases.mark(self, signal)
      assert.ok(await etcd.get(leaseKey, signal))
    })
  }
}

test('a master may stay after the first write of its removal was done without an answer', async () => {
  const { open } = openWorld()
  const master = open()
  await master.leases.update(self, signal)
  master.fault = ({ method }, place) => (method === 'update' && place === 'after' ? unreachable : undefined)
  await assert.rejects(master.leases.remove(self, signal), unreachable)
  assert.equal((await master.leases.list(signal))[0]?.holder?.state, 'withdrawn')
  master.fault = () => undefined
  await master.leases.update(self, signal)
  assert.deepEqual(await liveIn(master.leases), [{ address: '192.0.2.1', holder: self }])
})

test("no revision shows a lease of a master without its record: it would count as a kube-apiserver's", async () => {
  const { store, etcd, open } = openWorld()
  const [a, b] = [open().leases, open().leases]
  await a.update(self, signal)
  await b.update(other, signal)
  await a.mark({ ...self, state: 'unready' }, signal)
  await a.mark(self, signal)
  await Promise.all([a.remove(self, signal), b.remove(other, signal)])
  assert.deepEqual((await etcd.list('/registry/', { signal })).items, [])
  for (let revision = 2n; revision <= store.revision; revision++) {
    const keys = (await etcd.list('/registry/', { revision, signal })).items.map(({ key }) => key)
    const held = keys.some((key) => key.includes('/holders/'))
    assert.ok(held || !keys.includes(leaseKey), `${revision}: ${keys}`)
  }
})

test('a renewal or a removal can be repeated after any of its calls failed, with or without effect', async () => {
  for (const place of ['before', 'after'] as const) {
    for (const work of ['update', 'remove'] as const) {
      for (let failing = 1, failed = true; failed; failing++) {
        const { etcd, open } = openWorld()
        const master = open()
        if (work === 'remove') await master.leases.update(self, signal)
        let calls = 0
        failed = false
        master.fault = (_, at) => {
          if (at !== place || ++calls !== failing) return undefined
          failed = true
          return unreachable
        }
        const what = `${work}: call ${failing} fails ${place}`
        await master.leases[work](self, signal).catch((error: unknown) => assert.equal(error, unreachable))
        master.fault = () => undefined
        if (failed) await master.leases[work](self, signal)
        assert.deepEqual(await addressesOf(master.leases), work === 'update' ? ['192.0.2.1'] : [], what)
        const { items } = await etcd.list('/registry/', { signal })
        assert.equal(items.length, work === 'update' ? 2 : 0, what)
        if (work === 'remove') await master.leases.remove(self, signal)
      }
    }
  }
})

test('a master that joins a shared address at any moment while another one leaves has a lease', async () => {
  for (const leaving of ['remove', 'mark'] as const) {
    for (let moment = 1, came = true; came; moment++) {
      const { etcd, open } = openWorld()
      const [a, b] = [open(), open()]
      await a.leases.update(self, signal)
      let calls = 0
      came = false
      a.fault = async (_, place) => {
        if (place === 'after' || ++calls !== moment) return
        came = true
        await b.leases.update(other, signal)
      }
      if (leaving === 'remove') await a.leases.remove(self, signal)
      else await a.leases.mark({ ...self, state: 'unready' }, signal)
      if (!came) break
      assert.ok(await etcd.get(leaseKey, signal), `${leaving}: before call ${moment}`)
      assert.ok((await b.leases.list(signal)).some(({ holder: held }) => held?.host === 'other'))
    }
  }
})

test('if two masters leave a shared address at the same time, neither fails and nothing remains', async () => {
  for (const place of ['before', 'after'] as const) {
    for (let moment = 1, went = true; went; moment++) {
      const { time, etcd, open } = openWorld()
      const [a, b] = [open(), open()]
      await a.leases.update(self, signal)
      await b.leases.update(other, signal)
      let calls = 0
      went = false
      a.fault = async (_, at) => {
        if (at !== place || ++calls !== moment) return
        went = true
        await b.leases.remove(other, signal)
      }
      await a.leases.remove(self, signal)
      if (!went) await b.leases.remove(other, signal)
      assert.equal(await etcd.get(leaseKey, signal), undefined, `${place} call ${moment}`)
      assert.ok((await a.leases.list(signal)).every((lease) => lease.holder?.state === 'withdrawn'))
      await time.advance(ttlMs + 1_000)
      assert.deepEqual((await etcd.list('/registry/', { signal })).items, [], `${place} call ${moment}`)
    }
  }
})

test('a master may stay after its removal failed before the lease was deleted', async () => {
  const { open } = openWorld()
  const master = open()
  await master.leases.update(self, signal)
  master.fault = ({ method }) => (method === 'delete' ? unreachable : undefined)
  await assert.rejects(master.leases.remove(self, signal), unreachable)
  assert.equal((await master.leases.list(signal))[0]?.holder?.state, 'withdrawn')
  master.fault = () => undefined
  await master.leases.mark(self, signal)
  assert.deepEqual(await liveIn(master.leases), [{ address: '192.0.2.1', holder: self }])
})

test('another host takes over the lease of a dead master; the address stays listed, and the old record expires', async () => {
  for (const flavour of ['etcd', 'kine'] as const) {
    const { time, open } = openWorld(flavour)
    const [dead, next] = [open().leases, open().leases]
    await dead.update(other, signal)
    await time.advance(9_000)
    await next.update(self, signal)
    for (let atMs = 9_000; atMs <= 40_000; atMs += 1_000) {
      const hosts = (await next.list(signal)).map((lease) => lease.holder?.host)
      assert.deepEqual(hosts, atMs < ttlMs + 1_000 ? ['host', 'other'] : ['host'], `${atMs}`)
      if (atMs % 10_000 === 9_000) await next.update(self, signal)
      await time.advance(1_000)
    }
  }
})

test('a watch reports when it breaks and when it is established again, and then invokes its callback', async () => {
  const { time, open } = openWorld()
  const master = open()
  const end = new AbortController()
  let notifications = 0
  const ended = master.leases.watch(() => notifications++, end.signal)
  await time.advance(0)
  assert.equal(notifications, 2)
  master.breakWatches(unreachable)
  await time.advance(2_000)
  assert.equal(notifications, 4)
  end.abort()
  await ended
  assert.deepEqual(
    ['leases holders', 'leases masterleases'].map((source) =>
      master.reports.filter((report) => report.endsWith(source)).map((report) => report.split(' ')[0]),
    ),
    [
      ['succeeded', 'failed', 'succeeded', 'forget'],
      ['succeeded', 'failed', 'succeeded', 'forget'],
    ],
  )
})

test('a renewal that took longer than its lease is refused as a conflict; the next one succeeds', async () => {
  const { time, open } = openWorld()
  const master = open()
  await master.leases.update(self, signal)
  const thawed = Promise.withResolvers<void>()
  master.fault = ({ method, key }, place) =>
    place === 'before' && method === 'update' && key === leaseKey ? thawed.promise : undefined
  const renewal = master.leases.update(self, signal)
  await time.advance(60_000)
  thawed.resolve()
  await assert.rejects(renewal, { code: 'LeaseNotFound', nature: 'conflict' })
  await master.leases.update(self, signal)
  assert.deepEqual(await addressesOf(master.leases), ['192.0.2.1'])
})

test('a record that changes during a removal is read again; the lease is not deleted before the record is marked', async () => {
  const { store, etcd, open } = openWorld()
  const master = open()
  await master.leases.update(self, signal)
  let isChanged = false
  master.fault = async ({ method, key }, place) => {
    if (isChanged || place !== 'before' || method !== 'update' || key !== recordKey) return
    isChanged = true
    await open().leases.mark({ ...self, state: 'failing' }, signal)
  }
  const before = store.revision
  await master.leases.remove(self, signal)
  assert.deepEqual((await etcd.list('/registry/', { signal })).items, [])
  for (let revision = before; revision <= store.revision; revision++) {
    const { items } = await etcd.list('/registry/', { revision, signal })
    const state = items.find(({ key }) => key === recordKey)?.value
    const isMarked = state !== undefined && JSON.parse(Buffer.from(state).toString()).state === 'withdrawn'
    assert.ok(items.length === 0 || isMarked || items.some(({ key }) => key === leaseKey), `${revision}`)
  }
})

/** The live leases, without their renewals. */
async function liveIn(leases: MasterLeases): Promise<readonly MasterLease[]> {
  return (await leases.list(signal)).map(({ renewal: _, ...lease }) => lease)
}
