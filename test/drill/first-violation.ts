import { runSchedule } from '../../src/drill/campaign/run-schedule.ts'
import { randomScenario } from '../../src/drill/random/random-scenario.ts'

/** The result of the first random schedule that violates an invariant. */
export interface FirstViolation {
  /** Undefined if all schedules hold. */
  readonly seed: number | undefined
  readonly invariant: string | undefined
  readonly detail: string | undefined
}

// usage: node test/drill/first-violation.ts LIMIT: runs the seeds from 1 to LIMIT until one violates an invariant;
// prints a FirstViolation as JSON.

const limit = Number(process.argv[2] ?? 1)
let found: FirstViolation = { seed: undefined, invariant: undefined, detail: undefined }
for (let seed = 1; seed <= limit && found.seed === undefined; seed++) {
  const { violations } = await runSchedule(randomScenario(seed), seed)
  const [first] = violations
  if (first !== undefined) found = { seed, invariant: first.invariant, detail: first.detail }
}
console.log(JSON.stringify(found))
