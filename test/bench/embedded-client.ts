import { Agent, type Dispatcher, request } from 'undici'

/** Where an API server listens, and what its clients need. */
export interface ServerAccess {
  readonly url: string
  /** Its authority, as PEM. */
  readonly ca: string
  readonly token: string
}

interface RequestParts {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly body?: string
  readonly contentType?: string
}

/** A client that does as little as possible: keep-alive connections, texts in both directions, no parsing. */
export class RawClient {
  readonly #access: ServerAccess
  readonly #requests: Agent
  readonly #watches: Agent

  constructor(access: ServerAccess) {
    this.#access = access
    const options = { connect: { ca: access.ca }, allowH2: false, bodyTimeout: 0 }
    this.#requests = new Agent({ ...options, connections: 16 })
    this.#watches = new Agent(options)
  }

  /** Resolves with the body when its last byte has arrived. Throws for a status outside 2xx. */
  async send(parts: RequestParts): Promise<Buffer> {
    const { statusCode, body } = await this.#request(parts, this.#requests)
    const chunks: Buffer[] = []
    for await (const chunk of body) chunks.push(chunk as Buffer)
    const bytes = Buffer.concat(chunks)
    if (statusCode < 200 || statusCode > 299) {
      throw new Error(`${parts.method} ${parts.path}: ${statusCode} ${bytes.toString('utf8')}`)
    }
    return bytes
  }

  /**
   * Opens a watch on its own connection; resolves when the server has answered. Calls `onEvent` when the last byte of
   * an event has arrived, and `onEnd` when no more events will come.
   */
  async watch(path: string, onEvent: () => void, onEnd: (cause?: Error) => void): Promise<void> {
    const { statusCode, body } = await this.#request({ method: 'GET', path }, this.#watches)
    if (statusCode !== 200) throw new Error(`GET ${path}: ${statusCode} ${await body.text()}`)
    body.on('error', onEnd)
    body.on('end', () => onEnd())
    body.on('data', (chunk: Buffer) => {
      for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, at + 1)) onEvent()
    })
  }

  async close(): Promise<void> {
    await Promise.all([this.#requests.destroy(), this.#watches.destroy()])
  }

  #request({ method, path, body, contentType }: RequestParts, dispatcher: Agent): Promise<Dispatcher.ResponseData> {
    return request(`${this.#access.url}${path}`, {
      method,
      dispatcher,
      headers: {
        authorization: `Bearer ${this.#access.token}`,
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': contentType ?? 'application/json' }),
      },
      body: body ?? null,
    })
  }
}

/** Separates events; inside an event it is escaped. */
const NEWLINE = 10
