import { type PortRange, portRangeText } from '../../net/port-range.ts'
import { type Random, randomInteger } from '../../runtime/random.ts'

/** Which NodePorts are taken; one number may serve several protocols of one Service. */
export class NodePorts {
  readonly #range: PortRange
  readonly #random: Random
  readonly #taken = new Set<number>()

  constructor(range: PortRange, random: Random) {
    this.#range = range
    this.#random = random
  }

  /** Why this port cannot be had; undefined if it can. `own` are the ports that the Service has already. */
  faultOf(port: number, own: ReadonlySet<number>): string | undefined {
    const { first, last } = this.#range
    if (port < first || port > last) {
      return `provided port is not in the valid range. The range of valid ports is ${first}-${last}`
    }
    return this.#taken.has(port) && !own.has(port) ? 'provided port is already allocated' : undefined
  }

  /** A free port that is not in `own`; undefined if there is none. */
  next(own: ReadonlySet<number>): number | undefined {
    const { first, last } = this.#range
    const count = last - first + 1
    const start = randomInteger(this.#random, count)
    for (let i = 0; i < count; i++) {
      const port = first + ((start + i) % count)
      if (!this.#taken.has(port) && !own.has(port)) return port
    }
    return undefined
  }

  take(ports: Iterable<number>): void {
    for (const port of ports) this.#taken.add(port)
  }

  release(ports: Iterable<number>): void {
    for (const port of ports) this.#taken.delete(port)
  }
}
