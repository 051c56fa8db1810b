import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { invariantNames, invariants, sentenceOf } from '../../src/verify/invariants.ts'
import { incidents, storyOfThree } from './fleet-story.ts'

const { killed, stopped } = incidents

test('each invariant has a name of lower-case words and one sentence', () => {
  for (const name of invariantNames) {
    assert.match(name, /^[a-z]+(-[a-z]+)+$/)
    assert.match(invariants[name].sentence, /^[A-Z][^.]+\.$/)
    assert.equal(sentenceOf(name), invariants[name].sentence)
  }
  assert.equal(sentenceOf('drill-ends'), 'drill-ends')
})

test('the story files name every invariant', () => {
  const stories = ['listed-members', 'listing-changes', 'objects'].map((file) =>
    readFileSync(new URL(`${file}.test.ts`, import.meta.url), 'utf8'),
  )
  const untested = invariantNames.filter((name) => !stories.some((text) => text.includes(`'${name}'`)))
  assert.deepEqual(untested, [])
})

test('a lasting fault is one violation, and a second one when it returns', () => {
  const story = storyOfThree().turn('b', killed).wait(30_000)
  const dead = story.violations.filter(({ invariant }) => invariant === 'dead-master-removed')
  assert.deepEqual(
    dead.map(({ atMs, detail }) => [atMs, detail]),
    [[37_500, 'at-b of b, dead for 17.5 s, is still listed']],
  )
  story.list(['a', 'c']).wait(5_000).list(['a', 'b', 'c']).wait(5_000)
  assert.equal(story.violations.filter(({ invariant }) => invariant === 'dead-master-removed').length, 2)
})

test('the same fault of two members gives two violations', () => {
  const story = storyOfThree().turn('b', stopped).turn('c', stopped).wait(4_000)
  assert.deepEqual(
    story.violations.map(({ invariant, detail }) => `${invariant}: ${detail}`),
    [
      'stopped-master-leaves: at-b of b, stopped for 3.5 s, is still listed',
      'stopped-master-leaves: at-c of c, stopped for 3.5 s, is still listed',
    ],
  )
})

test('checking more often changes only the time at which a violation is detected', () => {
  const rarely = storyOfThree().turn('b', killed).wait(30_000)
  const often = storyOfThree().turn('b', killed)
  for (let checks = 0; checks < 30_000 / 37; checks++) often.wait(37)
  assert.deepEqual(often.broken, rarely.broken)
  assert.equal(often.violations[0]?.atMs, 37_020)
})

test('the checker stores at most 50 violations', () => {
  const story = storyOfThree()
  for (let times = 0; times < 100; times++) story.list([]).list(['a', 'b', 'c'])
  assert.equal(story.violations.length, 50)
})
