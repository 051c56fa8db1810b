import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StandingFaults } from '../../src/drill/fleet-control.ts'
import type { Step } from '../../src/drill/scenario/scenario.ts'
import type { Primitive } from '../../src/drill/target.ts'
import { type Drilled, drill, of } from './drilled.ts'
import { fleetPlan, masterPlan } from './simulator/fleet-under-test.ts'

const master = 'master-1'
const kill: Primitive = { type: 'kill', master, part: 'sidecar' }
const start: Primitive = { type: 'start', master, part: 'sidecar' }
const slow = (byMs: number): Primitive => ({ type: 'slow', master, path: 'api', byMs })

test('the release of a fault returns its opposite primitive, once', () => {
  const table: readonly (readonly [Primitive, Primitive])[] = [
    [kill, start],
    [
      { type: 'terminate', master, part: 'server' },
      { type: 'start', master, part: 'server' },
    ],
    [
      { type: 'freeze', master, part: 'server' },
      { type: 'thaw', master, part: 'server' },
    ],
    [
      { type: 'cut', master, path: 'clients' },
      { type: 'heal', master, path: 'clients' },
    ],
    [slow(300), slow(0)],
    [
      { type: 'readyz', master, answer: 'hangs' },
      { type: 'readyz', master, answer: 'ready' },
    ],
    [
      { type: 'fault', master, rule: { fault: { type: 'hang' }, only: 'api' } },
      { type: 'no-fault', master, rule: { fault: { type: 'hang' }, only: 'api' } },
    ],
    [
      { type: 'own-etcd', master, state: 'fails' },
      { type: 'own-etcd', master, state: 'ok' },
    ],
    [
      { type: 'datastore', state: 'away' },
      { type: 'datastore', state: 'up' },
    ],
  ]
  for (const [fault, undone] of table) {
    const faults = new StandingFaults()
    const owner = {}
    faults.add(fault, owner)
    assert.deepEqual(faults.release(owner), [undone])
    assert.deepEqual(faults.release(owner), [], 'once')
  }
})

test('a fault of two steps is undone when both have ended, in either order', () => {
  for (const order of [
    [0, 1],
    [1, 0],
  ] as const) {
    const faults = new StandingFaults()
    const owners = [{}, {}] as const
    for (const owner of owners) faults.add(kill, owner)
    assert.deepEqual(faults.release(owners[order[0]]), [])
    assert.deepEqual(faults.release(owners[order[1]]), [start])
  }
})

test('the later of two different faults applies, and the earlier one again when the later ends', () => {
  const faults = new StandingFaults()
  const [first, second] = [{}, {}]
  faults.add(slow(300), first)
  faults.add(slow(900), second)
  assert.deepEqual(faults.release(second), [slow(300)])
  assert.deepEqual(faults.release(first), [slow(0)])
  faults.add(slow(300), first)
  faults.add(slow(900), second)
  assert.deepEqual(faults.release(first), [])
  assert.deepEqual(faults.release(second), [slow(0)])
})

test('a fault that was cleared is not undone again on release', () => {
  const faults = new StandingFaults()
  const owner = {}
  faults.add(kill, owner)
  assert.deepEqual(
    faults.clear(({ type }) => type === 'kill'),
    [start],
  )
  assert.deepEqual(faults.release(owner), [])
})

test('a release starts the server before the sidecar', () => {
  const faults = new StandingFaults()
  const owner = {}
  faults.add(kill, owner)
  faults.add({ ...kill, part: 'server' }, owner)
  assert.deepEqual(faults.release(owner), [{ ...start, part: 'server' }, start])
})

test('isDown reports whether a fault stops a part', () => {
  const faults = new StandingFaults()
  const owner = {}
  faults.add(kill, owner)
  assert.equal(faults.isDown(master, 'sidecar'), true)
  assert.equal(faults.isDown(master, 'server'), false)
  faults.release(owner)
  assert.equal(faults.isDown(master, 'sidecar'), false)
})

/** A drill of one master of ours and the kube-apiserver master-2. */
function drillMixed(...steps: readonly Step[]): Promise<Drilled> {
  const masters = [masterPlan(1), masterPlan(2, { kind: 'kube-apiserver' })]
  return drill(fleetPlan(2, { masters }), steps, { durationMs: 70_000 })
}

/** When the process of master-2 was running, down or frozen, in whole seconds. */
function statesOf(drilled: Drilled): readonly string[] {
  const states = of(drilled, 'state').filter(({ master, atMs }) => master === 'master-2' && atMs >= 0)
  const texts = states.map(({ atMs, sidecar }) => ({ sidecar, text: `${Math.round(atMs / 1_000)} ${sidecar}` }))
  return texts.filter(({ sidecar }, index) => sidecar !== texts[index - 1]?.sidecar).map(({ text }) => text)
}

const upstream = { masters: ['master-2'] }

test('a kube-apiserver that two steps stop by different parts starts again when both have ended', async () => {
  const kills = await drillMixed(
    { atMs: 1_000, action: 'kill', ...upstream, part: 'server', forMs: 10_000 },
    { atMs: 2_000, action: 'kill', ...upstream, part: 'sidecar', forMs: 30_000 },
  )
  assert.deepEqual(statesOf(kills), ['1 down', '32 running'])
  const outage = await drillMixed(
    { atMs: 1_000, action: 'apiserver-outage', masters: 'all', forMs: 5_000 },
    { atMs: 2_000, action: 'kill', ...upstream, part: 'both', forMs: 40_000 },
  )
  assert.deepEqual(statesOf(outage), ['1 down', '42 running'])
  const freezes = await drillMixed(
    { atMs: 1_000, action: 'freeze', ...upstream, part: 'server', forMs: 10_000 },
    { atMs: 2_000, action: 'freeze', ...upstream, part: 'sidecar', forMs: 30_000 },
  )
  assert.deepEqual(statesOf(freezes), ['1 frozen', '32 running'])
})

test('a start of the server of a kube-apiserver ends the kill of its sidecar, which does not start it once more', async () => {
  const drilled = await drillMixed(
    { atMs: 1_000, action: 'kill', ...upstream, part: 'sidecar', forMs: 10_000 },
    { atMs: 3_000, action: 'start', ...upstream, part: 'server' },
    { atMs: 5_000, action: 'kill', ...upstream, part: 'server', forMs: 30_000 },
  )
  assert.deepEqual(statesOf(drilled), ['1 down', '3 running', '5 down', '35 running'])
})

test('a start does not replace a kube-apiserver that is frozen', async () => {
  const drilled = await drillMixed(
    { atMs: 1_000, action: 'freeze', ...upstream, part: 'both', forMs: 10_000 },
    { atMs: 3_000, action: 'start', ...upstream, part: 'both' },
  )
  assert.deepEqual(statesOf(drilled), ['1 frozen', '11 running'])
})
