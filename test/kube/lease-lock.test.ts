import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import type { CallOptions } from '../../src/kube/api.ts'
import { claimedSpec, LeaseLock } from '../../src/kube/lease-lock.ts'
import { type Lease, leases, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { passedOn } from './passed-on.ts'

const ref = { namespace: 'kube-system', name: 'election' }
const { signal } = new AbortController()

test('a Lease that does not exist is created, with whole seconds and the time of the wall clock', async () => {
  const { lock, stored, requests } = await setUp()
  const one = lock('one')
  assert.equal(one.holder, undefined)
  assert.equal(await one.take(signal), true)
  assert.equal(one.holder, 'one')
  assert.deepEqual(requests, ['get', 'create'])
  assert.deepEqual((await stored())?.spec, {
    holderIdentity: 'one',
    leaseDurationSeconds: 15,
    acquireTime: '2026-01-01T00:00:00.000000Z',
    renewTime: '2026-01-01T00:00:00.000000Z',
    leaseTransitions: 0,
  })
})

test('a renewal is one request, and changes only renewTime', async () => {
  const { lock, stored, requests, time } = await setUp()
  const one = lock('one')
  await one.take(signal)
  const before = (await stored())?.spec
  requests.splice(0)
  await time.advance(2_000)
  await one.renew(signal)
  await time.advance(2_000)
  await one.renew(signal)
  assert.deepEqual(requests, ['update', 'update'])
  assert.deepEqual((await stored())?.spec, { ...before, renewTime: '2026-01-01T00:00:04.000000Z' })
  await one.take(signal)
  assert.deepEqual(
    (await stored())?.spec,
    { ...before, renewTime: '2026-01-01T00:00:04.000000Z' },
    "taking one's own lease changes nothing",
  )
})

test('a renewal from an outdated state, or of a deleted Lease, is a Conflict; then the Lease can be taken again', async () => {
  const { lock, api, stored } = await setUp()
  const one = lock('one')
  await one.take(signal)
  await api.patch(leases, ref, { type: 'merge', body: { metadata: { labels: { a: 'b' } } } }, { fieldManager: 'test' })
  await assert.rejects(one.renew(signal), { code: 'Conflict' })
  assert.equal(await one.take(signal), true)
  await one.renew(signal)
  assert.deepEqual((await stored())?.metadata?.labels, { a: 'b' })
  await api.delete(leases, ref, {})
  await assert.rejects(one.renew(signal), { code: 'Conflict' })
  assert.equal(await one.take(signal), true)
})

test('a Lease of another holder is taken only when its duration has passed since its last observed renewal', async () => {
  const { lock, stored, requests, time } = await setUp()
  // The clock of `one` is far behind: only observed renewals count.
  const [one, two] = [lock('one', { skewMs: -3_600_000 }), lock('two')]
  await one.take(signal)
  await time.advance(10_000)
  requests.splice(0)
  assert.equal(await two.take(signal), false)
  assert.equal(two.holder, 'one')
  await time.advance(14_999)
  assert.equal(await two.take(signal), false)
  assert.deepEqual(requests, ['get', 'get'])
  await time.advance(1)
  assert.equal(await two.take(signal), true)
  const spec = (await stored())?.spec
  assert.deepEqual([spec?.holderIdentity, spec?.leaseTransitions], ['two', 1])
  assert.equal(spec?.acquireTime, '2026-01-01T00:00:25.000000Z')
  assert.equal(await one.take(signal), false)
})

test('each renewal restarts the wait for a Lease, and any other change does not', async () => {
  const { lock, api, time } = await setUp()
  const [one, two] = [lock('one'), lock('two')]
  await one.take(signal)
  assert.equal(await two.take(signal), false)
  await time.advance(14_000)
  await one.renew(signal)
  await time.advance(500)
  assert.equal(await two.take(signal), false)
  await time.advance(14_999)
  await api.patch(leases, ref, { type: 'merge', body: { metadata: { labels: { a: 'b' } } } }, { fieldManager: 'test' })
  assert.equal(await two.take(signal), false)
  await time.advance(1)
  assert.equal(await two.take(signal), true)
})

test('a change of any field of a claim counts as a renewal', async () => {
  for (const [field, value] of Object.entries({
    holderIdentity: 'three',
    leaseDurationSeconds: 16,
    acquireTime: '2026-01-01T00:00:01.000000Z',
    renewTime: '2026-01-01T00:00:01.000000Z',
    leaseTransitions: 5,
  })) {
    const { lock, api, time } = await setUp()
    const [one, two] = [lock('one'), lock('two')]
    await one.take(signal)
    await two.take(signal)
    await time.advance(14_000)
    await api.patch(leases, ref, { type: 'merge', body: { spec: { [field]: value } } }, { fieldManager: 'test' })
    await two.take(signal)
    await time.advance(14_999)
    assert.equal(await two.take(signal), false, field)
    await time.advance(1_001)
    assert.equal(await two.take(signal), true, field)
  }
})

test('a candidate waits as long as the Lease of the holder specifies, or without that as long as its own duration', async () => {
  const { lock, api, time } = await setUp()
  const [one, two] = [lock('one', {}, 30_000), lock('two', {}, 10_000)]
  await one.take(signal)
  await two.take(signal)
  await time.advance(29_999)
  assert.equal(await two.take(signal), false)
  const body = { spec: { leaseDurationSeconds: null } }
  await api.patch(leases, ref, { type: 'merge', body }, { fieldManager: 'test' })
  assert.equal(await two.take(signal), false)
  await time.advance(9_999)
  assert.equal(await two.take(signal), false)
  await time.advance(1)
  assert.equal(await two.take(signal), true)
})

test('a Lease that is deleted while held is created only when its duration has passed', async () => {
  const { lock, api, time, requests } = await setUp()
  const [one, two] = [lock('one', {}, 30_000), lock('two')]
  await one.take(signal)
  await two.take(signal)
  await api.delete(leases, ref, {})
  requests.splice(0)
  await time.advance(29_999)
  assert.equal(await two.take(signal), false)
  assert.equal(two.holder, 'one')
  await time.advance(1)
  assert.equal(await two.take(signal), true)
  assert.deepEqual(requests, ['get', 'get', 'create'])
})

test('a Lease without a holder is taken at once', async () => {
  const { lock, stored } = await setUp()
  const [one, two] = [lock('one'), lock('two')]
  await one.take(signal)
  await two.take(signal)
  await one.release(signal)
  assert.equal(one.holder, undefined)
  assert.equal(await two.take(signal), true)
  assert.equal((await stored())?.spec?.leaseTransitions, 1)
})

test('when two candidates create a Lease at the same time, one of them fails', async () => {
  const { lock, requests } = await setUp()
  const both = (names: readonly string[]) => Promise.allSettled(names.map((name) => lock(name).take(signal)))
  const created = await both(['one', 'two'])
  assert.deepEqual(created[0], { status: 'fulfilled', value: true })
  assert.equal((created[1] as PromiseRejectedResult).reason.code, 'AlreadyExists')
  assert.deepEqual(requests, ['get', 'get', 'create', 'create'])
})

test('a released Lease has no holder, preserves leaseTransitions, and contains the time', async () => {
  const { lock, stored, time, requests } = await setUp()
  const one = lock('one')
  await one.take(signal)
  await time.advance(3_000)
  requests.splice(0)
  await one.release(signal)
  assert.deepEqual(requests, ['get', 'update'])
  assert.deepEqual((await stored())?.spec, {
    holderIdentity: '',
    leaseDurationSeconds: 1,
    acquireTime: '2026-01-01T00:00:03.000000Z',
    renewTime: '2026-01-01T00:00:03.000000Z',
    leaseTransitions: 0,
  })
  await one.release(signal)
  assert.deepEqual(requests, ['get', 'update', 'get'], 'once')
})

test('a Lease that another has taken meanwhile, or that is gone, is not released', async () => {
  const { lock, api, stored, requests, time } = await setUp()
  const [one, two] = [lock('one'), lock('two')]
  await one.take(signal)
  await two.take(signal)
  await time.advance(15_000)
  await two.take(signal)
  requests.splice(0)
  await one.release(signal)
  assert.equal((await stored())?.spec?.holderIdentity, 'two')
  await api.delete(leases, ref, {})
  await two.release(signal)
  assert.deepEqual(requests, ['get', 'get'])
})

test('fields that others wrote into the Lease are preserved', async () => {
  const { lock, api, sent } = await setUp((lease) => ({ ...lease, spec: { ...lease.spec, theirs: 'b' } }) as Lease)
  const one = lock('one')
  await one.take(signal)
  const body = { metadata: { annotations: { theirs: 'a' } } }
  await api.patch(leases, ref, { type: 'merge', body }, { fieldManager: 'test' })
  await one.take(signal)
  await one.release(signal)
  for (const { metadata, spec } of sent) {
    assert.deepEqual([metadata?.annotations, (spec as { theirs?: string }).theirs], [{ theirs: 'a' }, 'b'])
  }
  assert.equal(sent.length, 2)
})

test('a failed write does not change the known state, and a failed read rejects', async () => {
  const { lock, time, fail } = await setUp()
  const one = lock('one')
  await one.take(signal)
  fail('update')
  await assert.rejects(one.renew(signal), /out of order/)
  assert.equal(one.holder, 'one')
  fail('get')
  await time.advance(1_000)
  await assert.rejects(one.take(signal), /out of order/)
  await assert.rejects(one.release(signal), /out of order/)
  fail(undefined)
  await one.renew(signal)
})

test('every request carries the abort signal', async () => {
  const { lock, signals } = await setUp()
  const one = lock('one')
  await one.take(signal)
  await one.renew(signal)
  await one.release(signal)
  assert.deepEqual(
    signals,
    Array.from({ length: 5 }, () => signal),
  )
})

test('a claim counts a transition when the holder changes, and preserves acquireTime when it does not', () => {
  const clock = new VirtualClock().view()
  const now = '2026-01-01T00:00:00.000000Z'
  const claim = (spec?: NonNullable<Lease['spec']>) => {
    const lease = spec && ({ spec } as Lease)
    const { acquireTime, leaseTransitions } = claimedSpec(lease, 'one', 15, clock)
    return [acquireTime, leaseTransitions]
  }
  const since = '2025-01-01T00:00:00.000000Z'
  assert.deepEqual(claim(), [now, 0])
  assert.deepEqual(claim({ holderIdentity: 'one', acquireTime: since, leaseTransitions: 3 }), [since, 3])
  assert.deepEqual(claim({ holderIdentity: 'one' }), [now, 0])
  assert.deepEqual(claim({ holderIdentity: 'two', acquireTime: since, leaseTransitions: 3 }), [now, 4])
  assert.deepEqual(claim({ holderIdentity: '', acquireTime: since }), [now, 1])
})

/** An API server and processes that compete for a Lease of 15 s. `read` transforms the Lease that they read. */
async function setUp(read = (lease: Lease): Lease => lease) {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'lock')
  const server = restKubeApi({ transport: inProcessTransport(createApiServer({ clock, random })), clock, random })
  await server.create(namespaces, { metadata: { name: ref.namespace } })
  const requests: string[] = []
  const sent: Lease[] = []
  const signals: (AbortSignal | undefined)[] = []
  let failing: string | undefined
  const made = <T>(name: string, options: CallOptions | undefined, call: () => Promise<T>): Promise<T> => {
    requests.push(name)
    signals.push(options?.signal)
    return name === failing ? Promise.reject(new Error('out of order')) : call()
  }
  const api = passedOn(server, {
    get: (resource, of, options) =>
      made('get', options, async () => read((await server.get(resource, of, options)) as Lease) as never),
    create: (resource, object, options) => made('create', options, () => server.create(resource, object, options)),
    update(resource, object, options) {
      sent.push(object as Lease)
      return made('update', options, () => server.update(resource, object, options))
    },
  })
  const lock = (identity: string, view: { readonly skewMs?: number } = {}, leaseDurationMs = 15_000): LeaseLock =>
    new LeaseLock({ api, clock: time.view(view), ...ref, identity, leaseDurationMs })
  const stored = (): Promise<Lease | undefined> => server.get(leases, ref)
  return {
    time,
    api: server,
    lock,
    stored,
    requests,
    sent,
    signals,
    fail(call: string | undefined): void {
      failing = call
    },
  }
}
