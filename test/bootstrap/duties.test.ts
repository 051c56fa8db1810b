import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseControllers } from '../../src/bootstrap/controller-selection.ts'
import {
  type DutyDecision,
  decideDuty,
  type HookSightings,
  nextSightings,
  unheard,
} from '../../src/bootstrap/duties.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'

const hook = 'poststarthook/start-system-namespaces-controller'
const bare: ReadinessAnswer = { answered: true, ready: true, checks: [{ name: 'ping', ok: true }] }
const stock: ReadinessAnswer = { answered: true, ready: false, checks: [{ name: hook, ok: false }] }
const away: ReadinessAnswer = { answered: false, reason: 'connection refused' }
/** An answer that says nothing of any check, such as an error's. */
const mute: ReadinessAnswer = { answered: true, ready: false, checks: [] }
/** A refusal to tell, as of a user who may not get it. */
const refused: ReadinessAnswer = { answered: true, ready: false, checks: [], refused: 'HTTP status 403' }

const absent: HookSightings = { type: 'absent' }
const listed: HookSightings = { type: 'listed' }

const table: readonly [controllers: string[], sightings: HookSightings, decision: DutyDecision][] = [
  [['auto'], absent, { type: 'on' }],
  [['auto'], listed, { type: 'left-to-server', hook }],
  [['auto', 'system-namespaces'], listed, { type: 'on-beside-server', hook }],
  [['system-namespaces'], listed, { type: 'on-beside-server', hook }],
  [['system-namespaces'], absent, { type: 'on' }],
  [['auto', '-system-namespaces'], absent, { type: 'off' }],
  [['kubernetes-service'], absent, { type: 'off' }],
]

for (const [controllers, sightings, decision] of table) {
  const server = sightings === listed ? 'a server that does it itself' : 'a server that does not'
  test(`--controllers=${controllers} beside ${server}: system-namespaces is ${decision.type}`, () => {
    assert.deepEqual(decideDuty('system-namespaces', parseControllers(controllers), sightings), decision)
  })
}

test('default/kubernetes is kept even where the server lists its hook: its reconciler may be off', () => {
  assert.deepEqual(decideDuty('kubernetes-service', parseControllers(['auto']), listed), { type: 'on' })
})

/** What is known of the hook after these answers, so many seconds apart. */
function known(answers: readonly ReadinessAnswer[], apartS: number): HookSightings['type'] {
  let sightings: HookSightings = unheard
  for (const [index, answer] of answers.entries())
    sightings = nextSightings(sightings, answer, hook, index * apartS * 1_000)
  return sightings.type
}

const times = (count: number, answer: ReadinessAnswer): ReadinessAnswer[] => Array<ReadinessAnswer>(count).fill(answer)

const histories: readonly [says: string, answers: readonly ReadinessAnswer[], apartS: number, known: string][] = [
  ['a server that is away', [away], 1, 'unheard'],
  ['the first answer that does not list it', [away, bare], 1, 'absent'],
  ['the first answer, which says nothing', [mute], 1, 'absent'],
  ['a server that only refuses to tell', times(100, refused), 1, 'unheard'],
  ['the first answer after refusals', [refused, stock], 1, 'listed'],
  ['refusals after an answer that lists it', [stock, ...times(100, refused)], 1, 'listed'],
  ['one answer among many that lists it', [...times(100, bare), stock], 1, 'listed'],
  ['a hook that is not listed for 59 s', [stock, ...times(60, bare)], 1, 'listed'],
  ['a hook that is not listed for 60 s', [stock, ...times(61, bare)], 1, 'absent'],
  ['the same of a server that is asked now and then', [stock, ...times(7, bare)], 10, 'absent'],
  [
    'a member behind a balancer that answers once in 50 s',
    [stock, ...times(49, bare), stock, ...times(49, bare)],
    1,
    'listed',
  ],
  ['answers that are lost now and then', [stock, ...times(30, bare), away, mute, ...times(29, bare)], 1, 'absent'],
  ['a server that is away for 15 s', [stock, ...times(30, bare), ...times(15, away), ...times(31, bare)], 1, 'listed'],
  ['a server that says nothing but errors', [stock, ...times(100, mute)], 1, 'listed'],
  ['answers that are too far apart', [stock, ...times(20, bare)], 16, 'listed'],
]

for (const [says, answers, apartS, expected] of histories) {
  test(`${says}: the hook is ${expected}`, () => assert.equal(known(answers, apartS), expected))
}
