import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { resolveConfiguration } from '../src/config/resolve.ts'

const readme = readFileSync('README.md', 'utf8')
const blocks = (language: string): string[] =>
  [...readme.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\n\`\`\``, 'gs'))].map((match) => match[1] ?? '')

test("the README's examples are the ones that the tests run", () => {
  const examples = ['embed', 'in-process'].map((name) =>
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
  const flags = Object.fromEntries(
    [...shell.matchAll(/--([a-z-]+) (\S+)/g)].map(([, name = '', value]) => [
      name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  )
  assert.equal(resolveConfiguration(flags).configuration.advertiseAddress?.[0]?.text, '192.0.2.1')
})

test('every file that the documentation links to is there', () => {
  for (const file of ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md']) {
    for (const [, target] of readFileSync(file, 'utf8').matchAll(/\]\(([^)#:]+)\)/g)) {
      assert.ok(existsSync(target ?? ''), `${file} links to ${target}`)
    }
  }
})
