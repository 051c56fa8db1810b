import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CompactObject } from '../../src/kube/compact-object.ts'

class Copy extends CompactObject {}

function copyOf(resourceVersion: string | undefined): Copy {
  return new Copy(resourceVersion === undefined ? {} : { resourceVersion })
}

test('a version stays the same text, also when it is no number or too large for a small one', () => {
  for (const text of [
    '7',
    '0',
    '2147483647',
    '2147483648',
    '18446744073709551615',
    '007',
    '1e3',
    '',
    'abc',
    undefined,
  ]) {
    assert.equal(copyOf(text).resourceVersion, text)
  }
  assert.equal(copyOf('2147483647').version, 2147483647)
})
