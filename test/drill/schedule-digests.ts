import { byReference } from '../support/by-copy.ts'
import { runShortSchedule } from './short-schedule.ts'

// usage: node test/drill/schedule-digests.ts FIRST LAST: prints for each seed its number and the digest of its run. The
// API server's answers share their parts.

const [first = 1, last = 1] = process.argv.slice(2).map(Number)
const lines: string[] = []
for (let seed = first; seed <= last; seed++) {
  const { digest } = await runShortSchedule(seed, byReference)
  lines.push(`${seed} ${digest}`)
}
console.log(lines.join('\n'))
