import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreState } from '../datastore.ts'
import { listenAnywhere } from './free-port.ts'

/** What the real API server says of itself: a status and the text that goes with it. */
export type RealReadyz = () => Promise<{ readonly status: number; readonly text: string }>

/** How long the two checks of etcd take where it does not answer, in milliseconds: two seconds each, one after the other. */
const ETCD_CHECKS_MS = 4_000

/** What one master's own /readyz is made to say. */
export type ReadyzAnswer = 'ready' | 'unready' | 'hangs' | 'etcd-fails'

/**
 * The readiness endpoint of one master's API server: the real one's answer, unless told otherwise. Each life of the sidecar asks at a path of
 * its own, `/LIFE/readyz`, so that it is known who heard what; its `/LIFE/livez` answers whenever the server does.
 */
export class ReadyzResponder {
  readonly port: number
  /** How it finds what it stores into: its checks of that fail, at once or after their time, whatever else it is made to say. */
  store: StoreState = 'ok'
  #answer: ReadyzAnswer = 'ready'
  readonly #hanging = new Set<() => void>()
  readonly #end = new AbortController()
  readonly #server: Server
  readonly #real: RealReadyz
  readonly #heard: (life: number, ready: boolean) => void

  private constructor(server: Server, port: number, real: RealReadyz, heard: (life: number, ready: boolean) => void) {
    this.#server = server
    this.port = port
    this.#real = real
    this.#heard = heard
    server.on(
      'request',
      ({ url = '/' }, response) =>
        void this.#respond(Number.parseInt(url.slice(1), 10), response, /\/livez\b/.test(url)),
    )
  }

  /** `heard` is told each answer that is given, and to which life. */
  static async open(real: RealReadyz, heard: (life: number, ready: boolean) => void): Promise<ReadyzResponder> {
    const server = createServer()
    return new ReadyzResponder(server, await listenAnywhere(server), real, heard)
  }

  get answer(): ReadyzAnswer {
    return this.#answer
  }

  /** How many wait for an answer that hangs. */
  get waiting(): number {
    return this.#hanging.size
  }

  /** Whoever still waits is answered when nothing hangs any more. */
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
    const { status, text } = this.#failing() ?? (await this.#real().catch(() => ({ status: 0, text: '' })))
    if (status === 0) {
      response.destroy()
      return
    }
    response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text)
    this.#heard(life, status === 200)
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
