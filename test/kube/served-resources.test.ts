import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { restDiscovery } from '../../src/kube/discovery.ts'
import { KubeError } from '../../src/kube/errors.ts'
import { endpointSlices, type KubeObject, nodes, type Resource, services } from '../../src/kube/resources.ts'
import { nextServing, ServedResources, type Serving } from '../../src/kube/served-resources.ts'
import type { ApiResponse, Transport } from '../../src/kube/transport.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'

const served = { type: 'served' } as const
const deniedUntil = (lastMs: number) => ({ type: 'denied', sinceMs: 10_000, lastMs }) as const
const denied = deniedUntil(10_000)
const unserved = { type: 'unserved' } as const
const uncertain = { type: 'uncertain' } as const

const table: readonly [before: Serving, answer: boolean | undefined, nowMs: number, after: Serving][] = [
  [served, false, 10_000, denied],
  [denied, false, 13_999, deniedUntil(13_999)],
  [denied, false, 14_000, unserved],
  [denied, false, 40_000, unserved],
  [denied, false, 40_001, { type: 'denied', sinceMs: 40_001, lastMs: 40_001 }],
  [denied, undefined, 99_000, denied],
  [denied, true, 14_000, served],
  [unserved, undefined, 99_000, uncertain],
  [uncertain, undefined, 99_000, uncertain],
  [uncertain, false, 99_000, unserved],
  [uncertain, true, 99_000, served],
  [unserved, false, 99_000, unserved],
  [unserved, true, 99_000, served],
]

for (const [before, answer, nowMs, after] of table) {
  const what = answer === undefined ? 'no answer' : answer ? 'that it is served' : 'that it is not'
  test(`a resource is ${before.type}, answer at ${nowMs} ms: ${what}; it is then ${after.type}`, () => {
    assert.deepEqual(nextServing(before, answer, nowMs), after)
  })
}

/** A server whose discovery answers as the test decides. `asked`: the times of its requests. */
function setUp() {
  const time = new VirtualClock()
  const world = { answer: false as boolean | KubeError, ready: true }
  const asked: number[] = []
  const resources = new ServedResources({
    discovery: {
      async serves() {
        asked.push(time.nowMs)
        if (world.answer instanceof KubeError) throw world.answer
        return world.answer
      },
    },
    isReady: () => world.ready,
    clock: time.view(),
    logger: silentLogger,
  })
  const { signal } = new AbortController()
  const told404 = (): Promise<boolean> => resources.confirmUnserved(services, signal)
  /** The state after four seconds of 404. */
  const deny = async (): Promise<void> => {
    await told404()
    await time.advance(4_000)
    await told404()
    asked.length = 0
  }
  return { time, world, asked, resources, told404, deny, signal }
}

test('a resource counts as unserved after four seconds of 404, but not earlier', async () => {
  const { time, told404 } = setUp()
  assert.equal(await told404(), false)
  await time.advance(3_000)
  assert.equal(await told404(), false)
  await time.advance(1_000)
  assert.equal(await told404(), true)
})

test('no resource counts as unserved while the server is not ready or refuses discovery', async () => {
  for (const change of [{ ready: false }, { answer: new KubeError('Forbidden', 'discover v1: forbidden') }]) {
    const { time, world, told404 } = setUp()
    Object.assign(world, change)
    for (let seconds = 0; seconds < 60; seconds += 3) {
      assert.equal(await told404(), false, `after ${seconds} s`)
      await time.advance(3_000)
    }
  }
})

test('discovery is queried for an unserved resource at growing intervals until it appears; then it is requested', async (t) => {
  const { time, world, asked, resources, deny, signal } = setUp()
  const stop = new AbortController()
  t.after(() => stop.abort())
  resources.run(stop.signal).catch(() => {})
  let changes = 0
  resources.subscribe(() => changes++)
  await deny()
  let appeared = false
  void resources.untilUndenied(services, signal).then(() => {
    appeared = true
  })
  const deniedMs = time.nowMs
  await time.advance(200_000)
  assert.deepEqual(
    asked.map((atMs) => (atMs - deniedMs) / 1_000),
    [2, 6, 14, 30, 62, 122, 182],
  )
  assert.deepEqual([appeared, changes], [false, 1])
  world.answer = true
  await time.advance(60_000)
  assert.deepEqual([appeared, changes, resources.isMissing(services)], [true, 2, false])
  await time.advance(180_000)
  assert.equal(asked.length, 8)
})

test('a resource is requested while discovery gives no answer, and stays missing until it is seen', async (t) => {
  const { time, world, resources, deny, signal } = setUp()
  const stop = new AbortController()
  t.after(() => stop.abort())
  resources.run(stop.signal).catch(() => {})
  await deny()
  const undenied = resources.untilUndenied(services, signal)
  world.answer = new KubeError('Forbidden', 'discover v1: forbidden')
  await time.advance(60_000)
  await undenied
  assert.deepEqual([resources.isUnserved(services), resources.isMissing(services)], [false, true])
  resources.seen(services)
  assert.equal(resources.isMissing(services), false)
})

test('a resource that disappears a second time is not requested until it reappears', async () => {
  const { time, world, resources, told404, deny, signal } = setUp()
  for (let times = 1; times <= 2; times++) {
    world.answer = false
    await deny()
    let isRequested = false
    void resources.untilUndenied(services, signal).then(() => {
      isRequested = true
    })
    await time.advance(10_000)
    assert.equal(isRequested, false, `gone ${times} times`)
    world.answer = true
    await told404()
    await time.advance(0)
    assert.equal(isRequested, true, `appeared ${times} times`)
  }
})

test('a successful list ends a denial, so that the four seconds of 404 begin again', async () => {
  const { time, resources, told404 } = setUp()
  await told404()
  await time.advance(3_000)
  resources.seen(services)
  await time.advance(2_000)
  assert.equal(await told404(), false)
})

test('discovery is queried at once when the server may be another one', async (t) => {
  const { time, world, resources, deny } = setUp()
  await deny()
  const stop = new AbortController()
  t.after(() => stop.abort())
  resources.run(stop.signal).catch(() => {})
  world.answer = true
  resources.expedite()
  await time.advance(0)
  assert.equal(resources.isUnserved(services), false)
})

test('discovery reports what a server serves, and rejects if the answer does not show it', async () => {
  const { signal } = new AbortController()
  const clock = new VirtualClock().view()
  const server = createApiServer({ clock, random: seededRandom(1, 'discovery') })
  const real = restDiscovery(inProcessTransport(server))
  const fictional = { ...nodes, plural: 'gremlins' } as Resource<KubeObject>
  assert.equal(await real.serves(services, signal), true)
  assert.equal(await real.serves(endpointSlices, signal), true)
  assert.equal(await real.serves(fictional, signal), false)
  assert.equal(await real.serves({ ...fictional, group: 'example.com' }, signal), false)

  const answering = (answer: Partial<ApiResponse>): Transport => ({
    send: async () => ({ status: 200, headers: {}, body: undefined, ...answer }) as ApiResponse,
    close: async () => {},
  })
  const odd: readonly [Partial<ApiResponse>, string][] = [
    [{ status: 403, body: { kind: 'Status', reason: 'Forbidden', message: 'no' } }, 'Forbidden'],
    [{ status: 503 }, 'ServerError'],
    [{ status: 200, body: { kind: 'Status' } }, 'BadResponse'],
    [{ status: 200, body: 'ok' }, 'BadResponse'],
  ]
  for (const [answer, code] of odd) {
    await assert.rejects(restDiscovery(answering(answer)).serves(services, signal), { code })
  }
})
