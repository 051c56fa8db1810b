/** Field managers under which a kube-apiserver's own reconciler writes: its program's name, and where others contain it, theirs. */
const RECONCILERS: readonly string[] = ['kube-apiserver', 'k3s']

/** A reconciler that writes at its interval, ten seconds, shows twice in this time, in milliseconds. */
const WINDOW_MS = 60_000
/** So often a server that writes what is right, but was slow to read, does not undo anything. */
const OVERWRITES = 2
/** What has not shown for this long and shows again is said again, in milliseconds. */
const FORGET_MS = 600_000

/** What is known of an endpoint reconciler that follows other leases. Times are monotonic, in milliseconds. */
export interface OtherReconciler {
  /** When it overwrote the addresses lately, the latest last. */
  readonly overwrites: readonly number[]
  /** It was said. */
  readonly told: boolean
}

export const noOtherReconciler: OtherReconciler = { overwrites: [], told: false }

/** Whether a field manager is a kube-apiserver. */
export function isReconciler(manager: string): boolean {
  return RECONCILERS.includes(manager)
}

/**
 * Takes in that such a reconciler has overwritten the addresses. Pure. A kube-apiserver's writes too seldom to be a fight, but goes on for ever:
 * that is worth saying, once.
 *
 * @returns what is known now; `told` turns true when it is to be said.
 */
export function overwrittenByReconciler(state: OtherReconciler, nowMs: number): OtherReconciler {
  const latestMs = state.overwrites.at(-1)
  const told = state.told && latestMs !== undefined && nowMs - latestMs < FORGET_MS
  const overwrites = [...state.overwrites.filter((atMs) => atMs > nowMs - WINDOW_MS), nowMs]
  return { overwrites, told: told || overwrites.length >= OVERWRITES }
}
