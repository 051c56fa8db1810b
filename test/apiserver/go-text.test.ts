import assert from 'node:assert/strict'
import { test } from 'node:test'
import { goQuoted, isPrintable } from '../../src/apiserver/go-text.ts'

test('goQuoted quotes a text as Go does', () => {
  assert.equal(goQuoted('a "b" \\ café'), '"a \\"b\\" \\\\ café"')
  assert.equal(goQuoted('\x07\b\f\n\r\t\v\x00\x7f'), '"\\a\\b\\f\\n\\r\\t\\v\\x00\\x7f"')
  assert.equal(goQuoted('\u00a0\u200b\u{e0001}🙂'), '"\\u00a0\\u200b\\U000e0001🙂"')
})

test('the only printable space is the ASCII space', () => {
  assert.deepEqual(['a', 'é', ' ', '€', '-'].map(isPrintable), [true, true, true, true, true])
  assert.deepEqual(['\n', '\u00a0', '\u200b', '\x7f'].map(isPrintable), [false, false, false, false])
})
