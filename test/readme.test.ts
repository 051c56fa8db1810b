import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { readDrillRequest } from '../src/commands/drill-request.ts'
import { resolveConfiguration } from '../src/config/resolve.ts'

const readme = readFileSync('README.md', 'utf8')
const blocks = (language: string): string[] =>
  [...readme.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\n\`\`\``, 'gs'))].map((match) => match[1] ?? '')

test("the README's examples are the ones that the tests run", () => {
  const examples = ['embed', 'in-process', 'drill'].map((name) =>
    readFileSync(`test/examples/${name}.ts`, 'utf8')
      .trim()
      .replaceAll("'../../src/index.ts'", "'apiserver-bootstrap'")
      .replaceAll("'../../src/testing.ts'", "'apiserver-bootstrap/testing'"),
  )
  assert.deepEqual(blocks('ts'), examples)
})

test("the README's npm scripts exist, and its command line is accepted", () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
  const shell = blocks('sh').join('\n')
  for (const [, script] of shell.matchAll(/npm (?:run )?([a-z:]+)/g)) {
    if (script !== 'ci') assert.ok(scripts[script ?? ''] !== undefined, `npm run ${script}`)
  }
  const lines = blocks('sh')
    .flatMap((block) => block.replaceAll('\\\n', ' ').split('\n'))
    .map((line) => line.split(/\s+/).slice(2))
  const run = lines.filter(([command]) => command === 'run').map((words) => flagsOf(words.slice(1)))
  assert.equal(resolveConfiguration(Object.assign({}, ...run)).configuration.advertiseAddress?.[0]?.text, '192.0.2.1')
  const drills = lines.filter(([command]) => command === 'drill')
  assert.ok(drills.length > 0)
  for (const [, scenario = '', ...words] of drills)
    assert.doesNotThrow(() => readDrillRequest(flagsOf(words), scenario))
})

function flagsOf(words: readonly string[]): Record<string, string> {
  const flags = words
    .join(' ')
    .split(/ ?--/)
    .filter((flag) => flag !== '')
    .map((flag) => {
      const [name = '', value = 'true'] = flag.split(' ')
      return [name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]
    })
  return Object.fromEntries(flags)
}

test('every file that the documentation links to is there', () => {
  for (const file of ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md']) {
    for (const [, target] of readFileSync(file, 'utf8').matchAll(/\]\(([^)#:]+)\)/g)) {
      assert.ok(existsSync(target ?? ''), `${file} links to ${target}`)
    }
  }
})
