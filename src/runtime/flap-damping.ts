/** A loss that comes so soon after a recovery, and is over as soon, belongs to the same disturbance. */
const FLAP_MS = 5_000

/**
 * Decides which changes between up and down are worth a log line. The first loss is logged at once, and its recovery too. A loss within
 * five seconds of a recovery is logged only once it has lasted for five seconds, so that a server that answers every other request is
 * one outage in the log. What was logged last is never wrong for longer than that, as long as {@link observe} is called.
 */
export class FlapDamping {
  #isUp: boolean
  #loggedUp: boolean
  #recoveredAtMs = Number.NEGATIVE_INFINITY
  #lostAtMs = Number.NEGATIVE_INFINITY

  /** `up`: the state that needs no line. */
  constructor(up: boolean) {
    this.#isUp = up
    this.#loggedUp = up
  }

  /** Takes what was seen at `nowMs`, on the monotonic clock. Returns the state that is to be logged now, if any. */
  observe(up: boolean, nowMs: number): 'up' | 'down' | undefined {
    if (up !== this.#isUp) {
      this.#isUp = up
      if (!up) this.#lostAtMs = nowMs
      // What was down from the start has not recovered from anything.
      else if (this.#lostAtMs !== Number.NEGATIVE_INFINITY) this.#recoveredAtMs = nowMs
    }
    if (up === this.#loggedUp) return undefined
    if (!up && this.#lostAtMs - this.#recoveredAtMs < FLAP_MS && nowMs - this.#lostAtMs < FLAP_MS) return undefined
    this.#loggedUp = up
    return up ? 'up' : 'down'
  }
}
