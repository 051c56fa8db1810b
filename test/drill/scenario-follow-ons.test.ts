import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mistakesIn } from './scenario-mistakes.ts'

const head = 'apiVersion: apiserver-bootstrap/v1alpha1\nkind: Drill\nname: mine\ndescription: Something.\n'

/** What is said of steps of three masters, the first of which is in line 1. */
function inSteps(...steps: readonly string[]): readonly string[] {
  return mistakes(`fleet: {masters: 3}\nsteps:\n${steps.map((step) => `  - {${step}}\n`).join('')}`, 7)
}

/** What is said of a file after its head. Lines count from `first`. */
function mistakes(rest: string, first = 5): readonly string[] {
  return mistakesIn(head + rest).map((mistake) => mistake.replace(/^\d+/, (line) => String(Number(line) - first + 1)))
}

test('every mistake of one step is named', () => {
  assert.deepEqual(inSteps('at: 5, action: kill, masters: [nobody, master-1, nobody], for: x, part: all, how: hard'), [
    '1:10: at: must be a duration such as 5s, not 5',
    '1:37: masters: there is no master "nobody"; there are master-1, master-2, master-3',
    '1:55: masters: nobody is named twice',
    '1:69: for: "x" is not a duration (a duration is written like 10s or 1m30s)',
    '1:78: part: must be one of sidecar, server, both, not "all"',
    '1:83: the action kill has no "how"; it takes at, jitter, action, masters, part, for',
  ])
  assert.deepEqual(inSteps('at: x, action: kil, jitter: 0s'), [
    '1:10: at: "x" is not a duration (a duration is written like 10s or 1m30s)',
    '1:21: action: there is no action "kil"; did you mean kill?',
    '1:34: jitter: must be at least 1ms, not "0s"',
  ])
  assert.deepEqual(inSteps('at: 5s, action: restart, masters: [nobody], overlap: x, part: server'), [
    '1:41: masters: there is no master "nobody"; there are master-1, master-2, master-3',
    '1:59: overlap: "x" is not a duration (a duration is written like 10s or 1m30s)',
    '1:68: part: has no use beside overlap: the sidecar is terminated then',
  ])
  assert.deepEqual(
    inSteps(
      'at: 5s, action: roll-config, masters: [nobody], pause: x, settings: {leaseTtl: 10s, reconciler: no, addresses: [192.0.2.2]}',
    ),
    [
      '1:45: masters: there is no master "nobody"; there are master-1, master-2, master-3',
      '1:61: pause: "x" is not a duration (a duration is written like 10s or 1m30s)',
      '1:85: leaseTtl: must be at least 1.5 times reconcileInterval, 15s, not 10s',
      '1:102: reconciler: must be one of lease, master-count, none, not "no"',
    ],
  )
})

/** A step that is wrong, what is said of it, and a step that may be right once it is mended. */
const followed: readonly (readonly [wrong: string, mistake: string, next: string])[] = [
  [
    'at: 5s, action: scale, to: 0',
    '1:33: to: must be a whole number from 1 to 100, not 0',
    'at: 9s, action: kill, masters: [master-4, master-5]',
  ],
  [
    'at: 5s, action: replace, masters: [master-1], pause: x',
    '1:59: pause: "x" is not a duration (a duration is written like 10s or 1m30s)',
    'at: 1m, action: kill, masters: [master-1-anew]',
  ],
  [
    'at: 5s, action: replace, masters: [master-1], puse: 1s',
    '1:52: the action replace has no "puse"; did you mean pause?',
    'at: 7s, action: kill, masters: [master-1-anew]',
  ],
  [
    'at: 5x, action: replace, masters: [master-1]',
    '1:10: at: "5x" is not a duration: unknown unit "x" (a duration is written like 10s or 1m30s)',
    'at: 5s, action: kill, masters: [master-1-anew]',
  ],
  [
    'at: 5s, action: scal, to: 5',
    '1:22: action: there is no action "scal"; did you mean scale?',
    'at: 9s, action: kill, masters: [master-5]',
  ],
  [
    'at: 5s, action: replace, masters: [mastr-2]',
    '1:41: masters: there is no master "mastr-2"; did you mean master-2?',
    'at: 1m, action: kill, masters: [master-2-anew]',
  ],
  [
    'at: later, action: kill, masters: [master-3]',
    '1:10: at: "later" is not a duration (a duration is written like 10s or 1m30s)',
    'at: 9s, action: scale, to: 2',
  ],
]

test('nothing is said that another mistake is the cause of', () => {
  for (const [wrong, mistake, next] of followed) assert.deepEqual(inSteps(wrong, next), [mistake])
  assert.deepEqual(
    inSteps(
      'at: 5s, action: scale, to: 2',
      'at: 9s, action: replace, masters: [master-3]',
      'at: 1m, action: kill, masters: [master-3-anew]',
    ),
    [
      '2:41: masters: there is no master "master-3" after 5s, when scale sends it away; there are master-1, master-2 then',
    ],
  )
  assert.deepEqual(
    inSteps("at: 5s, action: roll-config, masters: [mastr-2], settings: {addresses: [192.0.2.2, '2001:db8::2']}"),
    ['1:45: masters: there is no master "mastr-2"; did you mean master-2?'],
  )
  // All would be too many.
  assert.deepEqual(inSteps('at: 5s, action: roll-config, masters: master-1, settings: {addresses: [192.0.2.7]}'), [
    '1:44: masters: must be all, or a list of names such as [master-2], not "master-1"',
  ])
})

test('whom nobody can be meant by is named beside a wrong step, and before it whoever comes only later', () => {
  const [wrong = '', mistake] = followed[0] ?? []
  const early = 'at: 1s, action: kill, masters: [master-4]'
  const nobody = 'at: 9s, action: kill, masters: [mster]'
  assert.deepEqual(inSteps(wrong, nobody, early), [
    mistake,
    '2:38: masters: there is no master "mster"; there are master-1, master-2, master-3',
    '3:38: masters: there is no master "master-4"; did you mean master-1?',
  ])
  const unknown = 'at: 5s, action: kil, masters: all'
  assert.deepEqual(inSteps(unknown, 'at: 9s, action: kill, masters: [master-4]').length, 2)
})

test('a step that is not over in time is named once, and not where its time is in doubt', () => {
  const steps = (step: string): readonly string[] =>
    mistakes(`fleet: {masters: 3}\nduration: 20s\nsteps:\n  - {${step}}\n`, 8)
  assert.deepEqual(steps('at: 18s, action: replace, masters: [master-1], pause: 1'), [
    '1:60: pause: must be a duration such as 1s, not 1',
  ])
  assert.deepEqual(steps('at: 18s, action: kill, masters: [nobody], for: 5s, part: x').length, 3)
  assert.deepEqual(inSteps('at: 5s, action: compact', 'at: 5m, action: kill, masters: all, part: x').length, 1)
})

test('a fleet that is wrong in one thing is not wrong in another for it', () => {
  const inFleet = (fleet: string): readonly string[] => mistakes(`fleet: ${fleet}\nsteps: []\n`)
  for (const fleet of [
    '{masters: x, virtualAddresses: [192.0.2.9]}',
    '{masters: [{addresses: [192.0.2]}, {addresses: [192.0.2.1]}]}',
    '{masters: [{addresses: [192.0.2]}, {addresses: [192.0.2.1]}], virtualAddresses: [192.0.2.1]}',
    "{masters: [{}, {addresses: []}, {addresses: [192.0.2.3, '2001:db8::3']}]}",
    '{masters: [{addresses: [192.0.2.9]}, {addresses: [192.0.2.9]}], virtualAddresses: [vip]}',
    '{masters: [{name: A}, {name: master-1}]}',
    '{masters: 3, leseTtl: 30s, reconcileInterval: 20s}',
    '{masters: [{settings: {reconcileInterval: 20s}}], leaseTtl: 30}',
    "{masters: [{addresses: [192.0.2.1, '2001:db8::1'], settings: {reconciler: lese}}], reconciler: master-count}",
  ]) {
    assert.equal(inFleet(fleet).length, 1, fleet)
  }
  const both = '{masters: [{addresses: [192.0.2.9]}, {addresses: [192.0.2.9]}], virtualAddresses: [192.0.2.8]}'
  assert.equal(inFleet(both).length, 2)
})
