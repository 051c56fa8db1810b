import type { TrimmedReader } from '../protobuf/trimmed-objects.ts'

/** One request to an API server, before it is encoded. */
export interface ApiRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Absolute, percent-encoded, without the query. */
  readonly path: string
  readonly query: readonly (readonly [name: string, value: string])[]
  /** By lower-case names, including the `content-type` of the body. */
  readonly headers: Readonly<Record<string, string>>
  /** A JSON value. */
  readonly body?: unknown
  /** The answer is a stream of watch events. */
  readonly stream?: boolean
  /** How long the whole exchange may take (for a stream: until its headers), in milliseconds. */
  readonly timeoutMs?: number | undefined
  /**
   * If no answer has arrived after this many milliseconds, later requests use new connections: a dead connection must
   * not delay them. @default timeoutMs
   */
  readonly reconnectMs?: number | undefined
  /** The longest accepted answer, in bytes; of a stream, the longest event. @default the limit for one object */
  readonly maxBytes?: number | undefined
  /** The caller does not read managedFields, which may be missing or empty. They take a third of most objects. */
  readonly dropsManagedFields?: boolean | undefined
  /** Decodes an answer in protobuf, which `headers` must then accept beside JSON. The answer may still be in JSON. */
  readonly protobuf?: TrimmedReader | undefined
  /** The request only checks whether the server is alive, so it may be sent without credentials. @default false */
  readonly mayBeAnonymous?: boolean | undefined
}

/** The answer. `body` is decoded from JSON or protobuf; it is text if the server sent another type (`/readyz`). */
export type ApiResponse =
  | { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: unknown }
  | {
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      /** Throws a KubeError when the stream breaks; ends when the server ends it. `return()` closes the connection. */
      readonly stream: AsyncIterable<unknown>
    }

/**
 * Carries requests to one API server: over HTTP, or by a call to the in-process one. `send` resolves with every answer
 * that it can read, even a refusal. It rejects with a KubeError (`Unreachable`, `Timeout`, `NoCredentials`,
 * `BadResponse`, `TooLarge`) or the signal's reason.
 */
export interface Transport {
  send(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse>
  /** Closes pooled connections. Running requests fail. */
  close(): Promise<void>
}

const KIB = 1024
const MIB = 1024 * KIB

/**
 * The longest answers that are read, in bytes, by kind of request. For a longer answer the connection is closed and the
 * request fails with TooLarge. etcd accepts objects of 1.5 MiB; protobuf becomes two to three times as long in JSON.
 */
export const answerLimits = {
  object: 4 * MIB,
  /** One page of a list: 16 KiB for each of 500 objects. A reflector that meets this limit asks for smaller pages. */
  page: 8 * MIB,
  /** A list that is requested in one page: it has few objects, or its pages expire before the last one is read. */
  list: 64 * MIB,
  event: 4 * MIB,
  /** The answer of /readyz and similar paths. kube-apiserver's has a few KiB. */
  text: 256 * KIB,
  /** The body of a response outside 2xx. */
  refusal: MIB,
} as const

/** The next smaller page size after a page of `limit` objects was too long; undefined when `limit` is already one. */
export function smallerPage(limit: number): number | undefined {
  return limit > 1 ? Math.ceil(limit / 4) : undefined
}

/** The deepest accepted nesting of JSON. Kubernetes' own objects stay below 50; the stack allows about 3,000. */
export const DEEPEST_NESTING = 500
