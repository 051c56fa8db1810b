import { createHash } from 'node:crypto'
import { FleetJudge, type Violation } from '../../verify/fleet-judge.ts'
import { Conductor } from '../conductor.ts'
import type { DrillEvent } from '../event.ts'
import { FlapMeter } from '../figures/flaps.ts'
import { DrillRecorder } from '../recorder.ts'
import type { Scenario } from '../scenario.ts'
import { SimulatedTarget } from '../simulator/target.ts'
import type { TargetObserver } from '../target.ts'

/** How one schedule of a campaign went. */
export interface ScheduleOutcome {
  readonly violations: readonly Violation[]
  readonly events: readonly DrillEvent[]
  /** How many events the simulator went through. */
  readonly simulatorEvents: number
  /** How often an address left while its master was well. */
  readonly flaps: number
  /** Of the history and of every request, so that two runs can be compared. */
  readonly digest: string
}

/**
 * Runs a scenario in the simulator, without clients and most figures. What a run rejects with is a violation too: none may. Rejects with
 * the signal's reason alone.
 */
export async function runSchedule(scenario: Scenario, seed: number, signal: AbortSignal): Promise<ScheduleOutcome> {
  const target = new SimulatedTarget(scenario.fleet, seed)
  const recorder = new DrillRecorder(target, new FleetJudge({ bounds: scenario.bounds }))
  const requests: string[] = []
  const broken: Violation[] = []
  try {
    await target.open(noting(recorder, requests))
    await target.drive(new Conductor({ target, recorder, scenario, signal }).run())
  } catch (error) {
    signal.throwIfAborted()
    broken.push({ atMs: recorder.events.at(-1)?.atMs ?? 0, invariant: 'drill-ends', detail: String(error) })
  } finally {
    await target.close()
  }
  const { events } = recorder
  const flaps = new FlapMeter()
  for (const event of events) flaps.take(event)
  return {
    violations: [...recorder.violations, ...broken],
    events,
    simulatorEvents: target.simulatorEvents,
    flaps: flaps.count,
    digest: createHash('sha256').update(requests.join('\n')).update(JSON.stringify(events)).digest('hex'),
  }
}

/** Requests that only read are no events: what is asked is as good a witness of what a master does as what it writes. */
function noting(recorder: DrillRecorder, requests: string[]): TargetObserver {
  return {
    listed: (listing) => recorder.listed(listing),
    requested(request) {
      requests.push(`${request.atMs} ${request.by} ${request.request.method} ${request.request.path}`)
      recorder.requested(request)
    },
    leases: (addresses) => recorder.leases(addresses),
    connected: (connection) => recorder.connected(connection),
    objects: (seen) => recorder.objects(seen),
  }
}
