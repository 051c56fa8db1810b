import { createServer as createHttp2Server, type ServerHttp2Stream } from 'node:http2'
import { connect, createServer, type Socket } from 'node:net'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { endlessly } from '../support/endlessly.ts'
import { listenOnLoopback } from '../support/loopback-server.ts'
import type { HostileServer } from './hostile-outages.ts'

/** Puts the etcd at `port` of 127.0.0.1 behind another port. While that is hostile, `random` selects the answers. */
export async function startHostileEtcd(
  t: Cleanup,
  port: number,
  random: Random,
): Promise<HostileServer & { readonly url: string }> {
  let hostile = false
  let given = 0
  const http2 = createHttp2Server()
  http2.on('session', (session) => session.on('error', () => {}))
  http2.on('stream', (stream) => {
    stream.on('error', () => {})
    given++
    answers[randomInteger(random, answers.length)]?.(stream, random)
  })
  const door = createServer((socket) => {
    if (!hostile) {
      const good = connect(port, '127.0.0.1')
      good.on('error', () => {})
      socket.pipe(good).pipe(socket)
      socket.once('close', () => good.destroy())
      good.once('close', () => socket.destroy())
    } else if (randomInteger(random, 4) > 0) {
      http2.emit('connection', socket)
    } else {
      given++
      greetings[randomInteger(random, greetings.length)]?.(socket, random)
    }
  })
  const { port: doorPort, cut } = await listenOnLoopback(t, door)
  return {
    url: `http://127.0.0.1:${doorPort}`,
    get given() {
      return given
    },
    turn(now) {
      hostile = now
      cut()
    },
  }
}

const grpc = { ':status': 200, 'content-type': 'application/grpc' }

const answers: readonly ((stream: ServerHttp2Stream, random: Random) => void)[] = [
  // Long, by the stated length or in fact.
  (stream) => {
    stream.respond(grpc)
    endlessly(stream, Buffer.concat([message(0x7fff_ffff), Buffer.alloc(60_000)]))
  },
  (stream) => {
    stream.respond(grpc)
    // The longest message that a client accepts.
    stream.write(message(2 * 1024 * 1024))
    endlessly(stream, Buffer.alloc(60_000, 0x0a))
  },
  (stream) => {
    stream.respond(grpc)
    endlessly(stream, Buffer.alloc(60_000))
  },
  // Noise where a message should be.
  ...[1, 10, 100, 1_000].map((length) => (stream: ServerHttp2Stream, random: Random) => {
    stream.respond(grpc, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    const noise = Buffer.from(Array.from({ length }, () => randomInteger(random, 256)))
    stream.end(Buffer.concat([message(length), noise]))
  }),
  // Truncated, slow, compressed, of another kind, or none.
  (stream) => {
    stream.respond(grpc)
    stream.end(message(100))
  },
  (stream) => {
    stream.respond(grpc)
    const timer = setInterval(() => (stream.destroyed ? clearInterval(timer) : stream.write('x')), 100)
    stream.once('close', () => clearInterval(timer))
  },
  (stream) => {
    stream.respond({ ...grpc, 'grpc-encoding': 'gzip' })
    stream.end(Buffer.concat([Buffer.from([1, 0, 0, 0, 4]), Buffer.from('gzip')]))
  },
  (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'text/html' })
    endlessly(stream, Buffer.alloc(60_000, 'x'))
  },
  (stream, random) => {
    stream.respond({ ':status': 300 + randomInteger(random, 300), location: '/elsewhere' }, { endStream: true })
  },
  (stream, random) => {
    const trailers = { 'grpc-status': String(randomInteger(random, 20)), 'grpc-message': '%00%1b[31m%zz' }
    stream.respond({ ...grpc, ...trailers }, { endStream: true })
  },
  (stream) => stream.close(2),
  () => {},
]

const greetings: readonly ((socket: Socket, random: Random) => void)[] = [
  (socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'),
  (socket) => void socket.resetAndDestroy(),
  (socket) => endlessly(socket, Buffer.alloc(60_000)),
  (socket) => void socket.resume(),
]

/** The header of a message that states a length of `length` bytes. */
function message(length: number): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(length, 1)
  return head
}
