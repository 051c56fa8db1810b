import { type FailureNature, RemoteError } from '../runtime/errors.ts'

export interface KeyValue {
  readonly key: string
  readonly value: Uint8Array
  /** The store's revision of the last write of the key. A compare-and-put compares it. */
  readonly modRevision: bigint
  /** The etcd lease of the key, 0n for none. On kine this is a number of seconds, and identifies no lease. */
  readonly lease: bigint
}

/** The contents of a prefix at one revision of the store, sorted by key. */
export interface PrefixSnapshot {
  readonly revision: bigint
  readonly items: readonly KeyValue[]
}

export interface LeaseGrant {
  readonly id: bigint
  /** More than requested if the store's minimum is longer: etcd's is one and a half times its election timeout. */
  readonly grantedSeconds: bigint
}

/** The granted and the remaining time of an etcd lease, in whole seconds. */
export interface LeaseTimes {
  readonly grantedSeconds: bigint
  readonly leftSeconds: bigint
}

/**
 * A store that speaks etcd v3. It does not interpret values. Except for {@link EtcdKv.timeToLive}, its requests are
 * those of kube-apiserver, because kine supports no others: a transaction compares one mod revision and makes one
 * write.
 *
 * All reads are linearizable. Every method rejects with an {@link EtcdError}, or with the reason of an aborted signal.
 * A write that rejects with `Unreachable`, `Timeout` or `ServerError` may or may not have happened.
 */
export interface EtcdKv {
  /** The newest value of one key; undefined when there is none. */
  get(key: string, signal: AbortSignal): Promise<KeyValue | undefined>
  /**
   * Everything under a prefix at the newest revision, or at `revision`. Two lists at the same revision are one
   * snapshot. Rejects with `Compacted` when that revision has been compacted.
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
   * Grants an etcd lease of this many whole seconds (at least 2), or of the store's minimum if that is longer. Its keys
   * are deleted when the lease expires.
   */
  grantLease(ttlSeconds: number, signal: AbortSignal): Promise<LeaseGrant>
  /** The times of a lease; undefined when the store does not know it. kine refuses with `Unsupported`. */
  timeToLive(lease: bigint, signal: AbortSignal): Promise<LeaseTimes | undefined>
  /**
   * Calls `onChange` with the changes under the prefix, in the order of their revisions, expiry included. Calls it with
   * undefined when the watch starts and after each interruption, because anything may have changed. Reopens broken
   * watches until the signal is aborted, and then resolves. Calls `report` with undefined each time the watch opens,
   * and with an error when it breaks or cannot be opened. Rejects with what `onChange` or `report` throws, and calls
   * neither again.
   */
  watch(prefix: string, options: WatchOptions): Promise<void>
  close(): Promise<void>
}

export interface KeyChange {
  readonly type: 'created' | 'modified' | 'deleted'
  readonly key: string
  /** The stored value; empty for `deleted`, which includes expiry. */
  readonly value: Uint8Array
  /** The value before; undefined for `created`, and if the store no longer has it. */
  readonly previousValue: Uint8Array | undefined
  readonly modRevision: bigint
}

export interface WatchOptions {
  /** Undefined means that anything may have changed while there was no watch. */
  readonly onChange: (changes: readonly KeyChange[] | undefined) => void
  readonly report: (error: unknown) => void
  readonly signal: AbortSignal
}

export interface PutOptions {
  /** The etcd lease to attach the key to. */
  readonly lease?: bigint | undefined
  readonly signal: AbortSignal
}

/** What a failed call to etcd means for its caller. The table is in docs/errors.md. */
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
  /** The revision has been compacted. */
  | 'Compacted'
  /** The etcd lease does not exist (any more). */
  | 'LeaseNotFound'
  /** The database is full (alarm NOSPACE): nothing can be written until somebody frees space. */
  | 'NoSpace'
  /** The user, password, token or client certificate is not accepted. */
  | 'Unauthenticated'
  /** The user may not do this. */
  | 'PermissionDenied'
  /** The server's certificate is not trusted, or the client's is refused or has expired. */
  | 'BadCertificate'
  /** A certificate or key file cannot be read, or the two do not match. */
  | 'NoCredentials'
  /** The server does not support this; kine supports only what kube-apiserver uses. */
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
  NoCredentials: 'lasting',
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

/** Whether `error` is an EtcdError with one of these codes. */
export function isEtcdError(error: unknown, ...codes: readonly EtcdErrorCode[]): error is EtcdError {
  return error instanceof EtcdError && (codes.length === 0 || codes.includes(error.code))
}
