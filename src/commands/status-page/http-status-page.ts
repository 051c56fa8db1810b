import type { IncomingMessage, ServerResponse } from 'node:http'
import { isLoopbackName } from '../../net/address.ts'
import type { HostPort } from '../../net/host-port.ts'
import { messageOf } from '../../runtime/errors.ts'
import { type HttpAnswer, type HttpStream, serveBounded } from '../../telemetry/http-bounded-server.ts'
import type { Logger } from '../../telemetry/logger.ts'
import { contentSecurityPolicy, statusDocument, statusSections } from './status-html.ts'
import type { StatusSource } from './status-source.ts'

const limits = {
  /** How many pages may be open. A further page gets 503. */
  viewers: 32,
  /** Changes within this time are sent together. */
  gatherMs: 50,
  /** Replaces `gatherMs` after a message of more than `longLength` characters. */
  longGatherMs: 1000,
  longLength: 64 * 1024,
  /** The interval of empty messages, which show the page and this server that the connection is alive. */
  heartbeatMs: 5000,
} as const

type Sections = ReturnType<typeof statusSections>
type Source = Pick<StatusSource, 'status' | 'subscribe' | 'run'>

export interface StatusPage {
  readonly url: string
  /** Loads the source and starts to observe. Requests wait until the source is loaded. Call `start` once. */
  start(load: () => Promise<Source>): void
  close(): Promise<void>
}

/**
 * Serves the page at `/` and its changes at `/events` (server-sent events), only to browsers on this machine. A command
 * can do its own work before it calls `start`. No failure of the observed servers ends the command. If the source
 * cannot be loaded, requests are answered with 500.
 * @param address - on loopback; port 0 selects a free one.
 * @throws ListenError
 */
export async function openStatusPage({ host, port }: HostPort, logger: Logger): Promise<StatusPage> {
  const viewers = new Viewers()
  const loaded = Promise.withResolvers<void>()
  // Without a request, nobody else handles the rejection.
  loaded.promise.catch(() => {})
  const end = new AbortController()
  let running: Promise<void> | undefined
  const server = await serveBounded({
    host,
    port,
    logger,
    respond: async (request) => {
      const refused = refusal(request)
      if (refused !== undefined) return refused
      await loaded.promise
      return request.url?.split('?')[0] === '/' ? answer(200, viewers.document, 'text/html') : viewers.join()
    },
  })
  const url = `http://${server.address}/`
  return {
    url,
    start(load) {
      const run = async (): Promise<void> => {
        const source = await load()
        viewers.follow(source)
        loaded.resolve()
        await source.run(end.signal)
      }
      running = run().catch((error: unknown) => {
        loaded.reject(error)
        logger.error({ error }, `the page at ${url} has ended: ${messageOf(error)}`)
      })
    },
    async close() {
      end.abort()
      loaded.reject(new Error('the page is closed'))
      viewers.close()
      await server.close()
      await running
    },
  }
}

function refusal({ method, headers, url }: IncomingMessage): HttpAnswer | undefined {
  // A foreign site whose name resolves to this machine could otherwise read the answer (DNS rebinding).
  const host = URL.parse(`http://${headers.host ?? ''}`)?.hostname.replaceAll(/[[\]]/g, '') ?? ''
  const site = headers['sec-fetch-site']
  const path = url?.split('?')[0]
  if (method !== 'GET') return answer(405, 'method not allowed\n')
  if (!isLoopbackName(host))
    return answer(403, 'this page is served only to this machine: open it at a loopback address\n')
  if (path !== '/' && path !== '/events') return answer(404, 'not found\n')
  // Another site could not read the events, but it could use up the connections of the page.
  const isOfOtherSite = path === '/events' && (site === 'cross-site' || site === 'same-site')
  return isOfOtherSite ? answer(403, 'the events are served only to this page\n') : undefined
}

function answer(status: number, body: string, type = 'text/plain'): HttpAnswer {
  return { status, contentType: `${type}; charset=utf-8`, body, headers }
}

const headers = {
  'content-security-policy': contentSecurityPolicy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
} as const

interface Viewer {
  /**
   * Whether a message was skipped because the page had not taken an earlier message. The page then gets the latest
   * state.
   */
  isWaiting?: boolean
  /** Whether the page had not taken the previous message at the last heartbeat. */
  isStuck?: boolean
}

/**
 * The open pages. A slow page may miss intermediate states, but gets the latest state. A page that takes no message
 * between two heartbeats is closed.
 */
class Viewers {
  readonly #viewers = new Map<ServerResponse, Viewer>()
  #source: Source | undefined
  /** What has been rendered since the last change, so that further requests for it cost little. */
  #rendered: { document?: string; sections?: Sections } = {}
  #sent: Sections = {}
  #gatherMs: number = limits.gatherMs
  #end = (): void => {}
  #isClosed = false
  #gathering: NodeJS.Timeout | undefined

  follow(source: Source): void {
    if (this.#isClosed) return
    this.#source = source
    const unsubscribe = source.subscribe(() => {
      this.#rendered = {}
      if (this.#viewers.size > 0)
        this.#gathering ??= setTimeout(() => this.#orClose(() => this.#sendAll()), this.#gatherMs)
    })
    const heartbeat = setInterval(() => this.#beat(), limits.heartbeatMs)
    this.#end = () => {
      unsubscribe()
      clearInterval(heartbeat)
    }
  }

  get document(): string {
    this.#rendered.document ??= statusDocument(this.#status)
    return this.#rendered.document
  }

  /** A stream for one more page, or a refusal if too many pages are open. */
  join(): HttpAnswer | HttpStream {
    if (this.#isClosed || this.#viewers.size >= limits.viewers) return answer(503, 'too many pages are open\n')
    // The next message must be complete, because this page starts with a state that older pages may not have.
    this.#sent = {}
    const message = eventOf(this.#sections)
    return { stream: (response) => this.#add(response, message) }
  }

  close(): void {
    this.#isClosed = true
    this.#end()
    clearTimeout(this.#gathering)
    for (const response of this.#viewers.keys()) response.end()
  }

  get #status(): StatusSource['status'] {
    if (this.#source === undefined) throw new Error('the page was closed before it was loaded')
    return this.#source.status
  }

  get #sections(): Sections {
    this.#rendered.sections ??= statusSections(this.#status)
    return this.#rendered.sections
  }

  #add(response: ServerResponse, message: string): void {
    const viewer: Viewer = {}
    this.#viewers.set(response, viewer)
    response.on('error', () => {})
    response.once('close', () => this.#viewers.delete(response))
    response.on('drain', () => {
      const { isWaiting } = viewer
      delete viewer.isWaiting
      delete viewer.isStuck
      if (isWaiting) this.#orClose(() => response.write(eventOf(this.#sections)))
    })
    response.writeHead(200, { ...headers, 'content-type': 'text/event-stream' })
    response.write(message)
  }

  /** Closes all pages if rendering fails. Browsers connect again; their requests are answered with 500, and logged. */
  #orClose(send: () => void): void {
    try {
      send()
    } catch {
      for (const response of this.#viewers.keys()) response.destroy()
    }
  }

  #sendAll(): void {
    this.#gathering = undefined
    const changed = Object.entries(this.#sections).filter(([id, html]) => this.#sent[id] !== html)
    this.#sent = this.#sections
    if (changed.length === 0) return
    const message = eventOf(Object.fromEntries(changed))
    this.#gatherMs = message.length > limits.longLength ? limits.longGatherMs : limits.gatherMs
    for (const [response, viewer] of this.#viewers) {
      if (response.writableNeedDrain) viewer.isWaiting = true
      else response.write(message)
    }
  }

  #beat(): void {
    for (const [response, viewer] of this.#viewers) {
      if (!response.writableNeedDrain) response.write(eventOf({}))
      else if (viewer.isStuck) response.destroy()
      else viewer.isStuck = true
    }
  }
}

function eventOf(sections: Sections): string {
  return `data: ${JSON.stringify(sections)}\n\n`
}
