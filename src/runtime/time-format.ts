const msPerDay = 86_400_000

/**
 * `wallMs` as metav1.Time writes it: RFC 3339 in UTC with whole seconds (`2026-11-21T03:00:00Z`); what is below a
 * second is cut off.
 * @throws RangeError outside the years 0000 to 9999.
 */
export function formatTime(wallMs: number): string {
  const seconds = Math.floor(wallMs / 1000)
  return `${formatSeconds(seconds)}Z`
}

/**
 * `wallMs` as metav1.MicroTime writes it: RFC 3339 in UTC with six digits of a second (`2026-11-21T03:00:00.123000Z`).
 * @throws RangeError outside the years 0000 to 9999.
 */
export function formatMicroTime(wallMs: number): string {
  const seconds = Math.floor(wallMs / 1000)
  // All microseconds since 1970 together would not fit a double for long.
  const micros = Math.round((wallMs - seconds * 1000) * 1000)
  if (micros === 1_000_000) return `${formatSeconds(seconds + 1)}.000000Z`
  return `${formatSeconds(seconds)}.${digits(micros, 6)}Z`
}

const rfc3339 = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:Z|([+-])(\d{2}):(\d{2}))$/

/**
 * Milliseconds since the Unix epoch for an RFC 3339 time. Strict: upper-case `T` and `Z`, an offset is required, days
 * that do not exist and leap seconds are refused. Fractions of a millisecond are kept, down to a microsecond.
 * @throws RangeError for anything else.
 */
export function parseTime(text: string): number {
  const match = rfc3339.exec(text)
  if (match === null) throw new RangeError(`${JSON.stringify(text)} is not an RFC 3339 time`)
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  const offsetHour = Number(match[9] ?? 0)
  const offsetMinute = Number(match[10] ?? 0)
  const days = daysFromCivil(year, month, day)
  const date = civilFromDays(days)
  const exists = month >= 1 && month <= 12 && date.year === year && date.month === month && date.day === day
  if (!exists || hour > 23 || minute > 59 || second > 59 || offsetHour > 23 || offsetMinute > 59) {
    throw new RangeError(`${JSON.stringify(text)} is not an RFC 3339 time: a part of it is out of range`)
  }
  const offset = (match[8] === '-' ? -1 : 1) * (offsetHour * 60 + offsetMinute)
  const micros = Number((match[7] ?? '').slice(0, 6).padEnd(6, '0'))
  return days * msPerDay + ((hour * 60 + minute - offset) * 60 + second) * 1000 + micros / 1000
}

/** Like {@link parseTime}, with undefined where that throws. */
export function tryParseTime(text: string): number | undefined {
  try {
    return parseTime(text)
  } catch {
    return undefined
  }
}

function formatSeconds(seconds: number): string {
  const days = Math.floor(seconds / 86_400)
  const { year, month, day } = civilFromDays(days)
  if (!(year >= 0 && year <= 9999)) throw new RangeError(`a time in the year ${year} cannot be written`)
  const rest = seconds - days * 86_400
  const clock = [Math.floor(rest / 3600), Math.floor(rest / 60) % 60, rest % 60].map((part) => digits(part, 2))
  return `${digits(year, 4)}-${digits(month, 2)}-${digits(day, 2)}T${clock.join(':')}`
}

function digits(value: number, width: number): string {
  return String(value).padStart(width, '0')
}

/**
 * The proleptic Gregorian calendar by arithmetic, because Date is not for simulated code. Years are counted from
 * March, so that the leap day comes last; 719,468 days lie between 0000-03-01 and 1970-01-01, 146,097 days are 400
 * years.
 */
function daysFromCivil(year: number, month: number, day: number): number {
  const marchYear = month <= 2 ? year - 1 : year
  const era = Math.floor(marchYear / 400)
  const yearOfEra = marchYear - era * 400
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear
  return era * 146_097 + dayOfEra - 719_468
}

function civilFromDays(days: number): { readonly year: number; readonly month: number; readonly day: number } {
  const shifted = days + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = shifted - era * 146_097
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  )
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const marchMonth = Math.floor((5 * dayOfYear + 2) / 153)
  const day = dayOfYear - Math.floor((153 * marchMonth + 2) / 5) + 1
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day }
}
