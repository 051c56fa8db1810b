import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'

const page = readFileSync('docs/errors.md', 'utf8')
const sources = globSync('src/**/*.ts', { exclude: ['src/protobuf/gen/**'] }).map((file) => readFileSync(file, 'utf8'))
/** Errors that never leave the in-process API server, the command line, a controller or the health server. */
const internal = new Set([
  'SliceWriteError',
  'StaleCacheError',
  'SyncFailure',
  'Compacted',
  'Refusal',
  'StopRequest',
  'NotRequested',
  'TooManyReviews',
  'KubeError',
  'EtcdError',
  'RemoteError',
  'ProtobufError',
  'GoTypeError',
])

test('docs/errors.md names every error class with its code, and no other', () => {
  const documented = new Map([...page.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map(([, name, code]) => [name, code]))
  const declared = new Map<string, string | undefined>()
  for (const source of sources) {
    for (const [, name = '', body = ''] of source.matchAll(/class (\w+) extends (?:Remote)?Error \{(.*?)\n\}/gs)) {
      if (!internal.has(name)) declared.set(name, /readonly code(?:: \w+)? = '(\w+)'/.exec(body)?.[1])
    }
  }
  assert.ok(declared.size > 5)
  assert.deepEqual([...documented].sort(), [...declared].sort())
})

for (const [file, union, heading] of [
  ['src/kube/errors.ts', 'KubeErrorCode', '## Of a request to the API server'],
  ['src/etcd/kv.ts', 'EtcdErrorCode', '## Of a request to etcd'],
] as const) {
  test(`docs/errors.md explains every ${union}, and no other`, () => {
    const source = readFileSync(file, 'utf8')
    const text = new RegExp(`export type ${union} =(.*?)\\n\\n`, 's').exec(source)?.[1] ?? ''
    const declared = [...text.matchAll(/\| '(\w+)'/g)].map(([, code]) => code)
    const [table = ''] = page.slice(page.indexOf(heading) + heading.length).split('\n## ')
    const documented = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code)
    assert.ok(declared.length > 10)
    assert.deepEqual(documented, declared)
  })
}
