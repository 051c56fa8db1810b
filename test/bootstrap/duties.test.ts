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

const histories: readonly [says: string, answers: readonly ReadinessAnswer[], apartS: number, known: string][] = [
  ['a server that is away', [away], 1, 'unknown'],
  ['the first answer that does not list it', [away, bare], 1, 'absent'],
  ['the first answer, which says nothing', [mute], 1, 'absent'],
  ['a server that only refuses to tell', times(100, refused), 1, 'unknown'],
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
