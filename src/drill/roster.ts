import { successorName } from './member-names.ts'
import type { Chosen, MasterPlan, MasterSettings } from './scenario.ts'

/** Who is in a fleet while it is drilled: names of steps to members, and the plans of those who are yet to come. */
export class Roster {
  readonly #plans = new Map<string, MasterPlan>()
  readonly #successors = new Map<string, string>()
  readonly #retired = new Set<string>()

  /** Somebody comes. */
  add(plan: MasterPlan): void {
    this.#plans.set(plan.name, plan)
  }

  /** Somebody goes, and is not expected back. */
  retire(name: string): void {
    this.#retired.add(name)
  }

  isRetired(name: string): boolean {
    return this.#retired.has(name)
  }

  /** Everybody who is there or expected back, in the order in which they came. */
  get present(): readonly MasterPlan[] {
    return [...this.#plans.values()].filter(({ name }) => !this.#retired.has(name))
  }

  /** The plan of its present settings. */
  plan(name: string): MasterPlan | undefined {
    return this.#plans.get(name)
  }

  /** From its next life on it has these settings. */
  configure(name: string, settings: MasterSettings): void {
    const plan = this.#plans.get(name)
    if (plan !== undefined) this.#plans.set(name, { ...plan, settings: { ...plan.settings, ...settings } })
  }

  /** Whom a step means now: in the place of somebody who was replaced, whoever came. Those who are gone are left out. */
  resolve(chosen: Chosen): readonly string[] {
    if (chosen === 'all') return this.present.map(({ name }) => name)
    const names = chosen.map((name) => {
      let current = name
      for (let next = this.#successors.get(current); next !== undefined; next = this.#successors.get(current)) {
        current = next
      }
      return current
    })
    return [...new Set(names)].filter((name) => !this.#retired.has(name))
  }

  /** Another one at the address of somebody who has gone. Its clock is ahead, so that its life is the later one by any clock. */
  successorOf(plan: MasterPlan): MasterPlan {
    let name = successorName(plan.name)
    while (this.#plans.has(name)) name = successorName(name)
    this.#successors.set(plan.name, name)
    return { ...plan, name, skewMs: plan.skewMs + 60_000 }
  }

  /** One more, like `pattern`, with a name and addresses of its own. */
  another(pattern: MasterPlan): MasterPlan {
    const taken = new Set(
      [...this.#plans.values()].flatMap(({ addresses, settings }) => [...addresses, ...(settings.addresses ?? [])]),
    )
    for (let number = this.#plans.size + 1; ; number++) {
      const name = `master-${number}`
      const { addresses: rolled, ...settings } = pattern.settings
      const addresses = (rolled ?? pattern.addresses).map((address) => numbered(address, number))
      if (this.#plans.has(name) || addresses.some((address) => taken.has(address))) continue
      return { ...pattern, name, addresses, skewMs: 0, settings }
    }
  }
}

/** A documentation address of the same family. */
function numbered(like: string, number: number): string {
  return like.includes(':') ? `2001:db8::${number.toString(16)}` : `192.0.2.${number}`
}
