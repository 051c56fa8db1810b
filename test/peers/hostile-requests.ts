import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, randomInteger, seededRandom } from '../../src/runtime/random.ts'

/** What one hostile client does with a connection that it has just opened. */
type Attack = (socket: Socket, random: Random) => Promise<void> | void

const host = 'Host: x\r\n'
const paths = ['/livez', '/readyz', '/readyz/ping', '/readyz?verbose', '/healthz', '/metrics', '/none']

const attacks: Readonly<Record<string, Attack>> = {
  truncated(socket, random) {
    const whole = `GET ${pick(random, paths)} HTTP/1.1\r\n${host}\r\n`
    socket.end(whole.slice(0, randomInteger(random, whole.length)))
  },
  'closed connection'(socket, random) {
    socket.write(`GET ${pick(random, paths)} HTTP/1.1\r\n${host}\r\n`)
    socket.resetAndDestroy()
  },
  'huge headers'(socket, random) {
    socket.write(`GET /livez HTTP/1.1\r\nX: ${'x'.repeat(randomInteger(random, 200_000))}\r\n\r\n`)
  },
  'many headers'(socket, random) {
    const lines = Array.from({ length: randomInteger(random, 5000) }, (_, index) => `X-${index}: ${index}\r\n`)
    socket.write(`GET /livez HTTP/1.1\r\n${host}${lines.join('')}\r\n`)
  },
  async 'slow bytes'(socket, random) {
    for (const byte of `GET ${pick(random, paths)} HTTP/1.1\r\n`.slice(0, 12)) {
      socket.write(byte)
      await sleep(10)
    }
  },
  'another method'(socket, random) {
    const method = pick(random, ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'CONNECT', 'PRI', 'get', 'X'])
    socket.write(`${method} ${pick(random, paths)} HTTP/1.1\r\n${host}\r\n`)
  },
  'bad target'(socket, random) {
    const target = pick(random, ['//[', '/%zz', '*', 'http://', '/readyz/%ff', '/../../etc/passwd', 'a b', '/\0', ''])
    socket.write(`GET ${target} HTTP/1.1\r\n${host}\r\n`)
  },
  'long target'(socket, random) {
    const names = Array.from({ length: randomInteger(random, 2000) }, (_, index) => `exclude=${index}`)
    socket.write(`GET /readyz?${names.join('&')} HTTP/1.1\r\n${host}\r\n`)
  },
  async 'endless body'(socket, random) {
    const chunk = `400\r\n${'x'.repeat(0x400)}\r\n`
    socket.write(`${pick(random, ['GET', 'POST'])} /livez HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`)
    for (let count = 0; count < 20 && socket.writable; count++) {
      socket.write(chunk.repeat(16))
      await sleep(5)
    }
  },
  'two Content-Lengths'(socket) {
    socket.write(`POST /livez HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\nGET /metrics`)
  },
  'an upgrade'(socket, random) {
    const to = pick(random, ['websocket', 'h2c', 'TLS/1.0'])
    socket.write(`GET /livez HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: ${to}\r\nExpect: 200-ok\r\n\r\n`)
  },
  pipelined(socket, random) {
    socket.pause()
    socket.write(`GET ${pick(random, paths)} HTTP/1.1\r\n${host}\r\n`.repeat(randomInteger(random, 3000)))
  },
  noise(socket, random) {
    socket.write(Buffer.from(Array.from({ length: randomInteger(random, 2000) }, () => randomInteger(random, 256))))
  },
  'another protocol'(socket, random) {
    const hello = pick(random, [
      '\x16\x03\x01\x02\x00\x01',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'GET /livez\r\n',
      'SSH-2.0-x\r\n',
    ])
    socket.write(hello, 'latin1')
  },
}

export interface HostileRequests {
  readonly port: number
  readonly seed: number
  readonly count: number
}

/**
 * Sends `count` hostile requests, each over its own connection, twenty at a time. The same seed gives the same
 * requests.
 */
export async function sendHostileRequests({ port, seed, count }: HostileRequests): Promise<void> {
  let index = 0
  const work = async (): Promise<void> => {
    while (index < count) await attack(port, seededRandom(seed, `hostile request ${index++}`))
  }
  await Promise.all(Array.from({ length: 20 }, work))
}

async function attack(port: number, random: Random): Promise<void> {
  const act = attacks[pick(random, Object.keys(attacks))]
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  const closed = once(socket, 'close').catch(() => {})
  socket.resume()
  socket.once('connect', () => void act?.(socket, random))
  // Some attacks never send what the server waits for, so both sides would wait for ever.
  const timer = setTimeout(() => socket.destroy(), 150)
  await closed
  clearTimeout(timer)
}

function pick<T>(random: Random, items: readonly T[]): T {
  return items[randomInteger(random, items.length)] as T
}
