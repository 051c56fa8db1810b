/** What must not be, and was. */
export class RepairVerdicts {
  readonly violations: string[] = []
  readonly nowMs: () => number
  readonly #said = new Set<string>()

  constructor(nowMs: () => number) {
    this.nowMs = nowMs
  }

  /** Notes it, the first time. */
  violated(what: string): void {
    if (this.#said.has(what)) return
    this.#said.add(what)
    this.violations.push(`${at(this.nowMs())} ${what}`)
  }
}

/** A moment, in words. */
export function at(ms: number): string {
  return `${Math.round(ms)}`
}
