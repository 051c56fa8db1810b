import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isKubeError } from '../../src/kube/errors.ts'
import { JsonLines } from '../../src/kube/http-json-lines.ts'

function valuesIn(chunks: readonly Uint8Array[], maxLineBytes = 1_000_000): unknown[] {
  const lines = new JsonLines(maxLineBytes)
  const values = chunks.flatMap((chunk) => [...lines.push(chunk)])
  lines.end()
  return values
}

const bytes = (text: string): Uint8Array => Buffer.from(text)

test('values come out whole and in order, however the stream is chopped', () => {
  const chopped = fc
    .tuple(fc.array(fc.jsonValue({ depthSize: 'small', stringUnit: 'binary' })), fc.array(fc.nat(), { maxLength: 40 }))
    .map(([values, cuts]) => {
      const whole = Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(''))
      const at = [0, ...cuts.map((cut) => cut % (whole.length + 1)), whole.length].sort((a, b) => a - b)
      return { values, chunks: at.slice(1).map((end, index) => whole.subarray(at[index], end)) }
    })
  fc.assert(
    fc.property(chopped, ({ values, chunks }) => {
      // Through JSON, for -0 has no other way to be itself there.
      assert.deepEqual(valuesIn(chunks), JSON.parse(JSON.stringify(values)))
    }),
  )
})

test('line separators of Unicode inside strings do not end a line', () => {
  assert.deepEqual(valuesIn([bytes('{"note":"a\u2028b\u2029c\u0085d"}\n')]), [{ note: 'a\u2028b\u2029c\u0085d' }])
})

test('blank lines and carriage returns are passed over', () => {
  assert.deepEqual(valuesIn([bytes('\n\r\n {"a":1}\r\n\n  ')]), [{ a: 1 }])
})

for (const [name, text] of [
  ['not JSON', '{"kind":"Secret","data":"hunter2"\n'],
  ['not UTF-8', Buffer.from([0x22, 0xff, 0x22, 0x0a])],
  ['torn at its end', '{"data":"hunter2"}'],
  ['too long', `"hunter2${'x'.repeat(200)}"\n`],
] as const) {
  test(`a line that is ${name} is a bad response, which does not quote it`, () => {
    const half = Buffer.from(text).length >> 1
    const chunks = [Buffer.from(text).subarray(0, half), Buffer.from(text).subarray(half)]
    assert.throws(
      () => valuesIn(chunks, 100),
      (error) =>
        isKubeError(error, name === 'too long' ? 'TooLarge' : 'BadResponse') &&
        !error.message.includes('hunter2') &&
        error.cause === undefined,
    )
  })
}
