import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { eventReasons } from '../src/kube/event-object.ts'
import { repairReasons } from '../src/repair/reporter.ts'

const page = readFileSync('docs/events.md', 'utf8')

test('docs/events.md has every reason with its type, and no other', () => {
  const documented = [...page.matchAll(/^\| `(\w+)` \| (\w+) \| [^|]+ \| [^|]+ \| [^|]+ \|$/gm)]
  const declared = [
    ...Object.entries(eventReasons).map(([reason, { type }]) => [reason, type]),
    ...Object.keys(repairReasons).map((reason) => [reason, 'Warning']),
  ]
  assert.ok(declared.length > 5)
  assert.deepEqual(
    documented.map(([, reason, type]) => [reason, type]),
    declared,
  )
})

test('every recorded Event has a declared reason, and every declared reason is used', () => {
  const sources = globSync('src/**/*.ts')
    .filter((file) => !/^src\/(?:apiserver|kube)\//.test(file))
    .map((file) => readFileSync(file, 'utf8'))
  let calls = 0
  for (const source of sources) {
    for (const [, event = ''] of source.matchAll(/\bevents\.record\((.*?)\)\n/gs)) {
      calls++
      // A contested write is reported with the event that its caller made.
      assert.match(event, /^contested\.event\(|^\s*eventOf\(|\.\.\.eventReasons\.\w+|repairReasons\[reason\]/)
    }
  }
  assert.ok(calls > 5)
  const text = sources.join('\n')
  for (const reason of [...Object.keys(eventReasons), ...Object.keys(repairReasons)])
    assert.ok(text.includes(`'${reason}'`), `no code uses the reason ${reason}`)
})

test('event reasons and actions have the form that Kubernetes accepts', () => {
  const actions = Object.entries(eventReasons).map(([reason, { action }]) => [reason, action] as const)
  for (const [reason, action] of [...actions, ...Object.entries(repairReasons)]) {
    for (const word of [reason, action]) assert.match(word, /^[A-Z][A-Za-z]{0,127}$/)
  }
})
