import { successorName } from '../member-names.ts'
import type { MasterPlan } from '../scenario.ts'

/** Who of a fleet is there at which time, and whose processes somebody is at: two faults of one process at a time have no meaning. */
export class Roster {
  readonly #busyUntilMs = new Map<string, number>()
  readonly #masters: { readonly name: string; readonly kind: MasterPlan['kind']; readonly fromMs: number }[]
  readonly #replacements = new Set<string>()
  /** Somebody came and went; once is enough. */
  scaled = false

  constructor(masters: readonly MasterPlan[]) {
    this.#masters = masters.map(({ name, kind }) => ({ name, kind, fromMs: 0 }))
  }

  /** How many have died for good. */
  get replaced(): number {
    return this.#replacements.size
  }

  /** Those who are there at that time; of both kinds, or of one. */
  names(atMs: number, kind?: MasterPlan['kind']): readonly string[] {
    return this.#masters
      .filter((one) => one.fromMs <= atMs && (kind === undefined || one.kind === kind))
      .map(({ name }) => name)
  }

  /** Those whose processes are left alone at that time; of both kinds, or of one. */
  free(atMs: number, kind?: MasterPlan['kind']): readonly string[] {
    return this.#masters
      .filter((one) => (kind === undefined || one.kind === kind) && (this.#busyUntilMs.get(one.name) ?? 0) <= atMs)
      .map(({ name }) => name)
  }

  /** From now until then their processes are somebody's. */
  occupy(names: readonly string[], untilMs: number): void {
    for (const name of names) this.#busyUntilMs.set(name, Math.max(untilMs, this.#busyUntilMs.get(name) ?? 0))
  }

  /** Its place is another's, whose processes run from then on. */
  replace(name: string, fromMs: number): void {
    const index = this.#masters.findIndex((one) => one.name === name)
    const before = this.#masters[index]
    if (before === undefined) return
    this.#masters[index] = { ...before, name: successorName(name), fromMs }
    this.#busyUntilMs.set(successorName(name), fromMs)
    this.#replacements.add(successorName(name))
  }

  isReplacement(name: string): boolean {
    return this.#replacements.has(name)
  }
}
