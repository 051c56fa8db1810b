import type { DrillEvent } from '../event.ts'

/** Which action was done to the masters of an address last. */
export class Causes {
  /** Every master that an address ever had, the latest that changed last. */
  readonly #masters = new Map<string, string[]>()
  readonly #steps: { readonly action: string; readonly masters: readonly string[] }[] = []

  take(event: DrillEvent): void {
    if (event.type === 'step') this.#steps.push(event)
    if (event.type !== 'state') return
    const { address, master } = event
    const others = (this.#masters.get(address) ?? []).filter((other) => other !== master)
    this.#masters.set(address, [...others, master])
  }

  get addresses(): Iterable<string> {
    return this.#masters.keys()
  }

  /** The master of the address that something happened to last. */
  masterOf(address: string): string {
    return this.#masters.get(address)?.at(-1) ?? ''
  }

  /** The last action that named a master of the address, or nobody in particular; `nothing` when none was done. */
  actionOn(address: string): string {
    const own = this.#masters.get(address) ?? []
    const concerns = (masters: readonly string[]): boolean =>
      masters.length === 0 || masters.some((master) => own.includes(master))
    return this.#steps.findLast(({ masters }) => concerns(masters))?.action ?? 'nothing'
  }
}
