/** One line of `/readyz?verbose`. */
export interface ReadinessCheck {
  /** Such as `etcd` or `poststarthook/bootstrap-controller`. */
  readonly name: string
  readonly ok: boolean
}

/**
 * What an API server said of itself. Any HTTP answer is `answered: true`: it proves that the server lives.
 *
 * Who only asks for `ready` or `checks` need not know of the refusal: it is never ready, and it lists nothing.
 */
export type ReadinessAnswer =
  /** It answered; `ready` is HTTP 200. `checks` is empty where the server lists none. */
  | {
      readonly answered: true
      readonly ready: boolean
      readonly checks: readonly ReadinessCheck[]
      readonly refused?: undefined
    }
  /**
   * It answered, and refused to tell (401, 403, 404, 429, a redirect): it lives, and its readiness cannot be judged. A master that was
   * ready before goes on as if it were; one that was not does not become ready by it. `refused` is one short line.
   */
  | { readonly answered: true; readonly ready: false; readonly checks: readonly []; readonly refused: string }
  /** No answer came: connection refused, timed out, cut off. `reason` is one short line. */
  | { readonly answered: false; readonly reason: string }

/** The port through which a master asks its own API server for its health. */
export interface Readiness {
  /** GET /readyz?verbose, once. Never rejects, except with the signal's reason. */
  probe(signal: AbortSignal): Promise<ReadinessAnswer>
  /**
   * Whether the server answers a request that needs nothing of its datastore: while etcd hangs, /readyz waits for it and the server lives.
   * Never rejects, except with the signal's reason. Left out where only {@link probe} can tell.
   */
  answers?(signal: AbortSignal): Promise<boolean>
}
