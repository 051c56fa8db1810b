import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { KubeError, type KubeErrorCode } from '../../src/kube/errors.ts'
import { type EventToRecord, referenceTo } from '../../src/kube/event-object.ts'
import { EventRecorder } from '../../src/kube/event-recorder.ts'
import { events, type KubeEvent, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { ScriptedApi } from './scripted-api.ts'

const minute = 60_000
const regarding = { apiVersion: 'v1', kind: 'Service', namespace: 'ns', name: 'web', uid: 'u1' }
const happened: EventToRecord = { regarding, type: 'Warning', reason: 'Failed', action: 'Reconcile', note: 'it broke' }

function start() {
  const api = new ScriptedApi()
  api.answer = () => ({})
  const time = new VirtualClock({ startWallMs: 1_800_000_000_000 })
  const logger = memoryLogger()
  const recorder = new EventRecorder({
    api,
    clock: time.view(),
    random: seededRandom(1, 'test'),
    logger,
    reportingController: 'example.com/controller',
    reportingInstance: 'controller-host',
  })
  const controller = new AbortController()
  const run = recorder.run(controller.signal)
  const stop = async () => {
    controller.abort()
    await run
  }
  const written = () => api.asked.map(({ call, of, patch }) => ({ call, event: of as KubeEvent, patch: patch?.body }))
  const refuse = (code: KubeErrorCode) => {
    api.answer = () => {
      throw new KubeError(code, code)
    }
  }
  return { api, time, logger, recorder, controller, run, stop, written, refuse }
}

/** A recorder beside an in-process API server. */
function startBesideServer() {
  const time = new VirtualClock()
  const [clock, random, logger] = [time.view(), seededRandom(1, 'test'), memoryLogger()]
  const api = restKubeApi({ transport: inProcessTransport(createApiServer({ clock, random })), clock, random })
  const reporter = { reportingController: 'example.com/controller', reportingInstance: 'controller-host' }
  const recorder = new EventRecorder({ api, clock, random, logger, ...reporter })
  const controller = new AbortController()
  const run = recorder.run(controller.signal)
  const stop = async (): Promise<void> => {
    controller.abort()
    await run
  }
  return { time, api, logger, recorder, stop }
}

test('an event is written as an Event of events.k8s.io/v1 in the namespace of the object that it regards', async () => {
  const { api, time, recorder, written, stop } = start()
  recorder.record(happened)
  await time.advance(0)
  const [{ call, event } = assert.fail()] = written()
  assert.equal(call, 'create')
  assert.equal(api.asked[0]?.resource, events)
  assert.match(event.metadata?.name ?? '', /^web\.18fae2[0-9a-f]{10}$/)
  assert.deepEqual(event, {
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: { name: event.metadata?.name, namespace: 'ns' },
    eventTime: '2027-01-15T08:00:00.000000Z',
    reportingController: 'example.com/controller',
    reportingInstance: 'controller-host',
    action: 'Reconcile',
    reason: 'Failed',
    regarding,
    note: 'it broke',
    type: 'Warning',
  })
  await stop()
})

test('an event is written once its namespace exists, and dropped if the namespace is never created', async () => {
  for (const isMade of [true, false]) {
    const { time, api, logger, recorder, stop } = startBesideServer()
    recorder.record(happened)
    await time.advance(5_000)
    if (isMade) await api.create(namespaces, { metadata: { name: 'ns' } })
    await time.advance(3 * minute)
    assert.equal((await api.list(events)).items.length, isMade ? 1 : 0)
    assert.equal(logger.lines.filter(({ message }) => message === 'dropped an Event').length, isMade ? 0 : 1)
    await stop()
  }
})

test('an event about an object without a namespace is written to default', async () => {
  const { time, recorder, written, stop } = start()
  recorder.record({ ...happened, regarding: referenceTo({ kind: 'ServiceCIDR', metadata: { name: 'kubernetes' } }) })
  await time.advance(0)
  assert.deepEqual(written()[0]?.event.regarding, { kind: 'ServiceCIDR', name: 'kubernetes' })
  assert.equal(written()[0]?.event.metadata?.namespace, 'default')
  await stop()
})

test('a note is cut to 1,024 bytes between characters, and a name is cut so that the suffix fits', async () => {
  const { time, recorder, written, stop } = start()
  recorder.record({ ...happened, note: `${'x'.repeat(1022)}€uro`, regarding: { ...regarding, name: 'n'.repeat(253) } })
  await time.advance(0)
  assert.equal(written()[0]?.event.note, 'x'.repeat(1022))
  assert.equal(written()[0]?.event.metadata?.name?.length, 253)
  await stop()
})

test('an event about an object whose name is invalid for an Event gets a UUID as its name', async () => {
  const { time, api, recorder, stop } = startBesideServer()
  await api.create(namespaces, { metadata: { name: 'default' } })
  for (const name of ['fd00::1', 'Upper', '']) {
    const metadata = { name, uid: `u ${name}` }
    recorder.record({ ...happened, regarding: referenceTo({ kind: 'IPAddress', metadata }) })
  }
  await time.advance(100)
  const { items } = await api.list(events, { namespace: 'default' })
  assert.deepEqual(items.map(({ regarding }) => regarding?.name).sort(), ['', 'Upper', 'fd00::1'])
  for (const { metadata } of items) assert.match(metadata?.name ?? '', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  await stop()
})

test('repetitions are counted: the second is written at once, the others when the series ends', async () => {
  const { time, recorder, written, stop } = start()
  recorder.record(happened)
  await time.advance(1_000)
  for (let i = 2; i <= 10; i++) {
    recorder.record({ ...happened, regarding: { ...regarding, resourceVersion: String(i) } })
    await time.advance(1_000)
  }
  assert.equal(written().length, 2)
  await time.advance(13 * minute)
  const [first, second, last] = written()
  assert.deepEqual(second, {
    call: 'patch',
    event: { namespace: 'ns', name: first?.event.metadata?.name },
    patch: { series: { count: 2, lastObservedTime: '2027-01-15T08:00:01.000000Z' } },
  })
  assert.deepEqual(last?.patch, { series: { count: 10, lastObservedTime: '2027-01-15T08:00:09.000000Z' } })
  await time.advance(60 * minute)
  assert.equal(written().length, 3)
  await stop()
})

test('a series that does not end is written every half hour', async () => {
  const { time, recorder, written, stop } = start()
  for (let i = 0; i < 240; i++) {
    recorder.record(happened)
    await time.advance(minute)
  }
  const patches = written().slice(2)
  assert.ok(patches.length >= 6 && patches.length <= 8, `${patches.length} writes in four hours`)
  await stop()
})

test('an event that differs in any part, or repeats after six quiet minutes, becomes an Event of its own', async () => {
  const { time, recorder, written, stop } = start()
  recorder.record(happened)
  recorder.record({ ...happened, note: 'otherwise' })
  recorder.record({ ...happened, action: 'Delete' })
  recorder.record({ ...happened, type: 'Normal' })
  recorder.record({ ...happened, regarding: { ...regarding, uid: 'u2' } })
  await time.advance(6 * minute + 1)
  recorder.record(happened)
  await time.advance(0)
  assert.deepEqual(
    written().map(({ call }) => call),
    Array(6).fill('create'),
  )
  assert.equal(new Set(written().map(({ event }) => event.metadata?.name)).size, 6)
  await stop()
})

test('the count of a series is written when the next series begins', async () => {
  const { time, recorder, written, stop } = start()
  await time.advance(minute)
  for (let i = 1; i <= 3; i++) {
    recorder.record(happened)
    await time.advance(1_000)
  }
  await time.advance(6 * minute)
  recorder.record(happened)
  await time.advance(0)
  await stop()
  assert.deepEqual(
    written().map(({ call, patch }) => [call, (patch as KubeEvent | undefined)?.series?.count]),
    [
      ['create', undefined],
      ['patch', 2],
      ['patch', 3],
      ['create', undefined],
    ],
  )
})

test('the name of an Event contains the time of the event to the millisecond', async () => {
  const { time, recorder, written, stop } = start()
  for (let i = 0; i < 20; i++) recorder.record({ ...happened, note: String(i) })
  await time.advance(0)
  assert.equal(written().length, 20)
  for (const { event } of written()) {
    const nanos = BigInt(`0x${event.metadata?.name?.split('.')[1]}`)
    assert.equal(nanos / 1_000_000n, 1_800_000_000_000n)
  }
  await stop()
})

test('if more events occur than are remembered, the oldest is forgotten, and no other', async () => {
  const { time, recorder, written, stop } = start()
  const about = (uid: number) => recorder.record({ ...happened, regarding: { ...regarding, uid: String(uid) } })
  for (let uid = 0; uid <= 4_096; uid++) {
    about(uid)
    if (uid % 500 === 0) await time.advance(0)
  }
  await time.advance(0)
  const before = written().length
  about(1)
  about(0)
  await time.advance(0)
  assert.deepEqual(
    written()
      .slice(before)
      .map(({ call }) => call),
    ['patch', 'create'],
  )
  await stop()
})

test('one object causes 25 new Events at once and then one every five minutes; other objects are not limited', async () => {
  const { time, logger, recorder, written, stop } = start()
  for (let i = 0; i < 40; i++) recorder.record({ ...happened, note: String(i) })
  recorder.record({ ...happened, regarding: { ...regarding, uid: 'other' } })
  await time.advance(0)
  assert.equal(written().length, 26)
  assert.equal(logger.lines.length, 15)
  await time.advance(5 * minute)
  recorder.record({ ...happened, note: 'later' })
  recorder.record({ ...happened, note: 'too many' })
  await time.advance(0)
  assert.equal(written().length, 27)
  await stop()
})

test('while the server is away at most 1,000 events are queued, and they are written in order afterwards', async () => {
  const { api, time, recorder, written, refuse, stop } = start()
  refuse('Unreachable')
  for (let i = 0; i < 100_000; i++) recorder.record({ ...happened, regarding: { ...regarding, name: `s${i}` } })
  await time.advance(60 * minute)
  assert.equal(recorder.queued, 1_000)
  const before = written().length
  assert.ok(before < 400, `${before} attempts in an hour`)
  api.answer = () => ({})
  await time.advance(13_000)
  assert.equal(recorder.queued, 0)
  const names = written()
    .slice(before)
    .map(({ event }) => event.regarding?.name)
  assert.deepEqual(
    names,
    Array.from({ length: 1_000 }, (_, i) => `s${i}`),
  )
  await stop()
})

for (const code of ['Unreachable', 'TooManyRequests', 'Unauthorized', 'NoCredentials'] as const) {
  test(`repetitions during five minutes of ${code} are created as one series afterwards`, async () => {
    const { api, time, recorder, written, refuse, stop } = start()
    refuse(code)
    for (let i = 0; i < 5; i++) recorder.record(happened)
    await time.advance(5 * minute)
    api.asked.length = 0
    api.answer = () => ({})
    await time.advance(13_000)
    assert.equal(written()[0]?.event.series?.count, 5)
    await stop()
  })
}

for (const code of ['Forbidden', 'Invalid', 'NotFound', 'BadRequest'] as const) {
  test(`an event refused with ${code} is dropped, and does not block the next one`, async () => {
    const { api, time, logger, recorder, written, refuse, stop } = start()
    refuse(code)
    recorder.record(happened)
    await time.advance(minute)
    assert.equal(api.asked.length, 1)
    assert.deepEqual(
      logger.lines.map(({ level, fields }) => [level, fields.reason]),
      [['debug', code]],
    )
    api.answer = () => ({})
    recorder.record({ ...happened, note: 'next' })
    await time.advance(0)
    assert.equal(recorder.queued, 0)
    assert.deepEqual(
      written().map(({ call, event }) => `${call} ${event.note}`),
      ['create it broke', 'create next'],
    )
    assert.equal(logger.lines.length, 1, 'only the first Event was dropped')
    await stop()
  })
}

test('an event is dropped after 12 attempts that end with a ServerError', async () => {
  const { api, time, recorder, refuse, stop } = start()
  refuse('ServerError')
  recorder.record(happened)
  await time.advance(10 * minute)
  assert.equal(api.asked.length, 12)
  assert.equal(recorder.queued, 0)
  await stop()
})

test('an Event is not created twice if the answer to its creation was lost', async () => {
  const { api, time, recorder, written, stop } = start()
  let attempts = 0
  api.answer = ({ call }) => {
    if (call === 'create') throw new KubeError(attempts++ === 0 ? 'Timeout' : 'AlreadyExists', 'create')
  }
  recorder.record(happened)
  await time.advance(3_000)
  assert.equal(recorder.queued, 0)
  recorder.record(happened)
  await time.advance(0)
  assert.deepEqual(
    written().map(({ call }) => call),
    ['create', 'create', 'patch'],
  )
  await stop()
})

test('a series whose Event is gone is created again', async () => {
  const { api, time, recorder, written, stop } = start()
  recorder.record(happened)
  await time.advance(0)
  api.answer = ({ call }) => {
    if (call === 'patch') throw new KubeError('NotFound', 'gone')
  }
  recorder.record(happened)
  await time.advance(0)
  const { call, event } = written().at(-1) ?? assert.fail()
  assert.equal(call, 'create')
  assert.equal(event.series?.count, 2)
  assert.equal(event.metadata?.name, written()[0]?.event.metadata?.name)
  await stop()
})

test('at the end queued events and the counts of series are written', async () => {
  const { time, recorder, written, stop } = start()
  for (let i = 0; i < 3; i++) {
    recorder.record(happened)
    await time.advance(0)
  }
  recorder.record({ ...happened, note: 'last words' })
  await stop()
  assert.deepEqual(
    written().map(({ call, patch }) => (patch === undefined ? call : patch)),
    [
      'create',
      { series: { count: 2, lastObservedTime: '2027-01-15T08:00:00.000000Z' } },
      'create',
      { series: { count: 3, lastObservedTime: '2027-01-15T08:00:00.000000Z' } },
    ],
  )
})

test('a server that hangs delays the end of the recorder by only one second', async () => {
  const { api, time, recorder, controller, run } = start()
  api.answer = ({ signal }) =>
    new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason), { once: true }))
  recorder.record(happened)
  await time.advance(0)
  controller.abort()
  let ended = false
  const watched = run.then(() => {
    ended = true
  })
  await time.advance(999)
  assert.equal(ended, false)
  await time.advance(1)
  assert.equal(ended, true)
  await watched
})

test('the embedded API server accepts Events and their series', async () => {
  const { time, api, recorder, stop } = startBesideServer()
  await api.create(namespaces, { metadata: { name: 'ns' } })
  for (let i = 0; i < 3; i++) {
    recorder.record(happened)
    await time.advance(1_000)
  }
  await stop()
  const { items } = await api.list(events, { namespace: 'ns' })
  assert.deepEqual(
    items.map(({ note, series }) => ({ note, series })),
    [{ note: 'it broke', series: { count: 3, lastObservedTime: '2026-01-01T00:00:02.000000Z' } }],
  )
})
