import { type PortRange, portRangeContains } from '../../net/port-range.ts'
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
    if (!portRangeContains(this.#range, port)) {
      return `provided port is not in the valid range. The range of valid ports is ${this.#range.text}`
    }
    return this.#taken.has(port) && !own.has(port) ? 'provided port is already allocated' : undefined
  }

  /** A free port that is not in `own`; undefined if there is none. */
  next(own: ReadonlySet<number>): number | undefined {
    const { first, size } = this.#range
    const start = randomInteger(this.#random, size)
    for (let i = 0; i < size; i++) {
      const port = first + ((start + i) % size)
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
