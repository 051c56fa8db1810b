import assert from 'node:assert/strict'
import { type Holder, LeaseWithdrawn, type MasterLeases } from '../kubernetes-service/leases/master-leases.ts'
import {
  addressesIn,
  giveUp,
  holder,
  holdersIn,
  type LeaseWorld,
  signal,
  statesIn,
  WatchedStore,
} from './watched-leases.ts'

export type { LeaseWorld } from './watched-leases.ts'

/**
 * `lasting`: leases must outlast the case, for which a TTL of a minute is enough. `ending`: leases must expire during
 * the case, so their TTL should be some seconds.
 */
export type LeaseLifetime = 'lasting' | 'ending'

/** One rule of the contract. `run` rejects with an AssertionError if the store violates it. */
export interface LeaseContractCase {
  readonly name: string
  run(): Promise<void>
}

/**
 * The contract of every {@link MasterLeases}, for any test runner:
 *
 * `for (const { name, run } of masterLeasesContract(makeWorld)) test(name, run)`
 *
 * In real time, a case of expiring leases waits for less than three TTLs.
 *
 * @param makeWorld - called once for each case, with the lifetime that the case needs.
 */
export function masterLeasesContract(
  makeWorld: (lifetime: LeaseLifetime) => LeaseWorld | Promise<LeaseWorld>,
): readonly LeaseContractCase[] {
  return cases.map(({ name, lifetime = 'lasting', run }) => ({
    name,
    async run() {
      const world = await makeWorld(lifetime)
      const store = new WatchedStore(world)
      try {
        await run({ a: store.open(), b: store.open(), store })
      } finally {
        await store.end()
        await world.close()
      }
    },
  }))
}

interface Case {
  readonly name: string
  readonly lifetime?: LeaseLifetime
  /** `a` and `b` are the clients of two masters. */
  readonly run: (given: {
    readonly a: MasterLeases
    readonly b: MasterLeases
    readonly store: WatchedStore
  }) => Promise<void>
}

const self = holder('192.0.2.1')
const second = holder('192.0.2.1', { instanceId: 'second', startedAt: '2026-01-01T00:00:01Z' })
const behindTheSameAddress = holder('192.0.2.1', { host: 'other', instanceId: 'other' })

const { ports: _, ...withoutPorts } = self

/** Texts in the place of a record that no store may list. */
const unreadable: readonly string[] = [
  '{',
  '{}',
  'null',
  JSON.stringify(withoutPorts),
  JSON.stringify({ ...self, addresses: ['127.0.0.1'] }),
]

const cases: readonly Case[] = [
  {
    name: 'every client lists each lease with its holder',
    async run({ a, b }) {
      const other = holder('2001:db8::2', { host: 'a host/with %' })
      await a.update(self, signal)
      await b.update(other, signal)
      assert.deepEqual(await addressesIn(b), ['192.0.2.1', '2001:db8::2'])
      const held = (await a.list(signal)).map((lease) => lease.holder)
      assert.deepEqual(
        held.sort((one) => (one?.host === 'host' ? -1 : 1)),
        [self, other],
      )
    },
  },
  {
    name: 'a change of state is reported, a renewal is not',
    async run({ a, b, store }) {
      await a.update(self, signal)
      await store.untilReported(b, 0)
      await store.settle()
      const before = store.changesOf(b)
      await a.update(self, signal)
      await a.update(self, signal)
      await store.settle()
      assert.equal(store.changesOf(b), before)
      await a.mark({ ...self, state: 'unready' }, signal)
      await store.untilReported(b, before)
      assert.deepEqual(await statesIn(a), [['192.0.2.1', 'unready']])
    },
  },
  {
    name: 'a change of each field of a holder is reported, and all clients read the whole holder',
    async run({ a, b, store }) {
      await a.update(self, signal)
      await store.untilReported(b, 0)
      const changes: readonly Partial<Holder>[] = [
        { addresses: ['192.0.2.1', '2001:db8::1'] },
        { ports: { securePort: 6444, nodePort: 30_443 } },
        { state: 'failing', departure: '192.0.2.1 first 1', reason: 'own-etcd' },
        { confirms: ['192.0.2.2 first 1', '192.0.2.3 first 7'] },
      ]
      for (const change of changes) {
        await store.settle()
        const before = store.changesOf(b)
        const changed = { ...self, ...change }
        await a.mark(changed, signal)
        await store.untilReported(b, before, `a change of ${Object.keys(change).join(' and ')}`)
        assert.deepEqual((await b.list(signal))[0]?.holder, changed)
      }
    },
  },
  {
    name: '`renewal` changes with each renewal and with nothing else',
    async run({ a, b, store }) {
      const renewal = async (): Promise<string | undefined> => (await b.list(signal))[0]?.renewal
      await a.update(self, signal)
      const first = await renewal()
      if (first === undefined) return
      assert.equal(await renewal(), first, 'another read shows the same')
      await a.mark({ ...self, state: 'failing' }, signal)
      assert.equal(await renewal(), first, 'a mark is no renewal')
      await store.world.pass(10)
      await a.update({ ...self, state: 'failing' }, signal)
      assert.notEqual(await renewal(), first)
    },
  },
  {
    name: 'mark creates no lease',
    async run({ a }) {
      await a.mark(self, signal)
      assert.deepEqual(await addressesIn(a), [])
    },
  },
  {
    name: 'every client reads each state, and an unready master can become ready again',
    async run({ a, b }) {
      await a.update(self, signal)
      for (const state of ['failing', 'unready', 'leaving', 'unready', 'ready', 'leaving', 'ready'] as const) {
        await a.mark({ ...self, state }, signal)
        assert.deepEqual(await statesIn(b), [['192.0.2.1', state]])
        await a.update({ ...self, state }, signal)
        assert.deepEqual(await statesIn(b), [['192.0.2.1', state]])
      }
    },
  },
  {
    name: 'a later instance of a master takes over its lease, and the earlier instance cannot remove it',
    async run({ a, b }) {
      await a.update(self, signal)
      await b.update(second, signal)
      assert.deepEqual(await addressesIn(b), ['192.0.2.1'])
      await a.remove(self, signal)
      assert.equal((await b.list(signal))[0]?.holder?.instanceId, 'second')
      await b.remove(second, signal)
      assert.deepEqual(await addressesIn(b), [])
      await b.remove(second, signal)
    },
  },
  {
    name: 'while two instances of one master run, the earlier one can neither take the lease back nor remove it',
    async run({ a, b }) {
      await a.update(self, signal)
      await b.update(second, signal)
      const isSecond = async (): Promise<void> =>
        assert.deepEqual(
          (await b.list(signal)).map((lease) => lease.holder),
          [second],
        )
      await a.update(self, signal)
      await a.update(self, signal)
      await isSecond()
      await a.mark({ ...self, state: 'leaving' }, signal)
      await a.remove({ ...self, state: 'leaving' }, signal)
      await isSecond()
      await a.update(self, signal)
      await isSecond()
      // The same holds if the host's clock was set back between the two lives.
      await a.mark({ ...self, state: 'leaving', startedAt: '2026-01-01T00:00:02Z' }, signal)
      await isSecond()
    },
  },
  {
    name: 'two masters with one address have a lease each',
    async run({ a, b }) {
      for (let round = 1; round <= 2; round++) {
        await a.update(self, signal)
        await b.update(behindTheSameAddress, signal)
      }
      assert.deepEqual(await addressesIn(a), ['192.0.2.1', '192.0.2.1'])
      await a.remove(self, signal)
      assert.deepEqual(await addressesIn(a), ['192.0.2.1'])
      await b.update(behindTheSameAddress, signal)
      await b.remove(behindTheSameAddress, signal)
      assert.deepEqual(await addressesIn(a), [])
    },
  },
  {
    name: 'two masters with one address can remove their leases at the same time',
    async run({ a, b }) {
      await a.update(self, signal)
      await b.update(behindTheSameAddress, signal)
      await Promise.all([a.remove(self, signal), b.remove(behindTheSameAddress, signal)])
      assert.deepEqual(await addressesIn(a), [])
    },
  },
  {
    name: 'an instance that another client withdrew can neither renew nor mark its lease; a later instance can',
    async run({ a, b }) {
      await a.update(self, signal)
      await b.mark({ ...self, state: 'withdrawn' }, signal)
      await assert.rejects(a.update(self, signal), LeaseWithdrawn)
      await assert.rejects(a.mark({ ...self, state: 'unready' }, signal), LeaseWithdrawn)
      await assert.rejects(a.update(self, signal), LeaseWithdrawn)
      assert.deepEqual(await statesIn(a), [['192.0.2.1', 'withdrawn']])
      await b.update(second, signal)
      assert.deepEqual(await statesIn(a), [['192.0.2.1', 'ready']])
    },
  },
  {
    name: 'a record that cannot be read spoils only its entry, and the next renewal of its master replaces it',
    async run({ a, b, store }) {
      const { world } = store
      if (world.spoil === undefined) return
      const other = holder('192.0.2.2', { host: 'other' })
      for (const text of unreadable) {
        await a.update(self, signal)
        await world.spoil(self, text)
        await b.update(other, signal)
        assert.deepEqual(await holdersIn(b), [other], `beside the record ${text}`)
        await a.update(self, signal)
        assert.deepEqual(await addressesIn(b), ['192.0.2.1', '192.0.2.2'], `after the record ${text}`)
      }
    },
  },
  {
    name: 'a call with an aborted signal rejects with its reason and changes nothing',
    async run({ a, b }) {
      const reason = new Error('out of time')
      const over = AbortSignal.abort(reason)
      const isReason = (error: unknown): boolean => error === reason
      await assert.rejects(a.update(self, over), isReason)
      assert.deepEqual(await addressesIn(b), [])
      await a.update(self, signal)
      await assert.rejects(a.mark({ ...self, state: 'unready' }, over), isReason)
      await assert.rejects(a.remove(self, over), isReason)
      await assert.rejects(a.list(over), isReason)
      assert.deepEqual(await statesIn(b), [['192.0.2.1', 'ready']])
    },
  },
  {
    name: 'after aborted calls, whether carried out or not, the next call of the same master succeeds',
    async run({ a, b, store }) {
      for (let round = 1; round <= 4; round++) {
        await giveUp(store, round, (aborted) => a.update(self, aborted))
        await giveUp(store, round, (aborted) => a.update(self, aborted))
        await a.update(self, signal)
        assert.deepEqual(await statesIn(b), [['192.0.2.1', 'ready']])
      }
      for (const state of ['failing', 'unready', 'ready', 'leaving'] as const) {
        const giveMarkUp = (turns: number) => giveUp(store, turns, (aborted) => a.mark({ ...self, state }, aborted))
        await giveMarkUp(2)
        await a.update(self, signal)
        await store.settle()
        assert.deepEqual(await statesIn(b), [['192.0.2.1', 'ready']], 'an aborted attempt arrived late')
        await giveMarkUp(1)
        await a.mark({ ...self, state }, signal)
        assert.deepEqual(await statesIn(b), [['192.0.2.1', state]])
      }
      await giveUp(store, 1, (aborted) => a.remove({ ...self, state: 'leaving' }, aborted))
      await a.remove({ ...self, state: 'leaving' }, signal)
      assert.deepEqual(await addressesIn(b), [])
    },
  },
  {
    name: 'a lease expires, which is reported, once its TTL has passed since the last renewal',
    lifetime: 'ending',
    async run({ a, b, store }) {
      const { ttlMs } = store.world
      await a.update(self, signal)
      await store.world.pass(0.6 * ttlMs)
      assert.deepEqual(await addressesIn(b), ['192.0.2.1'])
      await a.update(self, signal)
      await store.world.pass(0.6 * ttlMs)
      assert.deepEqual(await addressesIn(b), ['192.0.2.1'], 'it was renewed')
      const before = store.changesOf(b)
      await store.untilNobodyIsListed(b, 0.6 * ttlMs)
      await store.untilReported(b, before, 'the end of a lease')
      assert.deepEqual(await addressesIn(a), [])
    },
  },
  {
    name: 'mark does not change when a lease expires',
    lifetime: 'ending',
    async run({ a, b, store }) {
      const { ttlMs } = store.world
      await a.update(self, signal)
      await store.world.pass(0.3 * ttlMs)
      await a.mark({ ...self, state: 'failing' }, signal)
      await store.world.pass(0.4 * ttlMs)
      assert.deepEqual(await addressesIn(b), ['192.0.2.1'])
      await a.mark({ ...self, state: 'failing' }, signal)
      await store.untilNobodyIsListed(b, 0.7 * ttlMs)
    },
  },
  {
    name: 'the next renewal of its master creates an expired lease again',
    lifetime: 'ending',
    async run({ a, b, store }) {
      await a.update(self, signal)
      await store.untilNobodyIsListed(b, 0)
      await a.update(self, signal)
      assert.deepEqual(await addressesIn(b), ['192.0.2.1'])
    },
  },
  {
    // As after a host's clock that was set back between two lives.
    name: 'an ended lease of a later life hinders nobody',
    lifetime: 'ending',
    async run({ a, b, store }) {
      await a.update(second, signal)
      await store.untilNobodyIsListed(b, 0)
      await b.update(self, signal)
      await b.mark({ ...self, state: 'failing' }, signal)
      assert.deepEqual(await holdersIn(a), [{ ...self, state: 'failing' }])
    },
  },
  {
    name: 'an ended lease that was withdrawn hinders no other life',
    lifetime: 'ending',
    async run({ a, b, store }) {
      await a.update(second, signal)
      await b.mark({ ...second, state: 'withdrawn' }, signal)
      await store.untilNobodyIsListed(b, 0)
      await b.update(self, signal)
      await b.update(self, signal)
      assert.deepEqual(await holdersIn(a), [self])
    },
  },
  {
    name: 'an expired lease is not listed until its master renews it, even if no client may delete it',
    lifetime: 'ending',
    async run({ a, b, store }) {
      await a.update(self, signal)
      store.world.refuseDeletes?.()
      await store.untilNobodyIsListed(b, 0)
      await store.world.pass(0.5 * store.world.ttlMs)
      assert.deepEqual(await addressesIn(b), [])
      await a.update(self, signal)
      assert.deepEqual(await addressesIn(b), ['192.0.2.1'])
    },
  },
]
