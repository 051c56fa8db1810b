import assert from 'node:assert/strict'
import { test } from 'node:test'
import { absentNames } from '../../src/drill/absent-names.ts'
import { builtInScenarios } from '../../src/drill/load-scenario.ts'
import { drawSteps, randomScenario } from '../../src/drill/random/random-scenario.ts'
import { runDrill } from '../../src/drill/run-drill.ts'
import type { Scenario, Step } from '../../src/drill/scenario.ts'
import { scenario } from './reports.ts'
import { base, mistakesIn } from './scenario-mistakes.ts'

const replaced: Step = { atMs: 7_000, action: 'replace', masters: ['master-1'], pauseMs: 5_000 }
const scaled = (atMs: number, to: number): Step => ({ atMs, action: 'scale', to })
const healed = (atMs: number, ...masters: readonly string[]): Step => ({ atMs, action: 'reset-connections', masters })

/** What happens to three masters, and the names among them that are nobody's then. */
const stories: readonly (readonly [title: string, steps: readonly Step[], absent: readonly string[]])[] = [
  ['a successor before it comes', [replaced, healed(8_000, 'master-1-anew')], ['master-1-anew']],
  ['a successor at the moment when it comes', [replaced, healed(12_000, 'master-1-anew')], ['master-1-anew']],
  ['a successor from then on', [replaced, healed(12_001, 'master-1-anew')], []],
  ['whoever is replaced, when it has gone', [replaced, healed(8_000, 'master-1')], []],
  [
    'a successor of a successor',
    [replaced, { ...replaced, atMs: 20_000 }, healed(24_000, 'master-1-anew', 'master-1-anew-anew')],
    ['master-1-anew-anew'],
  ],
  ['the successor of nobody', [{ ...replaced, masters: ['b'] }, healed(30_000, 'b-anew')], ['b', 'b-anew']],
  ['one of many, at the moment when they come', [scaled(7_000, 5), healed(7_000, 'master-4', 'master-5')], []],
  ['one of many, before they come', [healed(7_000, 'master-5'), scaled(7_000, 5)], ['master-5']],
  ['a number that was left out', [replaced, scaled(20_000, 4), healed(21_000, 'master-4', 'master-5')], ['master-4']],
  ['the last one, at the moment when it goes', [scaled(7_000, 2), healed(7_000, 'master-3')], []],
  ['a new one after the last one has gone', [scaled(7_000, 2), scaled(40_000, 3), healed(50_000, 'master-4')], []],
  [
    'the successor of the last one, when it has gone',
    [{ ...replaced, masters: ['master-3'] }, scaled(20_000, 2), healed(60_000, 'master-3', 'master-3-anew')],
    [],
  ],
]
for (const [title, steps, names] of stories) {
  const story: Scenario = { ...scenario, steps }
  test(`absent: ${title}: ${names.join(', ') || 'nobody'}, and whether it can be drilled`, async () => {
    assert.deepEqual([...absentNames(story).absent.values()].flat(), names)
    const drilled = runDrill(story)
    // Steps that pick whom they know, such as replace, do nothing to the others.
    if (names.length === 0) await drilled
    else await assert.rejects(drilled, { message: `there is no master ${names.at(-1)}` })
  })
}

test('whoever scale has sent away is nobody any more, with a jitter so much later', () => {
  const named = [healed(7_001, 'master-2', 'master-3'), healed(9_001, 'master-3')]
  const absentOf = (first: Step): readonly string[] =>
    [...absentNames({ ...scenario, steps: [first, ...named] }).absent.values()].flat()
  assert.deepEqual(absentOf(scaled(7_000, 2)), ['master-3', 'master-3'])
  assert.deepEqual(absentOf({ ...scaled(7_000, 2), jitterMs: 2_000 }), ['master-3'])
})

test('a step with a jitter may bring somebody so much later', () => {
  const { absent, comesMs } = absentNames({
    ...scenario,
    steps: [{ ...replaced, jitterMs: 2_000 }, healed(13_000, 'master-1-anew')],
  })
  assert.deepEqual([...absent.values()].flat(), ['master-1-anew'])
  assert.equal(comesMs.get('master-1-anew'), 14_000)
})

test('whom random schedules and the built-in scenarios name is there', async () => {
  const seeds = Array.from({ length: 300 }, (_, index) => index + 1)
  const all = [...seeds.map(randomScenario), ...(await builtInScenarios()).map((one) => drawSteps(one, 1))]
  for (const one of all) assert.deepEqual([...absentNames(one).absent.values()].flat(), [], one.name)
})

test('who is named too early is told from when on it may be, with its place in the file', () => {
  const early = '  - {at: 8s, action: replace, masters: [master-1], pause: 4s}\n  - {at: 9s, action: kill, masters: '
  assert.deepEqual(mistakesIn(`${base}${early}[master-2, master-1-anew]}\n`), [
    '12:48: masters: there is no master "master-1-anew" until after 12s',
  ])
})

test('who is named after it was sent away is told when that was and who is there then, with its place in the file', () => {
  const scales = '  - {at: 9s, action: scale, to: 2}\n  - {at: 1m, action: scale, to: 3}\n'
  const named = '  - {at: 70s, action: start, masters: [master-4, master-3]}\n'
  assert.deepEqual(mistakesIn(`${base}${scales}${named}`), [
    '13:50: masters: there is no master "master-3" after 9s, when scale sends it away; there are master-1, master-2, master-4 then',
  ])
})
