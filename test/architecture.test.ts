import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  dependencyFaults,
  doorFaults,
  forbiddenSyntax,
  importCycles,
  type Manifest,
  nondeterministicUses,
  type SourceFile,
  shapeFaults,
  upwardImports,
} from './support/architecture.ts'

const root = join(import.meta.dirname, '..')
const generated = /^protobuf\/gen\//
const all = globSync('**/*.ts', { cwd: join(root, 'src') })
  .map((path) => path.replaceAll('\\', '/'))
  .sort()
  .map((path) => ({ path, text: readFileSync(join(root, 'src', path), 'utf8') }))
const written = all.filter(({ path }) => !generated.test(path))
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest

/** Fails with one finding a line. */
function none(findings: readonly string[]): void {
  assert.equal(findings.length, 0, `\n${findings.join('\n')}`)
}

function sources(files: Readonly<Record<string, string>>): readonly SourceFile[] {
  return Object.entries(files).map(([path, text]) => ({ path, text }))
}

test('no source file imports from a higher layer', () => none(upwardImports(all)))

test('no modules import each other in a circle', () => none(importCycles(all)))

test('clocks, timers, randomness, locale and I/O are used in adapters only', () => none(nondeterministicUses(all)))

test('every source file is short and named in kebab-case', () => none(shapeFaults(written)))

test('no default exports, enums or namespaces', () => none(forbiddenSyntax(all)))

test('the package exports two entry points, and only cli.ts imports commander', () => none(doorFaults(all, manifest)))

test('the runtime dependencies are exactly the packages that the sources import', () =>
  none(dependencyFaults(all, manifest)))

test('an import from a higher layer is reported, whatever its syntax', () => {
  const up = 'export const a = 1\n'
  const files = sources({
    'bootstrap/master.ts': up,
    'net/a.ts': "import { a } from '../bootstrap/master.ts'",
    'net/b.ts': "export type { A } from '../bootstrap/master.ts'",
    'net/c.ts': "const a = await import('../bootstrap/master.ts')",
    'net/d.ts': "import type {\n  // a comment with an import from 'x'\n  A,\n} from '../bootstrap/master.ts'",
    'net/e.ts': "import '../bootstrap/master.ts'",
    'net/fine.ts': "// import { a } from '../bootstrap/master.ts'\nconst text = `import '../bootstrap/master.ts'`",
  })
  assert.deepEqual(
    upwardImports(files),
    ['a', 'b', 'c', 'd', 'e'].map((name) => `net/${name}.ts imports bootstrap/master.ts: that goes up the house plan`),
  )
  assert.deepEqual(upwardImports(sources({ 'utils/a.ts': '' })), ['utils/a.ts: not in the house plan'])
  assert.deepEqual(upwardImports(sources({ 'net/a.ts': "import b from '../../test/b.ts'" })), [
    'net/a.ts imports ../test/b.ts, which is not in the house plan',
  ])
})

test('a circle of imports is reported once', () => {
  const files = sources({
    'net/a.ts': "import { b } from './b.ts'",
    'net/b.ts': "import type { c } from './c.ts'",
    'net/c.ts': "import { b } from './b.ts'\nimport { d } from './d.ts'",
    'net/d.ts': '',
  })
  assert.deepEqual(importCycles(files), ['net/b.ts -> net/c.ts -> net/b.ts'])
})

const impure: Readonly<Record<string, string>> = {
  'the clock of Date': 'const now = Date.now() + new Date().getTime()',
  'Math.random': 'const a = Math.random()',
  performance: 'const a = performance.now()',
  'global timers': 'setTimeout(() => {}, 1)',
  setImmediate: 'setImmediate(() => {})',
  'AbortSignal.timeout or any': 'const signal = AbortSignal.any([AbortSignal.timeout(1)])',
  randomness: 'const id = crypto.randomUUID()',
  'crypto.subtle': 'await crypto.subtle.digest(a, b)',
  localeCompare: 'names.sort((a, b) => a.localeCompare(b))',
  Intl: 'const format = new Intl.NumberFormat()',
  process: 'const home = process.env.HOME',
  console: "console.log('here')",
  fetch: "await fetch('http://localhost')",
  'the garbage collector': 'const ref = new WeakRef(object)',
  'node:fs/promises': "import { readFile } from 'node:fs/promises'",
  'node:timers/promises': "import timers from 'node:timers/promises'",
  undici: "import { Agent } from 'undici'",
  'p-retry': "import pRetry from 'p-retry'",
  'a dynamic import': 'const { a } = await import(name)',
}

for (const [name, text] of Object.entries(impure)) {
  test(`${name} is reported outside adapters and allowed in them`, () => {
    const uses = nondeterministicUses(
      sources({ 'kube/informer.ts': text, 'commands/run.ts': text, 'kube/http-a.ts': text }),
    )
    assert.deepEqual(uses, [`kube/informer.ts uses ${name}: only adapters may`])
  })
}

test('words in comments, strings, regular expressions and types do not count as uses', () => {
  const text = [
    '// new Date() and setTimeout',
    '/** Never Math.random(). */',
    "const a = 'Date.now()' + \"fetch('x')\" + `console.log(\" performance.now())`",
    'const b = / process.env "/.test(text) ? 1 / 2 : 3',
    'type Plain<T> = T extends Date ? string : T',
    "import type { Agent } from 'undici'",
    'clock.setTimeout(1)',
    'const iso = new Date(Date.parse(text)).toISOString()',
  ].join('\n')
  assert.deepEqual(nondeterministicUses(sources({ 'kube/resources.ts': text })), [])
})

test('code inside a template literal is checked', () => {
  const text = `const a = \`x \${ { b: \`\${Math.random()}\` }.b } y\``
  assert.deepEqual(nondeterministicUses(sources({ 'net/a.ts': text })), [
    'net/a.ts uses Math.random: only adapters may',
  ])
})

test('files over 400 lines and names that are not kebab-case are reported', () => {
  const files = sources({
    'net/a.ts': 'a\n'.repeat(400),
    'net/b.ts': 'a\n'.repeat(401),
    'net/cidrRange.ts': '',
    'Net/a.ts': '',
  })
  assert.deepEqual(shapeFaults(files), [
    'net/b.ts has 401 lines: over 400',
    'net/cidrRange.ts: names are kebab-case and end in .ts',
    'Net/a.ts: names are kebab-case and end in .ts',
  ])
})

test('default exports, enums and namespaces are reported', () => {
  const files = sources({
    'net/a.ts': 'export default 1',
    'net/b.ts': 'const a = 1\nexport { a as default }',
    'net/c.ts': 'export enum A { B }',
    'net/d.ts': 'declare namespace A { }',
    'net/fine.ts': "const enumerate = { enum: ['a'] }",
  })
  assert.deepEqual(forbiddenSyntax(files), [
    'net/a.ts has a default export',
    'net/b.ts has a default export',
    'net/c.ts has an enum',
    'net/d.ts has a namespace',
  ])
})

test('an extra entry point, a missing entry point and a second importer of commander are reported', () => {
  const files = sources({
    'cli.ts': "import { Command } from 'commander'",
    'commands/run.ts': "import { Command } from 'commander'",
  })
  assert.deepEqual(doorFaults(files, { exports: { '.': '', './internal': '', './package.json': '' } }), [
    'package.json exports ./internal',
    'package.json does not export ./testing',
    'commands/run.ts imports commander: only cli.ts may',
  ])
})

test('an undeclared and an unused package are reported', () => {
  const files = sources({ 'net/a.ts': "import b from '@scope/b/deep'\nimport type c from 'c'\nimport 'node:util'" })
  assert.deepEqual(
    dependencyFaults(files, { dependencies: { c: '1', d: '1' }, devDependencies: { '@scope/b': '1' } }),
    ['net/a.ts imports @scope/b, which is not a dependency', 'package.json declares d, which nothing imports'],
  )
})
