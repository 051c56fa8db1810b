import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'

/**
 * Whether one API server reaches its datastore. `fails`: the server answers every API request with 500 at once.
 * `hangs`: the server answers only probes, as a kube-apiserver whose etcd has been killed (measured on 1.36).
 */
export type StoreState = 'ok' | 'fails' | 'hangs'

/**
 * How much later an API server recovers than its datastore: a random time between two shares of the outage's length,
 * but at most `mostMs`. The server is late because its etcd client waits longer after each attempt, up to two minutes.
 * Measured on kube-apiserver 1.36: 3.7 to 7.9 s after an outage of 20 s, 1.7 to 29.9 s after outages of 27 to 46 s.
 */
const RECOVERY = { fromShare: 0.04, toShare: 0.7, mostMs: 120_000 }

export class Datastore {
  #state: 'up' | 'away' = 'up'
  #sinceMs = 0
  readonly #stores = new Set<ServerStore>()
  readonly clock: Clock
  readonly #random: Random

  constructor({ clock, random }: { readonly clock: Clock; readonly random: Random }) {
    this.clock = clock
    this.#random = random
  }

  get state(): 'up' | 'away' {
    return this.#state
  }

  set state(state: 'up' | 'away') {
    if (state === this.#state) return
    const nowMs = this.clock.monotonicMs()
    const outageMs = nowMs - this.#sinceMs
    this.#state = state
    this.#sinceMs = nowMs
    for (const store of this.#stores) store.follow(state === 'up' ? this.#recoveryMs(outageMs) : undefined)
  }

  join(store: ServerStore): void {
    this.#stores.add(store)
  }

  #recoveryMs(outageMs: number): number {
    const { fromShare, toShare, mostMs } = RECOVERY
    const fromMs = Math.min(fromShare * outageMs, mostMs)
    const toMs = Math.min(toShare * outageMs, mostMs)
    return fromMs + this.#random.next() * (toMs - fromMs)
  }
}

/**
 * The state of the datastore as one API server sees it. An outage may have several causes at once, and ends when the
 * last cause ends.
 */
export class ServerStore {
  #cut = false
  #own: StoreState = 'ok'
  #away: boolean
  #cancel: (() => void) | undefined
  readonly #datastore: Datastore
  readonly #onChange: () => void

  /** `onChange` is called when the state may have changed. */
  constructor(datastore: Datastore, onChange: () => void) {
    this.#datastore = datastore
    this.#onChange = onChange
    datastore.join(this)
    this.#away = datastore.state !== 'up'
  }

  get state(): StoreState {
    if (this.#cut || this.#away || this.#own === 'hangs') return 'hangs'
    return this.#own
  }

  /** Whether the server's connection to the datastore is black-holed. */
  set cut(cut: boolean) {
    this.#cut = cut
    this.#onChange()
  }

  /** The state of the etcd member beside the server, which no other server uses. */
  set own(own: StoreState) {
    this.#own = own
    this.#onChange()
  }

  /** Call this when the server has restarted. If the datastore is up, the server then connects at once. */
  restart(): void {
    if (this.#datastore.state === 'up') this.follow(0)
  }

  /**
   * Follows a change of the datastore. `backAfterMs`: how much later this server recovers; undefined when the datastore
   * goes away.
   */
  follow(backAfterMs: number | undefined): void {
    this.#cancel?.()
    const turn = (away: boolean): void => {
      this.#away = away
      this.#onChange()
    }
    if (backAfterMs === undefined) turn(true)
    else if (backAfterMs === 0) turn(false)
    else this.#cancel = this.#datastore.clock.schedule(backAfterMs, () => turn(false))
  }
}
