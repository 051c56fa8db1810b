import type { Chosen, MasterPlan, MasterSettings, Scenario } from './scenario.ts'

export function successorName(name: string): string {
  return `${name}-anew`
}

/** Whether `candidate` is the name of a master that replaces `name`, or that replaces one of its successors. */
export function isSuccessorName(candidate: string, name: string): boolean {
  return candidate.startsWith(name) && /^(?:-anew)+$/.test(candidate.slice(name.length))
}

/** Whether `chosen` may mean the master `name`, one of its predecessors or one of its successors. */
export function isAmong(chosen: Chosen, name: string): boolean {
  if (chosen === 'all' || chosen.includes(name)) return true
  return chosen.some((one) => isSuccessorName(one, name) || isSuccessorName(name, one))
}

/** A kube-apiserver that `chosen` names; undefined if there is none. A successor is of its predecessor's kind. */
export function kubeApiserverAmong(chosen: Chosen, masters: readonly MasterPlan[]): string | undefined {
  return masters.find(({ name, kind }) => kind === 'kube-apiserver' && (chosen === 'all' || chosen.includes(name)))
    ?.name
}

/** The names of {@link mastersIn}. */
export function namesIn(scenario: Pick<Scenario, 'fleet' | 'steps'>): readonly string[] {
  return mastersIn(scenario).map(({ name }) => name)
}

/**
 * All masters that steps may name: the fleet's masters, and the masters that `replace` and `scale` add. The steps must
 * be in the order of their times. Masters that `random` steps add are missing. Pure.
 */
export function mastersIn({ fleet, steps }: Pick<Scenario, 'fleet' | 'steps'>): readonly MasterPlan[] {
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
  return roster.plans
}

/** The masters of a fleet during a drill: resolves the names in steps to masters, and plans new masters. */
export class Roster {
  readonly #plans = new Map<string, MasterPlan>()
  readonly #successors = new Map<string, string>()
  readonly #retired = new Set<string>()

  add(plan: MasterPlan): void {
    this.#plans.set(plan.name, plan)
  }

  retire(name: string): void {
    this.#retired.add(name)
  }

  isRetired(name: string): boolean {
    return this.#retired.has(name)
  }

  /** The plans of all masters that are not retired, in the order in which they were added. */
  get present(): readonly MasterPlan[] {
    return this.plans.filter(({ name }) => !this.#retired.has(name))
  }

  /** The plans of all masters that were ever added, retired masters included. */
  get plans(): readonly MasterPlan[] {
    return [...this.#plans.values()]
  }

  /** The plan of a master, with the settings of its next life. */
  plan(name: string): MasterPlan | undefined {
    return this.#plans.get(name)
  }

  configure(name: string, settings: MasterSettings): void {
    const plan = this.#plans.get(name)
    if (plan !== undefined) this.#plans.set(name, { ...plan, settings: { ...plan.settings, ...settings } })
  }

  /**
   * The masters that a step means now. The name of a replaced master means its last successor. Masters that were
   * retired or not added yet are left out.
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
   * Plans a new master at the address of a retired one. From now on the old name means the new master. The wall clock
   * of the new master is one minute ahead of the old one, so that the new master certainly has the later start time.
   */
  successorOf(plan: MasterPlan): MasterPlan {
    let name = successorName(plan.name)
    while (this.#plans.has(name)) name = successorName(name)
    this.#successors.set(plan.name, name)
    return { ...plan, name, skewMs: plan.skewMs + 60_000 }
  }

  /** The plan of one more master like `pattern`, with a name and addresses of its own. */
  another(pattern: MasterPlan): MasterPlan {
    const taken = new Set(
      this.plans.flatMap(({ addresses, settings }) => [...addresses, ...(settings.addresses ?? [])]),
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

/**
 * An address of the family of `like` that no real network uses: for documentation or, in IPv4 from number 255 on, for
 * benchmarks.
 */
function numbered(like: string, number: number): string {
  if (like.includes(':')) return `2001:db8::${number.toString(16)}`
  return number < 255 ? `192.0.2.${number}` : `198.18.${number >> 8}.${number & 255}`
}
