import assert from 'node:assert/strict'
import type { TestContext, test } from 'node:test'
import {
  type Holder,
  LeaseNotFound,
  LeaseWithdrawn,
  type MasterLeases,
} from '../../../src/kubernetes-service/leases/master-leases.ts'

/** A store and as many masters' views of it as are asked for, all following the leases. */
export interface LeaseStore {
  open(): MasterLeases
  /** How often each opened view was told to look. */
  readonly looks: readonly number[]
  /** Resolves when whoever follows the leases has heard of everything. */
  settled(): Promise<void>
}

const { signal } = new AbortController()

/** A master at this address that is ready, in its first life. */
export function holder(address: string, more: Partial<Holder> = {}): Holder {
  return {
    instanceId: `${address} first`,
    host: 'host',
    startedAt: '2026-01-01T00:00:00Z',
    addresses: [address],
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
    ...more,
  }
}

export async function addressesOf(leases: MasterLeases): Promise<string[]> {
  return (await leases.list(signal)).map(({ address }) => address).sort()
}

/** What every lease store does, whatever it keeps the leases in; how long a lease lasts is tested where time can be told to pass. */
export function masterLeasesContract(
  define: typeof test,
  name: string,
  setUp: (t: TestContext) => Promise<LeaseStore>,
): void {
  define(`${name}: a lease is seen by all, with its holder`, async (t) => {
    const { open } = await setUp(t)
    const [a, b] = [open(), open()]
    await a.update(holder('192.0.2.1'), signal)
    await b.update(holder('2001:db8::2', { host: 'a host/with %' }), signal)
    assert.deepEqual(await addressesOf(b), ['192.0.2.1', '2001:db8::2'])
    const held = (await a.list(signal)).map((lease) => lease.holder)
    assert.deepEqual(
      held.sort((one, two) => (one?.instanceId ?? '').localeCompare(two?.instanceId ?? '')),
      [holder('192.0.2.1'), holder('2001:db8::2', { host: 'a host/with %' })],
    )
  })

  define(`${name}: a renewal asks nobody to look, a change of state does`, async (t) => {
    const { open, looks, settled } = await setUp(t)
    const [a] = [open(), open()]
    await a.update(holder('192.0.2.1'), signal)
    await settled()
    const before = looks[1] ?? Number.NaN
    await a.update(holder('192.0.2.1'), signal)
    await a.update(holder('192.0.2.1'), signal)
    await settled()
    assert.equal(looks[1], before)
    await a.mark(holder('192.0.2.1', { state: 'unready' }), signal)
    await settled()
    assert.ok((looks[1] ?? 0) > before)
    assert.equal((await a.list(signal))[0]?.holder?.state, 'unready')
  })

  define(`${name}: a life that has a second address, or wants another port, asks for a look`, async (t) => {
    const { open, looks, settled } = await setUp(t)
    const [a] = [open(), open()]
    const ports = { securePort: 6444, nodePort: 0 }
    await a.update(holder('192.0.2.1'), signal)
    for (const more of [{ addresses: ['192.0.2.1', '2001:db8::1'] }, { ports }]) {
      await settled()
      const before = looks[1] ?? Number.NaN
      await a.update(holder('192.0.2.1', more), signal)
      await settled()
      assert.ok((looks[1] ?? 0) > before, Object.keys(more).join())
    }
  })

  define(`${name}: marking makes no lease`, async (t) => {
    const { open } = await setUp(t)
    const a = open()
    await a.mark(holder('192.0.2.9'), signal)
    assert.deepEqual(await addressesOf(a), [])
  })

  define(`${name}: every state is seen by all, and an unready master comes back`, async (t) => {
    const { open } = await setUp(t)
    const [a, b] = [open(), open()]
    await a.update(holder('192.0.2.1'), signal)
    for (const state of ['failing', 'unready', 'leaving', 'unready', 'ready', 'leaving', 'ready'] as const) {
      await a.mark(holder('192.0.2.1', { state }), signal)
      const seen = (await b.list(signal)).map((lease) => [lease.address, lease.holder?.state])
      assert.deepEqual(seen, [['192.0.2.1', state]])
      await a.update(holder('192.0.2.1', { state }), signal)
      assert.deepEqual(await addressesOf(b), ['192.0.2.1'], state)
    }
  })

  define(
    `${name}: a later life of the same master takes its lease over, and the earlier cannot remove it`,
    async (t) => {
      const { open } = await setUp(t)
      const [a, b] = [open(), open()]
      await a.update(holder('192.0.2.1'), signal)
      await b.update(holder('192.0.2.1', { instanceId: 'second' }), signal)
      assert.deepEqual(await addressesOf(b), ['192.0.2.1'])
      await a.remove(holder('192.0.2.1'), signal)
      assert.equal((await b.list(signal))[0]?.holder?.instanceId, 'second')
      await b.remove(holder('192.0.2.1', { instanceId: 'second' }), signal)
      assert.deepEqual(await addressesOf(b), [])
      await assert.rejects(b.remove(holder('192.0.2.1', { instanceId: 'second' }), signal), LeaseNotFound)
    },
  )

  define(
    `${name}: while two lives of one master overlap, the earlier neither takes the lease back nor removes it`,
    async (t) => {
      const { open } = await setUp(t)
      const [a, b] = [open(), open()]
      const first = holder('192.0.2.1')
      const second = holder('192.0.2.1', { instanceId: 'second', startedAt: '2026-01-01T00:00:01Z' })
      await a.update(first, signal)
      await b.update(second, signal)
      const held = async () => (await b.list(signal)).map((lease) => [lease.holder?.instanceId, lease.holder?.state])
      await a.update(first, signal)
      await a.update(first, signal)
      assert.deepEqual(await held(), [['second', 'ready']])
      await a.mark({ ...first, state: 'leaving' }, signal)
      await a.remove({ ...first, state: 'leaving' }, signal)
      assert.deepEqual(await held(), [['second', 'ready']])
      await a.update(first, signal)
      assert.deepEqual(await held(), [['second', 'ready']])
    },
  )

  define(`${name}: two masters behind one address have a lease each`, async (t) => {
    const { open } = await setUp(t)
    const [a, b] = [open(), open()]
    const other = holder('192.0.2.1', { host: 'other', instanceId: 'other' })
    for (let round = 1; round <= 2; round++) {
      await a.update(holder('192.0.2.1'), signal)
      await b.update(other, signal)
    }
    assert.deepEqual(await addressesOf(a), ['192.0.2.1', '192.0.2.1'])
    await a.remove(holder('192.0.2.1'), signal)
    assert.deepEqual(await addressesOf(a), ['192.0.2.1'])
    await b.update(other, signal)
    await b.remove(other, signal)
    assert.deepEqual(await addressesOf(a), [])
  })

  define(`${name}: two masters behind one address may remove their leases at the same moment`, async (t) => {
    const { open } = await setUp(t)
    const [a, b] = [open(), open()]
    const other = holder('192.0.2.1', { host: 'other', instanceId: 'other' })
    await a.update(holder('192.0.2.1'), signal)
    await b.update(other, signal)
    await Promise.all([a.remove(holder('192.0.2.1'), signal), b.remove(other, signal)])
    assert.deepEqual(await addressesOf(a), [])
  })

  define(
    `${name}: an instance that was withdrawn by somebody else cannot announce itself again, a later life can`,
    async (t) => {
      const { open } = await setUp(t)
      const [a, b] = [open(), open()]
      await a.update(holder('192.0.2.1'), signal)
      await b.mark(holder('192.0.2.1', { state: 'withdrawn' }), signal)
      await assert.rejects(a.update(holder('192.0.2.1'), signal), LeaseWithdrawn)
      await assert.rejects(a.mark(holder('192.0.2.1', { state: 'unready' }), signal), LeaseWithdrawn)
      await assert.rejects(a.update(holder('192.0.2.1'), signal), LeaseWithdrawn)
      assert.equal((await a.list(signal))[0]?.holder?.state, 'withdrawn')
      await b.update(holder('192.0.2.1', { instanceId: 'second' }), signal)
      assert.equal((await a.list(signal))[0]?.holder?.state, 'ready')
    },
  )
}
