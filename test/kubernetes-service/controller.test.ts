import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { endpointSlices, endpoints, services } from '../../src/kube/resources.ts'
import { KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { noneReconciler } from '../../src/kubernetes-service/reconcilers/endpoint-reconciler.ts'
import { controllerWorld, INTERVAL_MS, Members } from './controller-world.ts'

const forbidden = new KubeError('Forbidden', 'forbidden', { httpStatus: 403 })
const away = new KubeError('Unreachable', 'connection refused')
const single = ['SingleStack', ['10.96.0.1']]

type World = Awaited<ReturnType<typeof controllerWorld>>

async function familiesOf({ service }: World) {
  const { ipFamilyPolicy, clusterIPs } = (await service())?.spec ?? {}
  return [ipFamilyPolicy, clusterIPs]
}

async function portOf({ service }: World): Promise<number | undefined> {
  return (await service())?.spec?.ports?.[0]?.port
}

/** Whether a promise has settled by now. */
async function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending')
  return (await Promise.race([promise, Promise.resolve(pending)])) !== pending
}

test('the controller watches its objects by name, and the second slice of the family that its address does not have', async (t) => {
  const all = (last: string) =>
    [services, endpoints, endpointSlices].map(({ plural }) => `${plural} metadata.name=kubernetes`).concat(last)
  const second = (family: 4 | 6) => `endpointslices metadata.name=kubernetes-ipv${family}`
  for (const [address, family] of [
    ['192.0.2.1', 6],
    ['2001:db8::1', 4],
  ] as const) {
    const { time, watch } = await controllerWorld(t, { reconciler: new Members(), address })
    await time.advance(1)
    assert.deepEqual(watch.names.slice(0, 4), all(second(family)))
  }
  // A reconciler that does not know whether the members are dual-stack never creates a second slice.
  const { reconcileEndpoints } = noneReconciler
  for (const [address, reconciler] of [
    ['192.0.2.1', { reconcileEndpoints }],
    ['none', new Members()],
  ] as const) {
    const { time, watch } = await controllerWorld(t, { reconciler, address })
    await time.advance(1)
    assert.ok(watch.names.length >= 3)
    assert.ok(!watch.names.some((name) => name.includes('kubernetes-ipv')))
  }
})

test('the Service waits for its watch, the list for at most 5 s for its own', async (t) => {
  for (const { plural } of [services, endpoints, endpointSlices]) {
    for (const opensAfterMs of [4_999, 20_000]) {
      const members = new Members()
      members.satisfied = false
      const opened = Promise.withResolvers<void>()
      // Otherwise the end of the controller would wait for the watch if an assertion fails.
      t.after(() => opened.resolve())
      const world = await controllerWorld(t, { reconciler: members, late: { plural, until: opened.promise } })
      await world.time.advance(1_000)
      // A request before the first reconciliation must not hide that it is the first.
      world.controller.request()
      await world.time.advance(3_998)
      const isService = plural === 'services'
      assert.deepEqual([world.asked(), members.reads], [[], isService ? 1 : 0], plural)
      await world.time.advance(opensAfterMs - 4_999 + 1)
      const lists = [members.reads > 0, members.writes.length > 0]
      const isDue = isService || opensAfterMs > 5_000
      // A reconciler could conclude from an unsynced watch that no address is listed.
      assert.equal(members.seen !== undefined, isService)
      assert.deepEqual([lists, world.asked()[0]], [[isDue, isDue], !isService && isDue ? 'create services' : undefined])
      // Slices that their watch does not know are read.
      if (plural === 'endpointslices') assert.ok(members.watched.every((watched) => watched === undefined))
      opened.resolve()
      await world.time.advance(1)
      if (isService || !isDue) assert.deepEqual(world.asked(), ['create services'])
      assert.equal(members.reads > 0, true)
    }
  }
})

test('the watched slices suffice for each reconciliation of the list, except the first one and after a failure', async (t) => {
  const members = new Members()
  const { time, controller, putSlice } = await controllerWorld(t, { reconciler: members })
  await putSlice('kubernetes', 'IPv4')
  const after = async (): Promise<boolean | undefined> => {
    members.watched.length = 0
    controller.request()
    await time.advance(1)
    const [watched] = members.watched
    assert.equal(watched?.slice?.metadata?.name, watched && 'kubernetes')
    return watched?.suffices
  }
  await time.advance(1)
  assert.deepEqual(
    members.watched.map((watched) => watched?.suffices),
    [false],
    'the first one reads the slices even if the watches show the list in sync',
  )
  assert.equal(await after(), undefined, 'in sync')
  members.satisfied = false
  assert.equal(await after(), true)
  members.write = () => Promise.reject(new KubeError('Conflict', 'changed'))
  assert.equal(await after(), true)
  members.write = async () => {}
  assert.equal(await after(), false)
  assert.equal(await after(), true)
  members.write = () => Promise.reject(new KubeError('Conflict', 'changed'))
  await after()
  // Another master has written the list, and the watches have delivered that.
  members.satisfied = true
  assert.equal(await after(), undefined)
  members.satisfied = false
  assert.equal(await after(), true)
})

test('the Service is created once the first read of the members has ended, even if that read failed', async (t) => {
  for (const outcome of ['read', 'failed'] as const) {
    const members = new Members()
    const read = Promise.withResolvers<void>()
    members.read = () => read.promise
    const world = await controllerWorld(t, { reconciler: members })
    await world.time.advance(5_000)
    assert.deepEqual(world.asked(), [])
    if (outcome === 'read') read.resolve()
    else read.reject(away)
    await world.time.advance(1)
    assert.deepEqual(world.asked(), ['create services'], outcome)
  }
})

test('the controller has settled after the first success of both loops: the Service and the list', async (t) => {
  const members = new Members()
  let refusal: Error | undefined = forbidden
  const world = await controllerWorld(t, {
    reconciler: members,
    before(call) {
      if (call === 'create services' && refusal !== undefined) throw refusal
    },
  })
  const { time, controller } = world
  const { settled } = controller
  await time.advance(5_000)
  assert.equal(await hasSettled(settled), false, 'no Service')
  members.satisfied = false
  members.write = () => Promise.reject(forbidden)
  refusal = undefined
  await time.advance(2_000)
  assert.equal(await hasSettled(settled), true, 'the list was in sync before')

  const refused = new Members()
  refused.satisfied = false
  refused.write = () => Promise.reject(forbidden)
  const other = await controllerWorld(t, { reconciler: refused })
  const { settled: otherSettled } = other.controller
  await other.time.advance(5_000)
  assert.notEqual(await other.service(), undefined, 'a refused list does not delay the Service')
  assert.equal(await hasSettled(otherSettled), false)
  refused.write = async () => {}
  await other.time.advance(1_500)
  assert.equal(await hasSettled(otherSettled), true)
})

test('after long refusals both objects are in sync within 1.5 s after the writes are permitted', async (t) => {
  const members = new Members()
  members.satisfied = false
  members.write = () => Promise.reject(forbidden)
  let isRefused = true
  const world = await controllerWorld(t, {
    reconciler: members,
    before(call) {
      if (call === 'create services' && isRefused) throw forbidden
    },
  })
  const { time } = world
  await time.advance(123_456)
  isRefused = false
  let writes = 0
  members.write = async () => {
    writes++
  }
  await time.advance(1_500)
  assert.notEqual(await world.service(), undefined)
  assert.ok(writes > 0)
})

test('during frequent changes a refused list is retried about every 250 ms, a refused Service only about once per second', async (t) => {
  const members = new Members()
  members.satisfied = false
  members.write = () => Promise.reject(forbidden)
  const world = await controllerWorld(t, {
    reconciler: members,
    before(call) {
      if (call === 'create services') throw forbidden
    },
  })
  const { time, controller } = world
  await time.advance(60_000)
  const counts = async () => {
    world.asked()
    const before = members.writes.length
    for (let change = 0; change < 60; change++) {
      controller.request()
      await time.advance(100)
    }
    return [members.writes.length - before, world.asked().filter((call) => call === 'create services').length] as const
  }
  const [list, service] = await counts()
  assert.ok(list >= 18 && list <= 30, `${list} in six seconds`)
  assert.ok(service >= 4 && service <= 8, `${service} in six seconds`)
})

test('a change of the Service is corrected, a change of the list is passed to the reconciler, each independently', async (t) => {
  const members = new Members()
  const world = await controllerWorld(t, { reconciler: members })
  const { time, setPort, putEndpoints, putSlice } = world
  await time.advance(1_000)
  world.asked()
  const seen = members.seen
  await setPort(8443)
  await time.advance(100)
  assert.equal(await portOf(world), 443)
  assert.equal(members.seen, seen, 'the list is not reconciled')
  assert.deepEqual(world.asked(), ['get kubernetes of services', 'update services'])
  const shown = () => {
    const { endpoints: list, slice, secondSlices = [] } = members.seen ?? {}
    return [list, slice, ...secondSlices].map((object) => object?.metadata?.name)
  }
  await putEndpoints()
  await time.advance(100)
  assert.deepEqual(shown(), ['kubernetes', undefined])
  await putSlice('kubernetes', 'IPv4')
  await time.advance(100)
  assert.deepEqual(shown(), ['kubernetes', 'kubernetes'])
  assert.deepEqual(members.seen?.slice?.addressType, 'IPv4')
  await putSlice('kubernetes-ipv6')
  await time.advance(100)
  assert.deepEqual(shown(), ['kubernetes', 'kubernetes', 'kubernetes-ipv6'])
  assert.deepEqual([world.asked(), members.reads], [[], 1], 'no request, and the members are known')
})

test("a list that is not in sync is written, with 'agreed' as the mode for its ports", async (t) => {
  const members = new Members()
  const world = await controllerWorld(t, { reconciler: members })
  const { time, controller } = world
  await time.advance(1_000)
  members.writes.length = 0
  controller.request()
  await time.advance(1)
  assert.deepEqual(members.writes, [])
  members.satisfied = false
  members.agreed = false
  controller.request()
  await time.advance(1)
  assert.equal(members.corrects, false)
  assert.deepEqual(members.writes, [['192.0.2.1', 6443, 'agreed']])
})

test('without an address the controller writes no list, and reads only the Service live', async (t) => {
  const members = new Members()
  members.satisfied = false
  const world = await controllerWorld(t, { reconciler: members, address: 'none' })
  await world.time.advance(1_000)
  assert.deepEqual([world.asked(), members.writes], [['create services'], []])
  await world.time.advance(INTERVAL_MS)
  assert.deepEqual(world.asked(), ['get kubernetes of services'])
})

test('a reconciler with only reconcileEndpoints is called at each interval, and the ports count as agreed', async (t) => {
  let writes = 0
  const reconciler = {
    async reconcileEndpoints() {
      writes++
    },
  }
  const world = await controllerWorld(t, { reconciler })
  await world.time.advance(1_000)
  await world.setPort(8443)
  await world.time.advance(100)
  assert.equal(await portOf(world), 443)
  await world.time.advance(INTERVAL_MS)
  assert.equal(writes, 2)
  assert.deepEqual(await familiesOf(world), single)
})

test('each interval reads the members once and each object live; two slices alternate if the second is wanted or exists', async (t) => {
  const members = new Members()
  const world = await controllerWorld(t, { reconciler: members })
  const { time, api, putSlice } = world
  await time.advance(1_000)
  world.asked()
  const slicesRead = async (): Promise<string[]> => {
    members.reads = 0
    await time.advance(INTERVAL_MS)
    const [service, list, ...slices] = world.asked()
    assert.deepEqual([service, list], ['get kubernetes of services', 'get kubernetes of endpoints'])
    assert.equal(members.reads, 1)
    return slices.map((call) => call.split(' ')[1] ?? '')
  }
  const rounds = async () => [...(await slicesRead()), ...(await slicesRead())].sort()
  assert.deepEqual(await rounds(), ['kubernetes', 'kubernetes'])
  members.dual = undefined
  assert.deepEqual(await rounds(), ['kubernetes', 'kubernetes'])
  await putSlice('kubernetes-ipv6')
  assert.deepEqual(await rounds(), ['kubernetes', 'kubernetes-ipv6'])
  await api.delete(endpointSlices, { ...KUBERNETES_SERVICE, name: 'kubernetes-ipv6' })
  await time.advance(1)
  assert.deepEqual(await rounds(), ['kubernetes', 'kubernetes'])
  members.dual = true
  await time.advance(INTERVAL_MS)
  world.asked()
  assert.deepEqual(await rounds(), ['kubernetes', 'kubernetes-ipv6'])
})

test('live reads continue while a write of the list hangs, and find a change that the watch lost', async (t) => {
  const members = new Members()
  const world = await controllerWorld(t, { reconciler: members })
  const { time, watch, setPort } = world
  await time.advance(1_000)
  members.satisfied = false
  const hung = Promise.withResolvers<void>()
  members.write = () => hung.promise
  world.controller.request()
  watch.lost.add('services')
  await setPort(8443)
  await time.advance(INTERVAL_MS)
  assert.equal(await portOf(world), 443)
  hung.resolve()
})

test('while a round of live reads hangs, no other round starts', async (t) => {
  const held = Promise.withResolvers<void>()
  const world = await controllerWorld(t, {
    reconciler: new Members(),
    before: (call) => (call === 'get kubernetes of endpoints' ? held.promise : undefined),
  })
  await world.time.advance(3.5 * INTERVAL_MS)
  assert.equal(world.asked().filter((call) => call === 'get kubernetes of endpoints').length, 1)
  held.resolve()
  await world.time.advance(INTERVAL_MS)
  assert.equal(world.asked().filter((call) => call === 'get kubernetes of endpoints').length, 1)
})

test('an error of this program itself in a live read ends nothing: it is logged once, and the next round reads again', async (t) => {
  const members = new Members()
  const { isDualStack } = members
  const world = await controllerWorld(t, { reconciler: members })
  await world.time.advance(INTERVAL_MS)
  members.isDualStack = () => {
    throw new TypeError('a defect')
  }
  await world.time.advance(5 * INTERVAL_MS)
  assert.equal(await hasSettled(world.ended), false)
  const logged = (text: string) =>
    world.logger.lines.filter(
      ({ message, fields }) => message.startsWith(text) && fields.source === 'live reads of default/kubernetes',
    )
  assert.deepEqual(
    logged('an operation failed inside this program').map(({ level, fields }) => [level, fields.reason]),
    [['warn', 'a defect']],
  )
  members.isDualStack = isDualStack
  world.asked()
  await world.time.advance(INTERVAL_MS)
  assert.ok(world.asked().includes('get kubernetes of services'))
  assert.equal(logged('operation succeeded after earlier failures').length, 1)
})

test('an ended controller leaves no timer and no subscription, and requests nothing when the server is back', async (t) => {
  const members = new Members()
  const world = await controllerWorld(t, { reconciler: members })
  const { time, stop, ended, clock, availability, subscribers } = world
  await time.advance(12_345)
  assert.equal(subscribers.count, 1)
  availability.failed('test', away)
  stop.abort(new Error('the end'))
  await time.advance(0)
  await ended
  await world.end()
  assert.equal(subscribers.count, 0)
  world.asked()
  availability.succeeded('test')
  world.controller.request()
  await time.advance(2 * INTERVAL_MS)
  assert.deepEqual([world.asked(), clock.timers], [[], 0])
})
