import { describeFailure } from '../../src/drill/campaign/campaign.ts'
import { fittingScenario, runSchedule } from '../../src/drill/campaign/run-schedule.ts'
import { randomScenario } from '../../src/drill/random/random-scenario.ts'
import type { Scenario } from '../../src/drill/scenario/scenario.ts'
import type { Violation } from '../../src/verify/fleet-checker.ts'
import { byCopy } from '../support/by-copy.ts'

/** The first 90 seconds of a seed's random schedule, and a minute in which everything can recover. */
export function shortSchedule(seed: number): Scenario {
  const begun = fittingScenario({ ...randomScenario(seed), durationMs: 90_000 })
  return { ...begun, durationMs: begun.durationMs + 60_000 }
}

/** Runs the short schedule. By default the API server answers with copies, as a real server does. */
export function runShortSchedule(seed: number, transport = byCopy): ReturnType<typeof runSchedule> {
  return runSchedule(shortSchedule(seed), seed, { transport })
}

/** The violations, and the command that replays this short schedule: the whole one may give another result. */
export function describeShortFailure(seed: number, violations: readonly Violation[]): string {
  const described = describeFailure({ seed, violations }).filter((line) => !line.startsWith('  again: '))
  return [...described, `  again: node_modules/.bin/node test/drill/short-replay.ts ${seed}`].join('\n')
}
