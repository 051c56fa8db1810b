/** One request to an API server, before it is put on any wire. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Absolute, percent-encoded, without the query. */
  readonly path: string
  readonly query: readonly (readonly [name: string, value: string])[]
  /** Lower-case names. A body's `content-type` is here. */
  readonly headers: Readonly<Record<string, string>>
  /** A JSON value. */
  readonly body?: unknown
  /** The answer is a stream of JSON values, one watch event each. */
  readonly stream?: boolean
  /** How long the whole exchange may take (for a stream: until its headers), in milliseconds. */
  readonly timeoutMs?: number | undefined
  /** The longest answer that is read, in bytes; of a stream, the longest line. @default what is allowed to one object */
  readonly maxBytes?: number | undefined
}

/** What came back. `body` is a parsed JSON value, or text where the server sent something else (`/readyz`). */
export type ApiResponse =
  | { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: unknown }
  | {
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      /** Throws a KubeError when the stream breaks; ends when the server ends it. `return()` closes the connection. */
      readonly stream: AsyncIterable<unknown>
    }

/**
 * Carries requests to one API server: over HTTP, or by a call to the in-process one.
 * Rejects with a KubeError (`Unreachable`, `Timeout`, `NoCredentials`, `BadResponse`, `TooLarge`) or the signal's reason; an answer of the
 * server, refusals included, resolves.
 */
export interface Transport {
  send(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse>
  /** Closes what is pooled. Requests under way fail. */
  close(): Promise<void>
}
