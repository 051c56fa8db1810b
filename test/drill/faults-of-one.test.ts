import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultBounds, type FleetPlan, type Step } from '../../src/drill/scenario/scenario.ts'
import { type Drilled, drill, of, slices } from './drilled.ts'
import { addresses, fleetPlan } from './simulator/fleet-under-test.ts'

// Faults of one master's server or of the shared lease store. The built-in scenarios own-etcd-dead, unauthorized and
// datastore-outage cover such faults too.

const one = ['master-2']
const all = addresses(1, 2, 3)
const requests = { atMs: 12_000, action: 'requests-fail', masters: one } as const

interface Story {
  readonly leaseStore: FleetPlan['leaseStore']
  readonly steps: readonly Step[]
  /** The successive lists, oldest first. */
  readonly listed: readonly (readonly string[])[]
}

const stories: Readonly<Record<string, Story>> = {
  'all API servers are frozen for 16 s': {
    leaseStore: 'etcd',
    steps: [{ atMs: 12_000, action: 'freeze', masters: 'all', part: 'server', forMs: 16_000 }],
    listed: [all],
  },
  'one renewal is never answered': {
    leaseStore: 'kubernetes',
    steps: [lost({ how: 'hang', requests: 1 })],
    listed: [all],
  },
  'two renewals in a row are never answered': {
    leaseStore: 'kubernetes',
    steps: [lost({ how: 'hang', requests: 2 })],
    listed: [all],
  },
  'a renewal is answered with Retry-After: 6': {
    leaseStore: 'kubernetes',
    steps: [lost({ how: 'status', status: 429, retryAfterMs: 6_000, requests: 1 })],
    listed: [all],
  },
  'a sidecar alone is answered with 401 for half a minute': {
    leaseStore: 'etcd',
    steps: [{ ...requests, how: 'status', status: 401, forMs: 30_000 }],
    listed: [all],
  },
  'a sidecar alone is forbidden to probe': {
    leaseStore: 'kubernetes',
    steps: [{ ...requests, how: 'status', status: 403, only: 'probe', forMs: 30_000 }],
    listed: [all],
  },
  'a webhook delays each write of a lease by two seconds, and a master dies': {
    leaseStore: 'kubernetes',
    steps: [
      { ...requests, masters: 'all', how: 'delay', byMs: 2_000, resource: 'leases', verb: 'update', forMs: 78_000 },
      { atMs: 40_000, action: 'kill', masters: ['master-3'], part: 'both' },
    ],
    listed: [all, addresses(1, 2)],
  },
  'nobody may read /readyz while all sidecars are restarted one by one': {
    leaseStore: 'kubernetes',
    steps: [
      { ...requests, masters: 'all', how: 'status', status: 403, only: 'probe', forMs: 78_000 },
      {
        atMs: 25_000,
        action: 'rolling-restart',
        masters: ['master-1', 'master-2', 'master-3'],
        part: 'sidecar',
        pauseMs: 2_000,
      },
    ],
    listed: [all],
  },
  'watches are cut more often than leases end, and a master dies': {
    leaseStore: 'kubernetes',
    steps: [
      { ...requests, masters: 'all', how: 'cut-watches', everyMs: 10_000, forMs: 78_000 },
      { atMs: 25_000, action: 'kill', masters: ['master-3'], part: 'both' },
    ],
    listed: [all, addresses(1, 2)],
  },
  'nobody may delete leases, and a master dies': {
    leaseStore: 'kubernetes',
    steps: [
      { ...requests, masters: 'all', how: 'status', status: 403, resource: 'leases', verb: 'delete', forMs: 78_000 },
      { atMs: 25_000, action: 'kill', masters: ['master-3'], part: 'both' },
    ],
    listed: [all, addresses(1, 2)],
  },
}

/** A fault that the next renewals of one master's lease meet. */
function lost(how: Omit<Extract<Step, { action: 'requests-fail' }>, 'atMs' | 'action' | 'masters'>): Step {
  return { ...requests, resource: 'leases', verb: 'update', forMs: 25_000, ...how }
}

for (const [name, { leaseStore, steps, listed }] of Object.entries(stories)) {
  test(`leases in ${leaseStore}: no violation, and only the expected lists, when ${name}`, async () => {
    const drilled = await drill(fleetPlan(3, { leaseStore }), steps, { durationMs: 90_000 })
    assert.deepEqual(drilled.violations, [])
    assert.deepEqual(since(drilled, 10_000), listed)
  })
}

test('a datastore outage does not change the list, whichever recovery times the seed gives the servers', async () => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    const steps: readonly Step[] = [{ atMs: 12_000, action: 'datastore-outage', how: 'away', forMs: 20_000 }]
    const drilled = await drill(fleetPlan(3), steps, { durationMs: 60_000, seed })
    assert.deepEqual([seed, drilled.violations, since(drilled, 10_000)], [seed, [], [all]])
  }
})

test('a foreign address whose watch events are lost is not listed at the end', async () => {
  const steps: readonly Step[] = [
    { ...requests, masters: 'all', how: 'lose-event', resource: 'endpoints', forMs: 20_000 },
    { ...requests, masters: 'all', how: 'lose-event', resource: 'endpointslices', forMs: 20_000 },
    { atMs: 12_500, action: 'damage', damage: 'endpoints-with-a-foreign-address' },
  ]
  const drilled = await drill(fleetPlan(3), steps, { durationMs: 60_000 })
  const lists = of(drilled, 'listed').filter(({ object, atMs }) => object === 'endpoints' && atMs >= 12_500)
  const [damaged, corrected, ...more] = lists
  assert.deepEqual([damaged?.damage, corrected?.addresses, more], [true, all, []])
  // The next reconcile of a master reads the list.
  const correctedMs = corrected?.atMs ?? Number.POSITIVE_INFINITY
  assert.ok(correctedMs < 12_500 + 10_000 + defaultBounds.agreementMs, `wrong until ${correctedMs}`)
  assert.deepEqual(since(drilled, 10_000), [all], 'the slices')
})

/** The lists of the slice at that time and after it. */
function since(drilled: Drilled, fromMs: number): readonly (readonly string[])[] {
  const lists = slices(drilled)
  const before = lists.findLast(({ atMs }) => atMs <= fromMs)
  return [...(before ? [before] : []), ...lists.filter(({ atMs }) => atMs > fromMs)].map(({ addresses: list }) => list)
}
