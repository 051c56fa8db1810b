import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'

const page = readFileSync('docs/errors.md', 'utf8')
const sources = globSync('src/**/*.ts', { exclude: ['src/protobuf/gen/**'] }).map((file) => readFileSync(file, 'utf8'))
/** Errors that never leave the in-process API server or the command line. */
const internal = new Set(['DecodeError', 'Compacted', 'Refusal', 'StopRequest', 'KubeError'])

test('docs/errors.md names every error class with its code, and no other', () => {
  const documented = new Map([...page.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map(([, name, code]) => [name, code]))
  const declared = new Map<string, string | undefined>()
  for (const source of sources) {
    for (const [, name = '', body = ''] of source.matchAll(/class (\w+) extends Error \{(.*?)\n\}/gs)) {
      if (!internal.has(name)) declared.set(name, /readonly code(?:: \w+)? = '(\w+)'/.exec(body)?.[1])
    }
  }
  assert.ok(declared.size > 5)
  assert.deepEqual([...documented].sort(), [...declared].sort())
})

test('docs/errors.md explains every code of a failed request, and no other', () => {
  const source = readFileSync('src/kube/errors.ts', 'utf8')
  const union = /export type KubeErrorCode =(.*?)\n\n/s.exec(source)?.[1] ?? ''
  const declared = [...union.matchAll(/\| '(\w+)'/g)].map(([, code]) => code)
  const table = page.slice(page.indexOf('## Of a request'))
  const documented = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code)
  assert.ok(declared.length > 10)
  assert.deepEqual(documented, declared)
})
