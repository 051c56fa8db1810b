import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { messageOf, printable, printableLines } from '../../src/runtime/errors.ts'

test('messageOf returns the message of an error without its class, and any other value as text', () => {
  const thrown: readonly unknown[] = [new RangeError('too far'), new Error(''), 'text', undefined, null, 7]
  assert.deepEqual(thrown.map(messageOf), ['too far', '', 'text', 'undefined', 'null', '7'])
})

test('printable escapes characters that control or disappear in a terminal', () => {
  for (const [text, shown] of [
    ['\u001b[2J\u001b]0;title\u0007', '\\u001b[2J\\u001b]0;title\\u0007'],
    ['a\r\nb\tc\u007f', 'a\\u000d\\u000ab\\u0009c\\u007f'],
    ['\u009b31m', '\\u009b31m'],
    ['\u202eexe.\u2066\u200f', '\\u202eexe.\\u2066\\u200f'],
    ['a\u200bb\ufeff\u00ad\u2060\u3164\u{e0041}', 'a\\u200bb\\ufeff\\u00ad\\u2060\\u3164\\udb40\\udc41'],
    ['\u2028\u2029\u0085', '\\u2028\\u2029\\u0085'],
    ['\ud800', '\\ud800'],
  ] as const) {
    assert.equal(printable(text), shown)
  }
})

test('printable leaves text of every script unchanged', () => {
  for (const text of ['control-1.example', 'Grüße, 東京 · नमस्ते – «x»', '👍', 'C:\\u001b', '']) {
    assert.equal(printable(text), text)
  }
})

test('printableLines leaves line breaks unescaped, but no other control characters', () => {
  assert.equal(printableLines('a\nb\r\n\u001b'), 'a\nb\\u000d\n\\u001b')
})

test('printable turns JSON into equivalent JSON without control characters', () => {
  fc.assert(
    fc.property(fc.json({ stringUnit: 'binary' }), (json) => {
      const shown = printable(json)
      assert.deepEqual(JSON.parse(shown), JSON.parse(json))
      assert.doesNotMatch(shown, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u)
    }),
  )
})
