import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../../src/kube/errors.ts'
import {
  type Holder,
  LeaseWithdrawn,
  type MasterLease,
  type MasterLeases,
} from '../../../src/kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../../src/kubernetes-service/leases/memory.ts'
import { dryRunLeases, reliableLeases } from '../../../src/kubernetes-service/leases/wrappers.ts'
import { RemoteError } from '../../../src/runtime/errors.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { RequestLimit } from '../../../src/runtime/request-limit.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { masterLeasesContract } from '../../../src/verify/master-leases-contract.ts'
import { holder, spoilIn } from './holders.ts'

const { signal } = new AbortController()
const self = holder('192.0.2.1')

function reliable(time: VirtualClock, store: MasterLeases, logger = memoryLogger()): MasterLeases {
  const clock = time.view()
  const limit = new RequestLimit({ clock, limitMs: 60_000 })
  return reliableLeases(store, { clock, random: seededRandom(1, 'store'), logger, limit })
}

/** A store whose methods all do the same. */
function storeThat(work: () => Promise<never>): MasterLeases {
  return { list: work, update: work, mark: work, remove: work, watch: work }
}

for (const { name, run } of masterLeasesContract(() => {
  const time = new VirtualClock()
  const registry = new MemoryLeaseRegistry(time.view())
  const open = (): MasterLeases => reliable(time, new MemoryLeases(registry, { ttlMs: 15_000 }))
  const spoil = async (of: Holder, text: string): Promise<void> => spoilIn(registry, of, text)
  return { ttlMs: 15_000, open, pass: (ms) => time.advance(ms), spoil, async close() {} }
})) {
  test(`a wrapped store still fulfils the contract: ${name}`, run)
}

test('an error of the store that the contract does not name counts as away', async () => {
  const failures: unknown[] = [new TypeError('x is not a function'), 'a text', undefined, new Error('ECONNREFUSED')]
  for (const failure of failures) {
    const thrown = storeThat(() => Promise.reject(failure))
    const thrownAtOnce = storeThat(() => {
      throw failure
    })
    for (const store of [thrown, thrownAtOnce]) {
      const leases = reliable(new VirtualClock(), store)
      for (const attempt of [leases.list(signal), leases.update(self, signal), leases.mark(self, signal)]) {
        await assert.rejects(attempt, (error) => {
          assert.ok(error instanceof RemoteError)
          assert.deepEqual([error.nature, error.code, error.cause], ['away', 'LeaseStoreFailed', failure])
          return true
        })
      }
    }
  }
})

test('an error that the contract names is passed on unchanged', async () => {
  for (const failure of [new LeaseWithdrawn('192.0.2.1'), new KubeError('Forbidden', 'no')]) {
    const leases = reliable(
      new VirtualClock(),
      storeThat(() => Promise.reject(failure)),
    )
    await assert.rejects(leases.remove(self, signal), (error) => error === failure)
  }
})

test('an attempt ends with its signal, even if the store ignores the signal', async () => {
  const time = new VirtualClock()
  const leases = reliable(
    time,
    storeThat(() => new Promise(() => {})),
  )
  const stop = new AbortController()
  const attempts = Promise.allSettled([
    leases.list(stop.signal),
    leases.update(self, stop.signal),
    leases.watch(() => {}, stop.signal),
  ])
  await time.advance(1_000)
  stop.abort('out of time')
  await time.advance(0)
  const rejected = { status: 'rejected', reason: 'out of time' }
  assert.deepEqual(await attempts, [rejected, rejected, { status: 'fulfilled', value: undefined }])
})

test('a watch that fails or ends is started again after growing pauses, and the callback is invoked each time', async () => {
  const time = new VirtualClock()
  const begun: number[] = []
  const leases = reliable(time, {
    ...storeThat(() => Promise.reject(new Error('away'))),
    watch() {
      begun.push(time.nowMs)
      return begun.length % 2 === 0 ? Promise.resolve() : Promise.reject(new Error('away'))
    },
  })
  let notifications = 0
  const stop = new AbortController()
  const watching = leases.watch(() => notifications++, stop.signal)
  await time.advance(60_000)
  stop.abort()
  await watching
  assert.equal(notifications, begun.length - 1)
  const distances = begun.slice(1).map((ms, index) => ms - (begun[index] ?? 0))
  assert.ok(begun.length >= 7 && begun.length <= 11, `${begun.length} tries in a minute`)
  assert.deepEqual(
    distances.map((ms) => ms >= 500 && ms <= 11_000),
    distances.map(() => true),
  )
  // Each pause is twice the one before, up to the longest of 10 s, plus a tenth at most.
  const [first = 0] = distances
  assert.ok(first <= 550, `${distances}`)
  for (const [index, ms] of distances.slice(0, 4).entries()) assert.ok((distances[index + 1] ?? 0) >= 1.8 * ms)
})

const other = holder('192.0.2.2', { host: 'other' })
const { ports: _, ...withoutPorts } = other
const circular: Record<string, unknown> = { ...other }
circular.self = circular

/** Entries of which the types say that no store lists them. */
const unusable: Readonly<Record<string, unknown>> = {
  'a record without ports': { address: '192.0.2.2', holder: withoutPorts },
  'a record with a loopback address': { address: '192.0.2.2', holder: { ...other, addresses: ['127.0.0.1'] } },
  'an empty record': { address: '192.0.2.2', holder: {} },
  'null as its record': { address: '192.0.2.2', holder: null },
  'a text as its record': { address: '192.0.2.2', holder: '{' },
  'a record that contains itself': { address: '192.0.2.2', holder: circular },
  'a loopback address': { address: '127.0.0.1', holder: other },
  'an address that is not in canonical form': { address: '2001:DB8::1', holder: other },
  'no address': { holder: other },
  'an address and host that are no texts': { address: { ip: 1 }, holder: { host: 7 } },
  nothing: undefined,
}

for (const [description, entry] of Object.entries(unusable)) {
  test(`a listed entry with ${description} is left out, and spoils no other entry`, async () => {
    const leases = reliable(new VirtualClock(), {
      ...storeThat(() => Promise.reject(new Error('unused'))),
      list: async () => [{ address: '192.0.2.1', holder: self }, entry as MasterLease, { address: '192.0.2.3' }],
    })
    assert.deepEqual(await leases.list(signal), [{ address: '192.0.2.1', holder: self }, { address: '192.0.2.3' }])
  })
}

test('an unusable entry is logged once, with its store, address and host, for as long as it exists', async () => {
  class ListedLeases extends MemoryLeases {
    listed: unknown[] = []
    override list = async (): Promise<MasterLease[]> => this.listed as MasterLease[]
  }
  const time = new VirtualClock()
  const logger = memoryLogger()
  const store = new ListedLeases(new MemoryLeaseRegistry(time.view()), { ttlMs: 15_000 })
  const leases = reliable(time, store, logger)
  const bad = { address: '192.0.2.2', holder: withoutPorts }
  const loopback = { address: '127.0.0.1' }
  for (const listed of [[bad], [bad, bad], [bad, loopback], [], [bad]]) {
    store.listed = listed
    assert.deepEqual(await leases.list(signal), [])
  }
  const ofBad = { store: 'ListedLeases', address: '192.0.2.2', host: 'other', reason: 'has no valid holder record' }
  const ofLoopback = {
    ...{ store: 'ListedLeases', address: '127.0.0.1', host: undefined },
    reason: 'has no address that can be listed',
  }
  assert.deepEqual(
    logger.lines.map(({ level, message, fields }) => [level, message, fields]),
    [ofBad, ofLoopback, ofBad].map((fields) => ['warn', 'an entry in the lease store cannot be used', fields]),
  )
})

test('a listed record of a later version counts as in the other stores, and a changed object counts as it is now', async () => {
  const listed = { ...other, state: 'draining', later: 1 }
  const leases = reliable(new VirtualClock(), {
    ...storeThat(() => Promise.reject(new Error('unused'))),
    list: async () => [{ address: '192.0.2.2', holder: listed as unknown as Holder, renewal: '1' }],
  })
  const expected = { address: '192.0.2.2', holder: { ...other, state: 'failing' }, renewal: '1' }
  assert.deepEqual(await leases.list(signal), [expected])
  listed.state = 'ready'
  assert.deepEqual(await leases.list(signal), [{ ...expected, holder: other }])
})

test('a list that is no array is an error of the store', async () => {
  const listsNothing = storeThat(() => Promise.resolve(undefined as never))
  await assert.rejects(reliable(new VirtualClock(), listsNothing).list(signal), {
    code: 'LeaseStoreFailed',
    message: 'lease store: list: the store did not return an array',
  })
})

test('in a dry run every ready master counts as confirming a departure', async () => {
  const time = new VirtualClock()
  const registry = new MemoryLeaseRegistry(time.view())
  const others = new MemoryLeases(registry, { ttlMs: 15_000 })
  await others.update(holder('192.0.2.2'))
  await others.update({ ...holder('192.0.2.3'), state: 'failing' })
  const leases = dryRunLeases(others, memoryLogger())
  await leases.update(self, signal)
  const confirms = async () => (await leases.list(signal)).map(({ holder: other }) => other?.confirms)
  assert.deepEqual(await confirms(), [undefined, undefined, undefined])
  await leases.mark({ ...self, state: 'leaving', departure: 'a/1' }, signal)
  assert.deepEqual(await confirms(), [['a/1'], undefined, undefined])
})
