import type * as z from 'zod/mini'
import { parsedText } from './option.ts'

/** The error for a text that is not a duration. The message is one line that names the text and its fault. */
export class DurationError extends Error {
  override readonly name = 'DurationError'
  readonly code = 'InvalidDuration'
}

const nanosecondsPerUnit: ReadonlyMap<string, number> = new Map([
  ['ns', 1],
  ['us', 1e3],
  ['µs', 1e3], // U+00B5, micro sign
  ['μs', 1e3], // U+03BC, Greek letter mu
  ['ms', 1e6],
  ['s', 1e9],
  ['m', 60e9],
  ['h', 3600e9],
])

/** Go stores a duration as a signed 64-bit number of nanoseconds, so the limit is 292 years. */
const LIMIT_NS = 1n << 63n

/**
 * Parses a duration in the grammar of Go's time.ParseDuration, and returns milliseconds. A duration is an optional
 * sign, then numbers, each with an optional fraction and a unit, such as `300ms`, `-1.5h` or `2h45m`. The units are ns,
 * us (or µs), ms, s, m and h; only `0` needs none. The result may have a fraction.
 * @throws DurationError
 */
export function parseDuration(text: string): number {
  const fail = (fault: string): never => {
    throw new DurationError(
      `${JSON.stringify(text)} is not a duration${fault} (a duration is written like 10s or 1m30s)`,
    )
  }
  const negative = text.startsWith('-')
  const unsigned = negative || text.startsWith('+') ? text.slice(1) : text
  if (unsigned === '0') return 0
  if (unsigned === '') fail('')

  let totalNs = 0n
  // A unit is everything before the next digit or point, so that an unknown one can be named.
  const term = /(\d*)(?:\.(\d*))?([^\d.]*)/y
  while (term.lastIndex < unsigned.length) {
    const [, whole = '', fraction = '', unit = ''] = term.exec(unsigned) ?? []
    if (whole === '' && fraction === '') fail('')
    if (unit === '') fail(': a unit is missing')
    const unitNs = nanosecondsPerUnit.get(unit) ?? fail(`: unknown unit ${JSON.stringify(unit)}`)
    totalNs += BigInt(whole) * BigInt(unitNs) + fractionNs(fraction, unitNs)
    if (totalNs > LIMIT_NS) fail(': it is longer than 292 years')
  }
  if (totalNs === LIMIT_NS && !negative) fail(': it is longer than 292 years')
  return Number(negative ? -totalNs : totalNs) / 1e6
}

/**
 * `durationMs` in the form of Go's Duration.String: `1h0m0s`, `1m30s`, `1.5s`, `100ms`, `0s`. Rounded to a nanosecond.
 * @throws RangeError for a duration that Go cannot hold.
 */
export function formatDuration(durationMs: number): string {
  const rounded = Math.round(durationMs * 1e6)
  if (!(Math.abs(rounded) < Number(LIMIT_NS))) throw new RangeError(`${durationMs} ms is not a duration`)
  const totalNs = BigInt(Math.abs(rounded))
  const sign = rounded < 0 ? '-' : ''
  if (totalNs === 0n) return '0s'
  if (totalNs < 1_000n) return `${sign}${totalNs}ns`
  if (totalNs < 1_000_000n) return `${sign}${decimal(totalNs, 3)}µs`
  if (totalNs < 1_000_000_000n) return `${sign}${decimal(totalNs, 6)}ms`
  const seconds = decimal(totalNs % 60_000_000_000n, 9)
  const minutes = totalNs / 60_000_000_000n
  if (minutes === 0n) return `${sign}${seconds}s`
  if (minutes < 60n) return `${sign}${minutes}m${seconds}s`
  return `${sign}${minutes / 60n}h${minutes % 60n}m${seconds}s`
}

/** The nanoseconds in a fraction of a unit, truncated as in Go, which also computes with doubles. */
function fractionNs(fraction: string, unitNs: number): bigint {
  // Like Go, this ignores further digits when the number would exceed a signed 64-bit integer.
  let value = 0n
  let scale = 1
  for (const digit of fraction) {
    const next = value * 10n + BigInt(digit)
    if (value > (LIMIT_NS - 1n) / 10n || next > LIMIT_NS) break
    value = next
    scale *= 10
  }
  return BigInt(Math.trunc(Number(value) * (unitNs / scale)))
}

/** `value` with a point before its last `places` digits, without trailing zeros. */
function decimal(value: bigint, places: number): string {
  const unit = 10n ** BigInt(places)
  const fraction = (value % unit).toString().padStart(places, '0').replace(/0+$/, '')
  return fraction === '' ? `${value / unit}` : `${value / unit}.${fraction}`
}

/**
 * The default maximum, in milliseconds. No setting needs a longer duration, so a longer one probably has a wrong unit.
 */
const LONGEST_MS = 24 * 3_600_000

/**
 * A schema that parses a duration in Go's form (`10s`, `1m30s`) to milliseconds. `maxMs` is 24h by default.
 * `wholeSeconds` refuses fractions of a second, for a value that is stored in seconds.
 */
export function duration(limits: {
  readonly minMs: number
  readonly maxMs?: number
  readonly wholeSeconds?: boolean
}): z.ZodMiniCodec<z.ZodMiniString, z.ZodMiniCustom<number, number>> {
  return parsedText(
    (text) => {
      const durationMs = parseDuration(text)
      const { minMs, maxMs = LONGEST_MS, wholeSeconds = false } = limits
      if (durationMs < minMs)
        throw new RangeError(`must be at least ${formatDuration(minMs)}, not ${JSON.stringify(text)}`)
      if (durationMs > maxMs)
        throw new RangeError(`must be at most ${formatDuration(maxMs)}, not ${JSON.stringify(text)}`)
      if (wholeSeconds && durationMs % 1000 !== 0)
        throw new RangeError(`must be whole seconds, not ${JSON.stringify(text)}`)
      return durationMs
    },
    formatDuration,
    expectedDuration,
  )
}

/**
 * The expectation of a duration schema (see {@link parsedText}): for a number without a unit, that many seconds, which
 * are probably meant.
 */
export function expectedDuration(input: unknown): string | undefined {
  if (typeof input !== 'number') return undefined
  return `must be a duration such as ${Number.isFinite(input) ? input : 10}s`
}

const SECOND = 1
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const YEAR = 365 * DAY

/**
 * A span of time as kubectl prints ages: at most two units, and only one if the second is zero or insignificant (`90s`,
 * `3m4s`, `12m`, `5h20m`, `3d4h`, `2y30d`). Negative spans are `0s`. Upstream: HumanDuration in
 * k8s.io/apimachinery/pkg/util/duration.
 *
 * @param ms - milliseconds; fractions of a second are cut off.
 */
export function humanDuration(ms: number): string {
  const seconds = Math.max(0, Math.trunc(ms / 1000))
  if (seconds < 2 * MINUTE) return `${seconds}s`
  if (seconds < 10 * MINUTE) return twoUnits(seconds, MINUTE, 'm', SECOND, 's')
  if (seconds < 3 * HOUR) return `${Math.floor(seconds / MINUTE)}m`
  if (seconds < 8 * HOUR) return twoUnits(seconds, HOUR, 'h', MINUTE, 'm')
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)}h`
  if (seconds < 8 * DAY) return twoUnits(seconds, DAY, 'd', HOUR, 'h')
  if (seconds < 2 * YEAR) return `${Math.floor(seconds / DAY)}d`
  if (seconds < 8 * YEAR) return twoUnits(seconds, YEAR, 'y', DAY, 'd')
  return `${Math.floor(seconds / YEAR)}y`
}

function twoUnits(seconds: number, unit: number, unitName: string, lesser: number, lesserName: string): string {
  const rest = Math.floor((seconds % unit) / lesser)
  return `${Math.floor(seconds / unit)}${unitName}${rest === 0 ? '' : `${rest}${lesserName}`}`
}
