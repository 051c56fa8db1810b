/** The violations that were found. */
export class RepairVerdicts {
  readonly violations: string[] = []
  readonly nowMs: () => number
  readonly #recorded = new Set<string>()

  constructor(nowMs: () => number) {
    this.nowMs = nowMs
  }

  /** Records a violation, once. */
  violated(what: string): void {
    if (this.#recorded.has(what)) return
    this.#recorded.add(what)
    this.violations.push(`${at(this.nowMs())} ${what}`)
  }
}

/** A moment as text. */
export function at(ms: number): string {
  return `${Math.round(ms)}`
}
