import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { type Namespace, namespaces } from '../../src/kube/resources.ts'
import { SystemNamespacesController } from '../../src/namespaces/controller.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { Embedded } from '../apiserver/embedded.ts'
import { passedOn } from '../kube/passed-on.ts'
import { inTime } from '../support/in-time.ts'

/** A controller that is not running yet, on a server whose only namespace is `default`. */
async function setUp(names?: readonly string[], mayWrite?: Promise<void>) {
  const { time, api } = await Embedded.started([])
  const clock = time.view()
  const logger = memoryLogger()
  const outcomes: string[] = []
  const created: string[] = []
  const world = {
    /** Whether the watch omits the events of a namespace. */
    lost: (_namespace: Namespace): boolean => false,
    /** An error before a namespace is created. */
    refusal: (_name: string): Error | undefined | Promise<undefined> => undefined,
  }
  const controller = new SystemNamespacesController({
    api: passedOn(api, {
      create: async (resource, object, options) => {
        const { name = '' } = object.metadata ?? {}
        created.push(name)
        const refusal = await world.refusal(name)
        if (refusal !== undefined) throw refusal
        return api.create(resource, object, options)
      },
      async *watch(resource, options) {
        for await (const event of api.watch(resource, options))
          if (event.type === 'BOOKMARK' || !world.lost(event.object as Namespace)) yield event
      },
    }),
    ...{ clock, logger, names, mayWrite },
    random: seededRandom(1, 'test'),
    availability: {
      failed: (source) => outcomes.push(`failed ${source}`),
      succeeded: (source) => outcomes.push(`succeeded ${source}`),
      interrupted() {},
      forget() {},
    },
  })
  return Object.assign(world, {
    ...{ time, api },
    ...inTime(controller, time),
    /** The creates since the last call. */
    created: () => created.splice(0),
    logged: () => {
      const lines = logger.lines.splice(0).filter(({ level }) => level !== 'debug')
      return lines.map(({ message, fields }) => `${message}: ${fields.namespace}`)
    },
    outcomes: () => outcomes.splice(0).filter((one) => one.includes('system-namespaces')),
    found: async () => (await api.list(namespaces)).items.map(({ metadata }) => metadata?.name ?? '').sort(),
  })
}

test('the controller creates all missing namespaces at once, logs each, and creates nothing later', async () => {
  const { run, time, found, created, logged, settled, end } = await setUp()
  const missing = ['kube-system', 'kube-public', 'kube-node-lease']
  await run(0)
  assert.deepEqual(await found(), ['default', ...missing].toSorted())
  assert.deepEqual(created(), missing)
  assert.deepEqual(
    logged(),
    missing.map((name) => `created a system namespace: ${name}`),
  )
  assert.equal(settled(), true)
  await time.advance(600_000)
  assert.deepEqual([created(), logged()], [[], []])
  await end()
})

test('the controller creates nothing until it may write, then at once creates the namespaces that are still missing', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { run, time, api, created, settled, end } = await setUp(undefined, promise)
  await run(60_000)
  assert.deepEqual([created(), settled()], [[], false])
  await api.create(namespaces, { metadata: { name: 'kube-public' } })
  await time.advance(100)
  resolve()
  await time.advance(0)
  assert.deepEqual([created(), settled()], [['kube-system', 'kube-node-lease'], true])
  await end()
})

test('a controller that stops before it may write never creates a namespace', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { run, time, created, end } = await setUp(undefined, promise)
  await run(100)
  const ended = end()
  resolve()
  await time.advance(1_000)
  await ended
  assert.deepEqual(created(), [])
})

test('a deleted system namespace is created again at once; the deletion of any other namespace has no effect', async () => {
  const { run, time, api, found, created, outcomes, end } = await setUp(['own', 'default'])
  await api.create(namespaces, { metadata: { name: 'other' } })
  await run(100)
  created()
  outcomes()
  await api.delete(namespaces, { name: 'other' })
  await time.advance(100)
  assert.deepEqual([created(), outcomes()], [[], []])
  await api.delete(namespaces, { name: 'own' })
  await time.advance(100)
  assert.deepEqual([await found(), created()], [['default', 'own'], ['own']])
  await end()
})

test('a namespace that another client creates first is no failure, and its create is not retried forever', async () => {
  let early = true
  const late = await setUp(['own'])
  late.refusal = () => (early ? new KubeError('ServerError', 'fails') : undefined)
  await late.run(100)
  late.lost = ({ metadata }) => metadata?.name === 'own'
  await late.api.create(namespaces, { metadata: { name: 'own' } })
  await late.time.advance(0)
  early = false
  late.lost = () => false
  late.created()
  late.logged()
  late.outcomes()
  await late.time.advance(1_000)
  assert.deepEqual([late.created(), late.logged(), late.settled()], [['own'], [], true])
  assert.deepEqual(late.outcomes(), ['succeeded system-namespaces'])
  await late.time.advance(600_000)
  assert.deepEqual(late.created(), [])
  await late.end()
})

test('a refused create does not delay the others; it is retried until accepted, and the controller settles only then', async () => {
  const world = await setUp(['a', 'b', 'c'])
  world.refusal = (name) => (name === 'a' ? new KubeError('Forbidden', 'no') : undefined)
  await world.run(60_000)
  assert.deepEqual(await world.found(), ['b', 'c', 'default'])
  assert.equal(world.settled(), false)
  assert.ok(world.outcomes().every((one) => one === 'failed system-namespaces'))
  const tries = world.created().filter((name) => name === 'a').length
  assert.ok(tries > 5 && tries < 30, `${tries} tries in a minute`)
  await world.time.advance(5_000)
  await world.api.delete(namespaces, { name: 'b' })
  await world.time.advance(300)
  assert.deepEqual(await world.found(), ['b', 'c', 'default'], 'while the other waits')
  world.refusal = () => undefined
  await world.time.advance(11_000)
  assert.deepEqual(await world.found(), ['a', 'b', 'c', 'default'])
  assert.deepEqual([world.settled(), world.outcomes().at(-1)], [true, 'succeeded system-namespaces'])
  await world.end()
})

test('a failed create is retried only after the creates of the other namespaces have ended', async () => {
  const world = await setUp(['a', 'b'])
  const answer = Promise.withResolvers<undefined>()
  world.refusal = (name) => (name === 'a' ? new KubeError('ServerError', 'fails') : answer.promise)
  await world.run(10_000)
  assert.deepEqual(world.created(), ['a', 'b'])
  answer.resolve(undefined)
  await world.time.advance(100)
  assert.ok(world.created().length > 1)
  assert.deepEqual(await world.found(), ['b', 'default'])
  await world.end()
})

test('a failure caused by a stop during a create is not reported, and the run ends', async () => {
  const world = await setUp(['a'])
  world.refusal = () => {
    void world.end()
    return new KubeError('Unreachable', 'gone')
  }
  await world.run(1_000)
  await world.end()
  assert.deepEqual([world.outcomes(), world.logged(), world.created()], [[], [], ['a']])
})
