/** What `default/kubernetes` listed from a moment on. */
export interface Listing {
  readonly atMs: number
  readonly object: 'endpoints' | 'slice'
  /** Sorted; undefined when the object was gone. */
  readonly addresses: readonly string[] | undefined
  /** Somebody spoiled it on purpose. */
  readonly byDamage: boolean
  /** Who wrote it; undefined for what somebody else did, or where that is not known. */
  readonly by: string | undefined
}
