import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi } from '../../src/kube/api.ts'
import { KubeError } from '../../src/kube/errors.ts'
import { FollowedObject } from '../../src/kube/followed-object.ts'
import { type ConfigMap, configMaps, namespaces } from '../../src/kube/resources.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { setUp } from '../bootstrap/masters-world.ts'
import { passedOn } from './passed-on.ts'

const ref = { namespace: 'default', name: 'one' }
const LATE_MS = 2_000

/** One followed ConfigMap. `watch.lost`: no event reaches the program. `watch.lateMs`: the delay of each event. */
async function followed(get?: (api: KubeApi) => KubeApi['get']) {
  const { time, api, ports, logger } = setUp()
  const clock = time.view()
  const watch = { lost: false, lateMs: 0, begun: 0, selector: undefined as string | undefined }
  const metrics = prometheusMetrics()
  const through = passedOn(api, {
    async *watch(resource, options) {
      watch.begun++
      watch.selector = options?.fieldSelector
      for await (const event of api.watch(resource, options)) {
        if (event.type !== 'BOOKMARK' && watch.lost) continue
        if (watch.lateMs > 0) await sleep(clock, watch.lateMs)
        yield event
      }
    },
    ...(get !== undefined && { get: get(api) }),
  })
  const reported: string[] = []
  let changes = 0
  const object = new FollowedObject<ConfigMap>({
    ...ports,
    api: through,
    clock,
    metrics,
    resource: configMaps,
    ref,
    availability: {
      failed: (source) => reported.push(`failed ${source}`),
      interrupted() {},
      succeeded: (source) => reported.push(`succeeded ${source}`),
      forget() {},
    },
    onChange: () => changes++,
  })
  await api.create(namespaces, { metadata: { name: ref.namespace } })
  await api.create(configMaps, { metadata: ref, data: { version: '1' } })
  const write = (version: string) =>
    api.patch(configMaps, ref, { type: 'merge', body: { data: { version } } }, { fieldManager: 'test' })
  const stop = new AbortController()
  const ended = object.run(stop.signal).catch(() => {})
  await time.advance(1_000)
  watch.begun = 0
  changes = 0
  reported.length = 0
  const missed = async (): Promise<number> =>
    Number(/_watch_missed_total\{resource="configmaps"\} (\d+)/.exec(await metrics.expose())?.[1] ?? 0)
  const end = async (): Promise<void> => {
    stop.abort()
    await time.advance(1)
    await ended
  }
  const now = (): string | undefined => object.current?.data?.version
  return { time, api, object, watch, write, now, missed, end, reported, logger, stop, changes: () => changes }
}

test('the watch follows the object, and a live read with the same result changes nothing', async () => {
  const { time, object, write, now, stop, changes, end, missed, watch, api } = await followed()
  assert.equal(object.hasSynced, true)
  assert.equal(watch.selector, 'metadata.name=one', 'the watch selects only the object')
  assert.equal(now(), '1')
  await write('2')
  await time.advance(100)
  assert.equal(now(), '2')
  assert.equal(changes(), 1)
  await object.readLive(stop.signal)
  await time.advance(10_000)
  assert.equal(changes(), 1)
  await api.delete(configMaps, ref, {})
  await time.advance(100)
  assert.equal(object.current, undefined)
  assert.deepEqual([watch.begun, await missed()], [0, 0])
  await end()
})

test('a live read finds a change that the watch lost, and two seconds later the watch is restarted', async () => {
  const { time, object, write, now, stop, changes, end, missed, watch, logger } = await followed()
  watch.lost = true
  await write('2')
  await time.advance(5_000)
  assert.equal(now(), '1')
  await object.readLive(stop.signal)
  assert.equal(now(), '2', 'at once')
  assert.equal(changes(), 1)
  const storedVersion = object.current?.metadata?.resourceVersion
  await time.advance(LATE_MS - 1)
  assert.deepEqual([watch.begun, await missed()], [0, 0])
  watch.lost = false
  await time.advance(1_000)
  assert.deepEqual([watch.begun, await missed()], [1, 1])
  assert.equal(now(), '2')
  const line = logger.lines.find(
    ({ message }) => message === 'a watch differs from the stored object; restarting the watch',
  )
  assert.equal(line?.fields.storedVersion, storedVersion)
  assert.notEqual(line?.fields.cachedVersion, storedVersion)
  await write('3')
  await time.advance(100)
  assert.equal(now(), '3')
  await time.advance(10_000)
  assert.deepEqual([watch.begun, await missed()], [1, 1], 'once')
  await end()
})

test('a live read finds a lost deletion, and a recreated object of the same name', async () => {
  const { time, api, object, stop, end, watch, missed, now } = await followed()
  watch.lost = true
  await api.delete(configMaps, ref, {})
  await time.advance(100)
  assert.equal(now(), '1')
  await object.readLive(stop.signal)
  assert.equal(object.current, undefined)
  await api.create(configMaps, { metadata: ref, data: { version: 'new' } })
  await object.readLive(stop.signal)
  assert.equal(now(), 'new')
  await time.advance(LATE_MS)
  assert.equal(await missed(), 1)
  await end()
})

test('an object that a live read found before the watch is gone when the watch reports its deletion', async () => {
  const { time, api, object, stop, end, watch, now } = await followed()
  await api.delete(configMaps, ref, {})
  await time.advance(100)
  assert.equal(object.current, undefined)
  watch.lateMs = 500
  await api.create(configMaps, { metadata: ref, data: { version: 'new' } })
  await object.readLive(stop.signal)
  assert.equal(now(), 'new')
  await time.advance(1_000)
  assert.equal(now(), 'new')
  await api.delete(configMaps, ref, {})
  await time.advance(1_000)
  assert.equal(object.current, undefined)
  await object.readLive(stop.signal)
  assert.equal(object.current, undefined)
  await end()
})

test('an object whose creation and deletion the watch lost is gone when a live read does not find it', async () => {
  const { time, api, object, stop, end, watch, now, changes, missed } = await followed()
  await api.delete(configMaps, ref, {})
  await time.advance(100)
  watch.lost = true
  await api.create(configMaps, { metadata: ref, data: { version: 'new' } })
  await object.readLive(stop.signal)
  assert.equal(now(), 'new')
  await api.delete(configMaps, ref, {})
  const before = changes()
  await object.readLive(stop.signal)
  assert.equal(object.current, undefined)
  assert.equal(changes(), before + 1)
  await time.advance(LATE_MS)
  assert.equal(await missed(), 0, 'no further loss is counted')
  await end()
})

test('a watch that delivers the change within two seconds is not restarted, and its later events count', async () => {
  const { time, object, write, now, stop, end, missed, watch } = await followed()
  watch.lateMs = LATE_MS - 500
  await write('2')
  await object.readLive(stop.signal)
  assert.equal(now(), '2')
  await time.advance(LATE_MS + 1_000)
  assert.deepEqual([watch.begun, await missed()], [0, 0])
  watch.lateMs = 0
  await write('3')
  await time.advance(100)
  assert.equal(now(), '3', 'the later event replaces the live read')
  await end()
})

test('a live read that is older than an event of the watch meanwhile changes nothing', async () => {
  let delayMs = 0
  let clock: Parameters<typeof sleep>[0] | undefined
  const world = await followed((api) => async (resource, of, options) => {
    const found = await api.get(resource, of, options)
    if (delayMs > 0 && clock !== undefined) await sleep(clock, delayMs)
    return found
  })
  const { time, object, watch, write, now, stop, end, changes } = world
  clock = time.view()
  delayMs = 1_000
  watch.lateMs = 300
  await write('2')
  const reading = object.readLive(stop.signal)
  await time.advance(500)
  await write('3')
  await time.advance(2_000)
  await reading
  assert.equal(now(), '3')
  assert.equal(changes(), 2, 'only the events of the watch are changes')
  await end()
})

test('a live read from before a deletion that the watch delivered meanwhile does not restore the object', async () => {
  let clock: Parameters<typeof sleep>[0] | undefined
  const { time, api, object, stop, end, changes } = await followed((server) => async (resource, of, options) => {
    const found = await server.get(resource, of, options)
    if (clock !== undefined) await sleep(clock, 1_000)
    return found
  })
  await api.delete(configMaps, ref, {})
  await time.advance(100)
  clock = time.view()
  await api.create(configMaps, { metadata: ref, data: { version: 'new' } })
  const reading = object.readLive(stop.signal)
  await time.advance(500)
  await api.delete(configMaps, ref, {})
  await time.advance(2_000)
  await reading
  assert.equal(object.current, undefined)
  assert.equal(changes(), 3)
  await end()
})

test('a live read with an older state than an earlier event of the watch changes nothing', async () => {
  let old: unknown
  const { time, object, write, now, stop, end, missed, changes } = await followed(
    (api) => async (resource, of, options) => {
      const found = await api.get(resource, of, options)
      old ??= found
      return old as typeof found
    },
  )
  await object.readLive(stop.signal)
  await write('2')
  await time.advance(100)
  await object.readLive(stop.signal)
  await time.advance(LATE_MS)
  assert.equal(now(), '2')
  assert.deepEqual([changes(), await missed()], [1, 0])
  await end()
})

test('a second live read with an older state counts, because the store was restored; the silent watch is restarted once', async () => {
  let isRestored = false
  const { time, object, write, now, stop, end, missed, watch, changes } = await followed(
    (api) => async (resource, of, options) => {
      const found = await api.get(resource, of, options)
      return isRestored ? { ...found, metadata: { ...found.metadata, resourceVersion: '1' } } : found
    },
  )
  const version = () => object.current?.metadata?.resourceVersion
  await write('2')
  await object.readLive(stop.signal)
  const watched = version()
  isRestored = true
  await object.readLive(stop.signal)
  assert.deepEqual([now(), version(), changes(), watch.begun], ['2', watched, 1, 0])
  await object.readLive(stop.signal)
  assert.deepEqual([version(), changes()], ['1', 2])
  await time.advance(LATE_MS + 100)
  assert.deepEqual([watch.begun, await missed()], [1, 1])
  // The new watch lists the state from before the restore, from the caches of an API server that runs on.
  for (let read = 1; read <= 3; read++) {
    await object.readLive(stop.signal)
    await time.advance(LATE_MS)
  }
  assert.deepEqual([version(), watch.begun, await missed()], ['1', 1, 1])
  await end()
})

test('each creation that the watch misses restarts the watch', async () => {
  const { time, api, object, now, stop, end, missed, watch } = await followed()
  for (let restarts = 1; restarts <= 2; restarts++) {
    await api.delete(configMaps, ref, {})
    await time.advance(100)
    assert.equal(object.current, undefined)
    watch.lost = true
    await api.create(configMaps, { metadata: ref, data: { version: `${restarts}` } })
    await object.readLive(stop.signal)
    await time.advance(LATE_MS - 1)
    // The list of the new watch arrives.
    watch.lost = false
    await time.advance(100)
    assert.deepEqual([now(), await missed()], [`${restarts}`, restarts])
  }
  await end()
})

test('a failed live read changes nothing, is reported only if refused, and rejects on a programming error', async () => {
  let failure: Error | undefined
  const { object, now, stop, end, reported } = await followed((api) => async (resource, of, options) => {
    if (failure !== undefined) throw failure
    return api.get(resource, of, options)
  })
  await object.readLive(stop.signal)
  assert.deepEqual(reported.splice(0), ['succeeded live configmaps'])
  failure = new KubeError('Unreachable', 'connection refused')
  await object.readLive(stop.signal)
  assert.deepEqual(reported.splice(0), [], 'the watch reports an outage')
  failure = new KubeError('Forbidden', 'forbidden', { httpStatus: 403 })
  await object.readLive(stop.signal)
  assert.deepEqual(reported.splice(0), ['failed live configmaps'])
  assert.equal(now(), '1')
  failure = new TypeError('a mistake')
  await assert.rejects(object.readLive(stop.signal), TypeError)
  await end()
})

test('with a live read each second a loss restarts the watch once, two seconds after the first read that found it', async () => {
  const { time, object, write, stop, end, missed, watch, now } = await followed()
  watch.lost = true
  await write('2')
  await object.readLive(stop.signal)
  await time.advance(1_000)
  await object.readLive(stop.signal)
  await time.advance(LATE_MS - 1_001)
  assert.deepEqual([now(), await missed()], ['2', 0])
  // The list of the new watch arrives.
  watch.lost = false
  await time.advance(1)
  assert.equal(await missed(), 1)
  for (let read = 1; read <= 5; read++) {
    await object.readLive(stop.signal)
    await time.advance(1_000)
  }
  assert.equal(await missed(), 1)
  watch.lost = true
  await write('3')
  await object.readLive(stop.signal)
  await time.advance(LATE_MS)
  assert.equal(await missed(), 2, 'the next loss restarts the watch again')
  await end()
})

test('a loss does not restart the watch after the signal of its live read is aborted', async () => {
  const { time, object, write, end, missed, watch, stop } = await followed()
  watch.lost = true
  await write('2')
  const reading = new AbortController()
  await object.readLive(reading.signal)
  reading.abort()
  await time.advance(10_000)
  assert.equal(await missed(), 0)
  await object.readLive(stop.signal)
  await time.advance(LATE_MS)
  assert.equal(await missed(), 1, 'another live read restarts the watch')
  await end()
})

test('a second loss soon after a late event gets its own two seconds before the watch is restarted', async () => {
  const { time, object, write, end, missed, watch, stop } = await followed()
  watch.lateMs = 500
  await write('2')
  await object.readLive(stop.signal)
  await time.advance(1_000)
  watch.lateMs = 0
  watch.lost = true
  await write('3')
  await object.readLive(stop.signal)
  await time.advance(LATE_MS - 1)
  assert.equal(await missed(), 0)
  await object.readLive(stop.signal)
  await time.advance(LATE_MS)
  assert.equal(await missed(), 1)
  await end()
})
