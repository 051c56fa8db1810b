import { runSchedule } from '../../src/drill/campaign/run-schedule.ts'
import { shortSchedule } from './short-schedule.ts'

// usage: node test/drill/schedule-digests.ts FIRST LAST: one line for each seed, its number and the digest of its run.

const [first = 1, last = 1] = process.argv.slice(2).map(Number)
const lines: string[] = []
for (let seed = first; seed <= last; seed++) {
  const { digest } = await runSchedule(shortSchedule(seed), seed, new AbortController().signal)
  lines.push(`${seed} ${digest}`)
}
console.log(lines.join('\n'))
