import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import type { ApiServer } from '../../src/apiserver/api-server.ts'
import type { ApiRequest } from '../../src/kube/transport.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { endlessly } from '../support/endlessly.ts'
import { listenOnLoopback } from '../support/loopback-server.ts'
import type { HostileServer } from './hostile-outages.ts'

/** An API server over HTTP that can turn hostile. */
export interface HostileApiServer extends HostileServer {
  readonly url: string
  /** How many requests arrived where only a redirect leads. */
  readonly followed: number
}

/** Serves `good` at a port of 127.0.0.1. While the server is hostile, `random` selects the answers. */
export async function startHostileApiServer(t: Cleanup, good: ApiServer, random: Random): Promise<HostileApiServer> {
  let hostile = false
  let given = 0
  let followed = 0
  const server = createServer((request, response) => {
    response.on('error', () => {})
    if (request.url === '/elsewhere') followed++
    if (!hostile) return void serve(good, request, response).catch(() => response.destroy())
    given++
    const answer = answers[randomInteger(random, answers.length)]
    serve(good, request, response, (text) => answer?.({ request, response, random, text })).catch(() =>
      response.destroy(),
    )
  })
  const { port, cut } = await listenOnLoopback(t, server)
  return {
    url: `http://127.0.0.1:${port}`,
    get given() {
      return given
    },
    get followed() {
      return followed
    },
    turn(now) {
      hostile = now
      cut()
    },
  }
}

/**
 * Answers as the good server does. With `spoil`, passes the text of the answer, or the first line of a watch, to
 * `spoil` instead.
 */
async function serve(
  good: ApiServer,
  request: IncomingMessage,
  response: ServerResponse,
  spoil?: (text: string) => void,
): Promise<void> {
  let text = ''
  for await (const piece of request.setEncoding('utf8')) text += piece
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://good')
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  const answer = await good.handle(
    {
      method: request.method as ApiRequest['method'],
      path: pathname,
      query: [...searchParams],
      headers: request.headers as Record<string, string>,
      // A hostile server changes nothing, because the test would have to undo the changes.
      body: spoil !== undefined && request.method !== 'GET' ? {} : text === '' ? undefined : JSON.parse(text),
    },
    gone.signal,
  )
  if (spoil === undefined) response.writeHead(answer.status, answer.headers)
  if ('body' in answer) {
    const { body } = answer
    const written = typeof body === 'string' ? body : JSON.stringify(body)
    if (spoil === undefined) response.end(written)
    else spoil(written)
    return
  }
  // As kube-apiserver does: a watch is open before its first event.
  if (spoil === undefined) response.flushHeaders()
  for await (const event of answer.stream) {
    const line = `${JSON.stringify(event)}\n`
    if (spoil !== undefined) return spoil(line)
    response.write(line)
  }
  response.end()
}

interface Asked {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly random: Random
  /** The answer of a good server. */
  readonly text: string
}

const json = { 'content-type': 'application/json' }

const answers: readonly ((asked: Asked) => void)[] = [
  // Truncated, with and without a content-length.
  ({ response, text, random }) => {
    response.writeHead(200, { ...json, 'content-length': text.length + 1 })
    response.write(text.slice(0, randomInteger(random, text.length)), () => response.destroy())
  },
  ({ response, text, random }) => response.writeHead(200, json).end(text.slice(0, randomInteger(random, text.length))),
  // Deep.
  ({ response }) => response.writeHead(200, json).end(`{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}\n`),
  ({ response, text }) => {
    const deep = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`
    response.writeHead(200, json).end(`${text.trim().replace(/\}$/, '')},"deep":${deep}}\n`)
  },
  // Huge.
  ({ response }) => endlessly(response.writeHead(200, json), Buffer.alloc(64 * 1024, ' ')),
  ({ response }) => endlessly(response.writeHead(500, { 'content-type': 'text/plain' }), Buffer.alloc(64 * 1024, 'x')),
  ({ response }) => response.writeHead(200, { ...json, 'content-length': 2 ** 40 }).write('{'),
  // With wrong types, at one place or at several.
  ...[1, 1, 1, 3, 10].map((places) => ({ response, text, random }: Asked) => {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      value = { text }
    }
    for (let place = 0; place < places; place++) value = spoiled(value, random)
    response.writeHead(200, json).end(`${JSON.stringify(value)}\n`)
  }),
  // With a wrong type where the list of masters is read.
  ...(['subsets', 'addresses', 'ip', 'endpoints', 'ports', 'spec', 'clusterIPs'] as const).map(
    (field) =>
      ({ response, text, random }: Asked) => {
        const value = JSON.stringify([5, [null], 'x', {}][randomInteger(random, 4)])
        // The field's own value becomes that of another field.
        const all = text.replaceAll(`"${field}":`, () => `"${field}":${value},"other":`)
        response.writeHead(200, json).end(all)
      },
  ),
  // With a wrong content type or status.
  ({ response, text }) => response.writeHead(200, { 'content-type': 'text/html' }).end(`<html>${text}`),
  ({ response, text }) => response.writeHead(200, { 'content-type': 'application/vnd.kubernetes.protobuf' }).end(text),
  ({ response, text, random }) => response.writeHead(200 + randomInteger(random, 400), json).end(text),
  ({ response, random }) => {
    const status = { kind: 'Status', reason: 7, message: ['x'], details: 'x', code: 'x' }
    response.writeHead([403, 404, 409, 410, 422, 429, 500][randomInteger(random, 7)] ?? 500, json)
    response.end(JSON.stringify(status))
  },
  // Endless headers, and endless informational responses before the response.
  ({ request: { socket } }) => {
    socket.write('HTTP/1.1 200 OK\r\n')
    endlessly(socket, `x-more: ${'x'.repeat(1000)}\r\n`)
  },
  ({ request: { socket } }) => endlessly(socket, 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'.repeat(100)),
  // Slow.
  ({ response, text }) => {
    response.writeHead(200, json)
    let at = 0
    const timer = setInterval(() => {
      if (response.destroyed) clearInterval(timer)
      else response.write(text[at++ % text.length] ?? ' ')
    }, 100)
    response.once('close', () => clearInterval(timer))
  },
  // A redirect.
  ({ response, random }) => {
    response.writeHead([301, 302, 303, 307, 308][randomInteger(random, 5)] ?? 301, { location: '/elsewhere' }).end()
  },
  // Compressed.
  ({ response, text }) => response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(gzipSync(text)),
  // Not HTTP, or nothing.
  ({ request: { socket } }) => socket.end('\u0016\u0003\u0001\u0002 hello'),
  ({ request: { socket } }) => void socket.resetAndDestroy(),
]

/** A copy of `value` with a wrong value somewhere in it. */
function spoiled(value: unknown, random: Random): unknown {
  const isDeep = typeof value === 'object' && value !== null && Object.keys(value).length > 0
  if (!isDeep || randomInteger(random, 8) === 0) return wrong[randomInteger(random, wrong.length)]
  const keys = Object.keys(value)
  const key = keys[randomInteger(random, keys.length)] ?? ''
  const inner = spoiled((value as Readonly<Record<string, unknown>>)[key], random)
  if (Array.isArray(value)) return value.with(Number(key), inner)
  return { ...value, [key]: inner }
}

const wrong: readonly unknown[] = [
  null,
  true,
  -1,
  1e308,
  1.5,
  '',
  '\u0000\u001b[31m',
  'x'.repeat(10_000),
  [],
  [null],
  [[]],
  {},
  { a: 1 },
]
