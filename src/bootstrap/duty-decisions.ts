import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import type { Clock } from '../runtime/clock.ts'
import type { ControllerName, ControllerSelection } from './controller-selection.ts'
import { type DutyDecision, decideDuty, type HookSightings, hookOf, hooks, nextSightings, unheard } from './duties.ts'

export interface DutyDecisionsOptions {
  readonly selection: ControllerSelection
  readonly monitor: Pick<ReadinessMonitor, 'subscribe'>
  readonly clock: Clock
}

/** Which duties are done here, judged anew with each answer of the server. */
export class DutyDecisions {
  readonly #selection: ControllerSelection
  readonly #sightings = new Map<string, HookSightings>(hooks.map((hook) => [hook, unheard]))
  readonly #handlers = new Set<() => void>()
  #told = false

  constructor({ selection, monitor, clock }: DutyDecisionsOptions) {
    this.#selection = selection
    monitor.subscribe((answer) => {
      // A server that refuses to tell may well do all of it itself.
      if (!answer.answered || answer.refused !== undefined) return
      let changed = !this.#told
      this.#told = true
      for (const [hook, before] of this.#sightings) {
        const next = nextSightings(before, answer, hook, clock.monotonicMs())
        this.#sightings.set(hook, next)
        changed ||= next.type !== before.type
      }
      if (changed) for (const handler of [...this.#handlers]) handler()
    })
  }

  /** Whether a duty is done here; undefined before the first answer that is no refusal. */
  of(name: ControllerName): DutyDecision | undefined {
    if (!this.#told) return undefined
    return decideDuty(name, this.#selection, this.#sightings.get(hookOf(name) ?? '') ?? unheard)
  }

  /** Calls `handler` when decisions may have changed, before whoever asked for the answer hears of it. */
  subscribe(handler: () => void): () => void {
    this.#handlers.add(handler)
    return () => this.#handlers.delete(handler)
  }
}
