import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Datastore } from '../../../src/drill/datastore.ts'
import { SimulatedServer, simulatedLink, simulatedReadiness } from '../../../src/drill/simulator/link.ts'
import { processClock } from '../../../src/drill/simulator/process.ts'
import type { ApiRequest, ApiResponse, Transport } from '../../../src/kube/transport.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { never } from './fleet-under-test.ts'

const get: ApiRequest = { method: 'GET', path: '/api/v1/services', query: [], headers: {}, timeoutMs: 10_000 }

function setUp() {
  const time = new VirtualClock()
  const datastore = new Datastore({ clock: time.view(), random: seededRandom(1, 'datastore') })
  const server = new SimulatedServer(datastore)
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
  const sendEvent = (event: unknown): void => {
    for (const resolve of [...events]) resolve(event)
  }
  const clock = processClock(time)
  const link = simulatedLink(inner, { server, clock, random: seededRandom(1, 'link') })
  return { time, clock, datastore, server, inner, link, served, sendEvent }
}

/** The state of a promise, without waiting for it. */
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

test('a request to a frozen server is answered when the server is thawed', async () => {
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
  assert.equal(server.openConnections, 0)
})

test('a watch survives a freeze of its server, and delivers the events of that time afterwards', async () => {
  const { time, server, link, sendEvent } = setUp()
  const opened = link.send({ ...get, stream: true }, never)
  await time.advance(20)
  const response = await opened
  assert.ok('stream' in response)
  const received: unknown[] = []
  const stop = new AbortController()
  void (async () => {
    for await (const event of response.stream) received.push(event)
  })().catch(() => {})
  await time.advance(10)
  sendEvent('before')
  await time.advance(20)
  server.frozen = true
  sendEvent('meanwhile')
  await time.advance(60_000)
  assert.deepEqual(received, ['before'])
  server.frozen = false
  await time.advance(20)
  assert.deepEqual(received, ['before', 'meanwhile'])
  server.resetConnections()
  await time.advance(10)
  stop.abort()
})

test('a request takes effect although its process is frozen before the answer, and the process receives nothing', async () => {
  const { time, clock, link, served } = setUp()
  const answer = watched(link.send({ ...get, method: 'PUT' }, never))
  clock.freeze()
  await time.advance(1_000)
  assert.deepEqual([answer.state, served], ['waiting', ['PUT']])
})

test('a request costs one simulator event, whether it is answered or refused', async () => {
  const { time, server, link } = setUp()
  const answer = watched(link.send(get, never))
  await time.advance(100)
  assert.deepEqual([answer.state, time.events], ['answered', 1])
  server.kill()
  const refused = watched(link.send(get, never))
  await time.advance(100)
  assert.deepEqual([refused.state, time.events], ['connection refused', 2])
})

test('a thaw does not heal a cut, and a heal resets the request that was sent into it', async () => {
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

const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases'

test('a fault rule refuses, hangs or delays matching requests only, and a refused one does not reach the server', async () => {
  const { time, server, link, served } = setUp()
  server.apply({ fault: { type: 'status', status: 429, retryAfterMs: 6_000 }, resource: 'leases' })
  const refused = link.send({ ...get, path: leases }, never)
  await time.advance(20)
  const { status, headers } = await refused
  assert.deepEqual([status, headers['retry-after'], served], [429, '6', []])
  server.apply({ fault: { type: 'hang' }, resource: 'services', requests: 1 })
  const hung = watched(link.send(get, never))
  const next = watched(link.send(get, never))
  await time.advance(9_900)
  assert.deepEqual([hung.state, next.state], ['waiting', 'answered'])
  await time.advance(200)
  assert.equal(hung.state, 'no answer')
  server.apply({ fault: { type: 'delay', byMs: 2_000 }, resource: 'services' })
  const late = watched(link.send(get, never))
  await time.advance(1_900)
  assert.equal(late.state, 'waiting')
  await time.advance(200)
  assert.equal(late.state, 'answered')
})

test('cut-watches ends open watches at once and later ones at the age limit; lose-event drops one event', async () => {
  const { time, server, link, sendEvent } = setUp()
  const watch = async (): Promise<{ readonly received: unknown[]; readonly end: { state: string } }> => {
    const opened = link.send({ ...get, stream: true }, never)
    await time.advance(20)
    const response = await opened
    assert.ok('stream' in response)
    const received: unknown[] = []
    const read = async (): Promise<void> => {
      for await (const event of response.stream) received.push(event)
    }
    return { received, end: watched(read()) }
  }
  const first = await watch()
  server.apply({ fault: { type: 'lose-event' } })
  for (const event of ['lost', 'delivered']) {
    sendEvent(event)
    await time.advance(20)
  }
  assert.deepEqual(first.received, ['delivered'])
  server.apply({ fault: { type: 'cut-watches', everyMs: 5_000 } })
  await time.advance(20)
  assert.equal(first.end.state, 'connection reset')
  const second = await watch()
  await time.advance(4_900)
  assert.equal(second.end.state, 'waiting')
  await time.advance(200)
  assert.equal(second.end.state, 'connection reset')
})

test('a probe returns what the server reports or what a fault rule sets, and gives up after its timeout', async () => {
  const { time, clock, server } = setUp()
  const readiness = simulatedReadiness(server, clock, seededRandom(1, 'probe'))
  const probe = async (): Promise<string> => {
    const answer = readiness.probe(never)
    await time.advance(5_000)
    const answered = await answer
    if (!answered.answered) return answered.reason
    return answered.ready ? 'ready' : answered.checks.flatMap(({ name, ok }) => (ok ? [] : [name])).join()
  }
  assert.equal(await probe(), 'ready')
  const prompt = watched(readiness.probe(never))
  await time.advance(1)
  assert.equal(prompt.state, 'answered', 'without a fault the probe is answered at once')
  server.slowMs = 900
  const slow = watched(readiness.probe(never))
  await time.advance(1_799)
  assert.equal(slow.state, 'waiting')
  await time.advance(1)
  assert.equal(slow.state, 'answered')
  server.slowMs = 30_000
  assert.equal(await probe(), 'no answer')
  server.slowMs = 0
  server.store.own = 'fails'
  assert.equal(await probe(), 'etcd,etcd-readiness')
  server.store.own = 'hangs'
  assert.equal(await probe(), 'no answer')
  server.store.own = 'ok'
  server.apply({ fault: { type: 'hang' }, only: 'probe', requests: 1 })
  assert.equal(await probe(), 'no answer')
  server.apply({ fault: { type: 'status', status: 503 }, only: 'probe', requests: 1 })
  assert.equal(await probe(), '')
  assert.equal(await probe(), 'ready')
})

test('servers without a datastore do not answer, and recover one after the other when it returns', async () => {
  const { time, clock, datastore, server, link, inner } = setUp()
  const servers = [server, new SimulatedServer(datastore), new SimulatedServer(datastore)]
  const other = simulatedLink(inner, { server, clock: processClock(time), random: seededRandom(2, 'link') })
  datastore.state = 'away'
  const patient = { ...get, timeoutMs: 60_000 }
  const hung = watched(link.send(patient, never))
  const awake = watched(other.send(patient, never))
  clock.freeze()
  await time.advance(20_000)
  assert.deepEqual([hung.state, awake.state], ['waiting', 'waiting'])
  assert.deepEqual(
    servers.map(({ answering, storeless }) => [answering, storeless]),
    servers.map(() => [false, true]),
  )
  datastore.state = 'up'
  const backMs = servers.map(() => 0)
  for (let ms = 0; ms < 15_000; ms += 100) {
    await time.advance(100)
    for (const [index, { storeless }] of servers.entries()) if (storeless) backMs[index] = ms
  }
  for (const ms of backMs) assert.ok(ms >= 700 && ms <= 14_000, `${ms}`)
  assert.equal(new Set(backMs).size, 3)
  assert.deepEqual([hung.state, awake.state], ['waiting', 'answered'], 'the time-out uses the clock of the sender')
  clock.thaw()
  await time.advance(100)
  assert.equal(hung.state, 'answered')
})

test('a start of a server that runs does not shorten its recovery after an outage, but a restart does', async () => {
  const { time, datastore, server } = setUp()
  datastore.state = 'away'
  await time.advance(60_000)
  datastore.state = 'up'
  server.start()
  assert.equal(server.storeless, true)
  server.kill()
  server.start()
  assert.equal(server.storeless, false)
})
