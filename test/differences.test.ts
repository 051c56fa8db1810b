import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { differences } from './real/equality/differences.ts'
import { modeNames } from './real/equality/modes.ts'
import { startsOf } from './real/equality/starts.ts'

test('docs/differences.md lists every difference from kube-apiserver that the tests allow, and no other', () => {
  const page = readFileSync('docs/differences.md', 'utf8')
  const [reconcilers = ''] = page.split('\n## ')
  const documented = reconcilers.split('\n').filter((line) => line.startsWith('| '))
  const rows = differences.map(
    ({ found, upstream, ours, reason }) => `| ${[found, upstream, ours, reason].join(' | ')} |`,
  )
  assert.deepEqual(documented.slice(2), rows)
})

test('every difference names existing initial states, and no initial state shows two differences', () => {
  const shown = new Set<string>()
  for (const { found, cases } of differences) {
    assert.ok(cases.length > 0, found)
    for (const { start, modes, found: moment = 'always' } of cases) {
      for (const mode of modes) {
        assert.ok(
          startsOf(mode).some(({ name }) => name === start),
          `no start "${start}" with ${mode}`,
        )
        for (const when of moment === 'always' ? ['running', 'at start'] : [moment]) {
          const key = `${start} with ${mode}, ${when}`
          assert.ok(!shown.has(key), `two differences: ${key}`)
          shown.add(key)
        }
      }
    }
  }
})

test('the names of initial states are unique', () => {
  for (const mode of modeNames) {
    const names = startsOf(mode).map(({ name }) => name)
    assert.equal(new Set(names).size, names.length)
    assert.ok(names.length >= 30)
  }
})
