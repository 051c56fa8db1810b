import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { bannedWords, longComments } from './support/words.ts'

const root = join(import.meta.dirname, '..')
const sources = read('src/**/*.ts').filter(({ path }) => !path.startsWith('src/protobuf/gen/'))
const others = read('{test,scripts}/**/*.{ts,mjs}')

function read(pattern: string): readonly { readonly path: string; readonly text: string }[] {
  // test/floor installs packages below itself.
  return globSync(pattern, { cwd: root, exclude: ['**/node_modules/**'] })
    .map((path) => path.replaceAll('\\', '/'))
    .sort()
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))
}

/** The files that contain banned words in order to find them. */
const lists = ['test/support/words.ts', 'test/words.test.ts']

/** Names that others gave. */
const names = ['.well-known/openid-configuration', 'isWellFormed', 'toWellFormed']

test('names, comments and messages contain no banned words', () => {
  assert.ok(sources.length > 100)
  assert.deepEqual(
    sources.flatMap(({ path, text }) => bannedWords(path, text, names)),
    [],
  )
})

test('tests and scripts contain no banned words', () => {
  assert.ok(others.length > 500)
  assert.deepEqual(
    others.flatMap(({ path, text }) => (lists.includes(path) ? [] : bannedWords(path, text, names))),
    [],
  )
})

test('comments fit the width of the formatter', () => {
  assert.deepEqual(
    [...sources, ...others].flatMap(({ path, text }) => longComments(path, text)),
    [],
  )
})

test('a banned word is found in a name, a comment, a constant and a message', () => {
  const found = (text: string): number => bannedWords('a.ts', text).length
  for (const text of ['let hasTold = 1', '// It was told.', 'const MAX_TOLD = 1', "log('told again')", "'kept-dead'"]) {
    assert.equal(found(text), 1, text)
  }
  for (const text of ['lookup(key)', 'always(welcome)', '/** Reports it. */']) assert.equal(found(text), 0, text)
  assert.equal(bannedWords('a.ts', "get('.well-known/openid-configuration')", names).length, 0)
})

test('a comment that is too long is found, and code does not count as a comment', () => {
  const long = 'x'.repeat(120)
  assert.deepEqual(longComments('a.ts', `// ${long}\n * ${long}\nconst a = '${long}'\n// short`), [
    'a.ts:1: 123 characters',
    'a.ts:2: 123 characters',
  ])
})
