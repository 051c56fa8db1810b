/** One line of `/readyz?verbose`. */
export interface ReadinessCheck {
  /** Such as `etcd` or `poststarthook/bootstrap-controller`. */
  readonly name: string
  readonly ok: boolean
}

/** What an API server said of itself. */
export type ReadinessAnswer =
  /** It answered; `ready` is HTTP 200. `checks` is empty where the server lists none. */
  | { readonly answered: true; readonly ready: boolean; readonly checks: readonly ReadinessCheck[] }
  /** No answer came: refused, timed out, cut off. `reason` is one short line. */
  | { readonly answered: false; readonly reason: string }

/** The port through which a master asks its own API server for its health. */
export interface Readiness {
  /** GET /readyz?verbose, once. Never rejects, except with the signal's reason. */
  probe(signal: AbortSignal): Promise<ReadinessAnswer>
}
