import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type DutyDecision,
  decideDuty,
  formatControllers,
  type HookState,
  isSelected,
  nextHookState,
  parseControllers,
  unknownHook,
  workloadControllerNames,
} from '../../src/bootstrap/duties.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'

test('auto selects the usual controllers, a name adds one and a dash removes one', () => {
  assert.deepEqual(parseControllers(['auto']), { auto: true, on: [], off: [] })
  assert.deepEqual(parseControllers(['auto', 'default-service-cidr', '-system-namespaces']), {
    auto: true,
    on: ['default-service-cidr'],
    off: ['system-namespaces'],
  })
})

test('a list without auto selects exactly the named controllers', () => {
  assert.deepEqual(parseControllers(['kubernetes-service', 'kubernetes-service']), {
    auto: false,
    on: ['kubernetes-service'],
    off: [],
  })
})

test('a selection is formatted as it was parsed', () => {
  const items = ['auto', 'kubernetes-service', '-default-service-cidr']
  assert.deepEqual(formatControllers(parseControllers(items)), items)
})

test('a contradictory, empty or unknown selection is rejected with the reason', () => {
  assert.throws(() => parseControllers([]), /turns nothing on/)
  assert.throws(() => parseControllers(['-system-namespaces']), /turns nothing on/)
  assert.throws(
    () => parseControllers(['auto', 'system-namespaces', '-system-namespaces']),
    /turns system-namespaces both on and off/,
  )
  assert.throws(() => parseControllers(['-auto']), /there is no controller "auto"/)
  assert.throws(() => parseControllers(['autos']), /there is no controller "autos"; known controllers: auto, /)
  assert.throws(() => parseControllers(['Kubernetes-Service']), /\(did you mean kubernetes-service\?\)/)
})

test('the names that Kubernetes has for a controller lead to the name that this program has', () => {
  const names = {
    'endpoints-controller': 'endpoints',
    endpoint: 'endpoints',
    'endpointslice-controller': 'endpointslice',
    'endpointslice-mirroring-controller': 'endpointslice-mirroring',
    endpointslicemirroring: 'endpointslice-mirroring',
    'service-cidr-controller': 'service-cidr',
    'start-system-namespaces-controller': 'system-namespaces',
  }
  for (const [theirs, ours] of Object.entries(names)) {
    assert.throws(() => parseControllers([theirs]), new RegExp(`\\(did you mean ${ours}\\?\\)`), theirs)
  }
})

test('the controllers of kube-controller-manager are selected only by name', () => {
  for (const name of workloadControllerNames) {
    assert.equal(isSelected(parseControllers(['auto']), name), false)
    assert.equal(isSelected(parseControllers(['auto', name]), name), true)
    assert.equal(isSelected(parseControllers([name]), name), true)
  }
  assert.equal(isSelected(parseControllers(['auto', 'endpoints']), 'node-port-repair'), true)
  assert.equal(isSelected(parseControllers(['endpoints']), 'node-port-repair'), false)
})

const hook = 'poststarthook/start-system-namespaces-controller'
const bare: ReadinessAnswer = { answered: true, ready: true, checks: [{ name: 'ping', ok: true }] }
const stock: ReadinessAnswer = { answered: true, ready: false, checks: [{ name: hook, ok: false }] }
const away: ReadinessAnswer = { answered: false, reason: 'connection refused' }
/** An answer that states no check, such as an error. */
const mute: ReadinessAnswer = { answered: true, ready: false, checks: [] }
/** A refusal, as for a user who may not read the checks. */
const refused: ReadinessAnswer = { answered: true, ready: false, checks: [], refused: 'HTTP status 403' }

const absent: HookState = { type: 'absent' }
const listed: HookState = { type: 'listed' }

const table: readonly [controllers: string[], sightings: HookState, decision: DutyDecision][] = [
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
    assert.deepEqual(
      decideDuty('system-namespaces', parseControllers(controllers), () => sightings),
      decision,
    )
  })
}

test('default/kubernetes is managed even if the server lists its hook, because its reconciler may be off', () => {
  assert.deepEqual(
    decideDuty('kubernetes-service', parseControllers(['auto']), () => listed),
    { type: 'on' },
  )
})

test('beside a server that creates system namespaces but is no kube-apiserver only kube-node-lease remains to be created', () => {
  const decision = decideDuty('system-namespaces', parseControllers(['auto']), (of) => (of === hook ? listed : absent))
  assert.deepEqual(decision, { type: 'left-to-server', hook, except: ['kube-node-lease'] })
})

/** What is known about the hook after these answers, which are `apartS` seconds apart. */
function known(answers: readonly ReadinessAnswer[], apartS: number): HookState['type'] {
  let sightings: HookState = unknownHook
  for (const [index, answer] of answers.entries())
    sightings = nextHookState(sightings, answer, hook, index * apartS * 1_000)
  return sightings.type
}

const times = (count: number, answer: ReadinessAnswer): ReadinessAnswer[] => Array<ReadinessAnswer>(count).fill(answer)

const histories: readonly [description: string, answers: readonly ReadinessAnswer[], apartS: number, known: string][] =
  [
    ['after no answer', [away], 1, 'unknown'],
    ['after a first answer that does not list it', [away, bare], 1, 'absent'],
    ['after a first answer without a list of checks', [mute], 1, 'absent'],
    ['after refusals only', times(100, refused), 1, 'unknown'],
    ['after a refusal and an answer that lists it', [refused, stock], 1, 'listed'],
    ['after an answer that lists it and many refusals', [stock, ...times(100, refused)], 1, 'listed'],
    ['after many answers without it and one that lists it', [...times(100, bare), stock], 1, 'listed'],
    ['after 59 s of answers that do not list it', [stock, ...times(60, bare)], 1, 'listed'],
    ['after 60 s of answers that do not list it', [stock, ...times(61, bare)], 1, 'absent'],
    ['after a minute of answers, 10 s apart, that do not list it', [stock, ...times(7, bare)], 10, 'absent'],
    [
      'when one answer in 50 s lists it, as behind a load balancer',
      [stock, ...times(49, bare), stock, ...times(49, bare)],
      1,
      'listed',
    ],
    [
      'after a minute without it in which some answers were lost',
      [stock, ...times(30, bare), away, mute, ...times(29, bare)],
      1,
      'absent',
    ],
    [
      'after a minute without it that 15 s of no answers interrupt',
      [stock, ...times(30, bare), ...times(15, away), ...times(31, bare)],
      1,
      'listed',
    ],
    ['after many answers without a list of checks', [stock, ...times(100, mute)], 1, 'listed'],
    ['after answers without it that are 16 s apart', [stock, ...times(20, bare)], 16, 'listed'],
  ]

for (const [description, answers, apartS, expected] of histories) {
  test(`${description}: the hook is ${expected}`, () => assert.equal(known(answers, apartS), expected))
}
