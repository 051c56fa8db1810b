import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SimulatedServer, simulatedLink } from '../../../src/drill/simulator/link.ts'
import { processClock } from '../../../src/drill/simulator/process-clock.ts'
import type { ApiRequest, ApiResponse, Transport } from '../../../src/kube/transport.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { never } from './fleet-under-test.ts'

const get: ApiRequest = { method: 'GET', path: '/api/v1/services', query: [], headers: {}, timeoutMs: 10_000 }

function setUp(server = new SimulatedServer()) {
  const time = new VirtualClock()
  const served: string[] = []
  const events = new Set<(event: unknown) => void>()
  const inner: Transport = {
    async send(request, signal): Promise<ApiResponse> {
      served.push(request.method)
      if (request.stream !== true) return { status: 200, headers: {}, body: 'served' }
      return { status: 200, headers: {}, stream: eventsUntil(signal) }
    },
    close: async () => {},
  }
  async function* eventsUntil(signal: AbortSignal): AsyncGenerator<unknown> {
    while (!signal.aborted) {
      yield await new Promise((resolve) => {
        events.add(resolve)
        signal.addEventListener('abort', () => resolve(undefined), { once: true })
      })
    }
  }
  const tell = (event: unknown): void => {
    for (const resolve of [...events]) resolve(event)
  }
  const clock = processClock(time)
  const link = simulatedLink(inner, { server, clock, random: seededRandom(1, 'link') })
  return { time, clock, server, link, served, tell }
}

/** How a promise fares, without waiting for it. */
function watched(answer: Promise<unknown>): { state: string } {
  const seen = { state: 'waiting' }
  answer.then(
    () => {
      seen.state = 'answered'
    },
    (error: unknown) => {
      seen.state = error instanceof Error ? error.message : String(error)
    },
  )
  return seen
}

test('a request to a frozen server is answered when the server goes on', async () => {
  const { time, server, link, served } = setUp()
  server.frozen = true
  const answer = watched(link.send(get, never))
  await time.advance(8_000)
  assert.deepEqual([answer.state, served], ['waiting', []])
  server.frozen = false
  await time.advance(20)
  assert.deepEqual([answer.state, served], ['answered', ['GET']])
})

test('a request to a frozen server times out, and one to a frozen server that is killed is reset', async () => {
  const { time, server, link } = setUp()
  server.frozen = true
  const first = watched(link.send(get, never))
  await time.advance(10_100)
  assert.equal(first.state, 'no answer')
  const second = watched(link.send(get, never))
  await time.advance(100)
  server.kill()
  await time.advance(100)
  assert.equal(second.state, 'connection reset')
  assert.equal(server.streams, 0)
})

test('a watch survives its server being frozen, silent meanwhile, and tells afterwards what happened', async () => {
  const { time, server, link, tell } = setUp()
  const opened = link.send({ ...get, stream: true }, never)
  await time.advance(20)
  const response = await opened
  assert.ok('stream' in response)
  const heard: unknown[] = []
  const stop = new AbortController()
  void (async () => {
    for await (const event of response.stream) heard.push(event)
  })().catch(() => {})
  await time.advance(10)
  tell('before')
  await time.advance(20)
  server.frozen = true
  tell('meanwhile')
  await time.advance(60_000)
  assert.deepEqual(heard, ['before'])
  server.frozen = false
  await time.advance(20)
  assert.deepEqual(heard, ['before', 'meanwhile'])
  server.breakStreams()
  await time.advance(10)
  stop.abort()
})

test('what a process asked takes effect although it is killed before the answer comes, and it hears nothing', async () => {
  const { time, clock, link, served } = setUp()
  const answer = watched(link.send({ ...get, method: 'PUT' }, never))
  clock.freeze()
  await time.advance(1_000)
  assert.deepEqual([answer.state, served], ['waiting', ['PUT']])
})

test('a request costs one event of the simulator, answered or refused', async () => {
  const { time, server, link } = setUp()
  const answer = watched(link.send(get, never))
  await time.advance(100)
  assert.deepEqual([answer.state, time.events], ['answered', 1])
  server.kill()
  const refused = watched(link.send(get, never))
  await time.advance(100)
  assert.deepEqual([refused.state, time.events], ['connection refused', 2])
})

test('a black hole swallows what is sent, and is no other cause of silence than its own', async () => {
  const { time, server, link } = setUp()
  server.cut = true
  server.frozen = true
  const answer = watched(link.send(get, never))
  await time.advance(100)
  server.frozen = false
  await time.advance(100)
  assert.equal(answer.state, 'waiting')
  assert.equal(server.cut, true)
  server.heal()
  await time.advance(100)
  assert.equal(answer.state, 'connection reset')
})
