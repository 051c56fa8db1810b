import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Conductor } from '../../src/drill/conductor.ts'
import type { DrillRecorder } from '../../src/drill/recorder.ts'
import type { Step } from '../../src/drill/scenario/scenario.ts'
import type { DrillTarget, Primitive } from '../../src/drill/target.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { atEnd, type Drilled, drill, of, scenarioOf, slices } from './drilled.ts'
import { addresses, fleetPlan, masterPlan } from './simulator/fleet-under-test.ts'

/** What the conductor did after the fleet had started, as text. */
function done({ primitives }: Drilled): readonly string[] {
  return primitives
    .filter(({ atMs }) => atMs >= 0)
    .map(({ atMs, primitive }) => `${Math.round(atMs)} ${words(primitive)}`)
}

function words(primitive: Primitive): string {
  return Object.values(primitive)
    .map((value) => (typeof value === 'object' ? ((value as { name?: string }).name ?? JSON.stringify(value)) : value))
    .join(' ')
}

const one = ['master-1']

test('time 0 is the moment when the last master is listed, and earlier events have negative times', async () => {
  const drilled = await drill(fleetPlan(3), [], { durationMs: 5_000 })
  const [listed] = slices(drilled).filter(({ addresses: all }) => all.length === 3)
  assert.equal(listed?.atMs, 0)
  assert.ok(drilled.events.some(({ atMs }) => atMs < 0))
  assert.ok(drilled.events.every(({ atMs }) => atMs === Math.round(atMs * 1000) / 1000 && !Object.is(atMs, -0)))
  assert.deepEqual(drilled.reported, drilled.events)
  assert.deepEqual(drilled.violations, [])
})

const undone: readonly { readonly step: Step; readonly expected: readonly string[] }[] = [
  {
    step: { atMs: 1_000, action: 'kill', masters: one, part: 'both', forMs: 20_000 },
    expected: [
      '1000 kill master-1 server',
      '1000 kill master-1 sidecar',
      '21000 start master-1 server',
      '21000 start master-1 sidecar',
    ],
  },
  {
    step: { atMs: 1_000, action: 'freeze', masters: one, part: 'server', forMs: 5_000 },
    expected: ['1000 freeze master-1 server', '6000 thaw master-1 server'],
  },
  {
    step: { atMs: 1_000, action: 'partition', masters: one, from: 'store', forMs: 5_000 },
    expected: [
      '1000 cut master-1 store',
      '1000 cut master-1 server-store',
      '6000 heal master-1 store',
      '6000 heal master-1 server-store',
    ],
  },
  {
    step: { atMs: 1_000, action: 'slow', masters: one, from: 'api', byMs: 200, forMs: 5_000 },
    expected: ['1000 slow master-1 api 200', '6000 slow master-1 api 0'],
  },
  {
    step: { atMs: 1_000, action: 'readyz-fails', masters: one, how: 'unready', forMs: 1_500 },
    expected: ['1000 readyz master-1 unready', '2500 readyz master-1 ready'],
  },
  {
    step: {
      atMs: 1_000,
      ...{ action: 'requests-fail', masters: one, how: 'status', status: 429, retryAfterMs: 2_000 },
      ...{ resource: 'leases', verb: 'update', requests: 2, forMs: 5_000 },
    },
    expected: ['fault', 'no-fault'].map(
      (type, index) =>
        `${index * 5_000 + 1_000} ${type} master-1 {"fault":{"type":"status","status":429,"retryAfterMs":2000},"resource":"leases","verb":"update","requests":2}`,
    ),
  },
  {
    step: { atMs: 1_000, action: 'own-etcd-dead', masters: one, how: 'hangs', forMs: 2_000 },
    expected: ['1000 own-etcd master-1 hangs', '3000 own-etcd master-1 ok'],
  },
  {
    step: { atMs: 1_000, action: 'datastore-outage', how: 'full', forMs: 5_000 },
    expected: ['1000 datastore full', '6000 datastore up'],
  },
  {
    step: { atMs: 1_000, action: 'apiserver-outage', masters: 'all', forMs: 5_000 },
    expected: [
      '1000 kill master-1 server',
      '1000 kill master-2 server',
      '6000 start master-1 server',
      '6000 start master-2 server',
    ],
  },
  {
    step: { atMs: 1_000, action: 'restart', masters: one, part: 'sidecar', signal: 'kill', pauseMs: 2_000 },
    expected: ['1000 kill master-1 sidecar', '3000 start master-1 sidecar'],
  },
  {
    step: {
      atMs: 1_000,
      action: 'restart',
      masters: one,
      part: 'sidecar',
      signal: 'terminate',
      pauseMs: 0,
      overlapMs: 3_000,
    },
    expected: ['1000 start master-1 sidecar', '4000 terminate-earlier master-1'],
  },
  {
    step: { atMs: 1_000, action: 'clock-skew', masters: one, byMs: -5_000 },
    expected: ['1000 clock-skew master-1 -5000'],
  },
  { step: { atMs: 1_000, action: 'compact' }, expected: ['1000 compact'] },
  { step: { atMs: 1_000, action: 'damage', damage: 'slice-deleted' }, expected: ['1000 damage slice-deleted'] },
  { step: { atMs: 1_000, action: 'reset-connections', masters: one }, expected: ['1000 reset-connections master-1'] },
]

for (const { step, expected } of undone) {
  test(`the step ${step.action} performs exactly: ${expected.join(', ')}`, async () => {
    const drilled = await drill(fleetPlan(2), [step])
    assert.deepEqual(done(drilled), expected)
    assert.deepEqual(slices(drilled).at(-1)?.addresses, addresses(1, 2))
    assert.deepEqual(drilled.violations, [])
  })
}

test('a terminated master withdraws first, serves for two more seconds, then refuses connections', async () => {
  const drilled = await drill(fleetPlan(3), [
    { atMs: 1_000, action: 'terminate', masters: one, part: 'both', forMs: 20_000 },
  ])
  const out = slices(drilled).find(({ atMs }) => atMs > 0)
  const states = of(drilled, 'state').filter(({ master, atMs }) => master === 'master-1' && atMs > 0)
  const ended = states.find(({ sidecar }) => sidecar === 'down')
  const refused = states.find(({ clientConnections }) => clientConnections === 'refused')
  const back = states.find(
    ({ atMs, clientConnections }) => atMs > (refused?.atMs ?? 0) && clientConnections === 'served',
  )
  assert.deepEqual(out?.addresses, addresses(2, 3))
  assert.ok(out !== undefined && ended !== undefined && refused !== undefined)
  assert.ok(out.atMs < ended.atMs && refused.atMs === ended.atMs + 2_000, JSON.stringify(states))
  assert.equal(back?.atMs, 21_000)
  assert.deepEqual(drilled.violations, [])
})

test('a sidecar that does not end within its grace period is killed', async () => {
  const drilled = await drill(fleetPlan(2), [
    { atMs: 1_000, action: 'freeze', masters: one, part: 'sidecar' },
    { atMs: 2_000, action: 'terminate', masters: one, part: 'sidecar' },
  ])
  assert.deepEqual(done(drilled), [
    '1000 freeze master-1 sidecar',
    '2000 terminate master-1 sidecar',
    '32000 kill master-1 sidecar',
  ])
})

test('a terminate step restarts the sidecar only after it has ended, even if `for` is shorter', async () => {
  const drilled = await drill(fleetPlan(2), [
    { atMs: 1_000, action: 'freeze', masters: one, part: 'sidecar' },
    { atMs: 2_000, action: 'terminate', masters: one, part: 'sidecar', forMs: 1_000 },
  ])
  assert.deepEqual(done(drilled), [
    '1000 freeze master-1 sidecar',
    '2000 terminate master-1 sidecar',
    '32000 kill master-1 sidecar',
    '32000 start master-1 sidecar',
  ])
})

test('a step that ends does not undo a fault that another step still holds', async () => {
  const drilled = await drill(fleetPlan(3), [
    { atMs: 1_000, action: 'partition', masters: one, from: 'api', forMs: 10_000 },
    { atMs: 2_000, action: 'partition', masters: one, from: 'all', forMs: 20_000 },
    { atMs: 3_000, action: 'readyz-fails', masters: one, how: 'unready', forMs: 2_000 },
    { atMs: 4_000, action: 'readyz-fails', masters: one, how: 'hangs', forMs: 10_000 },
  ])
  assert.deepEqual(done(drilled).slice(5), [
    '3000 readyz master-1 unready',
    '4000 readyz master-1 hangs',
    '14000 readyz master-1 ready',
    '22000 heal master-1 api',
    '22000 heal master-1 store',
    '22000 heal master-1 server-store',
    '22000 heal master-1 clients',
  ])
  assert.deepEqual(drilled.violations, [])
})

test('no running part is started again, and a replaced master is never restarted', async () => {
  const drilled = await drill(fleetPlan(3), [
    { atMs: 1_000, action: 'kill', masters: one, part: 'sidecar', forMs: 20_000 },
    { atMs: 5_000, action: 'start', masters: one, part: 'sidecar' },
    { atMs: 6_000, action: 'start', masters: one, part: 'both' },
    { atMs: 7_000, action: 'kill', masters: ['master-2'], part: 'both', forMs: 20_000 },
    { atMs: 9_000, action: 'replace', masters: ['master-2'], pauseMs: 1_000 },
    { atMs: 15_000, action: 'kill', masters: ['master-2'], part: 'sidecar', forMs: 1_000 },
  ])
  const starts = done(drilled).filter((line) => line.includes('start'))
  assert.deepEqual(starts, [
    '5000 start master-1 sidecar',
    '6000 start master-1 server',
    '10000 start master-2-anew server',
    '10000 start master-2-anew sidecar',
    '16000 start master-2-anew sidecar',
  ])
  assert.deepEqual(slices(drilled).at(-1)?.addresses, addresses(1, 2, 3))
})

test('heal undoes partitions, slowness and failing readiness of the masters that it names, and nothing else', async () => {
  const drilled = await drill(fleetPlan(2), [
    { atMs: 1_000, action: 'partition', masters: 'all', from: 'clients' },
    { atMs: 1_500, action: 'slow', masters: one, from: 'store', byMs: 50 },
    { atMs: 1_700, action: 'readyz-fails', masters: one, how: 'unready' },
    { atMs: 2_000, action: 'freeze', masters: one, part: 'server' },
    { atMs: 3_000, action: 'heal', masters: one },
    { atMs: 4_000, action: 'thaw', masters: one, part: 'server' },
  ])
  assert.deepEqual(done(drilled).slice(5), [
    '3000 heal master-1 clients',
    '3000 slow master-1 store 0',
    '3000 readyz master-1 ready',
    '4000 thaw master-1 server',
  ])
  assert.equal(atEnd(drilled, 'master-2')?.clientConnections, 'black-holed')
})

test('a rolling restart restarts one master at a time, each after the previous one is listed again', async () => {
  for (const part of ['sidecar', 'both'] as const) {
    const drilled = await drill(fleetPlan(3), [
      { atMs: 1_000, action: 'rolling-restart', masters: 'all', part, pauseMs: 1_000 },
    ])
    const lists = slices(drilled).filter(({ atMs }) => atMs > 0)
    assert.ok(
      lists.every(({ addresses: all }) => all.length >= 2),
      JSON.stringify(lists),
    )
    assert.equal(lists.length, 6)
    assert.ok((lists.at(-1)?.atMs ?? 0) < 20_000, 'no step waits for its time limit')
    assert.deepEqual(drilled.violations, [])
  }
})

test('a rolling restart without a pause stops the next master at the moment the previous one is listed again', async () => {
  const drilled = await drill(fleetPlan(3), [
    { atMs: 1_000, action: 'rolling-restart', masters: 'all', part: 'sidecar', pauseMs: 0 },
  ])
  const lists = slices(drilled).filter(({ atMs }) => atMs > 0)
  assert.deepEqual(
    lists.map(({ addresses: all }) => all.length),
    [2, 3, 2, 3, 2, 3],
  )
  const again = lists.filter(({ addresses: all }) => all.length === 3).map(({ atMs }) => Math.round(atMs))
  const ended = drilled.primitives.filter(({ primitive }) => primitive.type === 'terminate')
  assert.deepEqual(
    ended.slice(1).map(({ atMs }) => Math.round(atMs)),
    again.slice(0, 2),
  )
})

for (const part of ['sidecar', 'server'] as const) {
  test(`a rolling restart skips a master whose ${part} another step has stopped`, async () => {
    const drilled = await drill(fleetPlan(3), [
      { atMs: 1_000, action: 'kill', masters: one, part, forMs: 40_000 },
      { atMs: 5_000, action: 'rolling-restart', masters: 'all', part, pauseMs: 1_000 },
    ])
    const starts = done(drilled).filter((line) => line.includes('start'))
    assert.deepEqual(
      starts.map((line) => line.replace(/^\d+ /, '')),
      [`start master-2 ${part}`, `start master-3 ${part}`, `start master-1 ${part}`],
    )
    assert.ok(Number.parseInt(starts[0] ?? '', 10) < 8_000, starts[0])
  })
}

test('roll-config gives each master its new settings, and a successor inherits those of its predecessor', async () => {
  const settings = { leaseTtlMs: 6_000, reconcileIntervalMs: 3_000 }
  const drilled = await drill(
    fleetPlan(2),
    [
      { atMs: 1_000, action: 'roll-config', masters: 'all', settings, pauseMs: 500 },
      { atMs: 20_000, action: 'replace', masters: one, pauseMs: 0 },
    ],
    { durationMs: 40_000 },
  )
  assert.deepEqual(
    drilled.primitives.flatMap(({ primitive }) => (primitive.type === 'configure' ? [primitive] : [])),
    ['master-1', 'master-2'].map((master) => ({ type: 'configure', master, settings })),
  )
  const added = drilled.primitives.flatMap(({ primitive }) => (primitive.type === 'add' ? [primitive.master] : []))
  assert.deepEqual(added.at(-1), masterPlan(1, { name: 'master-1-anew', settings, skewMs: 60_000 }))
  assert.deepEqual(drilled.violations, [])
})

test('scale adds masters with new addresses, and removes the last ones for good', async () => {
  const drilled = await drill(fleetPlan(2), [
    { atMs: 1_000, action: 'scale', to: 4 },
    { atMs: 15_000, action: 'scale', to: 1 },
  ])
  const lists = slices(drilled)
  assert.ok(lists.some(({ addresses: all }) => JSON.stringify(all) === JSON.stringify(addresses(1, 2, 3, 4))))
  assert.deepEqual(lists.at(-1)?.addresses, addresses(1))
  assert.equal(atEnd(drilled, 'master-3')?.clientConnections, 'refused')
  assert.deepEqual(drilled.violations, [])
})

test('scale does not count a master that is still stopping', async () => {
  const drilled = await drill(fleetPlan(3), [
    { atMs: 1_000, action: 'scale', to: 2 },
    { atMs: 1_050, action: 'scale', to: 3 },
  ])
  assert.deepEqual(slices(drilled).at(-1)?.addresses, addresses(1, 2, 4))
  assert.deepEqual(drilled.violations, [])
})

test('a drill waits for a step that lasts longer than its duration', async () => {
  const drilled = await drill(
    fleetPlan(2),
    [{ atMs: 1_000, action: 'kill', masters: one, part: 'both', forMs: 30_000 }],
    { durationMs: 10_000 },
  )
  assert.equal(done(drilled).at(-1), '31000 start master-1 sidecar')
})

test('invariants are still judged after the duration while a step is under way', async () => {
  const drilled = await drill(
    fleetPlan(3, { reconciler: 'none' }),
    [
      { atMs: 1_000, action: 'kill', masters: one, part: 'both' },
      { atMs: 2_000, action: 'slow', masters: ['master-2'], from: 'api', byMs: 10, forMs: 60_000 },
      { atMs: 40_000, action: 'kill', masters: ['master-3'], part: 'both' },
    ],
    { durationMs: 5_000 },
  )
  const foundMs = drilled.violations.map(({ atMs }) => atMs)
  assert.ok(
    foundMs.some((atMs) => atMs > 5_000 && atMs < 30_000),
    foundMs.join(),
  )
  assert.ok(
    foundMs.some((atMs) => atMs > 55_000),
    foundMs.join(),
  )
})

test('a fleet that does not come up ends the drill with a one-line error that names the missing master', async () => {
  const perform = (primitive: Primitive) =>
    primitive.type === 'start' && primitive.master === 'master-2' ? Promise.resolve() : undefined
  await assert.rejects(drill(fleetPlan(2), [], { perform }), {
    name: 'DrillError',
    message:
      'the fleet did not come up within 90 s: masters are at 192.0.2.1, 192.0.2.2; listed: 192.0.2.1; not healthy: master-2',
  })
})

test('a master that fails before the fleet has come up ends the drill with an error that names it and the cause', async () => {
  const full = drill(fleetPlan(2), [], {
    perform: (primitive, target) =>
      primitive.type === 'add'
        ? target.perform({ type: 'datastore', state: 'full' }).then(() => target.perform(primitive))
        : undefined,
  })
  await assert.rejects(full, {
    name: 'DrillError',
    message:
      'the fleet did not come up: master-1: PostStartHook "bootstrap-controller" failed: still refused after 1m0s: mvcc: database space exceeded',
  })
})

test('a step that fails ends the drill, and no other step continues', async () => {
  const seen: Primitive[] = []
  const perform = (primitive: Primitive) => {
    seen.push(primitive)
    return primitive.type === 'compact' ? Promise.reject(new Error('no etcd to compact')) : undefined
  }
  const steps: readonly Step[] = [
    { atMs: 1_000, action: 'kill', masters: one, part: 'both', forMs: 30_000 },
    { atMs: 5_000, action: 'compact' },
    { atMs: 5_000, action: 'damage', damage: 'slice-deleted' },
    { atMs: 6_000, action: 'damage', damage: 'slice-deleted' },
  ]
  await assert.rejects(drill(fleetPlan(2), steps, { perform }), { message: 'no etcd to compact' })
  assert.equal(seen.filter(({ type }) => type === 'damage').length <= 1, true)
  assert.notEqual(seen.at(-1)?.type, 'start')
})

test('an aborted signal ends a drill at once, with its reason', async () => {
  const controller = new AbortController()
  const perform = (primitive: Primitive) => {
    if (primitive.type === 'damage') controller.abort(new Error('enough'))
    return undefined
  }
  const steps: readonly Step[] = [
    { atMs: 1_000, action: 'damage', damage: 'slice-deleted' },
    { atMs: 1_000, action: 'kill', masters: one, part: 'both', forMs: 1_000_000 },
  ]
  await assert.rejects(drill(fleetPlan(2), steps, { perform, signal: controller.signal }), { message: 'enough' })
  await assert.rejects(drill(fleetPlan(2), steps, { signal: controller.signal }), { message: 'enough' })
})

for (const reconciler of ['master-count', 'none'] as const) {
  test(`with ${reconciler} the fleet comes up, and a dead master is still listed at the end`, async () => {
    const drilled = await drill(fleetPlan(3, { reconciler }), [
      { atMs: 1_000, action: 'kill', masters: one, part: 'both' },
    ])
    assert.deepEqual(slices(drilled).at(-1)?.addresses, addresses(1, 2, 3))
    assert.ok(drilled.violations.some(({ invariant }) => invariant === 'dead-master-removed'))
    assert.deepEqual(of(drilled, 'leases'), [])
  })
}

test('with apiserverCount below the number of masters, the fleet has come up once every place is taken', async () => {
  const drilled = await drill(fleetPlan(3, { reconciler: 'master-count', apiserverCount: 2 }), [], {
    durationMs: 1_000,
  })
  const { atMs, addresses: listed } = slices(drilled).findLast((list) => list.atMs <= 0) ?? assert.fail()
  assert.deepEqual([atMs, listed.length], [0, 2])
})

test('the conductor checks real processes twice a second while nothing happens', async () => {
  const time = new VirtualClock()
  const checksMs: number[] = []
  const target = { kind: 'live', clock: time.view(), members: [], async perform() {} } as unknown as DrillTarget
  const recorder = {
    sliceNow: addresses(1, 2),
    begin: () => checksMs.splice(0),
    check: () => checksMs.push(time.nowMs),
  } as unknown as DrillRecorder
  const { signal } = new AbortController()
  const scenario = scenarioOf(fleetPlan(2), [], 10_000)
  const conducted = new Conductor({ target, recorder, scenario, signal }).run()
  await time.advance(11_000)
  await conducted
  assert.equal(checksMs.length, 20)
})
