import { FleetJudge, type Violation } from '../verify/fleet-judge.ts'
import { Conductor } from './conductor.ts'
import type { DrillEvent } from './event.ts'
import { DrillRecorder } from './recorder.ts'
import type { Scenario } from './scenario.ts'
import type { DrillTarget } from './target.ts'

/** How one run went. */
export interface RunOutcome {
  readonly events: readonly DrillEvent[]
  readonly violations: readonly Violation[]
}

/**
 * Drills one fleet once. Rejects with a {@link DrillError} when the fleet does not come up or a step cannot be done, and with the signal's
 * reason; the target is closed in any case.
 */
export async function runOnce(
  scenario: Scenario,
  options: {
    readonly target: DrillTarget
    readonly signal: AbortSignal
    readonly onEvent?: ((event: DrillEvent) => void) | undefined
  },
): Promise<RunOutcome> {
  const { target, signal, onEvent } = options
  const recorder = new DrillRecorder(target, new FleetJudge(), onEvent)
  try {
    await target.open(recorder, signal)
    await target.drive(new Conductor({ target, recorder, scenario, signal }).run())
  } finally {
    await target.close()
  }
  return { events: recorder.events, violations: recorder.violations }
}
