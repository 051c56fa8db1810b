import type { Scenario, Step } from '../scenario.ts'
import { fittingScenario } from './fitting-scenario.ts'
import { withoutMaster, withoutPeculiarity } from './simpler-fleet.ts'

/** What {@link shrinkScenario} came to. */
export interface Shrunk {
  readonly scenario: Scenario
  /** How often a scenario was tried. */
  readonly tries: number
}

/** After the violation a shortened scenario goes on for so long, in milliseconds. */
const AFTER_MS = 500
/** Where the first step is moved to, in milliseconds. */
const FIRST_MS = 1_000

/**
 * Looks for the shortest scenario that still fails: fewer steps, then fewer masters, shorter times, a simpler fleet, and once more
 * fewer steps. `failsAt` runs a scenario and resolves with the time of the violation that is looked for, undefined when there is none.
 * Tries at most `limit` times; with nothing better found the scenario stays as it is. @default 300
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
  /** When the best one fails, as far as that is known. */
  #failureMs: number | undefined

  constructor(scenario: Scenario, failsAt: (candidate: Scenario) => Promise<number | undefined>, limit: number) {
    this.best = scenario
    this.#failsAt = failsAt
    this.#limit = limit
  }

  /** What comes after the violation, and what leads nowhere between the last step and it. */
  async cutTail(): Promise<void> {
    this.#failureMs ??= await this.#run(this.best)
    if (this.#failureMs === undefined) return
    const durationMs = Math.ceil((this.#failureMs + AFTER_MS) / 100) * 100
    const steps = this.best.steps.filter(({ atMs }) => atMs <= durationMs)
    if (durationMs < this.best.durationMs) await this.#take({ ...this.best, durationMs, steps })
  }

  /** Delta debugging: ever smaller pieces are left out. */
  async dropSteps(): Promise<void> {
    for (let size = Math.ceil(this.best.steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
      // From the end: what is last is least often a cause of what follows.
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
    for (const candidate of withoutPeculiarity) await this.#take({ ...this.best, fleet: candidate(this.best.fleet) })
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

  /** Whether it fails as well; then it is the best one. */
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

/** The step and all after it so much earlier, and the end with them. */
function moved(scenario: Scenario, from: number, byMs: number): Scenario {
  const steps = scenario.steps.map((step, index) => (index < from ? step : { ...step, atMs: step.atMs - byMs }))
  return { ...scenario, steps, durationMs: scenario.durationMs - byMs }
}

function tenth(ms: number): number {
  return Math.round(ms / 100) * 100
}
