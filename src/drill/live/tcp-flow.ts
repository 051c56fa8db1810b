import type { Socket } from 'node:net'
import type { Cancel, Clock } from '../../runtime/clock.ts'

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
  readonly #clock: Clock
  #cancel: Cancel = () => {}

  constructor(from: Socket, to: Socket, { clock, delayMs }: { readonly clock: Clock; readonly delayMs: () => number }) {
    this.#clock = clock
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
    this.#cancel()
    this.#waiting.length = 0
  }

  #take(chunk: Buffer | undefined): void {
    this.#waiting.push({ dueMs: this.#clock.monotonicMs() + this.#delayMs(), chunk })
    this.#pass()
  }

  #pass(): void {
    this.#cancel()
    while (!this.#held) {
      const [next] = this.#waiting
      if (next === undefined) return
      // Nothing overtakes what was sent before it, also when the delay is taken away.
      const leftMs = next.dueMs - this.#clock.monotonicMs()
      if (leftMs > 0) {
        this.#cancel = this.#clock.schedule(Math.ceil(leftMs), () => this.#pass())
        return
      }
      this.#waiting.shift()
      if (next.chunk === undefined) this.#to.end()
      else if (this.#to.writable && !this.#to.write(next.chunk)) this.#from.pause()
    }
  }
}
