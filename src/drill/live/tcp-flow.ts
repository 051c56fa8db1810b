import type { Socket } from 'node:net'

/** What is under way in one direction of a connection, with the time before which it must not arrive. */
interface Parcel {
  readonly dueMs: number
  /** Undefined: the end. */
  readonly chunk: Buffer | undefined
}

/** One direction of a proxied connection: passes on what comes, in its order, late or not at all for a while. */
export class TcpFlow {
  readonly #from: Socket
  readonly #to: Socket
  readonly #delayMs: () => number
  readonly #waiting: Parcel[] = []
  #held = false
  #timer: NodeJS.Timeout | undefined

  constructor(from: Socket, to: Socket, delayMs: () => number) {
    this.#from = from
    this.#to = to
    this.#delayMs = delayMs
    from.on('data', (chunk) => this.#take(chunk))
    from.on('end', () => this.#take(undefined))
    to.on('drain', () => {
      if (!this.#held) from.resume()
    })
  }

  /** While it is held nothing is taken in and nothing arrives; what was under way arrives afterwards. */
  hold(held: boolean): void {
    this.#held = held
    if (held) this.#from.pause()
    else {
      this.#from.resume()
      this.#pass()
    }
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#waiting.length = 0
  }

  #take(chunk: Buffer | undefined): void {
    this.#waiting.push({ dueMs: performance.now() + this.#delayMs(), chunk })
    this.#pass()
  }

  #pass(): void {
    clearTimeout(this.#timer)
    while (!this.#held) {
      const [next] = this.#waiting
      if (next === undefined) return
      // Nothing overtakes what was sent before it, also when the delay is taken away.
      const leftMs = next.dueMs - performance.now()
      if (leftMs > 0) {
        this.#timer = setTimeout(() => this.#pass(), Math.ceil(leftMs))
        return
      }
      this.#waiting.shift()
      if (next.chunk === undefined) this.#to.end()
      else if (this.#to.writable && !this.#to.write(next.chunk)) this.#from.pause()
    }
  }
}
