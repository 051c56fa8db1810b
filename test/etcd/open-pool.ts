import assert from 'node:assert/strict'
import { createSecureServer, createServer, type ServerHttp2Stream } from 'node:http2'
import { Code, ConnectError } from '@connectrpc/connect'
import { type CredentialFiles, EtcdCredentials } from '../../src/etcd/connect-credentials.ts'
import { EndpointPool, type RequestKind, type Server } from '../../src/etcd/connect-pool.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { serverTls } from '../kube/loopback-server.ts'
import { openOwner } from '../peers/owner.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { listenOnLoopback } from '../support/loopback-server.ts'
import { patient } from './etcd-client.ts'

/** How long a server may take to answer, and to accept a connection. */
export const LIMIT_MS = 3_000
export const CONNECT_MS = 2_000
/** Longer than any test. */
const EVER = 1e9

/** The errors of a server that has no leader, of one that fails, and of one that refuses what every server would. */
export const noLeader = new ConnectError('etcdserver: no leader', Code.Unavailable)
export const fails = new ConnectError('database is locked', Code.Unknown)
export const refuses = new ConnectError('etcdserver: request is too large', Code.InvalidArgument)
export const late = new ConnectError('the operation timed out', Code.DeadlineExceeded)

export type Name = 'a' | 'b' | 'c'
export type Say = (server: Server, signal: AbortSignal) => Promise<unknown>

export const answering: Say = async () => undefined
export const never: Say = () => new Promise(() => {})
export function throwing(error: Error): Say {
  return () => Promise.reject(error)
}

/** A pool of up to three servers. A server answers a request with its name, unless `says` gives another answer. */
export async function opened(t: Cleanup, count: 1 | 2 | 3, files?: CredentialFiles) {
  const names = (['a', 'b', 'c'] as const).slice(0, count)
  const start = async () => {
    const server = files === undefined ? createServer() : createSecureServer(serverTls('loopback'))
    server.on('stream', (stream: ServerHttp2Stream) => stream.on('error', () => {}))
    let connections = 0
    server.on('connection', () => connections++)
    const { port, sockets, cut } = await listenOnLoopback(t, server)
    const proxy = await TcpProxy.start(openOwner(t), { target: port })
    return {
      sockets,
      cut,
      proxy,
      connections: () => connections,
      url: `${files === undefined ? 'http' : 'https'}://127.0.0.1:${proxy.port}`,
    }
  }
  const servers = { a: await start(), b: await start(), c: await start() }
  const urls = { a: servers.a.url, b: servers.b.url, c: servers.c.url }
  const time = new VirtualClock()
  const clock = time.view()
  const logger = memoryLogger()
  const pool = new EndpointPool({
    endpoints: names.map((name) => parseEndpoint(urls[name])),
    credentials: new EtcdCredentials(files ?? {}, { clock: time.view(), logger }),
    clock,
    logger,
    times: { connectMs: CONNECT_MS, pingAfterMs: EVER, silenceMs: EVER, pongMs: EVER, idleMs: EVER },
    requestTimeoutMs: LIMIT_MS,
  })
  t.after(() => pool.close())
  const asked: Name[] = []
  const seen: { readonly server: Server; readonly signal: AbortSignal }[] = []
  const answers: Record<Name, Say> = { a: answering, b: answering, c: answering }
  const ask = (kind: RequestKind = 'repeatable', signal = patient): Promise<Name> =>
    pool.ask(kind, signal, async (server, signal) => {
      const name = names.find((name) => urls[name] === server.endpoint) ?? assert.fail()
      asked.push(name)
      seen.push({ server, signal })
      await answers[name](server, signal)
      return name
    })
  return { pool, ask, asked, seen, answers, servers, urls, time, clock, logger, timers: () => clock.timers }
}
