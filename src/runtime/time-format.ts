/**
 * `wallMs` as metav1.Time writes it: RFC 3339 in UTC, cut off to whole seconds (`2026-11-21T03:00:00Z`).
 * @throws RangeError outside the years 0000 to 9999.
 */
export function formatTime(wallMs: number): string {
  const seconds = Math.floor(wallMs / 1000)
  return `${formatSeconds(seconds)}Z`
}

/**
 * `wallMs` as metav1.MicroTime writes it: RFC 3339 in UTC with six decimals (`2026-11-21T03:00:00.123000Z`).
 * @throws RangeError outside the years 0000 to 9999.
 */
export function formatMicroTime(wallMs: number): string {
  const seconds = Math.floor(wallMs / 1000)
  // We count within the second, because a double holds the microseconds since 1970 only until the year 2255.
  const micros = Math.round((wallMs - seconds * 1000) * 1000)
  if (micros === 1_000_000) return `${formatSeconds(seconds + 1)}.000000Z`
  return `${formatSeconds(seconds)}.${String(micros).padStart(6, '0')}Z`
}

/** Like {@link formatTime}, but returns undefined if that throws. */
export function tryFormatTime(wallMs: number): string | undefined {
  try {
    return formatTime(wallMs)
  } catch {
    return undefined
  }
}

const rfc3339 = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d+))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))$/

/**
 * Milliseconds since the Unix epoch for an RFC 3339 time. Strict: `T` and `Z` must be upper-case, an offset is
 * required, and nonexistent days and leap seconds are refused. Microseconds are preserved.
 * @throws RangeError for anything else.
 */
export function parseTime(text: string): number {
  const [, local = '', fraction = '', sign, offsetHours = '0', offsetMinutes = '0'] = rfc3339.exec(text) ?? []
  const ms = Date.parse(`${local}Z`)
  // Date takes 30 February for 2 March, and 24:00 for the next day.
  if (Number.isNaN(ms) || new Date(ms).getUTCDate() !== Number(local.slice(8, 10))) {
    throw new RangeError(`${JSON.stringify(text)} is not an RFC 3339 time`)
  }
  const offset = (sign === '-' ? -1 : 1) * (Number(offsetHours) * 60 + Number(offsetMinutes))
  return ms - offset * 60_000 + Number(fraction.slice(0, 6).padEnd(6, '0')) / 1000
}

/** Like {@link parseTime}, but returns undefined if that throws. */
export function tryParseTime(text: string): number | undefined {
  try {
    return parseTime(text)
  } catch {
    return undefined
  }
}

function formatSeconds(seconds: number): string {
  const iso = new Date(seconds * 1000).toISOString()
  // Years outside 0000 to 9999 have a sign and six digits.
  if (!/^\d{4}-/.test(iso)) throw new RangeError(`the time ${iso} cannot be written`)
  return iso.slice(0, 19)
}
