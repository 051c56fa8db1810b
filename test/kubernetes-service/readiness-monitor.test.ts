import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Readiness, ReadinessAnswer } from '../../src/kube/readiness.ts'
import { ReadinessMonitor } from '../../src/kubernetes-service/readiness-monitor.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'

const ready: ReadinessAnswer = { answered: true, ready: true, checks: [] }
const unready: ReadinessAnswer = { answered: true, ready: false, checks: [{ name: 'etcd', ok: false }] }
const refused: ReadinessAnswer = { answered: true, ready: false, checks: [], refused: 'HTTP 401' }
const silent: ReadinessAnswer = { answered: false, reason: 'connection refused' }

/** A monitor of a server that gives the last answer that the test set, after `delayMs`. */
function monitored(
  gate: 'continuous' | 'startup' = 'continuous',
  { readyPeriodMs, ...more }: Pick<Readiness, 'answers'> & { readonly readyPeriodMs?: number } = {},
) {
  const time = new VirtualClock()
  const clock = time.view()
  const logger = memoryLogger()
  const server = { answer: silent as ReadinessAnswer, delayMs: 0 }
  const probes: number[] = []
  const originMs = clock.monotonicMs()
  const nowMs = (): number => clock.monotonicMs() - originMs
  const readiness: Readiness = {
    async probe(signal) {
      probes.push(nowMs())
      if (server.delayMs > 0) await sleep(clock, server.delayMs, signal)
      return server.answer
    },
    ...more,
  }
  const monitor = new ReadinessMonitor({ readiness, clock, logger, gate, periodMs: 1_000, readyPeriodMs })
  const stop = new AbortController()
  const logged = (message: string): number => logger.lines.filter((line) => line.message === message).length
  return { time, monitor, server, probes, logged, stop, nowMs, originMs }
}

/** Runs the monitor while the test does something, then stops it. */
async function running({ monitor, stop }: ReturnType<typeof monitored>, body: () => Promise<void>): Promise<void> {
  const ended = monitor.run(stop.signal).catch(() => {})
  await body()
  stop.abort()
  await ended
}

test('a server is probed every 0.1 s until it is ready for the first time, then once per period', async () => {
  const world = monitored()
  await running(world, async () => {
    await world.time.advance(350)
    assert.deepEqual(world.probes, [0, 100, 200, 300])
    world.server.answer = ready
    await world.time.advance(3_000)
    assert.deepEqual(world.probes.slice(4), [400, 1_400, 2_400])
    world.server.answer = silent
    await world.time.advance(6_000)
    assert.deepEqual(world.probes.slice(7), [3_400, 4_400, 5_400, 6_400, 7_400, 8_400], 'also when it is unready later')
    assert.equal(world.monitor.state.phase, 'unready')
  })
})

test('a server that is ready may be probed less often than one that fails', async () => {
  const world = monitored('continuous', { readyPeriodMs: 10_000 })
  world.server.answer = ready
  await running(world, async () => {
    await world.time.advance(15_000)
    world.server.answer = silent
    await world.time.advance(9_000)
    assert.equal(world.monitor.state.phase, 'unready')
    world.server.answer = ready
    await world.time.advance(21_000)
    assert.equal(world.monitor.state.phase, 'ready')
    assert.deepEqual(world.probes, [
      ...[0, 10_000],
      ...[20_000, 21_000, 22_000, 23_000, 24_000],
      ...[25_000, 26_000, 27_000, 37_000],
    ])
  })
})

test('with the gate startup a server is probed until it is ready, then only on demand', async () => {
  const world = monitored('startup')
  await running(world, async () => {
    await world.time.advance(150)
    world.server.answer = ready
    await world.time.advance(60_000)
    assert.deepEqual(world.probes, [0, 100, 200])
    await world.monitor.probe(world.stop.signal)
    assert.equal(world.probes.length, 4)
  })
})

test('with the gate startup a server that was ready once serves while it answers, and its state stays ready', async () => {
  const { monitor, server, stop, time } = monitored('startup')
  const after = async (answer: ReadinessAnswer) => {
    server.answer = answer
    await monitor.probe(stop.signal)
    await time.advance(1_000)
    return [monitor.serves, monitor.state.phase, monitor.state.failures]
  }
  assert.deepEqual(await after(unready), [false, 'starting', 0])
  assert.deepEqual(await after(ready), [true, 'ready', 0])
  for (let probe = 1; probe <= 10; probe++) assert.deepEqual(await after(unready), [true, 'ready', 0])
  for (let probe = 1; probe <= 10; probe++) assert.deepEqual(await after(silent), [false, 'ready', 0])
  assert.deepEqual(await after(refused), [true, 'ready', 0])
})

test('with the gate continuous only a server that is ready or refuses to state it serves; three failures make it unready', async () => {
  const { monitor, server, stop, time, logged } = monitored()
  const after = async (answer: ReadinessAnswer) => {
    server.answer = answer
    await monitor.probe(stop.signal)
    await time.advance(1_500)
    return [monitor.serves, monitor.state.phase]
  }
  assert.deepEqual(await after(ready), [true, 'ready'])
  assert.deepEqual(await after(refused), [true, 'ready'])
  assert.deepEqual(await after(unready), [false, 'ready'])
  assert.deepEqual(await after(unready), [false, 'ready'])
  assert.equal(logged('own API server is not ready'), 0)
  assert.deepEqual(await after(unready), [false, 'unready'])
  assert.deepEqual(await after(silent), [false, 'unready'])
  assert.equal(logged('own API server is not ready'), 1, 'once per outage')
  assert.deepEqual(await after(ready), [true, 'unready'])
  assert.equal(logged('own API server is ready'), 1, 'the server was reported ready only at the start')
  await after(ready)
  assert.deepEqual(await after(ready), [true, 'ready'])
  assert.equal(logged('own API server is ready'), 2)
})

test('a failure begins when its probe ends, because the server may have been ready until then', async () => {
  const { monitor, server, stop, time } = monitored()
  const after = async (answer: ReadinessAnswer, delayMs: number, advanceMs: number) => {
    server.answer = answer
    server.delayMs = delayMs
    const probe = monitor.probe(stop.signal)
    await time.advance(advanceMs)
    await probe
    return monitor.state.phase
  }
  await after(ready, 0, 1_000)
  assert.equal(await after(silent, 2_500, 3_000), 'ready')
  assert.equal(await after(silent, 0, 200), 'ready')
  assert.equal(await after(silent, 0, 2_400), 'ready', '3.2 s after the first of the three was sent')
  assert.equal(await after(silent, 0, 0), 'unready', '3.1 s after it ended')
})

test('the time of the last answer is that of its arrival, whatever it contains; a missing answer does not change it', async () => {
  const { monitor, server, stop, time, originMs } = monitored()
  assert.equal(monitor.lastAnswerMs, undefined)
  server.answer = unready
  server.delayMs = 700
  const probe = monitor.probe(stop.signal)
  await time.advance(5_000)
  await probe
  assert.equal((monitor.lastAnswerMs ?? 0) - originMs, 700)
  server.answer = silent
  server.delayMs = 0
  await monitor.probe(stop.signal)
  assert.equal((monitor.lastAnswerMs ?? 0) - originMs, 700)
})

test('an answer to the request beside /readyz counts; a server without that request gives no answer', async () => {
  let answers = false
  const { monitor, stop, time, nowMs, originMs } = monitored('continuous', { answers: async () => answers })
  assert.equal(await monitor.answers(stop.signal), false)
  assert.equal(monitor.lastAnswerMs, undefined)
  await time.advance(2_000)
  answers = true
  assert.equal(await monitor.answers(stop.signal), true)
  assert.equal((monitor.lastAnswerMs ?? 0) - originMs, nowMs())
  const without = monitored()
  assert.equal(await without.monitor.answers(without.stop.signal), false)
})

test('handlers receive each probe after the change of state, with the time when it was sent, until they unsubscribe', async () => {
  const { monitor, server, stop, time, originMs } = monitored()
  const received: unknown[] = []
  const unsubscribe = monitor.subscribe(({ answered }, sentAtMs) =>
    received.push([answered, sentAtMs - originMs, monitor.state.phase]),
  )
  await monitor.probe(stop.signal)
  await time.advance(1_000)
  server.answer = ready
  server.delayMs = 300
  const probe = monitor.probe(stop.signal)
  await time.advance(1_000)
  await probe
  unsubscribe()
  server.delayMs = 0
  await monitor.probe(stop.signal)
  assert.deepEqual(received, [
    [false, 0, 'starting'],
    [true, 1_000, 'ready'],
  ])
})

test('untilKnown resolves at an answer about readiness, untilFirstReady only at readiness; it rejects when its signal aborts', async () => {
  const world = monitored()
  const { monitor, server, time, stop } = world
  await running(world, async () => {
    const reached: string[] = []
    const note = (what: string) => () => reached.push(what)
    const answered = monitor.untilKnown(stop.signal).then(note('answer'))
    const first = monitor.untilFirstReady(stop.signal).then(note('ready'))
    const given = new AbortController()
    const givenUp = monitor.untilFirstReady(given.signal).catch(note('given up'))
    const early = new AbortController()
    monitor.untilKnown(early.signal).catch(note('given up early'))
    await time.advance(1_000)
    assert.deepEqual(reached, [])
    early.abort()
    await time.advance(0)
    assert.deepEqual(reached.splice(0), ['given up early'])
    server.answer = { answered: true, ready: false, checks: [], refused: '403' }
    await time.advance(1_000)
    assert.deepEqual(reached, [])
    server.answer = unready
    await time.advance(1_000)
    assert.deepEqual(reached, ['answer'])
    given.abort()
    await givenUp
    server.answer = ready
    await time.advance(1_000)
    assert.deepEqual(reached, ['answer', 'given up', 'ready'])
    await Promise.all([answered, first])
    await Promise.all([monitor.untilKnown(stop.signal), monitor.untilFirstReady(stop.signal)])
  })
})
