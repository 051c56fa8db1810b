import assert from 'node:assert/strict'
import { test } from 'node:test'
import { explain, judgeVersions, listKeys } from './listing-judge.ts'
import type { StoredVersion } from './stored-versions.ts'

const { endpoints, slice } = listKeys()
const addresses = ['192.0.2.1', '192.0.2.2']

function version(key: string, atMs: number, listed: string | undefined): StoredVersion {
  return { key, revision: atMs, atMs, value: listed === undefined ? undefined : Buffer.from(listed) }
}

test('the judge reports a master missing in any version, for how long, and an empty list', () => {
  const versions = [
    version(endpoints, 1, 'before what is judged'),
    version(endpoints, 1_000, '192.0.2.1 192.0.2.2'),
    version(slice, 1_100, '192.0.2.1 192.0.2.2'),
    version(endpoints, 2_000, '192.0.2.2'),
    version(endpoints, 4_500, '192.0.2.2'),
    version(endpoints, 5_000, '192.0.2.1 192.0.2.2'),
    version(slice, 6_000, undefined),
  ]
  assert.equal(
    explain(judgeVersions(versions, 1, addresses)),
    '192.0.2.1 off Endpoints for 3.0 s (revision 2000); 192.0.2.1 off the slice to the end (revision 6000); ' +
      '192.0.2.2 off the slice to the end (revision 6000); the slice empty (revision 6000)',
  )
  assert.equal(explain(judgeVersions(versions.slice(0, 3), 1, addresses)), '')
})

test('a dead master may be missing, but the list may not be empty', () => {
  const versions = [version(endpoints, 1_000, '192.0.2.2'), version(endpoints, 2_000, '')]
  const dies = (address: string, atMs: number): boolean => address === '192.0.2.2' && atMs < 1_500
  assert.equal(explain(judgeVersions(versions, 0, addresses, dies)), 'Endpoints empty (revision 2000)')
})
