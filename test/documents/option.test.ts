import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as z from 'zod/mini'
import { duration } from '../../src/documents/duration.ts'
import {
  defaultTextOf,
  flagOf,
  inputKindOf,
  inputOfFlag,
  parsedText,
  splitList,
  wholeNumber,
} from '../../src/documents/option.ts'

test('a camelCase key becomes a kebab-case flag', () => {
  assert.equal(flagOf('serviceClusterIpRange'), 'service-cluster-ip-range')
  assert.equal(flagOf('context'), 'context')
})

test('the kind of input is derived through codecs, and an object is refused', () => {
  assert.equal(inputKindOf(parsedText(Number, String)), 'text')
  assert.equal(inputKindOf(z.enum(['a'])), 'text')
  assert.equal(inputKindOf(wholeNumber(0, 1)), 'integer')
  assert.equal(inputKindOf(z.boolean()), 'boolean')
  assert.equal(inputKindOf(z.array(parsedText(Number, String))), 'list')
  assert.throws(() => inputKindOf(z.object({})), /an option cannot be of type object/)
})

test('the text of a flag is converted to the kind of its input, or passed on unchanged if it does not parse', () => {
  assert.equal(inputOfFlag(wholeNumber(0, 9), '7'), 7)
  assert.equal(inputOfFlag(wholeNumber(0, 9), '-7'), -7)
  // As a number, the last text would be reported differently from how it was given.
  for (const text of ['', ' 7', '7.0', '0x7', '7e0', 'seven', '99999999999999999999']) {
    assert.equal(inputOfFlag(wholeNumber(0, 9), text), text)
  }
  assert.equal(inputOfFlag(z.boolean(), 'false'), false)
  assert.equal(inputOfFlag(z.boolean(), 'no'), 'no')
  assert.deepEqual(inputOfFlag(z.array(z.string()), 'a,b'), ['a', 'b'])
  assert.equal(inputOfFlag(z.string(), '7'), '7')
})

test('an invalid whole number yields exactly one message', () => {
  for (const input of [1e20, -1e20, 10, -1, 1.5, '7', null]) {
    const { error } = z.safeParse(wholeNumber(0, 9), input)
    assert.deepEqual(
      error?.issues.map(({ message }) => message),
      ['must be a whole number from 0 to 9'],
    )
  }
})

test('a list is split only at commas', () => {
  assert.deepEqual(splitList(''), [])
  assert.deepEqual(splitList('a, b,'), ['a', ' b', ''])
})

test('parsedText decodes, encodes and reports the error message of its parser', () => {
  const schema = parsedText(
    (text) => {
      if (text === '') throw new Error('it is empty')
      return text.length
    },
    (length) => 'x'.repeat(length),
  )
  assert.equal(z.decode(schema, 'abc'), 3)
  assert.equal(z.encode(schema, 3), 'xxx')
  assert.deepEqual(
    z.safeParse(schema, '').error?.issues.map(({ message }) => message),
    ['it is empty'],
  )
})

test('a duration option enforces its bounds and, with wholeSeconds, whole seconds', () => {
  const problem = (text: string, limits = { minMs: 2000, wholeSeconds: true }): string | undefined =>
    z.safeParse(duration(limits), text).error?.issues[0]?.message
  assert.equal(z.decode(duration({ minMs: 0 }), '1m30s'), 90_000)
  assert.equal(z.encode(duration({ minMs: 0 }), 90_000), '1m30s')
  assert.equal(problem('2s'), undefined)
  assert.equal(problem('24h'), undefined)
  assert.equal(problem('1999ms'), 'must be at least 2s, not "1999ms"')
  assert.equal(problem('-5s'), 'must be at least 2s, not "-5s"')
  assert.equal(problem('2500ms'), 'must be whole seconds, not "2500ms"')
  assert.equal(problem('2.000001s'), 'must be whole seconds, not "2.000001s"')
  assert.equal(problem('25h'), 'must be at most 24h0m0s, not "25h"')
  assert.match(problem('15') ?? '', /^"15" is not a duration/)
})

test('a default is shown as a user would type it', () => {
  const declared = { schema: z.string(), description: '' }
  assert.equal(defaultTextOf({ ...declared, default: ['a', 'b'] }), 'a,b')
  assert.equal(defaultTextOf({ ...declared, default: 0 }), '0')
  assert.equal(defaultTextOf({ ...declared, default: false }), undefined)
  assert.equal(defaultTextOf({ ...declared, unset: 'as it was' }), 'as it was')
  assert.equal(
    defaultTextOf({ ...declared, conditionalDefault: { description: 'b with --a', value: () => 'b' } }),
    'b with --a',
  )
})
