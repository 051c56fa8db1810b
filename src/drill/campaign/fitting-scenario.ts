import { absentNames } from '../absent-names.ts'
import type { Scenario, Step } from '../scenario.ts'
import { lastStepEndMs } from '../scenario-duration.ts'

/**
 * A scenario of which steps or masters were left out, without the names that nobody bears then, and without what would go on
 * after its end. Pure.
 */
export function fittingScenario(scenario: Scenario): Scenario {
  const { durationMs } = scenario
  const { absent } = absentNames(scenario)
  const steps = scenario.steps.flatMap((step): readonly Step[] => {
    const masters =
      'masters' in step && step.masters !== 'all'
        ? step.masters.filter((name) => absent.get(step)?.includes(name) !== true)
        : undefined
    if (masters?.length === 0 || step.atMs > durationMs) return []
    const forMs = 'forMs' in step && step.forMs !== undefined ? Math.min(step.forMs, durationMs - step.atMs) : undefined
    return [{ ...step, ...(masters && { masters }), ...(forMs !== undefined && { forMs }) } as Step]
  })
  // What is not undone by itself goes on to its own end.
  return { ...scenario, steps, durationMs: Math.max(durationMs, lastStepEndMs(steps, scenario.fleet)) }
}
