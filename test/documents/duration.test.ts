import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { DurationError, formatDuration, humanDuration, parseDuration } from '../../src/documents/duration.ts'

// Texts, the result of Go's time.ParseDuration in milliseconds, and how Duration.String writes it.
for (const [text, ms, written] of [
  ['0', 0, '0s'],
  ['-0', 0, '0s'],
  ['+0', 0, '0s'],
  ['0s', 0, '0s'],
  ['10s', 10_000, '10s'],
  ['1m30s', 90_000, '1m30s'],
  ['90s', 90_000, '1m30s'],
  ['1h', 3_600_000, '1h0m0s'],
  ['2h45m', 9_900_000, '2h45m0s'],
  ['1h15m30.918s', 4_530_918, '1h15m30.918s'],
  ['-1.5h', -5_400_000, '-1h30m0s'],
  ['+5s', 5000, '5s'],
  ['5.s', 5000, '5s'],
  ['.5s', 500, '500ms'],
  ['-.5s', -500, '-500ms'],
  ['1.0s', 1000, '1s'],
  ['300ms', 300, '300ms'],
  ['1.004s', 1004, '1.004s'],
  ['100.00100s', 100_001, '1m40.001s'],
  ['10.5s4m', 250_500, '4m10.5s'],
  ['1s1s', 2000, '2s'],
  ['11us', 0.011, '11µs'],
  ['12µs', 0.012, '12µs'], // U+00B5
  ['12μs', 0.012, '12µs'], // U+03BC
  ['1500us', 1.5, '1.5ms'],
  ['10ns', 0.000_01, '10ns'],
  ['1.1µs', 0.0011, '1.1µs'],
  ['0.100000000000000000000h', 360_000, '6m0s'],
  ['0.830103483285477580700h', 2_988_372.539_827, '49m48.372539827s'],
  ['0.9223372036854775807h', 3_320_413.933_267, '55m20.413933267s'],
  ['0.3333333333333333333h', 1_200_000, '20m0s'],
  ['39h9m14.425s', 140_954_425, '39h9m14.425s'],
  ['2540400h10m10s', 9_145_440_610_000, '2540400h10m10s'],
] as const) {
  test(`${text} parses to ${ms} ms, which formats as ${written}`, () => {
    assert.equal(parseDuration(text), ms)
    assert.equal(formatDuration(ms), written)
  })
}

test('the longest durations that Go can hold are accepted; one nanosecond more is refused', () => {
  assert.equal(parseDuration('9223372036854775807ns'), 2 ** 63 / 1e6)
  assert.equal(parseDuration('-9223372036854775808ns'), -(2 ** 63) / 1e6)
  assert.throws(() => parseDuration('9223372036854775808ns'), /longer than 292 years/)
  assert.throws(() => parseDuration('-9223372036854775809ns'), /longer than 292 years/)
  assert.throws(() => parseDuration('3000000h'), /longer than 292 years/)
  assert.throws(() => parseDuration('9223372036854775.808us'), /longer than 292 years/)
})

test('excess digits of a fraction are ignored, even hundreds of them', () => {
  assert.equal(parseDuration(`0.${'3'.repeat(400)}s`), 333.333_333)
})

for (const [text, fault] of [
  ['', ''],
  ['-', ''],
  ['+', ''],
  ['s', ''],
  ['.', ''],
  ['.s', ''],
  ['+.s', ''],
  ['--1s', ''],
  ['1s-1s', 'unknown unit "s-"'],
  ['3', 'a unit is missing'],
  ['10', 'a unit is missing'],
  ['1.5', 'a unit is missing'],
  ['1s5', 'a unit is missing'],
  ['1d', 'unknown unit "d"'],
  ['1w', 'unknown unit "w"'],
  ['1S', 'unknown unit "S"'],
  ['10 s', 'unknown unit " s"'],
  ['10s ', 'unknown unit "s "'],
  [' 10s', ''],
  ['1e3s', 'unknown unit "e"'],
  ['1m 30s', 'unknown unit "m "'],
  ['1..5s', ''],
  ['0x10s', 'unknown unit "x"'],
  ['ten seconds', ''],
  ['1\ns', 'unknown unit "\\ns"'],
] as const) {
  test(`${JSON.stringify(text)} is refused with a one-line message: ${fault}`, () => {
    assert.throws(
      () => parseDuration(text),
      (error: Error) =>
        error instanceof DurationError &&
        error.message.startsWith(`${JSON.stringify(text)} is not a duration`) &&
        error.message.includes(fault) &&
        !error.message.includes('\n'),
    )
  })
}

test('a formatted duration parses to the same value, to the nanosecond', () => {
  fc.assert(
    fc.property(fc.integer({ min: -(10 ** 15), max: 10 ** 15 }), (nanoseconds) => {
      assert.equal(parseDuration(formatDuration(nanoseconds / 1e6)) * 1e6, (nanoseconds / 1e6) * 1e6)
    }),
    { numRuns: 5_000 },
  )
})

test('formatting refuses a value that Go cannot hold', () => {
  for (const ms of [Number.NaN, Infinity, -Infinity, 2 ** 63 / 1e6]) {
    assert.throws(() => formatDuration(ms), RangeError)
  }
})

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

test("humanDuration matches upstream's table (k8s.io/apimachinery pkg/util/duration)", () => {
  const table: readonly (readonly [ms: number, text: string])[] = [
    [second, '1s'],
    [70 * second, '70s'],
    [190 * second, '3m10s'],
    [70 * minute, '70m'],
    [47 * hour, '47h'],
    [49 * hour, '2d1h'],
    [8 * day + 2 * hour, '8d'],
    [367 * day, '367d'],
    [730 * day + 25 * hour, '2y1d'],
    [2920 * day + 2 * hour, '8y'],
  ]
  for (const [ms, text] of table) assert.equal(humanDuration(ms), text)
})

test('humanDuration changes units at the right boundaries and truncates fractions of a second', () => {
  const table: readonly (readonly [ms: number, text: string])[] = [
    [-5 * second, '0s'],
    [0, '0s'],
    [999, '0s'],
    [2 * minute - 1, '119s'],
    [2 * minute, '2m'],
    [3 * minute + 4 * second, '3m4s'],
    [10 * minute - 1, '9m59s'],
    [10 * minute, '10m'],
    [3 * hour - 1, '179m'],
    [3 * hour, '3h'],
    [8 * hour - 1, '7h59m'],
    [8 * hour, '8h'],
    [2 * day, '2d'],
    [8 * day - 1, '7d23h'],
    [730 * day, '2y'],
  ]
  for (const [ms, text] of table) assert.equal(humanDuration(ms), text)
})
