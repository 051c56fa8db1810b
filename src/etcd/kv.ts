import { type FailureNature, RemoteError } from '../runtime/remote-error.ts'

/** A key with what is stored under it. */
export interface KeyValue {
  readonly key: string
  readonly value: Uint8Array
  /** The store's revision of its last write: what a compare-and-put compares. */
  readonly modRevision: bigint
  /** The etcd lease that it is attached to, 0n for none. On kine this is a number of seconds: it identifies nothing. */
  readonly lease: bigint
}

/** What a prefix held at one revision of the store, sorted by key. */
export interface PrefixSnapshot {
  readonly revision: bigint
  readonly items: readonly KeyValue[]
}

/** An etcd lease. */
export interface LeaseGrant {
  readonly id: bigint
  /** More than was asked for where the store cannot end one so soon: etcd's least is one and a half times its election timeout. */
  readonly grantedSeconds: bigint
}

/** How long an etcd lease has, in whole seconds. */
export interface LeaseTimes {
  readonly grantedSeconds: bigint
  readonly leftSeconds: bigint
}

/**
 * A store that speaks etcd v3, in the few shapes that kube-apiserver uses itself and that kine therefore knows: one compare on a mod
 * revision and one operation. It knows bytes only.
 *
 * All reads are linearizable. Every method rejects with an {@link EtcdError}, or with the reason of the signal when that is aborted;
 * a write that rejects with `Unreachable`, `Timeout` or `ServerError` may or may not have happened.
 */
export interface EtcdKv {
  /** The newest value of one key; undefined when there is none. */
  get(key: string, signal: AbortSignal): Promise<KeyValue | undefined>
  /**
   * Everything under a prefix, complete, at the newest revision, or at `revision`: two lists at one revision are one snapshot.
   * Rejects with `Compacted` when that revision is no longer there.
   */
  list(
    prefix: string,
    options: { readonly revision?: bigint | undefined; readonly signal: AbortSignal },
  ): Promise<PrefixSnapshot>
  /** Writes a key that must not exist. The revision of the write; undefined when the key exists. */
  create(key: string, value: Uint8Array, options: PutOptions): Promise<bigint | undefined>
  /** Writes a key that must still be at `modRevision`. The revision of the write; undefined when it is not, or is gone. */
  update(key: string, value: Uint8Array, modRevision: bigint, options: PutOptions): Promise<bigint | undefined>
  /** Deletes a key that must still be at `modRevision`. Whether it was; a key that is gone was not. */
  delete(key: string, modRevision: bigint, signal: AbortSignal): Promise<boolean>
  /** A new etcd lease; a key that is put with it is gone that many whole seconds (at least 2) later, or the store's own least. */
  grantLease(ttlSeconds: number, signal: AbortSignal): Promise<LeaseGrant>
  /** How long a lease has; undefined when the store does not know it (any more). kine refuses with `Unsupported`. */
  timeToLive(lease: bigint, signal: AbortSignal): Promise<LeaseTimes | undefined>
  /**
   * Calls `onChange` with the changes under the prefix, in the order of their revisions, expiry included; and without any when the
   * watch stands and after each interruption: "look, anything may have changed". It reopens what breaks and goes on until the
   * signal is aborted; then it resolves. `report` hears how it fares: undefined when it stands (again), else what broke it.
   */
  watch(prefix: string, options: WatchOptions): Promise<void>
  /** Closes what is open. */
  close(): Promise<void>
}

/** What happened to a key. */
export interface KeyChange {
  readonly type: 'created' | 'modified' | 'deleted'
  readonly key: string
  /** What was stored; empty for `deleted`, which an expiry is too. */
  readonly value: Uint8Array
  /** What was stored before; undefined for `created`, and where the store no longer knows it. */
  readonly previousValue: Uint8Array | undefined
  /** The store's revision of this change. */
  readonly modRevision: bigint
}

export interface WatchOptions {
  /** Undefined stands for anything that may have happened while nobody watched. */
  readonly onChange: (changes: readonly KeyChange[] | undefined) => void
  readonly report: (error: unknown) => void
  readonly signal: AbortSignal
}

export interface PutOptions {
  /** The etcd lease to attach the key to. */
  readonly lease?: bigint | undefined
  readonly signal: AbortSignal
}

/** What a failed call to etcd means for whoever made it. The table is in docs/errors.md. */
export type EtcdErrorCode =
  /** No connection to any endpoint, or it broke; a write may or may not have happened. */
  | 'Unreachable'
  /** No answer in time; a write may or may not have happened. */
  | 'Timeout'
  /** It answers, but fails: no leader, too many requests, an internal error; a write may or may not have happened. */
  | 'ServerError'
  /** The revision is no longer there. */
  | 'Compacted'
  /** The etcd lease is not there (any more). */
  | 'LeaseNotFound'
  /** The database is full (alarm NOSPACE): nothing can be written until somebody makes room. */
  | 'NoSpace'
  /** The user, password, token or client certificate is not accepted. */
  | 'Unauthenticated'
  /** The user may not do this. */
  | 'PermissionDenied'
  /** The server's certificate is not trusted, or the client's is refused or has expired. */
  | 'BadCertificate'
  /** A certificate or key file cannot be read or does not fit. */
  | 'NoCredentials'
  /** The server does not do this; kine knows only what kube-apiserver uses. */
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
