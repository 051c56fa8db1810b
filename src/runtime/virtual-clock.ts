import type { Cancel, Clock } from './clock.ts'

/** More events than this at one instant mean that the simulated program spins without letting time pass. */
const MAX_EVENTS_AT_ONE_INSTANT = 10_000

/** After this many events Node's event loop gets a turn, to deliver signals and messages every few milliseconds. */
const EVENTS_PER_TURN = 250

/** Time as one simulated process sees it. */
export interface ClockView extends Clock {
  /** Stops the process as SIGSTOP does: due callbacks are held back while time passes. */
  freeze(): void
  /** Resumes the process: held callbacks run in their order at this instant. The process sees time jump. */
  thaw(): void
  /** How far this process' wall clock is ahead of true time, in ms (negative: behind). Monotonic time is unaffected. */
  setSkew(skewMs: number): void
  readonly frozen: boolean
  /** How many callbacks are scheduled and have neither run nor been cancelled. */
  readonly timers: number
}

interface Event {
  dueMs: number
  sequence: number
  /** Undefined once it ran or was cancelled. */
  callback: (() => void) | undefined
  readonly view: { frozen: boolean; held: Event[]; timers: number }
}

/**
 * Simulated time, shared by any number of processes: it stands still until {@link advance} is called, and moves from
 * event to event.
 *
 * Events happen in the order of their due times, and at one time in the order in which they were scheduled. Before the
 * next event begins, all code that waits for promises runs as far as it can without letting time pass.
 *
 * ```ts
 * const time = new VirtualClock()
 * const clock = time.view({ skewMs: 250 })
 * clock.schedule(1000, () => console.log('one second later'))
 * await time.advance(1000)
 * ```
 */
export class VirtualClock {
  readonly #startWallMs: number
  readonly #queue: Event[] = []
  #nowMs = 0
  #sequence = 0
  #events = 0
  #views = 0
  #running = false
  #instantMs = -1
  #eventsAtInstant = 0

  /** `startWallMs`: true wall time at the start, 2026-01-01T00:00:00Z when left out. */
  constructor(options: { readonly startWallMs?: number } = {}) {
    this.#startWallMs = options.startWallMs ?? 1_767_225_600_000
  }

  get nowMs(): number {
    return this.#nowMs
  }

  /** The number of events so far, as a measure of what a simulation costs. */
  get events(): number {
    return this.#events
  }

  /**
   * Creates the clock of one more process. Each clock has its own origin of monotonic time, so that code that compares
   * such times of two processes fails in tests.
   */
  view(options: { readonly skewMs?: number } = {}): ClockView {
    const originMs = this.#nowMs - ++this.#views * 1_000_003
    const state: Event['view'] = { frozen: false, held: [], timers: 0 }
    let skewMs = options.skewMs ?? 0
    return {
      wallMs: () => this.#startWallMs + this.#nowMs + skewMs,
      monotonicMs: () => this.#nowMs - originMs,
      schedule: (delayMs, callback) => this.#schedule(state, delayMs, callback),
      freeze: () => {
        state.frozen = true
      },
      thaw: () => {
        state.frozen = false
        for (const event of state.held.splice(0)) this.#enqueue(event, this.#nowMs)
      },
      setSkew: (ms) => {
        skewMs = ms
      },
      get frozen() {
        return state.frozen
      },
      get timers() {
        return state.timers
      },
    }
  }

  /**
   * Lets `ms` milliseconds pass with all their events; 0 runs the events that are due now. Rejects with the error of a
   * callback: time then stands at that event, and may be advanced again. Also rejects if more than 10,000 events happen
   * at one instant, if `ms` is negative or not finite, and during another call.
   */
  async advance(ms: number): Promise<void> {
    await this.#run(ms, () => false)
  }

  /**
   * Lets time pass until `predicate` holds, checked before the first and after each event; stops after `limitMs`
   * milliseconds. Resolves with whether `predicate` held. Rejects as {@link advance} does.
   */
  async runUntil(predicate: () => boolean, limitMs: number): Promise<boolean> {
    return this.#run(limitMs, predicate)
  }

  async #run(ms: number, enough: () => boolean): Promise<boolean> {
    if (!(ms >= 0 && ms < Infinity)) throw new RangeError(`time cannot be advanced by ${ms} ms`)
    if (this.#running) throw new Error('this clock is already being advanced')
    this.#running = true
    try {
      return await this.#until(this.#nowMs + ms, enough)
    } finally {
      this.#running = false
    }
  }

  /** Uses callbacks instead of an await for each event, because there are thousands of events. */
  #until(endMs: number, enough: () => boolean): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const go = (): void => {
        try {
          if (enough()) resolve(true)
          else if (!this.#runNext(endMs)) resolve(enough())
          else if (this.#events % EVENTS_PER_TURN === 0) setImmediate(go)
          else settle()
        } catch (error) {
          reject(error)
        }
      }
      // Node runs `nextTick` callbacks only when no microtask is left. It then runs the microtask of `goOn` only when
      // no such callback is left. So before `go` runs, every promise that can settle without letting time pass has
      // settled. A turn of the event loop would do the same, but costs more.
      const goOn = (): void => void RESOLVED.then(go)
      const tick = (): void => process.nextTick(goOn)
      const settle = (): void => void RESOLVED.then(tick)
      settle()
    })
  }

  /**
   * Moves to the next event and runs it, or holds it while its process is frozen. If no event is due by `endMs`, moves
   * to `endMs` and returns false.
   */
  #runNext(endMs: number): boolean {
    for (;;) {
      const event = this.#next(endMs)
      if (event === undefined) {
        this.#nowMs = endMs
        return false
      }
      const { callback } = event
      if (callback === undefined) continue
      this.#nowMs = event.dueMs
      if (event.view.frozen) {
        event.view.held.push(event)
        return true
      }
      this.#events++
      this.#countAtInstant()
      event.callback = undefined
      event.view.timers--
      callback()
      return true
    }
  }

  #countAtInstant(): void {
    if (this.#instantMs !== this.#nowMs) {
      this.#instantMs = this.#nowMs
      this.#eventsAtInstant = 0
    }
    if (++this.#eventsAtInstant > MAX_EVENTS_AT_ONE_INSTANT) {
      throw new Error(
        `more than ${MAX_EVENTS_AT_ONE_INSTANT} events at ${this.#nowMs} ms: the program does not let time pass`,
      )
    }
  }

  #schedule(view: Event['view'], delayMs: number, callback: () => void): Cancel {
    if (Number.isNaN(delayMs)) throw new RangeError('a delay must be a number of milliseconds, not NaN')
    const event: Event = { dueMs: 0, sequence: 0, callback, view }
    this.#enqueue(event, this.#nowMs + Math.max(delayMs, 0))
    view.timers++
    return () => {
      if (event.callback !== undefined) view.timers--
      event.callback = undefined
    }
  }

  /** Puts an event on the binary heap, behind all that are already there for the same time. */
  #enqueue(event: Event, dueMs: number): void {
    event.dueMs = dueMs
    event.sequence = this.#sequence++
    const queue = this.#queue
    let index = queue.push(event) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!before(event, queue[parent] as Event)) break
      queue[index] = queue[parent] as Event
      index = parent
    }
    queue[index] = event
  }

  /** Takes the first event off the heap, if it is due by `endMs`. */
  #next(endMs: number): Event | undefined {
    const queue = this.#queue
    const first = queue[0]
    if (first === undefined || first.dueMs > endMs) return undefined
    const last = queue.pop() as Event
    if (queue.length === 0) return first
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= queue.length) break
      if (child + 1 < queue.length && before(queue[child + 1] as Event, queue[child] as Event)) child++
      if (!before(queue[child] as Event, last)) break
      queue[index] = queue[child] as Event
      index = child
    }
    queue[index] = last
    return first
  }
}

function before(a: Event, b: Event): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.sequence < b.sequence)
}

const RESOLVED = Promise.resolve()
