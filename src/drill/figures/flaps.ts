import type { DrillEvent } from '../event.ts'

/**
 * For how long a master has to have been well for its leaving to be a flap, in milliseconds: as long as one that has become well may take
 * to be listed. Until then what was decided before may still come about.
 */
const WELL_MS = 6_000

/** Counts how often an address leaves the EndpointSlice, not by damage, while a master of it has been well for a while. */
export class FlapMeter {
  readonly #masters = new Map<string, { readonly address: string; readonly wellSinceMs: number }>()
  #listed: readonly string[] = []
  #count = 0

  take(event: DrillEvent): void {
    if (event.type === 'state') {
      const { master, address, well, atMs } = event
      if (!well) this.#masters.delete(master)
      else if (this.#masters.get(master)?.address !== address) this.#masters.set(master, { address, wellSinceMs: atMs })
    }
    if (event.type !== 'listed' || event.object !== 'slice' || event.damage) return
    const { addresses = [], atMs } = event
    const gone = this.#listed.filter((address) => !addresses.includes(address))
    this.#listed = addresses
    const settled = [...this.#masters.values()].filter(({ wellSinceMs }) => atMs - wellSinceMs >= WELL_MS)
    if (atMs >= 0) this.#count += gone.filter((one) => settled.some(({ address }) => address === one)).length
  }

  /** From time 0 on. */
  get count(): number {
    return this.#count
  }
}
