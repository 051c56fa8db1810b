import { type FailureNature, RemoteError } from '../runtime/errors.ts'

export interface KeyValue {
  readonly key: string
  readonly value: Uint8Array
  /** The revision of the store at the last write of the key. `update` and `delete` compare it. */
  readonly modRevision: bigint
  /** The etcd lease of the key, 0n for none. On kine this is a number of seconds, and identifies no lease. */
  readonly lease: bigint
}

/** All keys with a prefix at one revision of the store, sorted by key. */
export interface PrefixSnapshot {
  readonly revision: bigint
  readonly items: readonly KeyValue[]
}

export interface LeaseGrant {
  readonly id: bigint
  /**
   * The TTL of the lease: the requested one, or the store's minimum if that is longer. etcd's minimum is one and a half
   * times its election timeout, rounded up to a whole second.
   */
  readonly grantedSeconds: bigint
}

/** The granted and the remaining time of an etcd lease, in whole seconds. */
export interface LeaseTimes {
  readonly grantedSeconds: bigint
  readonly leftSeconds: bigint
}

/**
 * A client of a store that speaks etcd v3. It does not interpret values. Except for {@link EtcdKv.timeToLive} it needs
 * only requests that kube-apiserver sends too, because kine supports no others: a transaction compares one mod revision
 * and makes one write.
 *
 * All reads are linearizable. A method that takes a signal rejects with an {@link EtcdError}, or with the reason of the
 * aborted signal; `watch` is the exception. A write that is aborted, or rejects with `Unreachable`, `Timeout` or
 * `ServerError`, may or may not have happened.
 */
export interface EtcdKv {
  /** The newest value of one key; undefined when the key does not exist. */
  get(key: string, signal: AbortSignal): Promise<KeyValue | undefined>
  /**
   * All keys that begin with `prefix`, at the newest revision or at `revision`. Lists of several prefixes at the same
   * revision are consistent with each other. Rejects with `Compacted` when that revision has been compacted.
   */
  list(
    prefix: string,
    options: { readonly revision?: bigint | undefined; readonly signal: AbortSignal },
  ): Promise<PrefixSnapshot>
  /** Writes a key that must not exist. Returns the revision of the write; undefined when the key exists. */
  create(key: string, value: Uint8Array, options: PutOptions): Promise<bigint | undefined>
  /**
   * Writes a key that must still be at `modRevision`. Returns the revision of the write; undefined when the key has
   * changed or is gone.
   */
  update(key: string, value: Uint8Array, modRevision: bigint, options: PutOptions): Promise<bigint | undefined>
  /** Deletes a key that must still be at `modRevision`. Returns whether the key was deleted. */
  delete(key: string, modRevision: bigint, signal: AbortSignal): Promise<boolean>
  /**
   * Grants an etcd lease of `ttlSeconds`, a whole number, or of the store's minimum if that is longer. When the lease
   * expires, the store deletes the keys that are attached to the lease.
   */
  grantLease(ttlSeconds: number, signal: AbortSignal): Promise<LeaseGrant>
  /** The times of a lease; undefined when the store does not know the lease. kine refuses with `Unsupported`. */
  timeToLive(lease: bigint, signal: AbortSignal): Promise<LeaseTimes | undefined>
  /**
   * Calls `onChange` with the changes of keys that begin with `prefix`, in the order of their revisions. Expiry is such
   * a change. Calls `onChange` with undefined when the watch starts and after each interruption, because anything may
   * have changed. Calls `report` with undefined each time the watch opens, and with an error when the watch breaks or
   * cannot be opened; if further attempts to open fail with the same code, they need not be reported.
   *
   * Reopens a broken watch until the signal is aborted or the client is closed, and then resolves. Rejects with what
   * `onChange` or `report` throws, and calls neither again.
   */
  watch(prefix: string, options: WatchOptions): Promise<void>
  close(): Promise<void>
}

export interface KeyChange {
  readonly type: 'created' | 'modified' | 'deleted'
  readonly key: string
  /** The stored value; empty for `deleted`, which includes expiry. */
  readonly value: Uint8Array
  /** The value before the change; undefined for `created`, and if the store has compacted that value. */
  readonly previousValue: Uint8Array | undefined
  readonly modRevision: bigint
}

export interface WatchOptions {
  /** `changes` is undefined when anything may have changed while there was no watch. */
  readonly onChange: (changes: readonly KeyChange[] | undefined) => void
  readonly report: (error: unknown) => void
  readonly signal: AbortSignal
}

export interface PutOptions {
  /** The etcd lease to attach the key to. */
  readonly lease?: bigint | undefined
  readonly signal: AbortSignal
}

/** What a failed call to etcd means for its caller. docs/errors.md lists what this program does for each code. */
export type EtcdErrorCode =
  /** No endpoint can be reached, or the connection broke; a write may or may not have happened. */
  | 'Unreachable'
  /** No answer in time; a write may or may not have happened. */
  | 'Timeout'
  /**
   * The server answers, but fails: no leader, too many requests, an internal error; a write may or may not have
   * happened.
   */
  | 'ServerError'
  /** The requested revision has been compacted, or does not exist yet. */
  | 'Compacted'
  /** The etcd lease has expired or never existed. */
  | 'LeaseNotFound'
  /** The database is full: puts and grants fail until somebody frees space and disarms the alarm NOSPACE. */
  | 'NoSpace'
  /** The user, password, token or client certificate is not accepted. */
  | 'Unauthenticated'
  /** The etcd user does not have the necessary permission. */
  | 'PermissionDenied'
  /** This client cannot verify the server's certificate, or the server refuses the client's. */
  | 'BadCertificate'
  /** A certificate or key file cannot be read or used, or the key is not that of the client certificate. */
  | 'NoCredentials'
  /** The server does not support the request; kine supports only those of kube-apiserver. */
  | 'Unsupported'
  /** Any other refusal. */
  | 'Refused'

const natures: Readonly<Partial<Record<EtcdErrorCode, FailureNature>>> = {
  Compacted: 'conflict',
  LeaseNotFound: 'conflict',
  NoSpace: 'lasting',
  Unauthenticated: 'lasting',
  PermissionDenied: 'lasting',
  BadCertificate: 'lasting',
  Unsupported: 'lasting',
  Refused: 'lasting',
}

/** A call to etcd that failed. */
export class EtcdError extends RemoteError {
  override readonly name = 'EtcdError'
  readonly code: EtcdErrorCode

  constructor(code: EtcdErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }

  get nature(): FailureNature {
    return natures[this.code] ?? 'away'
  }
}

/** Whether `error` is an EtcdError with one of `codes`; without codes, whether it is any EtcdError. */
export function isEtcdError(error: unknown, ...codes: readonly EtcdErrorCode[]): error is EtcdError {
  return error instanceof EtcdError && (codes.length === 0 || codes.includes(error.code))
}
