import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Availability, RIGHTS_HINT } from '../../src/kube/availability.ts'
import { KubeError } from '../../src/kube/errors.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'

const unreachable = new KubeError('Unreachable', 'connection refused')
const forbidden = new KubeError('Forbidden', 'services is forbidden')

/** A server that has answered each source before. */
function setUp() {
  const time = new VirtualClock()
  const logger = memoryLogger()
  const availability = new Availability({ clock: time.view(), logger })
  for (const source of 'abcdef') availability.succeeded(source)
  const notified: boolean[] = []
  const unsubscribe = availability.subscribe((available) => notified.push(available))
  const logged = () =>
    logger.lines.filter(({ level }) => level !== 'debug').map(({ level, message }) => [level, message])
  return { time, logger, availability, notified, unsubscribe, logged }
}

test('an outage of many sources is logged once at its begin and once at its end, with its duration and first reason', async () => {
  const { time, logger, availability, notified, logged } = setUp()
  const sources = ['a', 'b', 'c', 'd', 'e', 'f']
  for (const source of sources) availability.failed(source, unreachable)
  await time.advance(20_000)
  for (const source of sources) availability.failed(source, new KubeError('ServerError', 'etcd is away'))
  assert.equal(availability.available, false)
  for (const source of sources) availability.succeeded(source)
  assert.equal(availability.available, true)
  assert.deepEqual(logged(), [
    ['warn', 'lost the API server'],
    ['info', 'the API server is back'],
  ])
  assert.deepEqual(logger.lines.at(-1)?.fields, { durationMs: 20_000, reason: 'connection refused', sources })
  assert.deepEqual(notified, [false, true])
})

test('a server that answers every other request is logged as one outage, and subscribers receive each change', async () => {
  const { time, availability, notified, logged } = setUp()
  for (let i = 0; i < 20; i++) {
    availability.failed('a', unreachable)
    await time.advance(700)
    availability.succeeded('a')
    await time.advance(4_000)
  }
  assert.deepEqual(logged(), [
    ['warn', 'lost the API server'],
    ['info', 'the API server is back'],
  ])
  assert.equal(notified.length, 40)
  await time.advance(5_000)
  availability.failed('a', unreachable)
  assert.deepEqual(logged().slice(2), [['warn', 'lost the API server']])
})

test('a loss right after a recovery is logged only after five seconds, with its own duration at the end', async () => {
  const { time, logger, availability, logged } = setUp()
  availability.failed('a', unreachable)
  availability.succeeded('a')
  await time.advance(1_000)
  for (let i = 0; i < 6; i++) {
    assert.equal(logged().length, 2)
    availability.failed('a', unreachable)
    await time.advance(1_000)
  }
  assert.deepEqual(logged().slice(2), [['warn', 'lost the API server']])
  await time.advance(4_000)
  availability.succeeded('a')
  assert.deepEqual(logged().slice(3), [['info', 'the API server is back']])
  assert.equal(logger.lines.at(-1)?.fields.durationMs, 10_000)
})

test('the server is not available again before the last failing source has succeeded', () => {
  const { availability } = setUp()
  availability.failed('a', unreachable)
  availability.failed('b', unreachable)
  availability.succeeded('a')
  assert.equal(availability.available, false)
  availability.succeeded('b')
  assert.equal(availability.available, true)
})

test('a refusal is no outage: it is logged once per source until that source succeeds', async () => {
  const { time, availability, notified, logged } = setUp()
  const refusedForSeconds = async (...sources: readonly string[]) => {
    for (let i = 0; i < 4; i++) {
      for (const source of sources) availability.failed(source, forbidden)
      await time.advance(1_000)
    }
  }
  await refusedForSeconds('a', 'b')
  assert.equal(availability.available, true)
  availability.succeeded('a')
  await refusedForSeconds('a')
  assert.deepEqual(logged(), [
    ['warn', 'the API server refuses a request'],
    ['warn', 'the API server refuses a request'],
    ['info', 'the API server no longer refuses'],
    ['warn', 'the API server refuses a request'],
  ])
  assert.deepEqual(notified, [])
})

test('a refusal of less than two seconds, as after the start of a server, is known but not logged', async () => {
  const { time, availability, logged } = setUp()
  for (const source of ['a', 'b', 'c']) availability.failed(source, forbidden)
  assert.equal(availability.refusalOf('b'), 'services is forbidden')
  await time.advance(1_900)
  for (const source of ['a', 'b', 'c']) availability.failed(source, forbidden)
  for (const source of ['a', 'b', 'c']) availability.succeeded(source)
  assert.deepEqual(logged(), [])
})

test('the reason of a refusal is that of the last answer', () => {
  const { availability } = setUp()
  availability.failed('a', forbidden)
  availability.failed('a', new KubeError('Invalid', 'provided IP is already allocated'))
  assert.equal(availability.refusalOf('a'), 'provided IP is already allocated')
})

test('Unauthorized is not logged by each source, but a Forbidden that follows it is', async () => {
  const { time, availability, logged } = setUp()
  const fail = async (error: KubeError) => {
    for (let i = 0; i < 4; i++) {
      for (const source of ['a', 'b', 'c']) availability.failed(source, error)
      await time.advance(1_000)
    }
  }
  await fail(new KubeError('Unauthorized', 'who are you'))
  assert.deepEqual([availability.refusalOf('a'), logged()], ['who are you', []])
  availability.succeeded('a')
  await fail(forbidden)
  assert.deepEqual([availability.refusalOf('b'), logged().length], ['services is forbidden', 3])
})

test('a refusal that may pass is logged only if it has lasted for five seconds', async () => {
  for (const code of ['NotFound', 'Invalid'] as const) {
    const { time, availability, logged } = setUp()
    const error = new KubeError(code, 'not now')
    availability.failed('a', error)
    await time.advance(4_900)
    availability.failed('a', error)
    assert.deepEqual(logged(), [])
    assert.equal(availability.available, true)
    await time.advance(100)
    availability.failed('a', error)
    assert.deepEqual(logged(), [['warn', 'the API server refuses a request']])
  }
})

test('a request that the client itself refuses is no outage; it is logged if that continues', async () => {
  const { time, availability, logged } = setUp()
  const error = Object.assign(new Error('no live masters'), { code: 'NoLiveMasters' })
  for (let round = 0; round < 100; round++) {
    availability.failed('a', error)
    await time.advance(100)
  }
  assert.equal(availability.available, true)
  assert.deepEqual(logged(), [['warn', 'an operation failed inside this program']])
  availability.succeeded('a')
  assert.deepEqual(logged().at(-1), ['info', 'operation succeeded after earlier failures'])
})

test('an outage whose only source is removed ends without a log line', () => {
  const { availability, notified, logged } = setUp()
  availability.failed('a', unreachable)
  availability.forget('a')
  assert.equal(availability.available, true)
  assert.deepEqual(notified, [false, true])
  assert.deepEqual(logged(), [['warn', 'lost the API server']])
})

test('short refusals after an outage are not logged, and do not end the outage', async () => {
  const { time, availability, logged } = setUp()
  availability.failed('a', unreachable)
  availability.failed('a', forbidden)
  await time.advance(2_000)
  availability.failed('a', forbidden)
  assert.equal(availability.available, false)
  availability.succeeded('a')
  assert.deepEqual(logged(), [
    ['warn', 'lost the API server'],
    ['info', 'the API server is back'],
  ])
})

test('a refusal that lasts ends the outage and is logged', async () => {
  const { time, availability, logged } = setUp()
  availability.failed('a', unreachable)
  availability.failed('a', forbidden)
  await time.advance(5_000)
  availability.failed('a', forbidden)
  assert.equal(availability.available, true)
  assert.deepEqual(logged(), [
    ['warn', 'lost the API server'],
    ['warn', 'the API server refuses a request'],
    ['info', 'the API server is back'],
  ])
})

test('a refusal from before an outage is not logged again after it, and does not prolong it', async () => {
  const { time, availability, logged } = setUp()
  availability.failed('a', forbidden)
  await time.advance(2_000)
  availability.failed('a', forbidden)
  availability.failed('a', unreachable)
  availability.failed('a', unreachable)
  assert.equal(availability.available, false)
  await time.advance(10_000)
  availability.failed('a', forbidden)
  assert.equal(availability.available, true)
  assert.deepEqual(logged(), [
    ['warn', 'the API server refuses a request'],
    ['warn', 'lost the API server'],
    ['info', 'the API server is back'],
  ])
})

test('a source that is removed no longer counts, and an ended subscription receives nothing', () => {
  const { availability, notified, unsubscribe } = setUp()
  availability.failed('a', unreachable)
  unsubscribe()
  availability.forget('a')
  assert.equal(availability.available, true)
  assert.deepEqual(notified, [false])
})

test('refusals during an outage of another source are logged only if they outlast it by five seconds', async () => {
  const { time, availability, logged } = setUp()
  availability.failed('a', unreachable)
  for (let second = 0; second < 60; second++) {
    for (const source of ['b', 'c']) availability.failed(source, forbidden)
    availability.failed('a', new KubeError('BadResponse', 'not JSON'))
    await time.advance(1_000)
  }
  for (const source of ['a', 'b']) availability.succeeded(source)
  assert.deepEqual(logged(), [
    ['warn', 'lost the API server'],
    ['info', 'the API server is back'],
  ])
  for (let second = 0; second < 5; second++) {
    availability.failed('c', forbidden)
    assert.equal(logged().length, 2)
    await time.advance(1_000)
  }
  availability.failed('c', forbidden)
  assert.deepEqual(logged().slice(2), [['warn', 'the API server refuses a request']])
})

test('an endless failure of one source hides the refusals of others for at most five minutes', async () => {
  const { time, availability, logged } = setUp()
  availability.failed('a', unreachable)
  availability.failed('b', forbidden)
  await time.advance(300_000)
  availability.failed('b', forbidden)
  assert.deepEqual(logged(), [
    ['warn', 'lost the API server'],
    ['warn', 'the API server refuses a request'],
  ])
})

test('the symptoms of an outage are counted in the log line that ends it', async () => {
  const { time, logger, availability } = setUp()
  const symptom = availability.outages.symptom()
  availability.failed('a', unreachable)
  for (const reason of ['timed out', 'not JSON']) {
    symptom.present(logger, { reason }, 'not ready')
    symptom.present(logger, { reason }, 'not ready')
    symptom.absent(logger, {}, 'ready')
  }
  await time.advance(20_000)
  availability.outages.consequence(logger, { unrenewedMs: 20_000 }, 'late')
  availability.succeeded('a')
  assert.deepEqual(logger.lines.at(-1)?.fields.meanwhile, {
    'not ready': { times: 2, reason: 'not JSON' },
    late: { times: 1, unrenewedMs: 20_000 },
  })
})

test('a broken watch is no outage, but an outage that begins meanwhile lasts until the watch is open again', () => {
  const { availability, notified, logged } = setUp()
  availability.interrupted('watch')
  assert.deepEqual([availability.available, logged()], [true, []])
  availability.succeeded('watch')
  availability.interrupted('watch')
  availability.failed('a', unreachable)
  availability.succeeded('a')
  assert.equal(availability.available, false)
  availability.succeeded('watch')
  assert.deepEqual(notified, [false, true])
  assert.deepEqual(logged(), [
    ['warn', 'lost the API server'],
    ['info', 'the API server is back'],
  ])
})

test('a server that has never answered the failing part is logged as not reachable rather than lost; a refusal is an answer', () => {
  for (const answered of [false, true]) {
    const time = new VirtualClock()
    const logger = memoryLogger()
    const availability = new Availability({ clock: time.view(), logger })
    if (answered) availability.failed('a', forbidden)
    availability.failed('a', unreachable)
    assert.deepEqual(
      logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message),
      [`${answered ? 'lost' : 'cannot reach'} the API server`],
    )
  }
})

test('the first log line about a missing right names the directory with the required rights', async () => {
  const { time, logger, availability } = setUp()
  for (let round = 0; round < 2; round++) {
    for (const source of ['a', 'b']) availability.failed(source, forbidden)
    await time.advance(3_000)
  }
  const hints = logger.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields.hint)
  assert.deepEqual(hints, [RIGHTS_HINT, undefined])
})

test('an outage whose last failing source is removed after another one has succeeded is logged as over', () => {
  const { availability, logged } = setUp()
  availability.failed('a', unreachable)
  availability.failed('b', unreachable)
  availability.succeeded('b')
  availability.forget('a')
  assert.equal(availability.available, true)
  assert.deepEqual(logged(), [
    ['warn', 'lost the API server'],
    ['info', 'the API server is back'],
  ])
})

test('an outage whose failing source is removed before any success is logged as over once, when one of its sources succeeds', () => {
  const { availability, notified, logged } = setUp()
  availability.failed('a', unreachable)
  availability.forget('a')
  assert.equal(availability.available, true)
  assert.deepEqual(logged(), [['warn', 'lost the API server']])
  // It is still the same outage.
  availability.failed('b', unreachable)
  assert.deepEqual(logged(), [['warn', 'lost the API server']])
  availability.forget('b')
  // The request of a source that never failed here may have gone to another server.
  availability.succeeded('c')
  assert.deepEqual(logged(), [['warn', 'lost the API server']])
  availability.succeeded('a')
  availability.succeeded('a')
  assert.deepEqual(logged(), [
    ['warn', 'lost the API server'],
    ['info', 'the API server is back'],
  ])
  assert.deepEqual(notified, [false, true, false, true])
})
