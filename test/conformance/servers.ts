import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, request } from 'undici'
import type { Step } from './scenario.ts'

/** One of the two servers that are compared. */
export interface Target {
  readonly url: string
  readonly ca: string
  readonly token: string
}

export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly warning: string | undefined
  readonly body: unknown
}

interface ListMeta {
  readonly resourceVersion?: string
  readonly continue?: string
}

/** Sends the steps of scenarios to one server, over HTTP as any client. */
export class ConformanceClient {
  readonly #target: Target
  readonly #agent: Agent
  #lastList: ListMeta = {}

  constructor(target: Target) {
    this.#target = target
    this.#agent = new Agent({ connect: { ca: target.ca }, connections: 4 })
  }

  /** Sends a step, and repeats it while it waits for a status. */
  async send(step: Step, namespace: string): Promise<Answer> {
    const deadline = performance.now() + 20_000
    for (;;) {
      const answer = await this.#send(step, namespace)
      const isDone = step.untilStatus === undefined || answer.status === step.untilStatus
      if (isDone || performance.now() > deadline) return answer
      await sleep(50)
    }
  }

  async #send(step: Step, namespace: string): Promise<Answer> {
    const {
      method,
      path,
      body,
      text = body === undefined ? null : JSON.stringify(body),
      contentType = 'application/json',
      accept = 'application/json',
    } = step
    const replaced = (text: string): string =>
      text
        .replaceAll(/\bNS\b/g, namespace)
        .replaceAll(/\bLISTED\b/g, this.#lastList.resourceVersion ?? '')
        .replaceAll(/\bCONTINUE\b/g, encodeURIComponent(this.#lastList.continue ?? ''))
    const {
      statusCode,
      headers,
      body: stream,
    } = await request(`${this.#target.url}${replaced(path)}`, {
      method,
      dispatcher: this.#agent,
      headers: {
        authorization: `Bearer ${this.#target.token}`,
        accept,
        'user-agent': 'conformance/1',
        ...(text === null ? {} : { 'content-type': contentType }),
      },
      body: text === null ? null : replaced(text),
      signal: AbortSignal.timeout(20_000),
    })
    const parsedBody = parsed(await stream.text())
    const { kind, metadata } = (parsedBody ?? {}) as { readonly kind?: string; readonly metadata?: ListMeta }
    if (kind?.endsWith('List') === true && metadata !== undefined) this.#lastList = metadata
    const warning = headers.warning === undefined ? undefined : [headers.warning].flat().join(', ')
    return { status: statusCode, contentType: String(headers['content-type']), warning, body: parsedBody }
  }

  close(): Promise<void> {
    return this.#agent.close()
  }
}

/** JSON, the lines of a watch as a list, or text. */
function parsed(text: string): unknown {
  const lines = text.trimEnd().split('\n')
  try {
    return lines.length === 1 ? JSON.parse(text) : lines.map((line) => JSON.parse(line))
  } catch {
    return text
  }
}
