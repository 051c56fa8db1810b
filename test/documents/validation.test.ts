import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as z from 'zod/mini'
import {
  describeIssue,
  didYouMean,
  formatMistake,
  InvalidInputError,
  parseInput,
} from '../../src/documents/validation.ts'

/** The message for each issue that a schema has with a value. */
function complaints(schema: z.ZodMiniType, value: unknown): readonly string[] {
  return parseInput(schema, value).error?.issues.map((issue) => describeIssue(issue, value)) ?? []
}

test('a message states what is required and what was given', () => {
  assert.deepEqual(complaints(z.enum(['lease', 'none']), 'lese'), ['must be one of lease, none, not "lese"'])
  const unlisted = z.array(z.enum(['lease', 'none'], { error: 'must be a reconciler' }))
  assert.deepEqual(complaints(unlisted, ['lese', 'other']), [
    'must be a reconciler, not "lese"; did you mean lease?',
    'must be a reconciler, not "other"',
  ])
  assert.deepEqual(complaints(z.boolean(), 'maybe'), ['must be true or false, not "maybe"'])
  assert.deepEqual(complaints(z.string(), 7), ['must be text, not 7'])
  assert.deepEqual(complaints(z.string(), null), ['must be text, not nothing'])
  assert.deepEqual(complaints(z.string(), { a: 1 }), ['must be text, not a mapping'])
  assert.deepEqual(complaints(z.array(z.string()), 7), ['must be a list, not 7'])
  assert.deepEqual(complaints(z.array(z.string()), ['a', 7]), ['must be text, not 7'])
  assert.deepEqual(complaints(z.int(), 1.5), ['must be a whole number, not 1.5'])
  assert.deepEqual(complaints(z.int().check(z.gte(2)), 1), ['must be at least 2, not 1'])
})

test('the global Zod locale does not change the messages; a message of the schema itself is used', async (t) => {
  const { localeError } = z.config()
  t.after(() => void z.config({ localeError }))
  // The complete zod package does this when it is imported.
  z.config(z.locales.en())
  assert.deepEqual(complaints(z.boolean(), 'maybe'), ['must be true or false, not "maybe"'])
  assert.deepEqual(complaints(z.string('must be a name'), 7), ['must be a name, not 7'])
})

test('a long value is truncated in the message', () => {
  assert.ok((complaints(z.boolean(), 'x'.repeat(500))[0] ?? '').length < 120)
})

test('a formatted mistake is one line even if its message has line breaks', () => {
  assert.equal(
    formatMistake({ where: '--config', message: 'first\n  second\r\nthird' }),
    '--config: first second third',
  )
})

test('an error lists all mistakes in the given order', () => {
  const error = new InvalidInputError([
    { where: '--b', message: 'is wrong' },
    { where: 'a.yaml:1:1: a', message: 'too' },
  ])
  assert.equal(error.message, '--b: is wrong\na.yaml:1:1: a: too')
  assert.equal(error.code, 'InvalidInput')
})

const keys = ['securePort', 'serviceClusterIpRange', 'leaseTtl', 'leaseStore', 'kind']

test('a typo, a different case and a flag in place of a key get the right suggestion', () => {
  assert.equal(didYouMean('secureport', keys), 'securePort')
  assert.equal(didYouMean('secure-port', keys), 'securePort')
  assert.equal(didYouMean('secrePort', keys), 'securePort')
  assert.equal(didYouMean('serviceClusterIPRange', keys), 'serviceClusterIpRange')
  assert.equal(didYouMean('leaseTTL', keys), 'leaseTtl')
})

test('the nearest key is suggested, and the first of equally near ones', () => {
  assert.equal(didYouMean('leaseStor', keys), 'leaseStore')
  assert.equal(didYouMean('ab', ['aa', 'bb']), undefined)
  assert.equal(didYouMean('abc', ['abd', 'abe']), 'abd')
})

test('a text that resembles no key gets no suggestion', () => {
  assert.equal(didYouMean('replicas', keys), undefined)
  assert.equal(didYouMean('', keys), undefined)
  assert.equal(didYouMean('x', []), undefined)
})
