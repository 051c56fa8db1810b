/** The field manager of this program's own writes, and of those of the other masters. */
export const OWN_MANAGER = 'apiserver-bootstrap'
/** How to end what a kube-apiserver's own reconciler does. */
export const TURN_OFF =
  'start it with --endpoint-reconciler-type=none, or give this program --etcd-servers so that both use one lease store'

/** Field managers under which a kube-apiserver's own reconciler writes: its program's name, and where others contain it, theirs. */
const RECONCILERS: readonly string[] = ['kube-apiserver', 'k3s']

/** A reconciler that writes at its interval, ten seconds, shows twice in this time, in milliseconds. */
const WINDOW_MS = 60_000
/** So often a server that writes what is right, but was slow to read, does not undo anything. */
const OVERWRITES = 2
/** What has not shown for this long and shows again is said again, in milliseconds. */
const FORGET_MS = 600_000

/** Whether a field manager is a kube-apiserver. */
export function isReconciler(manager: string): boolean {
  return RECONCILERS.includes(manager)
}

/**
 * Remembers how often an endpoint reconciler that follows other leases has overwritten the addresses. It writes too seldom to be a fight,
 * but goes on for ever: that is worth saying, once.
 */
export class OtherReconciler {
  /** When it overwrote them lately, the latest last. */
  #overwrites: readonly number[] = []
  #told = false

  /** It has done so at `nowMs`, on the monotonic clock. Whether that is to be said now. */
  overwrote(nowMs: number): boolean {
    const latestMs = this.#overwrites.at(-1)
    const told = this.#told && latestMs !== undefined && nowMs - latestMs < FORGET_MS
    this.#overwrites = [...this.#overwrites.filter((atMs) => atMs > nowMs - WINDOW_MS), nowMs]
    this.#told = told || this.#overwrites.length >= OVERWRITES
    return this.#told && !told
  }
}
