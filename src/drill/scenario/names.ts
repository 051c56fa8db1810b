import type { Chosen, FleetPlan, MasterPlan, MasterSettings, Scenario } from './scenario.ts'

/** The master that takes the place of another. */
export function successorName(name: string): string {
  return `${name}-anew`
}

/** Whether whoever comes in the place of `name`, or of its successors, is called so. */
export function isSuccessorName(candidate: string, name: string): boolean {
  return candidate.startsWith(name) && /^(?:-anew)+$/.test(candidate.slice(name.length))
}

/**
 * Whether a master is among those chosen: by its name, or by that of somebody in whose place it came, or who came in
 * its.
 */
export function isAmong(chosen: Chosen, name: string): boolean {
  if (chosen === 'all' || chosen.includes(name)) return true
  return chosen.some((one) => isSuccessorName(one, name) || isSuccessorName(name, one))
}

/**
 * The names of all masters that steps may name: those of the fleet, and those that `replace` and `scale` add. The steps
 * are in the order of their times. Masters that `random` steps add are not known yet. Pure.
 */
export function namesIn({ fleet, steps }: { readonly fleet: FleetPlan } & Pick<Scenario, 'steps'>): readonly string[] {
  const roster = new Roster()
  for (const master of fleet.masters) roster.add(master)
  const [pattern] = fleet.masters
  for (const step of steps) {
    if (step.action === 'replace') {
      for (const name of roster.resolve(step.masters)) {
        const plan = roster.plan(name)
        roster.retire(name)
        if (plan !== undefined) roster.add(roster.successorOf(plan))
      }
    }
    if (step.action === 'scale') {
      const { present } = roster
      for (const { name } of present.slice(step.to)) roster.retire(name)
      for (let count = present.length; count < step.to && pattern !== undefined; count++) {
        roster.add(roster.another(pattern))
      }
    }
  }
  return roster.names
}

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

  /** The names of everybody who ever came. */
  get names(): readonly string[] {
    return [...this.#plans.keys()]
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

  /**
   * Whom a step means now: in the place of somebody who was replaced, whoever came. Those who are gone, or not there
   * yet, are left out.
   */
  resolve(chosen: Chosen): readonly string[] {
    if (chosen === 'all') return this.present.map(({ name }) => name)
    const names = chosen.map((name) => {
      let current = name
      for (let next = this.#successors.get(current); next !== undefined; next = this.#successors.get(current)) {
        current = next
      }
      return current
    })
    return [...new Set(names)].filter((name) => this.#plans.has(name) && !this.#retired.has(name))
  }

  /**
   * Another one at the address of somebody who has gone. Its clock is ahead, so that its life is the later one by any
   * clock.
   */
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
