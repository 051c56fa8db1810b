import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { formatMicroTime, formatTime, parseTime } from '../../src/runtime/time-format.ts'

const firstMs = Date.UTC(2000, 0, 1) - 2000 * 365.2425 * 86_400_000 + 86_400_000
const lastMs = Date.UTC(9999, 11, 31, 23, 59, 59, 999)
const anyMs = fc.integer({ min: Math.ceil(firstMs), max: lastMs })

test('times are formatted and parsed as Date does, for all years from 0000 to 9999', () => {
  fc.assert(
    fc.property(anyMs, (ms) => {
      const iso = new Date(ms).toISOString()
      assert.equal(formatTime(ms), `${iso.slice(0, 19)}Z`)
      assert.equal(formatMicroTime(ms), `${iso.slice(0, 23)}000Z`)
      assert.equal(parseTime(iso), ms)
    }),
    { numRuns: 5000 },
  )
})

test('a MicroTime from 1970 to 2100 survives parsing and formatting unchanged', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4_102_444_800 }), fc.nat(999_999), (seconds, micros) => {
      const text = `${formatTime(seconds * 1000).slice(0, -1)}.${String(micros).padStart(6, '0')}Z`
      assert.equal(formatMicroTime(parseTime(text)), text)
    }),
    { numRuns: 5000 },
  )
})

test('a MicroTime is rounded to the nearest microsecond, if necessary into the next second', () => {
  assert.equal(formatMicroTime(0.0006), '1970-01-01T00:00:00.000001Z')
  assert.equal(formatMicroTime(999.9996), '1970-01-01T00:00:01.000000Z')
})

test('a Time drops fractions of a second, before 1970 too', () => {
  assert.equal(formatTime(1999.9), '1970-01-01T00:00:01Z')
  assert.equal(formatTime(-1), '1969-12-31T23:59:59Z')
})

for (const [text, expected] of [
  ['2026-11-21T03:00:00Z', '2026-11-21T03:00:00.000Z'],
  ['2026-11-21T03:00:00.5Z', '2026-11-21T03:00:00.500Z'],
  ['2026-11-21T03:00:00.123456789Z', '2026-11-21T03:00:00.123Z'],
  ['2026-11-21T03:00:00+05:30', '2026-11-20T21:30:00.000Z'],
  ['2026-11-21T03:00:00-23:59', '2026-11-22T02:59:00.000Z'],
  ['2000-02-29T00:00:00Z', '2000-02-29T00:00:00.000Z'],
  ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00.000Z'],
] as const) {
  test(`${text} is parsed`, () => {
    assert.equal(new Date(Math.floor(parseTime(text))).toISOString(), expected)
  })
}

for (const text of [
  '',
  '2026-11-21',
  '2026-11-21T03:00:00',
  '2026-11-21t03:00:00Z',
  '2026-11-21T03:00:00z',
  '2026-11-21 03:00:00Z',
  '2026-11-21T03:00Z',
  '2026-11-21T03:00:00.Z',
  '2026-11-21T03:00:00,5Z',
  '2026-13-01T00:00:00Z',
  '2026-00-01T00:00:00Z',
  '2026-02-29T00:00:00Z',
  '2100-02-29T00:00:00Z',
  '2026-04-31T00:00:00Z',
  '2026-01-00T00:00:00Z',
  '2026-11-21T24:00:00Z',
  '2026-11-21T03:60:00Z',
  '2026-12-31T23:59:60Z',
  '2026-11-21T03:00:00+24:00',
  '2026-11-21T03:00:00+00:60',
  '+2026-11-21T03:00:00Z',
  '12026-11-21T03:00:00Z',
]) {
  test(`${JSON.stringify(text)} is rejected as a time`, () => {
    assert.throws(
      () => parseTime(text),
      (error: Error) => error instanceof RangeError && error.message.includes(JSON.stringify(text)),
    )
  })
}

test('formatTime rejects times outside the years 0000 to 9999', () => {
  for (const ms of [lastMs + 1, -62_167_219_200_001, Infinity, Number.NaN]) {
    assert.throws(() => formatTime(ms), RangeError)
  }
  assert.equal(formatTime(-62_167_219_200_000), '0000-01-01T00:00:00Z')
})
