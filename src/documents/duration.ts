/** A text is not a duration. The message is one line, names the text and says what is wrong with it. */
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

/** Go holds a duration as a signed 64-bit number of nanoseconds: 292 years. */
const limitNs = 1n << 63n

/**
 * Milliseconds of a duration in the grammar of Go's time.ParseDuration: a sign, then numbers with a fraction and a
 * unit, such as `300ms`, `-1.5h` or `2h45m`; the units are ns, us (or µs), ms, s, m and h; only `0` may go without.
 * Below a millisecond the result has a fraction.
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
  // A unit is whatever stands before the next digit or point, so that an unknown one can be named.
  const term = /(\d*)(?:\.(\d*))?([^\d.]*)/y
  while (term.lastIndex < unsigned.length) {
    const [, whole = '', fraction = '', unit = ''] = term.exec(unsigned) ?? []
    if (whole === '' && fraction === '') fail('')
    if (unit === '') fail(': a unit is missing')
    const unitNs = nanosecondsPerUnit.get(unit) ?? fail(`: unknown unit ${JSON.stringify(unit)}`)
    totalNs += BigInt(whole) * BigInt(unitNs) + fractionNs(fraction, unitNs)
    if (totalNs > limitNs) fail(': it is longer than 292 years')
  }
  if (totalNs === limitNs && !negative) fail(': it is longer than 292 years')
  return Number(negative ? -totalNs : totalNs) / 1e6
}

/**
 * `durationMs` in the form of Go's Duration.String: `1h0m0s`, `1m30s`, `1.5s`, `100ms`, `0s`. Rounded to a nanosecond.
 * @throws RangeError for what Go cannot hold.
 */
export function formatDuration(durationMs: number): string {
  const rounded = Math.round(durationMs * 1e6)
  if (!(Math.abs(rounded) < Number(limitNs))) throw new RangeError(`${durationMs} ms is not a duration`)
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

/** The fraction is a double in Go too: its rounding is kept, so that both read the same number. */
function fractionNs(fraction: string, unitNs: number): bigint {
  // Digits after the nineteenth do not fit Go's integer and are ignored by it.
  let value = 0n
  let scale = 1
  for (const digit of fraction) {
    const next = value * 10n + BigInt(digit)
    if (value > (limitNs - 1n) / 10n || next > limitNs) break
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
