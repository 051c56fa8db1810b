import { createInterface } from 'node:readline'
import { Agent, type Dispatcher, request } from 'undici'

/** An answer outside 2xx. */
export class ApiFailure extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export interface ApiAnswer {
  readonly status: number
  readonly body: unknown
}

export interface SeenEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: T
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

interface RequestOptions {
  readonly body?: unknown
  readonly contentType?: string
  readonly timeoutMs?: number
}

/** The tests' own client of an API server. It shares no code with the program: plain requests, no retries. */
export class ApiClient {
  readonly url: string
  readonly #agent: Agent
  readonly #headers: Readonly<Record<string, string>>

  constructor({ url, ca, token }: { readonly url: string; readonly ca: string; readonly token: string }) {
    this.url = url
    this.#agent = new Agent({ connect: { ca }, allowH2: false, connections: 8, bodyTimeout: 0 })
    this.#headers = { authorization: `Bearer ${token}`, accept: 'application/json' }
  }

  /** Sends one request; any answer resolves. Text that is not JSON comes back as text. */
  async send(method: Method, path: string, options: RequestOptions = {}): Promise<ApiAnswer> {
    const { statusCode, body } = await this.#request(
      method,
      path,
      options,
      AbortSignal.timeout(options.timeoutMs ?? 10_000),
    )
    const text = await body.text()
    return { status: statusCode, body: parsed(text) }
  }

  async get<T>(path: string): Promise<T> {
    return (await this.#must('GET', path)) as T
  }

  /** Undefined for 404. */
  async find<T>(path: string): Promise<T | undefined> {
    const answer = await this.send('GET', path)
    return answer.status === 404 ? undefined : (success('GET', path, answer) as T)
  }

  async create<T>(path: string, body: unknown): Promise<T> {
    return (await this.#must('POST', path, { body })) as T
  }

  async update<T>(path: string, body: unknown): Promise<T> {
    return (await this.#must('PUT', path, { body })) as T
  }

  /** A JSON merge patch. */
  async merge<T>(path: string, body: unknown): Promise<T> {
    return (await this.#must('PATCH', path, { body, contentType: 'application/merge-patch+json' })) as T
  }

  async delete(path: string): Promise<void> {
    await this.#must('DELETE', path)
  }

  /**
   * Watches a collection, beginning with its present state. `path` may have a query. `onEvent` is called for each event
   * until `signal` is aborted. The promise rejects when the stream ends before that.
   */
  async watch<T>(path: string, onEvent: (event: SeenEvent<T>) => void, signal: AbortSignal): Promise<void> {
    const watchPath = `${path}${path.includes('?') ? '&' : '?'}watch=true&timeoutSeconds=86400`
    try {
      const { statusCode, body } = await this.#request('GET', watchPath, {}, signal)
      if (statusCode !== 200) throw new ApiFailure(statusCode, `watch ${path}: ${await body.text()}`)
      for await (const line of createInterface({ input: body })) onEvent(JSON.parse(line) as SeenEvent<T>)
    } catch (error) {
      if (!signal.aborted) throw error
    }
    if (!signal.aborted) throw new Error(`watch ${path}: the server ended it`)
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #must(method: Method, path: string, options: RequestOptions = {}): Promise<unknown> {
    return success(method, path, await this.send(method, path, options))
  }

  #request(
    method: Method,
    path: string,
    options: RequestOptions,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    return request(`${this.url}${path}`, {
      method,
      dispatcher: this.#agent,
      headers: {
        ...this.#headers,
        ...(options.body === undefined ? {} : { 'content-type': options.contentType ?? 'application/json' }),
      },
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal,
    })
  }
}

function success(method: Method, path: string, answer: ApiAnswer): unknown {
  if (answer.status >= 200 && answer.status < 300) return answer.body
  const message = (answer.body as { message?: unknown } | null)?.message ?? answer.body
  throw new ApiFailure(answer.status, `${method} ${path}: ${answer.status} ${String(message)}`)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
