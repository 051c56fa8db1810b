import { fittingScenario } from '../../src/drill/campaign/run-schedule.ts'
import { randomScenario } from '../../src/drill/random/random-scenario.ts'
import type { Scenario } from '../../src/drill/scenario/scenario.ts'

/** The first minute and a half of a seed's random schedule, with a minute for everything to come right. */
export function shortSchedule(seed: number): Scenario {
  const begun = fittingScenario({ ...randomScenario(seed), durationMs: 90_000 })
  return { ...begun, durationMs: begun.durationMs + 60_000 }
}
