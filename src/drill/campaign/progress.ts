import { humanDuration } from '../../documents/human-duration.ts'

/** How far a campaign is: rate, time left, and what did not hold so far, in one line. Pure. */
export function describeProgress({
  done,
  runs,
  failed,
  elapsedMs,
}: {
  readonly done: number
  readonly runs: number
  readonly failed: number
  readonly elapsedMs: number
}): string {
  const told = failed === 0 ? 'all held so far' : `${failed} did not hold`
  const parts = [`${done} of ${runs} schedules`]
  if (done === runs) parts.push('looking for the shortest ones that fail')
  else if (done > 0 && elapsedMs > 0) {
    parts.push(`${((done * 1000) / elapsedMs).toFixed(1)} a second`)
    parts.push(`${humanDuration(((runs - done) * elapsedMs) / done)} left`)
  }
  return [...parts, told].join(', ')
}
