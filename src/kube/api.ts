import type { TrimmedReader } from '../protobuf/trimmed-objects.ts'
import type { KubeList, KubeObject, Resource } from './resources.ts'

/** Names one object. `namespace` is left out for cluster-scoped kinds. */
export interface ObjectRef {
  readonly namespace?: string | undefined
  readonly name: string
}

export interface CallOptions {
  /** Aborts the call, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** The call rejects at once after a 429 or 503 with Retry-After: for callers with a deadline. @default false */
  readonly urgent?: boolean | undefined
  /**
   * For creations, and for writes that a resourceVersion or uid guards. After 10 s, retries included, the call rejects
   * with `Timeout`. But the request is not cancelled, because the server may be waiting for a slow admission webhook:
   * if each request were cancelled, the object could never be written. @default false
   */
  readonly lingers?: boolean | undefined
}

export interface ListQuery {
  /** All namespaces when left out. */
  readonly namespace?: string | undefined
  readonly labelSelector?: string | undefined
  readonly fieldSelector?: string | undefined
  /** Left out: the most recent state. "0": any state that the server has in its cache. */
  readonly resourceVersion?: string | undefined
  readonly resourceVersionMatch?: 'NotOlderThan' | 'Exact' | undefined
  readonly limit?: number | undefined
  readonly continue?: string | undefined
  /**
   * For lists only: the caller does not read `metadata.managedFields`, which may be missing or empty. @default false
   */
  readonly dropsManagedFields?: boolean | undefined
  /** Decodes the fields that the caller needs if the server answers in protobuf. @default only JSON is accepted */
  readonly protobuf?: TrimmedReader | undefined
}

export interface WatchQuery extends Omit<ListQuery, 'limit' | 'continue'> {
  readonly allowWatchBookmarks?: boolean | undefined
  /** Asks for the present state as ADDED events first, ended by a bookmark annotated `k8s.io/initial-events-end`. */
  readonly sendInitialEvents?: boolean | undefined
  /** The server ends the watch after this many seconds. */
  readonly timeoutSeconds?: number | undefined
  /** Called when the server has accepted the watch. The first event may arrive much later. */
  readonly onOpen?: (() => void) | undefined
}

export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'; readonly object: T }
  | { readonly type: 'ERROR'; readonly object: Status }

export interface Status {
  readonly kind?: string | undefined
  readonly code?: number | undefined
  readonly reason?: string | undefined
  readonly message?: string | undefined
  readonly details?:
    | {
        readonly retryAfterSeconds?: number | undefined
        /** The plural of the resource that the answer is about, such as `namespaces`. */
        readonly kind?: string | undefined
        readonly causes?: readonly { readonly reason?: string; readonly field?: string; readonly message?: string }[]
      }
    | undefined
}

export type Patch =
  | { readonly type: 'merge'; readonly body: unknown }
  | { readonly type: 'json'; readonly body: readonly unknown[] }
  /** Server-side apply: `body` has all fields that the field manager is to own, and apiVersion and kind. */
  | { readonly type: 'apply'; readonly body: unknown; readonly force?: boolean | undefined }

export interface WriteOptions extends CallOptions {
  readonly subresource?: 'status' | undefined
  /** Overrides the client's field manager, `apiserver-bootstrap`. */
  readonly fieldManager?: string | undefined
  /** The server checks and answers as usual, and stores nothing. @default false */
  readonly dryRun?: boolean | undefined
}

export interface DeleteOptions extends CallOptions {
  /** Preconditions: the delete is refused with a conflict when the live object differs. */
  readonly uid?: string | undefined
  readonly resourceVersion?: string | undefined
}

/**
 * The port to an API server: plain JSON objects, as the server sends them.
 *
 * Every call but a watch rejects with a {@link KubeError}, whose `code` shows how the caller should react, or with the
 * reason of `signal`. The port itself waits and repeats a call only after a 429 or 503 with Retry-After: a few times
 * within seconds, and not if the call is `urgent`. The caller decides about every other retry.
 */
export interface KubeApi {
  get<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, options?: CallOptions): Promise<T>
  list<T extends KubeObject>(resource: Resource<T>, query?: ListQuery & CallOptions): Promise<KubeList<T>>
  create<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>
  /** Replaces the object; a `metadata.resourceVersion` in it guards against lost updates. */
  update<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>
  patch<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, patch: Patch, options?: WriteOptions): Promise<T>
  delete(resource: Resource<KubeObject>, ref: ObjectRef, options?: DeleteOptions): Promise<void>
  /**
   * Follows changes. The iteration ends when the server ends the stream or `signal` is aborted. It throws a KubeError
   * when the server refuses the watch or the stream breaks. Leaving the loop early ends the request.
   */
  watch<T extends KubeObject>(
    resource: Resource<T>,
    query: WatchQuery & { readonly signal: AbortSignal },
  ): AsyncIterable<WatchEvent<T>>
}
