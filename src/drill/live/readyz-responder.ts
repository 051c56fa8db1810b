import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreState } from '../datastore.ts'
import type { RequestFaults } from '../request-faults.ts'
import { answer, isPath } from './fault-proxy.ts'
import { listenAnywhere } from './tcp-proxy.ts'

/** Asks the real API server for /readyz. */
export type RealReadyz = () => Promise<{ readonly status: number; readonly text: string }>

/** How long the two checks of etcd take together if etcd does not answer, in milliseconds. */
const ETCD_CHECKS_MS = 4_000

export type ReadyzAnswer = 'ready' | 'unready' | 'hangs' | 'etcd-fails'

interface ResponderOptions {
  readonly real: RealReadyz
  /**
   * Called for each answer to /readyz, except answers of request faults, with the number of the sidecar's life that
   * gets the answer.
   */
  readonly onAnswer: (life: number, ready: boolean) => void
  /** The faults of the sidecar's requests. */
  readonly faults: RequestFaults
}

/**
 * The readiness endpoint of one master's API server. It passes on the answer of the real API server, unless `answer`,
 * `store` or a request fault decides otherwise. Each life of the sidecar has its own path, `/LIFE/readyz`, so that each
 * answer belongs to one life. `/LIFE/livez` is ok unless `answer` is `hangs` or a request fault decides otherwise.
 */
export class ReadyzResponder {
  readonly port: number
  /**
   * Whether the server reaches its datastore. If not, the checks of etcd fail at once (`fails`) or after their timeout
   * (`hangs`). The answers `unready` and `hangs` have priority.
   */
  store: StoreState = 'ok'
  #answer: ReadyzAnswer = 'ready'
  readonly #hanging = new Set<() => void>()
  readonly #end = new AbortController()
  readonly #server: Server
  readonly #options: ResponderOptions

  private constructor(server: Server, port: number, options: ResponderOptions) {
    this.#server = server
    this.port = port
    this.#options = options
    server.on('request', ({ url = '/' }, response) => void this.#handle(url, response))
  }

  static async open(options: ResponderOptions): Promise<ReadyzResponder> {
    const server = createServer()
    return new ReadyzResponder(server, await listenAnywhere(server), options)
  }

  get answer(): ReadyzAnswer {
    return this.#answer
  }

  get waitingCount(): number {
    return this.#hanging.size
  }

  /** Also answers the requests that wait, unless the new answer hangs too. */
  set answer(answer: ReadyzAnswer) {
    this.#answer = answer
    const waiting = [...this.#hanging]
    this.#hanging.clear()
    for (const respond of waiting) respond()
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return
    this.#end.abort()
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  async #handle(url: string, response: ServerResponse): Promise<void> {
    if (!isPath(url)) {
      response.writeHead(400).end()
      return
    }
    const { delayMs, end } = this.#options.faults.applyTo({
      method: 'GET',
      path: url.split('?', 1)[0] ?? '',
      isWatch: false,
    })
    if (delayMs > 0) await sleep(delayMs, undefined, { signal: this.#end.signal }).catch(() => {})
    if (response.destroyed || end?.type === 'hang') return
    if (end === undefined) return this.#respond(Number.parseInt(url.slice(1), 10), response, /\/livez\b/.test(url))
    answer(response, end.status, end.retryAfterMs)
  }

  async #respond(life: number, response: ServerResponse, isLivez: boolean): Promise<void> {
    if (this.answer === 'hangs') {
      const respond = (): void => void this.#respond(life, response, isLivez)
      this.#hanging.add(respond)
      response.once('close', () => this.#hanging.delete(respond))
      return
    }
    if (isLivez) {
      response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' }).end('ok')
      return
    }
    if (this.store === 'hangs') await sleep(ETCD_CHECKS_MS, undefined, { signal: this.#end.signal }).catch(() => {})
    if (response.destroyed) return
    const { status, text } = this.#failing() ?? (await this.#options.real().catch(() => ({ status: 0, text: '' })))
    if (status === 0) {
      response.destroy()
      return
    }
    response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text)
    this.#options.onAnswer(life, status === 200)
  }

  #failing(): { readonly status: number; readonly text: string } | undefined {
    if (this.answer === 'unready') return { status: 500, text: '[-]ping failed: reason withheld\n[+]etcd ok\n' }
    if (this.answer === 'etcd-fails' || this.store !== 'ok') {
      const failed = ['etcd', 'etcd-readiness'].map((check) => `[-]${check} failed: reason withheld\n`)
      return { status: 500, text: `[+]ping ok\n${failed.join('')}` }
    }
    return undefined
  }
}
