/** So many renewals in a row must find the lease written by somebody else: one may be a write of ours whose answer was lost. */
const RENEWALS = 2

/**
 * Tells whether somebody without a holder record renews this master's own lease too, such as a kube-apiserver whose reconciler is on
 * at the same address. Then the lease is not this master's alone, and taking it away would take a server away that serves.
 * Pure but for its own memory.
 */
export class LeaseCompany {
  readonly #forgetMs: number
  #overtaken = 0
  #seenMs: number | undefined

  /** `forgetMs`: who has not shown for this long has gone, in milliseconds. */
  constructor(options: { readonly forgetMs: number }) {
    this.#forgetMs = options.forgetMs
  }

  /**
   * A renewal was made. Says whether somebody has turned up.
   *
   * @param overtaken - whether somebody without a record had written the lease since the renewal before.
   */
  renewed(overtaken: boolean, nowMs: number): boolean {
    this.#overtaken = overtaken ? this.#overtaken + 1 : 0
    if (this.#overtaken < RENEWALS) return false
    const isNew = !this.isThere(nowMs)
    this.#seenMs = nowMs
    return isNew
  }

  isThere(nowMs: number): boolean {
    return this.#seenMs !== undefined && nowMs - this.#seenMs < this.#forgetMs
  }
}
