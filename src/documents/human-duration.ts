const SECOND = 1
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const YEAR = 365 * DAY

/**
 * A span of time as kubectl prints ages: two units at most, the second one only while it matters (`90s`, `3m4s`, `12m`, `5h20m`,
 * `3d4h`, `2y30d`). Negative spans are `0s`. Upstream: HumanDuration in k8s.io/apimachinery/pkg/util/duration.
 *
 * @param ms - milliseconds; what is below a second is cut off.
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
