import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Availability } from '../../src/kube/availability.ts'
import { KubeError, type KubeErrorCode } from '../../src/kube/errors.ts'
import { Reflector } from '../../src/kube/reflector.ts'
import { type KubeObject, services } from '../../src/kube/resources.ts'
import { keyOfObject } from '../../src/kube/store.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { longestWithoutPause, workingClock } from '../runtime/working-clock.ts'
import { added, bookmark, listOf, ScriptedApi, type ScriptedWatch, service } from './scripted-api.ts'

const unreachable = new KubeError('Unreachable', 'connection refused')

/** The clock, and how many of its timers are pending. */
function countedClock(clock: Clock): Clock & { readonly pending: () => number } {
  const pending = new Set<object>()
  return {
    wallMs: () => clock.wallMs(),
    monotonicMs: () => clock.monotonicMs(),
    schedule(delayMs, callback) {
      const timer = {}
      pending.add(timer)
      const cancel = clock.schedule(delayMs, () => {
        pending.delete(timer)
        callback()
      })
      return () => {
        pending.delete(timer)
        cancel()
      }
    },
    pending: () => pending.size,
  }
}

function start(api: ScriptedApi, sinkError?: Error, objectMs = 0, onObject = () => {}) {
  const time = new VirtualClock()
  const working = workingClock(time)
  const clock = countedClock(working.clock)
  const logger = memoryLogger()
  const metrics = prometheusMetrics()
  const reported: string[] = []
  const availability = new Availability({ clock, logger })
  const reflector = new Reflector<KubeObject>({
    api,
    resource: services,
    clock,
    random: seededRandom(1, 'test'),
    logger,
    metrics,
    availability,
    transform(object) {
      if ('odd' in object) throw new TypeError('no object')
      working.worked(objectMs)
      onObject()
      return object
    },
    sink: {
      replaced: (objects) => void reported.push(`= ${[...objects].map(keyOfObject).join(' ')}`),
      changed: ({ type, object }) => {
        if (sinkError !== undefined) throw sinkError
        reported.push(`${type} ${keyOfObject(object)}`)
      },
      absent: () => reported.push('absent'),
    },
  })
  const controller = new AbortController()
  const run = reflector.run(controller.signal)
  const logged = () => logger.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message)
  /** Ends the reflector, and checks that no watch and no timer is left. */
  const stop = async () => {
    controller.abort()
    await run
    assert.equal(api.openWatches, 0, 'watches left open')
    assert.equal(clock.pending(), 0, 'timers left behind')
  }
  return { time, clock, reflector, availability, reported, run, logger, logged, stop, metrics, controller }
}

/** Answers a streaming list with one Service at resourceVersion 5, and accepts every other watch. */
function streamOne(watch: ScriptedWatch): void {
  watch.open()
  if (watch.query.sendInitialEvents === true) watch.send(added(service('a', '3')), bookmark('5', 'initial-events-end'))
}

function streamingApi(): ScriptedApi {
  const api = new ScriptedApi()
  api.onWatch = streamOne
  return api
}

/** Refuses streaming, lists one Service at resourceVersion 5, and accepts every other watch. */
function pagingApi(): ScriptedApi {
  const api = new ScriptedApi()
  api.answer = () => listOf('5', [service('a', '3')])
  api.onWatch = (watch) => {
    if (watch.query.sendInitialEvents === true) watch.end(new KubeError('Invalid', 'sendInitialEvents is forbidden'))
    else watch.open()
  }
  return api
}

test('a long streaming list yields to other work at least every 15 ms', async () => {
  const count = 2_000
  const api = new ScriptedApi()
  let received = 0
  api.onWatch = (watch) => {
    watch.open()
    for (let index = 0; index < count; index++) watch.send(added(service(`s${index}`, '3')))
    watch.send(bookmark('5', 'initial-events-end'))
  }
  const { time, reported, stop } = start(api, undefined, 0.1, () => received++)
  const longest = longestWithoutPause(time, () => received)
  await time.advance(1_000)
  assert.equal(reported[0]?.split(' ').length, count + 1)
  assert.ok(longest() > 0 && longest() <= 150, `${longest()} objects of 0.1 ms without a pause`)
  await stop()
})

test('one request streams the list and continues as the watch', async () => {
  const api = streamingApi()
  const { time, reported, stop, metrics } = start(api)
  await time.advance(0)
  api.lastWatch.send(added(service('b', '6')), bookmark('9'), { type: 'DELETED', object: service('a', '10') })
  await time.advance(0)
  assert.deepEqual(reported, ['= ns/a', 'ADDED ns/b', 'DELETED ns/a'])
  const { sendInitialEvents, resourceVersionMatch, allowWatchBookmarks, resourceVersion } = api.lastWatch.query
  assert.deepEqual(
    { sendInitialEvents, resourceVersionMatch, allowWatchBookmarks, resourceVersion },
    {
      sendInitialEvents: true,
      resourceVersionMatch: 'NotOlderThan',
      allowWatchBookmarks: true,
      resourceVersion: undefined,
    },
  )
  const exposed = await metrics.expose()
  assert.match(exposed, /reflector_lists_total\{resource="services"\} 1/)
  await stop()
  assert.equal(api.watches.length, 1)
})

test('changes before the end of a streaming list are part of the list', async () => {
  const api = new ScriptedApi()
  const { time, reported, stop } = start(api)
  await time.advance(0)
  api.lastWatch.open().send(added(service('a', '1')), added(service('b', '2')))
  api.lastWatch.send({ type: 'MODIFIED', object: service('b', '3') }, { type: 'DELETED', object: service('a', '4') })
  await time.advance(0)
  assert.deepEqual(reported, [])
  api.lastWatch.send(bookmark('4', 'initial-events-end'))
  await time.advance(0)
  assert.deepEqual(reported, ['= ns/b'])
  await stop()
})

test('a page whose continue token leads back to itself is requested again with pauses, and no list is delivered', async () => {
  const api = pagingApi()
  let astray = true
  api.answer = ({ of }) =>
    'continue' in of && of.continue === 'more' && !astray
      ? listOf('5', [service('b', '2')])
      : listOf('5', [service('a', '1')], 'more')
  const { time, reported, stop } = start(api)
  await time.advance(10_000)
  assert.ok(api.asked.length > 5 && api.asked.length < 60, `${api.asked.length} requests`)
  assert.deepEqual(reported, [])
  astray = false
  await time.advance(2_000)
  assert.deepEqual(reported, ['= ns/a ns/b'])
  await stop()
})

test('pages whose continue tokens form a circle are requested with pauses, and no list is delivered', async () => {
  const api = pagingApi()
  api.answer = ({ of }) => listOf('5', [service('a', '1')], 'continue' in of && of.continue === 'b' ? 'a' : 'b')
  const { time, reported, stop } = start(api)
  await time.advance(10_000)
  assert.ok(api.asked.length > 5 && api.asked.length < 60, `${api.asked.length} requests`)
  assert.deepEqual(reported, [])
  await stop()
})

test('a page with an unreadable object is requested again, and the list continues when the object is readable', async () => {
  const api = pagingApi()
  let odd = true
  api.answer = ({ of }) => {
    const token = 'continue' in of ? of.continue : undefined
    if (token === undefined) return listOf('5', [service('a', '1')], 'second')
    if (token === 'third') return listOf('5', [service('c', '3')])
    return listOf('5', [service('b', '2', odd ? { odd } : {})], 'third')
  }
  const { time, reported, stop } = start(api)
  await time.advance(10_000)
  assert.deepEqual(reported, [])
  odd = false
  await time.advance(2_000)
  assert.deepEqual(reported, ['= ns/a ns/b ns/c'])
  await stop()
})

test('if streaming is refused, the list is requested in pages of 500, and streaming is not requested again', async () => {
  const api = pagingApi()
  api.answer = ({ of }) =>
    'continue' in of && of.continue === 'more'
      ? listOf('5', [service('b', '2')])
      : listOf('5', [{ metadata: { namespace: 'ns', name: 'a', resourceVersion: '1' } }], 'more')
  const { time, reported, stop } = start(api)
  await time.advance(0)
  assert.deepEqual(reported, ['= ns/a ns/b'])
  assert.deepEqual(
    api.asked.map(({ of }) => of),
    [
      { limit: 500, continue: undefined },
      { limit: 500, continue: 'more' },
    ],
  )
  assert.equal(api.lastWatch.query.resourceVersion, '5')
  api.lastWatch.send({ type: 'ERROR', object: { code: 410, reason: 'Expired' } })
  await time.advance(2_000)
  assert.equal(reported.length, 2)
  assert.equal(api.watches.filter(({ query }) => query.sendInitialEvents).length, 1)
  await stop()
})

test('a list whose pages have ever newer resourceVersions is watched from that of the first page', {
  timeout: 10_000,
}, async () => {
  const api = pagingApi()
  api.answer = ({ of }) =>
    'continue' in of && of.continue === 'more'
      ? listOf('9', [service('b', '8')])
      : listOf('5', [service('a', '1')], 'more')
  const { time, reported, stop } = start(api)
  await time.advance(0)
  api.lastWatch.send(added(service('a', '7')))
  await time.advance(0)
  assert.equal(api.lastWatch.query.resourceVersion, '5')
  assert.deepEqual(reported, ['= ns/a ns/b', 'ADDED ns/a'])
  await stop()
})

test('if every streaming list breaks, but nothing else does, the list is requested in pages', {
  timeout: 10_000,
}, async () => {
  const api = pagingApi()
  api.onWatch = (watch) => {
    watch.open()
    if (watch.query.sendInitialEvents !== true) return
    watch.send(added(service('a', '3')))
    watch.end(new KubeError('Unreachable', 'connection closed by the server'))
  }
  const { time, reported, stop } = start(api)
  await time.advance(5_000)
  assert.deepEqual(reported, ['= ns/a'])
  assert.equal(api.lastWatch.query.resourceVersion, '5')
  await stop()
})

test('list items get the apiVersion and kind that API servers omit', async () => {
  const api = pagingApi()
  api.answer = () => listOf('5', [{ metadata: { name: 'a', resourceVersion: '1' } }])
  const controller = new AbortController()
  const time = new VirtualClock()
  const clock = time.view()
  let got: readonly KubeObject[] = []
  const run = new Reflector<KubeObject>({
    api,
    resource: services,
    clock,
    random: seededRandom(1, 'kinds'),
    logger: memoryLogger(),
    availability: new Availability({ clock, logger: memoryLogger() }),
    sink: {
      replaced: (objects) => {
        got = [...objects]
      },
      changed() {},
      absent() {},
    },
  }).run(controller.signal)
  await time.advance(0)
  controller.abort()
  await run
  assert.deepEqual(got, [{ apiVersion: 'v1', kind: 'Service', metadata: { name: 'a', resourceVersion: '1' } }])
})

for (const traffic of ['is silent', 'sends events without end']) {
  test(`pages are requested from a server that ignores the request for a streaming list and ${traffic}`, async () => {
    const api = pagingApi()
    api.onWatch = (watch) => {
      watch.open()
    }
    const { time, reported, stop } = start(api)
    for (let second = 0; second < 61 && reported.length === 0; second++) {
      if (traffic !== 'is silent') api.lastWatch.send(added(service('a', String(second + 1))))
      await time.advance(1_000)
    }
    assert.deepEqual(reported, ['= ns/a'])
    assert.equal(time.nowMs, traffic === 'is silent' ? 10_000 : 60_000)
    await stop()
  })
}

for (const [perSecond, takesMs] of [
  [600, 90_000],
  [400, 60_000],
] as const) {
  test(`a streaming list that delivers ${perSecond} objects a second may last ${takesMs} ms`, async () => {
    const api = pagingApi()
    api.onWatch = (watch) => {
      watch.open()
    }
    const { time, reported, stop } = start(api)
    for (let second = 0; second < 90 && reported.length === 0; second++) {
      const first = second * perSecond
      const names = Array.from({ length: perSecond }, (_, index) => `a${first + index}`)
      api.lastWatch.send(...names.map((name, index) => added(service(name, String(first + index + 1)))))
      await time.advance(1_000)
    }
    assert.equal(time.nowMs, takesMs)
    // At 400 objects a second the reflector has given up streaming and lists pages, which have one object.
    if (perSecond === 600) api.lastWatch.send(bookmark('60000', 'initial-events-end'))
    await time.advance(0)
    assert.equal(reported[0]?.split(' ').length, perSecond === 600 ? 54_001 : 2)
    await stop()
  })
}

test('a watch does not hold the objects of its streaming list in memory', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const listed: WeakRef<object>[] = []
  const clock = new VirtualClock()
  const controller = new AbortController()
  const logger = memoryLogger()
  const run = new Reflector<KubeObject>({
    api: streamingApi(),
    resource: services,
    clock: clock.view(),
    random: seededRandom(1, 'again'),
    logger,
    availability: new Availability({ clock: clock.view(), logger }),
    transform(object) {
      listed.push(new WeakRef(object))
      return object
    },
    sink: { replaced() {}, changed() {}, absent() {} },
  }).run(controller.signal)
  await clock.advance(1_000)
  collect()
  assert.deepEqual(
    listed.map((object) => object.deref()),
    [undefined],
  )
  controller.abort()
  await run
})

test('after a continue token has expired, the whole list is requested in one piece', async () => {
  const api = pagingApi()
  api.answer = ({ of }) => {
    if ('continue' in of && of.continue !== undefined) throw new KubeError('Expired', 'the token is too old')
    return 'limit' in of && of.limit === 500
      ? listOf('5', [service('a', '1')], 'more')
      : listOf('6', [service('a', '1'), service('b', '2')])
  }
  const { time, reported, stop, logged } = start(api)
  await time.advance(1_000)
  assert.deepEqual(reported, ['= ns/a ns/b'])
  assert.deepEqual(logged(), [])
  await stop()
})

test('a watch that ends among changes of one resourceVersion is followed by a new list, but not after a bookmark', async () => {
  const api = streamingApi()
  const { time, stop } = start(api)
  const deleted = (name: string, resourceVersion: string) =>
    api.lastWatch.send({ type: 'DELETED', object: { metadata: { namespace: 'ns', name, resourceVersion } } })
  await time.advance(60_000)
  deleted('a', '42')
  deleted('b', '42')
  api.lastWatch.end()
  await time.advance(1_000)
  assert.equal(api.lastWatch.query.resourceVersion, undefined)
  deleted('c', '50')
  deleted('d', '50')
  api.lastWatch.send(bookmark('50'))
  await time.advance(60_000)
  api.lastWatch.end()
  await time.advance(0)
  assert.equal(api.lastWatch.query.resourceVersion, '50')
  await stop()
})

test('after a watch that the server ends in order, the next begins at once from the last received resourceVersion', async () => {
  const api = streamingApi()
  const { time, reported, stop, logged } = start(api)
  await time.advance(60_000)
  api.lastWatch.send(bookmark('42'))
  await time.advance(80_000)
  api.lastWatch.end()
  await time.advance(0)
  assert.equal(api.watches.length, 2)
  assert.equal(api.lastWatch.query.resourceVersion, '42')
  assert.equal(api.lastWatch.query.allowWatchBookmarks, true)
  assert.deepEqual(reported, ['= ns/a'])
  assert.deepEqual(logged(), [])
  await stop()
})

test('every watch has a timeoutSeconds from 300 to 600, which varies', async () => {
  const api = streamingApi()
  const { time, stop } = start(api)
  for (let i = 0; i < 50; i++) {
    await time.advance(2_000)
    api.lastWatch.end()
  }
  const seconds = api.watches.map(({ query }) => query.timeoutSeconds ?? 0)
  assert.ok(seconds.every((s) => Number.isInteger(s) && s >= 300 && s <= 600))
  assert.ok(new Set(seconds).size > 25)
  await stop()
})

test('a server that ends every watch at once receives fewer than 90 watches a minute', async () => {
  const api = streamingApi()
  const { time, stop } = start(api)
  await time.advance(0)
  api.onWatch = (watch) => watch.open().end()
  api.lastWatch.end()
  await time.advance(60_000)
  assert.ok(api.watches.length > 50 && api.watches.length < 90, `${api.watches.length} watches in a minute`)
  await stop()
})

/** What may happen to an established watch, and whether the reflector lists everything again. */
const troubles: readonly {
  readonly name: string
  readonly happens: (watch: ScriptedWatch) => void
  readonly relists: boolean
}[] = [
  { name: 'a dropped connection', happens: (watch) => watch.end(unreachable), relists: false },
  { name: 'an error 500', happens: (watch) => watch.end(new KubeError('ServerError', 'etcd')), relists: false },
  { name: 'an error 429', happens: (watch) => watch.end(new KubeError('TooManyRequests', 'later')), relists: false },
  { name: 'an expired token', happens: (watch) => watch.end(new KubeError('Unauthorized', 'no')), relists: false },
  {
    name: 'unavailable credentials',
    happens: (watch) => watch.end(new KubeError('NoCredentials', 'no')),
    relists: false,
  },
  { name: 'a missing permission', happens: (watch) => watch.end(new KubeError('Forbidden', 'no')), relists: false },
  { name: 'garbage', happens: (watch) => watch.end(new KubeError('BadResponse', 'not JSON')), relists: true },
  {
    name: 'an event without a resourceVersion',
    happens: (watch) => watch.send(added({ metadata: {} })),
    relists: true,
  },
  {
    name: 'an object whose fields have the wrong type',
    happens: (watch) => watch.send(added({ metadata: { name: 'a', resourceVersion: '99' }, odd: true } as never)),
    relists: true,
  },
  { name: 'an error 410', happens: (watch) => watch.end(new KubeError('Expired', 'too old')), relists: true },
  { name: 'an error 404', happens: (watch) => watch.end(new KubeError('NotFound', 'gone')), relists: true },
  {
    name: 'an ERROR event with code 410',
    happens: (watch) => watch.send({ type: 'ERROR', object: { code: 410, reason: 'Expired' } }),
    relists: true,
  },
  {
    name: 'an ERROR event without a code',
    happens: (watch) => watch.send({ type: 'ERROR', object: {} }),
    relists: true,
  },
]

for (const { name, happens, relists } of troubles) {
  test(`${name} ends a watch, and ${relists ? 'the reflector lists again' : 'the next watch starts at the last resourceVersion'}`, async () => {
    const api = streamingApi()
    const { time, reported, stop, logged } = start(api)
    await time.advance(30_000)
    happens(api.lastWatch)
    await time.advance(1_000)
    assert.equal(api.watches.length, 2)
    assert.equal(api.openWatches, 1)
    assert.equal(api.lastWatch.query.resourceVersion, relists ? undefined : '5')
    api.lastWatch.send(added(service('b', '6')))
    await time.advance(0)
    assert.deepEqual(reported, relists ? ['= ns/a', '= ns/a', 'ADDED ns/b'] : ['= ns/a', 'ADDED ns/b'])
    assert.deepEqual(logged(), [], 'one failure of a watch is not logged')
    await stop()
  })
}

test('the reason in an ERROR event is logged as one line of at most 80 characters', async () => {
  const api = streamingApi()
  const { time, stop, logger } = start(api)
  await time.advance(30_000)
  api.lastWatch.send({ type: 'ERROR', object: { code: 500, reason: `\n\u001b[31m${'x'.repeat(1_000)}` } })
  await time.advance(1_000)
  const messages = logger.lines.map(({ fields }) => (fields.error as Error | undefined)?.message)
  assert.ok(messages.includes(`watch services: [31m${'x'.repeat(76)}…`), messages.join('\n').slice(0, 1_000))
  await stop()
})

test('an outage that begins with a broken watch lasts until the next watch is open', async () => {
  const api = streamingApi()
  const { time, availability, stop, logged } = start(api)
  await time.advance(30_000)
  api.onWatch = () => {}
  api.lastWatch.end(new KubeError('Unreachable', 'cut'))
  await time.advance(0)
  availability.succeeded('another')
  availability.failed('another', new KubeError('Unreachable', 'cut'))
  availability.succeeded('another')
  assert.deepEqual(logged(), ['lost the API server'])
  await time.advance(1_000)
  assert.deepEqual(logged(), ['lost the API server'])
  api.lastWatch.send(added(service('b', '6')))
  await time.advance(0)
  assert.deepEqual(logged(), ['lost the API server', 'the API server is back'])
  await stop()
})

const HOURS = {
  Unreachable: ['lost the API server', 'the API server is back'],
  ServerError: ['lost the API server', 'the API server is back'],
  Unauthorized: [],
  NoCredentials: ['lost the API server', 'the API server is back'],
  BadResponse: ['lost the API server', 'the API server is back'],
} as const satisfies Partial<Record<KubeErrorCode, readonly string[]>>

for (const [code, lines] of Object.entries(HOURS) as [KubeErrorCode, readonly string[]][]) {
  test(`an hour of ${code} causes ${lines.length} log lines, and is over within a second of its end`, async () => {
    const api = streamingApi()
    const { time, reported, stop, logged } = start(api)
    await time.advance(30_000)
    api.onWatch = (watch) => watch.end(new KubeError(code, code))
    api.answer = () => {
      throw new KubeError(code, code)
    }
    api.lastWatch.end(new KubeError(code, code))
    await time.advance(3_600_000)
    const attempts = api.watches.length + api.asked.length
    assert.ok(attempts > 3_600 && attempts < 5_000, `${attempts} attempts`)
    api.onWatch = streamOne
    api.answer = () => listOf('5', [service('a', '3')])
    await time.advance(1_000)
    assert.equal(api.openWatches, 1)
    api.lastWatch.send(added(service('b', '6')))
    await time.advance(0)
    assert.equal(reported.at(-1), 'ADDED ns/b')
    assert.deepEqual(logged(), lines)
    await stop()
  })
}

test('a refused request is retried at growing intervals of at most 10 seconds', async () => {
  const api = streamingApi()
  api.onWatch = (watch) => watch.end(new KubeError('NotFound', 'the server could not find the resource'))
  const { time, reported, stop } = start(api)
  await time.advance(600_000)
  assert.ok(api.watches.length > 60 && api.watches.length < 90, `${api.watches.length} attempts`)
  assert.equal(reported[0], 'absent')
  api.onWatch = streamOne
  await time.advance(10_000)
  assert.equal(reported.at(-1), '= ns/a')
  await stop()
})

test('a wait that the server requests is observed', async () => {
  const api = streamingApi()
  api.onWatch = (watch) => watch.end(new KubeError('TooManyRequests', 'later', { retryAfterMs: 4_000 }))
  const { time, stop } = start(api)
  await time.advance(3_999)
  assert.equal(api.watches.length, 1)
  await time.advance(1)
  assert.equal(api.watches.length, 2)
  await stop()
})

test('a silent watch is given up after 90 seconds, and the next continues from the same resourceVersion', async () => {
  const api = streamingApi()
  const { time, stop, logged } = start(api)
  await time.advance(60_000)
  api.lastWatch.send(bookmark('8'))
  await time.advance(89_999)
  assert.equal(api.watches.length, 1)
  await time.advance(1)
  assert.equal(api.watches.length, 2)
  assert.equal(api.openWatches, 1)
  assert.equal(api.lastWatch.query.resourceVersion, '8')
  assert.deepEqual(logged(), [])
  await stop()
})

test('a page without an answer is requested again after 10 seconds; each timeout doubles the next, up to a minute', async () => {
  const api = pagingApi()
  const list = api.answer
  const neverAnswered = ({ signal }: Parameters<typeof list>[0]) =>
    new Promise((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason))
    })
  api.answer = neverAnswered
  const { time, reported, stop, logged } = start(api)
  const askedMs: number[] = []
  while (api.asked.length < 6) {
    await time.runUntil(() => api.asked.length > askedMs.length, 70_000)
    askedMs.push(time.nowMs)
  }
  const gaps = askedMs.slice(1).map((ms, index) => Math.floor((ms - (askedMs[index] ?? 0)) / 10_000) * 10_000)
  assert.deepEqual(gaps, [10_000, 20_000, 40_000, 60_000, 60_000])
  api.answer = list
  await time.advance(62_000)
  assert.deepEqual(reported, ['= ns/a'])
  assert.deepEqual(logged(), ['cannot reach the API server', 'the API server is back'])
  await stop()
})

test('a slow page is requested again unchanged, and later lists get as much time from the first request on', async () => {
  const api = new ScriptedApi()
  // Streaming lists break, so the reflector requests pages.
  api.onWatch = (watch) => {
    if (watch.query.sendInitialEvents === true) watch.end(unreachable)
    else watch.open()
  }
  let tookMs = 30_000
  const { time, reported, stop } = start(api)
  api.answer = ({ signal }) =>
    new Promise((resolve, reject) => {
      const cancel = time.view().schedule(tookMs, () => resolve(listOf('5', [service('a', '3')])))
      signal?.addEventListener('abort', () => {
        cancel()
        reject(signal.reason)
      })
    })
  await time.runUntil(() => api.asked.length === 1, 10_000)
  const streams = api.watches.length
  await time.runUntil(() => reported.length === 1, 120_000)
  assert.equal(api.asked.length, 3)
  assert.equal(api.watches.length - streams, 1, 'only the watch was opened')
  await time.advance(5_000)
  api.lastWatch.send({ type: 'ERROR', object: { code: 410, reason: 'Expired' } })
  await time.runUntil(() => reported.length === 2, 120_000)
  assert.equal(api.asked.length, 4)
  tookMs = 100
  for (const pages of [5, 6]) {
    await time.advance(5_000)
    api.lastWatch.send({ type: 'ERROR', object: { code: 410, reason: 'Expired' } })
    await time.runUntil(() => reported.length === pages - 2, 120_000)
  }
  tookMs = 11_000
  await time.advance(5_000)
  api.lastWatch.send({ type: 'ERROR', object: { code: 410, reason: 'Expired' } })
  await time.runUntil(() => reported.length === 5, 120_000)
  assert.equal(api.asked.length, 8, 'after quick pages the first try is short again')
  await stop()
})

test('half an hour of silence from one resourceVersion is followed by a new list', async () => {
  const api = streamingApi()
  const { time, reported, stop } = start(api)
  await time.advance(1_799_999)
  assert.deepEqual(reported, ['= ns/a'])
  assert.equal(api.watches.length, 20)
  await time.advance(1)
  assert.deepEqual(reported, ['= ns/a', '= ns/a'])
  await stop()
})

test('bookmarks keep a quiet watch alive', async () => {
  const api = streamingApi()
  const { time, stop } = start(api)
  for (let minute = 1; minute <= 60; minute++) {
    await time.advance(60_000)
    api.lastWatch.send(bookmark(String(minute + 5)))
  }
  assert.equal(api.watches.length, 1)
  await stop()
})

test('from the second long list in a row without a watch, lists take at most a fourth of the time', async () => {
  const failed = { kind: 'Status', code: 500, reason: 'InternalError' }
  for (const [listMs, everyMs] of [
    [2_000, 10_000],
    [10_000, 40_000],
  ] as const) {
    const api = new ScriptedApi()
    const lists: number[] = []
    const serve = (watch: ScriptedWatch): void => {
      lists.push(run.time.nowMs)
      const { schedule } = run.time.view()
      watch.open().send(added(service('a', '3')))
      schedule(listMs / 2, () => watch.send(added(service('b', '4'))))
      schedule(listMs, () => watch.send(bookmark('5', 'initial-events-end'), { type: 'ERROR', object: failed }))
    }
    // The first watch begins before `run` is set.
    api.onWatch = (watch) => queueMicrotask(() => serve(watch))
    const run = start(api)
    await run.time.advance(10 * everyMs + listMs + 2_000)
    const [firstGap = 0, ...gaps] = lists.slice(1).map((atMs, index) => atMs - (lists[index] ?? 0))
    assert.ok(firstGap < listMs + 1_000, `${firstGap} ms`)
    assert.deepEqual(gaps, Array(10).fill(everyMs))
    api.onWatch = () => {}
    await run.stop()
  }
})

test('a list that took long because the server hung does not delay the list after the next restart', async () => {
  const api = streamingApi()
  const { time, reported, stop } = start(api)
  const expired = new KubeError('Expired', 'too old')
  await time.advance(60_000)
  api.onWatch = () => {}
  api.lastWatch.end(expired)
  await time.advance(8_000)
  streamOne(api.lastWatch)
  await time.advance(2_000)
  api.onWatch = (watch) => watch.end(unreachable)
  api.lastWatch.end(unreachable)
  await time.advance(3_000)
  api.onWatch = (watch) => (watch.query.sendInitialEvents === true ? streamOne(watch) : watch.end(expired))
  await time.advance(2_000)
  assert.deepEqual(reported, ['= ns/a', '= ns/a', '= ns/a'])
  await stop()
})

test('an error of the sink rejects the run, and no watch and no timer is left', async () => {
  const api = streamingApi()
  const mistake = new TypeError('a mistake in a handler')
  const { time, clock, run } = start(api, mistake)
  const ended = assert.rejects(run, mistake)
  await time.advance(0)
  api.lastWatch.send(added(service('b', '6')))
  await ended
  assert.equal(api.openWatches, 0)
  assert.equal(clock.pending(), 0)
})

for (const moment of ['listing', 'watching', 'waiting'] as const) {
  test(`stopping while ${moment} leaves no watch and no timer, and no more requests are sent`, async () => {
    const api = moment === 'listing' ? pagingApi() : streamingApi()
    if (moment === 'listing') {
      api.answer = ({ signal }) =>
        new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
    }
    if (moment === 'waiting') api.onWatch = (watch) => watch.end(unreachable)
    const { time, stop } = start(api)
    await time.advance(50)
    const before = api.watches.length + api.asked.length
    await stop()
    await time.advance(3_600_000)
    assert.equal(api.watches.length + api.asked.length, before)
  })
}
