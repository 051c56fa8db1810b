import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { type Change, Informer, type InformerContext, SharedInformers } from '../../src/kube/informer.ts'
import { endpoints, type KubeObject, type Service, services } from '../../src/kube/resources.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { longestWithoutPause, workingClock } from '../runtime/working-clock.ts'
import { added, bookmark, listOf, ScriptedApi, service } from './scripted-api.ts'

/**
 * A server that holds the Services a and b and accepts every watch. The test decides which events it sends after that.
 */
function setUp() {
  const api = new ScriptedApi()
  api.onWatch = (watch) => {
    watch.open()
    if (watch.query.resourceVersion !== undefined) return
    watch.send(added(service('a', '1')), added(service('b', '2')), bookmark('5', 'initial-events-end'))
  }
  const time = new VirtualClock()
  const logger = memoryLogger()
  const context: InformerContext = { api, clock: time.view(), random: seededRandom(1, 'test'), logger }
  const controller = new AbortController()
  return { api, time, logger, context, controller }
}

function recorder() {
  const notified: string[] = []
  const handler = (change: Change<KubeObject>): void => {
    const version = (object: KubeObject) => `${object.metadata?.name}@${object.metadata?.resourceVersion}`
    const old = change.type === 'added' ? '' : version(change.old)
    notified.push(`${change.type} ${old}${change.type === 'deleted' ? '' : `>${version(change.object)}`}`)
  }
  return { notified, handler }
}

test('handlers receive the first list, then every change with the old and the new object', async () => {
  const { api, time, context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  const { notified, handler } = recorder()
  informer.subscribe(handler)
  assert.equal(informer.hasSynced, false)
  const run = informer.run(controller.signal)
  await informer.whenSynced(controller.signal)
  api.lastWatch.send(
    { type: 'MODIFIED', object: service('a', '6') },
    { type: 'MODIFIED', object: service('a', '6') },
    { type: 'DELETED', object: service('b', '7') },
  )
  await time.advance(0)
  assert.deepEqual(notified, ['added >a@1', 'added >b@2', 'updated a@1>a@6', 'deleted b@2'])
  assert.deepEqual(informer.store.list(), [service('a', '6')])
  controller.abort()
  await run
})

test('a late subscriber receives the present objects at once', async () => {
  const { context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  const run = informer.run(controller.signal)
  await informer.whenSynced()
  const { notified, handler } = recorder()
  informer.subscribe(handler)
  assert.deepEqual(notified, ['added >a@1', 'added >b@2'])
  controller.abort()
  await run
})

test('an object is stored by the namespace of its transformed copy, in the list and in later events', async () => {
  const { api, time, context, controller } = setUp()
  const transform = ({ metadata }: Service): Service => {
    const { name, uid, resourceVersion } = metadata ?? {}
    return { metadata: { name, uid, resourceVersion } } as Partial<Service> as Service
  }
  const informer = new Informer({ ...context, resource: services, transform })
  const run = informer.run(controller.signal)
  await informer.whenSynced(controller.signal)
  assert.equal(informer.store.get({ name: 'a' })?.metadata?.resourceVersion, '1')
  api.lastWatch.send({ type: 'MODIFIED', object: service('a', '6') }, { type: 'DELETED', object: service('b', '7') })
  await time.advance(0)
  assert.deepEqual(
    informer.store.list().map(({ metadata }) => metadata?.resourceVersion),
    ['6'],
  )
  controller.abort()
  await run
})

test('a subscriber with onlyChanges does not receive the present objects', async () => {
  const { context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  const early = recorder()
  informer.subscribe(early.handler, { onlyChanges: true })
  const run = informer.run(controller.signal)
  await informer.whenSynced()
  const late = recorder()
  informer.subscribe(late.handler, { onlyChanges: true })
  assert.deepEqual([early.notified, late.notified], [['added >a@1', 'added >b@2'], []])
  controller.abort()
  await run
})

test('a subscriber added by a handler receives nothing twice, and one removed by a handler receives nothing more', async () => {
  const { context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  const inner = recorder()
  const leaving = recorder()
  let leave = (): void => {}
  informer.subscribe(() => {
    leave()
    if (inner.notified.length === 0) informer.subscribe(inner.handler)
  })
  leave = informer.subscribe(leaving.handler)
  const run = informer.run(controller.signal)
  await informer.whenSynced()
  assert.deepEqual(inner.notified, ['added >a@1', 'added >b@2'])
  assert.deepEqual(leaving.notified, [])
  controller.abort()
  await run
})

test('after an outage handlers receive the differences; the store stays readable meanwhile', async () => {
  const { api, time, context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  const { notified, handler } = recorder()
  const run = informer.run(controller.signal)
  await informer.whenSynced()
  informer.subscribe(handler)
  const before = notified.length
  const serve = api.onWatch
  const refused = new KubeError('Unreachable', 'connection refused')
  api.answer = () => {
    throw refused
  }
  api.onWatch = (watch) => watch.end(refused)
  api.lastWatch.send({ type: 'ERROR', object: { code: 410 } })
  await time.advance(20_000)
  assert.equal(informer.store.list().length, 2)
  assert.equal(informer.hasSynced, true)
  const current = [service('b', '8'), service('c', '9')]
  api.answer = () => listOf('10', current)
  api.onWatch = (watch) => {
    if (watch.query.resourceVersion !== undefined) return serve(watch)
    watch.open().send(...current.map(added), bookmark('10', 'initial-events-end'))
  }
  await time.advance(1_000)
  assert.deepEqual(notified.slice(before), ['deleted a@1', 'updated b@2>b@8', 'added >c@9'])
  controller.abort()
  await run
  assert.equal(api.openWatches, 0)
})

for (const streams of [true, false]) {
  test(`a long list is delivered with pauses, and later watch events are delivered after it; streams: ${streams}`, async () => {
    const { api, time, context, controller } = setUp()
    const names = Array.from({ length: 1_000 }, (_, index) => `s-${String(index).padStart(4, '0')}`)
    const deletion = { type: 'DELETED', object: service('s-0000', '6') } as const
    api.answer = () =>
      listOf(
        '5',
        names.map((name) => service(name, '1')),
      )
    api.onWatch = (watch) => {
      const isList = watch.query.sendInitialEvents === true
      if (isList && !streams) watch.end(new KubeError('Invalid', 'sendInitialEvents is forbidden'))
      else if (isList)
        watch.open().send(...names.map((name) => added(service(name, '1'))), bookmark('5', 'initial-events-end'))
      if (isList !== streams) return
      watch.open().send(deletion)
    }
    const { clock, worked } = workingClock(time)
    const informer = new Informer({ ...context, clock, resource: services, pauses: true })
    const { notified, handler } = recorder()
    informer.subscribe((change) => {
      worked(0.1)
      handler(change)
    })
    const longest = longestWithoutPause(time, () => notified.length)
    const run = informer.run(controller.signal)
    const synced = informer.whenSynced().then(() => notified.length)
    await time.advance(100)
    assert.deepEqual(notified, [...names.map((name) => `added >${name}@1`), 'deleted s-0000@1'])
    assert.equal(await synced, 1_000)
    assert.ok(longest() > 0 && longest() <= 150, `${longest()} changes without a pause`)
    controller.abort()
    await run
  })
}

test('only the first list is delivered with pauses, and only on request; otherwise an index never lags behind the store', async () => {
  for (const pauses of [false, true]) {
    const { api, time, context, controller } = setUp()
    const names = Array.from({ length: 1_000 }, (_, index) => `s-${index}`)
    let version = 0
    api.onWatch = (watch) => {
      if (watch.query.sendInitialEvents !== true) return
      version++
      watch.open().send(...names.map((name) => added(service(name, `${version}`))), bookmark('9', 'initial-events-end'))
    }
    const { clock, worked } = workingClock(time)
    const informer = new Informer({ ...context, clock, resource: services, pauses })
    const index = new Set<KubeObject>()
    informer.subscribe((change) => {
      worked(0.1)
      if (change.type !== 'added') index.delete(change.old)
      if (change.type !== 'deleted') index.add(change.object)
    })
    const behind: number[] = []
    const other = (): void => {
      const missing = informer.store.list().filter((object) => !index.has(object)).length
      if (missing > 0) behind.push(missing)
    }
    const run = informer.run(controller.signal)
    for (let list = 1; list <= 2; list++) {
      for (let turn = 0; turn < 100; turn++) time.view().schedule(0, other)
      if (list === 2) informer.restart()
      await time.advance(10)
      assert.equal(behind.length > 0, pauses && list === 1, `pauses ${pauses}, list ${list}`)
      behind.length = 0
    }
    assert.equal(version, 2)
    controller.abort()
    await run
  }
})

test('a transform reduces objects before they are stored or delivered', async () => {
  const { api, time, context, controller } = setUp()
  const transform = ({ metadata }: Service): Service => ({ metadata: { ...metadata, labels: { cut: 'yes' } } })
  const informer = new Informer({ ...context, resource: services, transform })
  const notified: (string | undefined)[] = []
  informer.subscribe((change) => notified.push(change.type === 'deleted' ? '' : change.object.metadata?.labels?.cut))
  const run = informer.run(controller.signal)
  await informer.whenSynced()
  api.lastWatch.send(added(service('c', '6', { spec: { large: true } })))
  await time.advance(0)
  assert.deepEqual(notified, ['yes', 'yes', 'yes'])
  assert.ok(informer.store.list().every((object) => object.spec === undefined))
  controller.abort()
  await run
})

test('a list is transformed while it arrives, streamed or in pages, before it is complete', async () => {
  for (const streamed of [true, false]) {
    const { api, time, context, controller } = setUp()
    const cut: (string | undefined)[] = []
    const transform = (object: Service): Service => {
      cut.push(object.metadata?.name)
      return object
    }
    api.onWatch = (watch) => {
      if (streamed) watch.open().send(added(service('a', '1')), added(service('b', '2')))
      else watch.end(new KubeError('Invalid', 'sendInitialEvents is forbidden'))
    }
    api.answer = ({ of }) => {
      if ('continue' in of && of.continue !== undefined) return new Promise(() => {})
      return listOf('5', [service('a', '1'), service('b', '2')], 'more')
    }
    const informer = new Informer({ ...context, resource: services, transform })
    informer.run(controller.signal).catch(() => {})
    await time.advance(1000)
    assert.deepEqual([cut, informer.hasSynced], [['a', 'b'], false])
    controller.abort()
  }
})

test('a resource that is not served has the state absent, and is followed once it is served', async () => {
  const { api, time, context, controller } = setUp()
  const serve = api.onWatch
  api.onWatch = (watch) => watch.end(new KubeError('NotFound', 'the server could not find the requested resource'))
  const informer = new Informer({ ...context, resource: services })
  const run = informer.run(controller.signal)
  assert.equal(await informer.whenSettled(), 'absent')
  assert.equal(informer.state, 'absent')
  api.onWatch = serve
  await time.advance(1_000)
  assert.equal(informer.state, 'synced')
  assert.equal(await informer.whenSettled(), 'synced')
  controller.abort()
  await run
})

test('a synced resource stays synced while a restarting server does not serve it yet', async () => {
  const { api, time, context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  const run = informer.run(controller.signal)
  await informer.whenSynced()
  const absent = new KubeError('NotFound', 'the server could not find the requested resource')
  api.onWatch = (watch) => watch.end(absent)
  api.answer = () => {
    throw absent
  }
  const watches = api.watches.length
  api.lastWatch.end()
  await time.advance(60_000)
  assert.ok(api.watches.length > watches)
  assert.deepEqual([informer.state, informer.hasSynced, await informer.whenSettled()], ['synced', true, 'synced'])
  assert.equal(informer.store.list().length, 2)
  controller.abort()
  await run
})

test('an abort ends the wait for the state of an informer', async () => {
  const { context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  controller.abort(new Error('enough'))
  await assert.rejects(informer.whenSynced(controller.signal), /enough/)
  await assert.rejects(informer.whenSettled(controller.signal), /enough/)
})

test('an informer runs once at a time, and can run again after it has ended', async () => {
  const { api, time, context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  const run = informer.run(controller.signal)
  await assert.rejects(informer.run(controller.signal), /already running/)
  controller.abort()
  await run
  const again = new AbortController()
  const { notified, handler } = recorder()
  informer.subscribe(handler)
  const secondRun = informer.run(again.signal)
  await time.advance(0)
  assert.equal(api.openWatches, 1)
  again.abort()
  await secondRun
  assert.equal(notified.length, 2)
})

test('a restarted informer lists again, and handlers receive the missed changes', async () => {
  const { api, time, context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  informer.restart()
  const run = informer.run(controller.signal)
  await informer.whenSynced(controller.signal)
  const { notified, handler } = recorder()
  informer.subscribe(handler)
  notified.length = 0
  api.onWatch = (watch) => watch.open().send(added(service('a', '7')), bookmark('7', 'initial-events-end'))
  informer.restart()
  await time.advance(0)
  assert.deepEqual(notified, ['deleted b@2', 'updated a@1>a@7'])
  assert.equal(api.openWatches, 1)
  controller.abort()
  await run
})

test('a watch that delivers nothing for five seconds after an answered write is restarted', async () => {
  const { api, time, logger, context, controller } = setUp()
  const { clock } = context
  const informer = new Informer({ ...context, resource: services })
  const run = informer.run(controller.signal)
  await informer.whenSynced(controller.signal)
  /** Calls `restartIfDead` each second, and returns after how many seconds a new list was requested. */
  const restartedAfter = async (answeredMs: number): Promise<number> => {
    const before = api.watches.length
    for (let seconds = 0; seconds < 30; seconds++) {
      for (let services = 0; services < 3; services++) informer.restartIfDead(answeredMs)
      await time.advance(0)
      if (api.watches.length > before) return seconds
      await time.advance(1_000)
    }
    return Number.POSITIVE_INFINITY
  }
  await time.advance(20_000)
  assert.equal(
    await restartedAfter(clock.monotonicMs()),
    5,
    'the five seconds start at the write, not at the last event',
  )
  assert.deepEqual(
    logger.lines.map(({ level, message }) => [level, message]).filter(([level]) => level !== 'debug'),
    [['warn', 'a watch receives nothing, although the server has answered a write; restarting it']],
  )
  const answeredMs = clock.monotonicMs()
  await time.advance(3_000)
  api.lastWatch.send(bookmark('8'))
  await time.advance(0)
  assert.equal(await restartedAfter(answeredMs), 5, 'the five seconds start at the last event')
  assert.equal(await restartedAfter(Number.POSITIVE_INFINITY), Number.POSITIVE_INFINITY)
  controller.abort()
  await run
})

test('a list is not restarted while it arrives, nor soon after a long list', async () => {
  const { api, time, context, controller } = setUp()
  const { clock } = context
  const informer = new Informer({ ...context, resource: services })
  const startMs = clock.monotonicMs()
  const restarts: number[] = []
  const serve = api.onWatch
  api.onWatch = (watch) => {
    if (watch.query.resourceVersion !== undefined) return serve(watch)
    restarts.push(Math.round((clock.monotonicMs() - startMs) / 1_000))
    watch.open()
    clock.schedule(6_000, () => serve(watch))
  }
  const run = informer.run(controller.signal)
  for (let seconds = 0; seconds < 60; seconds++) {
    informer.restartIfDead(startMs)
    await time.advance(1_000)
  }
  assert.deepEqual(restarts, [0, 30])
  controller.abort()
  await run
})

test('list handlers receive the request time of each complete list, after all of its changes', async () => {
  const { api, time, context, controller } = setUp()
  const informer = new Informer({ ...context, resource: services })
  const { notified, handler } = recorder()
  const startMs = context.clock.monotonicMs()
  const end = informer.subscribeToLists((beganMs) => notified.push(`list of ${beganMs - startMs}`))
  informer.subscribe(handler)
  const serve = api.onWatch
  api.onWatch = () => {}
  const run = informer.run(controller.signal)
  await time.advance(300)
  api.lastWatch.open().send(added(service('a', '1')), bookmark('5', 'initial-events-end'))
  await time.advance(0)
  api.onWatch = serve
  informer.restart()
  await time.advance(0)
  assert.deepEqual(notified, ['added >a@1', 'list of 0', 'added >b@2', 'list of 300'])
  end()
  informer.restart()
  await time.advance(0)
  assert.equal(notified.length, 4)
  controller.abort()
  await run
})

test('equal queries share one informer with one watch; another query has its own', async () => {
  const { api, time, context, controller } = setUp()
  const shared = new SharedInformers(context)
  const all = shared.get(services)
  const run = shared.run(controller.signal)
  assert.equal(shared.get(services), all)
  const one = shared.get(services, { query: { namespace: 'ns', fieldSelector: 'metadata.name=a' } })
  assert.notEqual(one, all)
  shared.get(endpoints)
  await shared.whenSynced(controller.signal)
  assert.equal(api.openWatches, 3)
  assert.throws(() => shared.get(services, { transform: (object) => object }), /another transform/)
  controller.abort()
  await run
  await time.advance(0)
  assert.equal(api.openWatches, 0)
})

test('shared informers log an outage once for all of them', async () => {
  const { api, time, logger, context, controller } = setUp()
  const shared = new SharedInformers(context)
  for (const namespace of ['1', '2', '3', '4', '5', '6']) shared.get(services, { query: { namespace } })
  const run = shared.run(controller.signal)
  await shared.whenSynced()
  const serve = api.onWatch
  api.onWatch = (watch) => watch.end(new KubeError('Unreachable', 'connection refused'))
  for (const watch of api.watches) watch.end(new KubeError('Unreachable', 'the connection broke'))
  await time.advance(20_000)
  api.onWatch = serve
  await time.advance(3_000)
  const logged = logger.lines.filter(({ level }) => level !== 'debug')
  assert.deepEqual(
    logged.map(({ message }) => message),
    ['lost the API server', 'the API server is back'],
  )
  controller.abort()
  await run
})

test('a handler that throws ends all shared informers, and the run rejects with its error', async () => {
  const { api, time, context, controller } = setUp()
  const shared = new SharedInformers(context)
  const mistake = new TypeError('a mistake in a handler')
  shared.get(endpoints)
  shared.get(services).subscribe(() => {
    throw mistake
  })
  await assert.rejects(shared.run(controller.signal), mistake)
  await time.advance(0)
  assert.equal(api.openWatches, 0)
})
