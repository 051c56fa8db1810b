import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Endpoints } from '../../../src/kube/resources.ts'
import type { Holder, MasterLease } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { keepingPlaces, listedAddresses, othersRemain } from '../../../src/kubernetes-service/members.ts'
import { encodeMasterLease } from '../../../src/protobuf/master-lease.ts'
import { isWrite, noSpace, type Opened, openWorld, signal, ttlMs } from './etcd-world.ts'
import { addressesOf, holder } from './holders.ts'

const self = (address: string): Holder => holder(address, { host: address })
const [first, second, third] = [self('192.0.2.1'), self('192.0.2.2'), self('192.0.2.3')]

const refusesWrites: Opened['fault'] = (call, place) => (place === 'before' && isWrite(call) ? noSpace : undefined)
const takesAll: Opened['fault'] = () => undefined

function endpointsOf(...ips: readonly string[]): Endpoints {
  return { subsets: [{ addresses: ips.map((ip) => ({ ip })) }] }
}

function doubtsOf(leases: readonly MasterLease[]): readonly string[] {
  return leases.map(({ address, doubtful }) => `${address}${doubtful === true ? '?' : ''}`).sort()
}

/** Follows the leases until the test is over. */
function follow(t: TestContext, { leases }: Opened): { looks: number } {
  const end = new AbortController()
  const seen = { looks: 0 }
  const ended = leases.watch(() => seen.looks++, end.signal)
  t.after(() => {
    end.abort()
    return ended
  })
  return seen
}

test('a lease that ends is believed ended at once, after one write that shows that the store takes any', async () => {
  const { time, open } = openWorld()
  const [a, b] = [open(), open()]
  await b.leases.update(second, signal)
  await time.advance(5_000)
  await a.leases.update(first, signal)
  assert.deepEqual(await addressesOf(a.leases), ['192.0.2.1', '192.0.2.2'])
  await time.advance(10_000)
  a.calls.length = 0
  assert.deepEqual(doubtsOf(await a.leases.list(signal)), ['192.0.2.1'])
  assert.deepEqual(
    a.calls.filter((call) => !call.startsWith('list')),
    ['update apiserver-bootstrap/holders/192.0.2.1/192.0.2.1'],
  )
  a.calls.length = 0
  assert.deepEqual(await addressesOf(a.leases), ['192.0.2.1'])
  await a.leases.update(first, signal)
  assert.deepEqual(a.calls, [
    'list masterleases/',
    'list apiserver-bootstrap/holders/',
    'grantLease',
    'grantLease',
    'update apiserver-bootstrap/holders/192.0.2.1/192.0.2.1',
    'update masterleases/192.0.2.1',
  ])
})

test('while the store takes no writes nobody is taken off, and who can write again first does not find itself alone', async () => {
  for (const flavour of ['etcd', 'kine'] as const) {
    const { time, etcd, open } = openWorld(flavour)
    const [a, b, c] = [open(), open(), open()]
    const masters = [
      { own: first, way: a },
      { own: second, way: b },
      { own: third, way: c },
    ]
    await etcd.create('/registry/masterleases/192.0.2.9', encodeMasterLease('192.0.2.9'), {
      lease: (await etcd.grantLease(15, signal)).id,
      signal,
    })
    const everybody = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.9']
    const listedBy = async ({ leases }: Opened) =>
      listedAddresses(keepingPlaces(await leases.list(signal), endpointsOf(...everybody)))
    for (const { own, way } of masters) {
      await way.leases.update(own, signal)
      await time.advance(3_000)
    }
    for (const { way } of masters) assert.deepEqual(await listedBy(way), everybody)

    for (const { way } of masters) way.fault = refusesWrites
    for (let passedMs = 0; passedMs < 60_000; passedMs += 1_000) {
      for (const [index, { own, way }] of masters.entries()) {
        // In step with their last renewals, so that the first leases end before everybody has tried to renew.
        if (passedMs % 10_000 === 1_000 + index * 3_000) await assert.rejects(way.leases.update(own, signal), noSpace)
        assert.deepEqual(await listedBy(way), everybody, `${passedMs}`)
      }
      await time.advance(1_000)
    }
    assert.deepEqual((await etcd.list('/registry/', { signal })).items, [])

    // There is room again. The third has died meanwhile, and the kube-apiserver does not come back.
    for (const { way } of masters) way.fault = takesAll
    await a.leases.update(first, signal)
    assert.deepEqual(doubtsOf(await a.leases.list(signal)), ['192.0.2.1', '192.0.2.2?', '192.0.2.3?', '192.0.2.9?'])
    await time.advance(5_000)
    assert.deepEqual(await listedBy(a), everybody)
    await b.leases.update(second, signal)
    assert.deepEqual(doubtsOf(await a.leases.list(signal)), ['192.0.2.1', '192.0.2.2', '192.0.2.3?', '192.0.2.9?'])
    await time.advance(5_000)
    await a.leases.update(first, signal)
    await time.advance(4_900)
    assert.deepEqual(await listedBy(a), everybody)
    await time.advance(200)
    assert.deepEqual(doubtsOf(await a.leases.list(signal)), ['192.0.2.1', '192.0.2.2'])
    await b.leases.update(second, signal)
    await time.advance(5_000)
    assert.deepEqual(doubtsOf(await b.leases.list(signal)), ['192.0.2.1', '192.0.2.2'])
  }
})

test('a renewal that was given up before it was answered counts as one that the store did not take', async () => {
  const { time, open } = openWorld()
  const [a, b] = [open(), open()]
  await a.leases.update(first, signal)
  await b.leases.update(second, signal)
  await a.leases.list(signal)
  await time.advance(10_000)
  a.fault = () => new Promise(() => {})
  const limit = new AbortController()
  const given = assert.rejects(a.leases.update(first, limit.signal), { name: 'AbortError' })
  limit.abort()
  await given
  await time.advance(5_000)
  a.fault = takesAll
  await a.leases.update(first, signal)
  assert.deepEqual(doubtsOf(await a.leases.list(signal)), ['192.0.2.1', '192.0.2.2?'])
})

test('a lease that ends before this master has had to renew is in doubt as well, and that is said once', async () => {
  const { time, open } = openWorld()
  const [a, b] = [open(), open()]
  await b.leases.update(second, signal)
  await time.advance(9_000)
  await a.leases.update(first, signal)
  await a.leases.list(signal)
  a.fault = refusesWrites
  await time.advance(6_000)
  for (let read = 1; read <= 3; read++) {
    assert.deepEqual(doubtsOf(await a.leases.list(signal)), ['192.0.2.1', '192.0.2.2?'])
  }
  assert.deepEqual(
    a.logger.lines.map(({ level, fields }) => [level, fields.addresses]),
    [['warn', ['192.0.2.2']]],
  )
})

test('a master that left on purpose is not kept, also by one that heard of it from its watch alone', async (t) => {
  for (const leaving of ['leave', 'remove'] as const) {
    const { time, open } = openWorld()
    const [a, b] = [open(), open()]
    follow(t, a)
    await a.leases.update(first, signal)
    await b.leases.update(second, signal)
    await a.leases.list(signal)
    a.fault = refusesWrites
    await assert.rejects(a.leases.update(first, signal), noSpace)
    if (leaving === 'leave') await b.leases.mark({ ...second, state: 'leaving' }, signal)
    await b.leases.remove(second, signal)
    await time.advance(100)
    assert.deepEqual(await addressesOf(a.leases), ['192.0.2.1'], leaving)
  }
})

test('when doubts end, a look is asked for', async (t) => {
  const { time, open } = openWorld()
  const [a, b] = [open(), open()]
  const seen = follow(t, a)
  await a.leases.update(first, signal)
  await b.leases.update(second, signal)
  await a.leases.list(signal)
  a.fault = refusesWrites
  await assert.rejects(a.leases.update(first, signal), noSpace)
  await time.advance(20_000)
  assert.deepEqual(doubtsOf(await a.leases.list(signal)), ['192.0.2.1?', '192.0.2.2?'])
  a.fault = takesAll
  await a.leases.update(first, signal)
  await time.advance(ttlMs - 100)
  await a.leases.update(first, signal)
  await time.advance(0)
  assert.deepEqual(doubtsOf(await a.leases.list(signal)), ['192.0.2.1', '192.0.2.2?'])
  const { looks } = seen
  await time.advance(200)
  assert.ok(seen.looks > looks)
  assert.deepEqual(doubtsOf(await a.leases.list(signal)), ['192.0.2.1'])
})

test('a doubtful lease keeps its place in the list and gets none, and nobody leaves on its account', () => {
  const leases: readonly MasterLease[] = [
    { address: '192.0.2.1', holder: { ...first, state: 'unready' } },
    { address: '192.0.2.2', holder: second, doubtful: true },
    { address: '192.0.2.9', doubtful: true },
  ]
  const listed = (...ips: readonly string[]) => listedAddresses(keepingPlaces(leases, endpointsOf(...ips)))
  assert.deepEqual(listed('192.0.2.2'), ['192.0.2.1', '192.0.2.2'])
  assert.deepEqual(listed('192.0.2.1', '192.0.2.9'), ['192.0.2.1', '192.0.2.9'])
  // Somebody has deleted the Endpoints: better too many than too few.
  assert.deepEqual(listedAddresses(keepingPlaces(leases, undefined)), ['192.0.2.1', '192.0.2.2', '192.0.2.9'])
  assert.equal(othersRemain(leases, first), false)
})
