import { createHash } from 'node:crypto'
import { FleetChecker, type Violation } from '../../verify/fleet-checker.ts'
import type { ObservedRequest } from '../../verify/observation.ts'
import { Conductor } from '../conductor.ts'
import type { DrillEvent } from '../event.ts'
import { randomScenario } from '../random/random-scenario.ts'
import { DrillRecorder } from '../recorder.ts'
import { FlapMeter } from '../report/figures.ts'
import { lastStepEndMs } from '../scenario/duration.ts'
import { namesIn } from '../scenario/names.ts'
import type { FleetPlan, MasterPlan, Scenario, Step } from '../scenario/scenario.ts'
import { type SimulatedParts, SimulatedTarget } from '../simulator/target.ts'
import type { CampaignReport, CampaignTask } from './campaign.ts'

const NEVER = new AbortController().signal

/**
 * Performs one task of a campaign in this process. `cpuMs` returns the processor time that the process has used, in
 * milliseconds.
 */
export async function performTask(
  task: CampaignTask,
  cpuMs: () => number,
  send: (report: CampaignReport) => void,
): Promise<void> {
  if (task.type === 'shrink') {
    const { seed, invariant } = task
    const { scenario, tries } = await shrinkScenario(randomScenario(seed), async (candidate) => {
      const { violations } = await runSchedule(candidate, seed)
      return violations.find((violation) => violation.invariant === invariant)?.atMs
    })
    const description = `The part of seed ${seed} that is needed to violate ${invariant}.`
    send({ type: 'shrunk', seed, scenario: { ...scenario, description }, tries })
    return
  }
  for (let seed = task.firstSeed; seed < task.firstSeed + task.count; seed++) {
    const startedMs = cpuMs()
    const scenario = randomScenario(seed)
    const { events: _, ...outcome } = await runSchedule(scenario, seed)
    const { leaseStore, leaseTtlMs, reconcileIntervalMs } = scenario.fleet
    const fleet = { leaseStore, leaseTtlMs, reconcileIntervalMs }
    send({ type: 'ran', result: { seed, fleet, ...outcome, cpuMs: cpuMs() - startedMs } })
  }
}

interface ScheduleOutcome {
  readonly violations: readonly Violation[]
  readonly events: readonly DrillEvent[]
  readonly simulatorEvents: number
  /** As {@link FlapMeter} counts them. */
  readonly flaps: number
  /** A hash of the history and of every request, so that two runs can be compared. */
  readonly digest: string
}

/**
 * Runs a scenario in the simulator. Simulates no clients, and computes no figure except the flaps. The scenario must
 * contain no `random` step and no jitter. A run that fails with an error counts as a violation of `drill-ends`.
 */
export async function runSchedule(
  scenario: Scenario,
  seed: number,
  parts: SimulatedParts = {},
): Promise<ScheduleOutcome> {
  const target = new SimulatedTarget(scenario.fleet, seed, parts)
  const recorder = new RequestRecorder(target, new FleetChecker({ bounds: scenario.bounds }))
  const broken: Violation[] = []
  try {
    await target.open(recorder)
    await target.drive(new Conductor({ target, recorder, scenario, signal: NEVER }).run())
  } catch (error) {
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
    digest: createHash('sha256').update(recorder.requests.join('\n')).update(JSON.stringify(events)).digest('hex'),
  }
}

/** Also records every request for the digest, because the history contains no reads. */
class RequestRecorder extends DrillRecorder {
  readonly requests: string[] = []

  override requested(observed: ObservedRequest): void {
    this.requests.push(`${observed.atMs} ${observed.by} ${observed.request.method} ${observed.request.path}`)
    super.requested(observed)
  }
}

interface Shrunk {
  readonly scenario: Scenario
  /** How many scenarios were tried. */
  readonly tries: number
}

/** The least time from the violation to the end of a shortened scenario, in milliseconds. */
const AFTER_MS = 500
/** The time to which the first step is moved, in milliseconds. */
const FIRST_MS = 1_000

/**
 * Searches for a shorter or simpler scenario that still fails. `failsAt` runs a scenario, and resolves with the time of
 * the violation in milliseconds, or with undefined if there is no violation. Tries at most `limit` scenarios. Resolves
 * with the given scenario if no other one fails.
 */
export async function shrinkScenario(
  scenario: Scenario,
  failsAt: (candidate: Scenario) => Promise<number | undefined>,
  limit = 300,
): Promise<Shrunk> {
  const search = new Search(scenario, failsAt, limit)
  await search.cutTail()
  await search.dropSteps()
  await search.cutTail()
  await search.simplifyFleet()
  await search.shortenTimes()
  await search.dropSteps()
  await search.cutTail()
  return { scenario: search.best, tries: search.tries }
}

class Search {
  best: Scenario
  tries = 0
  readonly #failsAt: (candidate: Scenario) => Promise<number | undefined>
  readonly #limit: number
  /** The time at which the best scenario fails, if known. */
  #failureMs: number | undefined

  constructor(scenario: Scenario, failsAt: (candidate: Scenario) => Promise<number | undefined>, limit: number) {
    this.best = scenario
    this.#failsAt = failsAt
    this.#limit = limit
  }

  /** Ends the scenario shortly after the violation. */
  async cutTail(): Promise<void> {
    this.#failureMs ??= await this.#run(this.best)
    if (this.#failureMs === undefined) return
    const durationMs = Math.ceil((this.#failureMs + AFTER_MS) / 100) * 100
    const steps = this.best.steps.filter(({ atMs }) => atMs <= durationMs)
    if (durationMs < this.best.durationMs) await this.#take({ ...this.best, durationMs, steps })
  }

  /** Delta debugging: omits ever smaller groups of steps. */
  async dropSteps(): Promise<void> {
    for (let size = Math.ceil(this.best.steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
      // Begins at the end, because the last steps are rarely a cause.
      for (let end = this.best.steps.length; end > 0; end -= size) {
        const { steps } = this.best
        await this.#takeSteps([...steps.slice(0, Math.max(end - size, 0)), ...steps.slice(end)])
      }
    }
  }

  async simplifyFleet(): Promise<void> {
    for (const { name } of this.best.fleet.masters) {
      if (this.best.fleet.masters.length > 1) await this.#take(withoutMaster(this.best, name))
    }
    for (const simplify of fleetSimplifications) await this.#take({ ...this.best, fleet: simplify(this.best.fleet) })
  }

  async shortenTimes(): Promise<void> {
    for (let index = 0; index < this.best.steps.length; index++) {
      const previousMs = this.best.steps[index - 1]?.atMs
      const atMs = this.best.steps[index]?.atMs ?? 0
      for (const nextMs of previousMs === undefined ? [FIRST_MS] : [previousMs, previousMs + (atMs - previousMs) / 2]) {
        if (nextMs < atMs && (await this.#take(moved(this.best, index, atMs - tenth(nextMs))))) break
      }
      const step = this.best.steps[index]
      if (step !== undefined && 'masters' in step && step.masters !== 'all' && step.masters.length > 1) {
        for (const name of step.masters) {
          const masters = step.masters.filter((other) => other !== name)
          if (await this.#takeSteps(this.best.steps.with(index, { ...step, masters }))) break
        }
      }
    }
  }

  #takeSteps(steps: readonly Step[]): Promise<boolean> {
    return this.#take({ ...this.best, steps })
  }

  /**
   * Runs a candidate, unless it equals the best scenario. If the candidate fails too, makes it the best scenario, and
   * resolves with true.
   */
  async #take(wanted: Scenario): Promise<boolean> {
    const candidate = fittingScenario(wanted)
    if (JSON.stringify(candidate) === JSON.stringify(this.best)) return false
    const failureMs = await this.#run(candidate)
    if (failureMs === undefined) return false
    this.best = candidate
    this.#failureMs = failureMs
    return true
  }

  async #run(candidate: Scenario): Promise<number | undefined> {
    if (this.tries >= this.#limit) return undefined
    this.tries++
    return this.#failsAt(candidate)
  }
}

/** Moves the end of the scenario, and all steps from index `from` on, by `byMs` to an earlier time. */
function moved(scenario: Scenario, from: number, byMs: number): Scenario {
  const steps = scenario.steps.map((step, index) => (index < from ? step : { ...step, atMs: step.atMs - byMs }))
  return { ...scenario, steps, durationMs: scenario.durationMs - byMs }
}

function tenth(ms: number): number {
  return Math.round(ms / 100) * 100
}

/**
 * Makes a scenario consistent after steps or masters were omitted. Removes the names of missing masters, the steps that
 * named only missing masters, and the steps after the end of the scenario. Shortens the steps that would last beyond
 * that end. Pure.
 */
export function fittingScenario(scenario: Scenario): Scenario {
  const { durationMs } = scenario
  const known = namesIn(scenario)
  const steps = scenario.steps.flatMap((step): readonly Step[] => {
    const masters =
      'masters' in step && step.masters !== 'all' ? step.masters.filter((name) => known.includes(name)) : undefined
    if (masters?.length === 0 || step.atMs > durationMs) return []
    const forMs = 'forMs' in step && step.forMs !== undefined ? Math.min(step.forMs, durationMs - step.atMs) : undefined
    return [{ ...step, ...(masters && { masters }), ...(forMs !== undefined && { forMs }) } as Step]
  })
  // A step without `forMs` cannot be shortened, so the scenario lasts until the end of that step.
  return { ...scenario, steps, durationMs: Math.max(durationMs, lastStepEndMs(steps, scenario.fleet)) }
}

const fleetSimplifications: readonly ((fleet: FleetPlan) => FleetPlan)[] = [
  (fleet) => ({ ...fleet, spikes: false }),
  (fleet) => everyMaster(fleet, (master) => ({ ...master, driftPpm: 0 })),
  (fleet) => everyMaster(fleet, (master) => ({ ...master, skewMs: 0 })),
  (fleet) => everyMaster(fleet, (master) => ({ ...master, settings: {} })),
  (fleet) => ({ ...fleet, readinessGate: 'continuous' }),
  (fleet) => ({ ...fleet, onShutdown: 'withdraw' }),
  (fleet) => ({ ...fleet, leaseTtlMs: 15_000, reconcileIntervalMs: 10_000 }),
  (fleet) => (fleet.leaseStore === 'kine' ? { ...fleet, leaseStore: 'etcd' } : fleet),
  (fleet) => (fleet.leaseStore === 'memory' ? { ...fleet, leaseStore: 'kubernetes' } : fleet),
]

/** Removes a master from the fleet. {@link fittingScenario} must then remove its name from the steps. */
function withoutMaster(scenario: Scenario, name: string): Scenario {
  const masters = scenario.fleet.masters.filter((master) => master.name !== name)
  return { ...scenario, fleet: { ...scenario.fleet, masters, apiserverCount: masters.length } }
}

function everyMaster(fleet: FleetPlan, change: (master: MasterPlan) => MasterPlan): FleetPlan {
  return { ...fleet, masters: fleet.masters.map(change) }
}
