import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { endpoints, serviceCidrs, services } from '../../src/kube/resources.ts'
import { EndpointsAdapter } from '../../src/kubernetes-service/endpoints-adapter.ts'
import { FIGHT } from '../../src/kubernetes-service/guarded-writes/contention.ts'
import { addressesIn, endpointPorts, KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { MasterCountEndpointReconciler } from '../../src/kubernetes-service/reconcilers/master-count.ts'
import { planService } from '../../src/kubernetes-service/service-plan.ts'
import { parseAddress } from '../../src/net/address.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { controllerWorld, INTERVAL_MS, Members, SETTINGS } from './controller-world.ts'

const away = new KubeError('Unreachable', 'connection refused')
const taken = new KubeError('Invalid', 'provided IP is already allocated', { httpStatus: 422 })
const single = ['SingleStack', '10.96.0.1']
const dual = ['PreferDualStack', '10.96.0.1', 'fd00::1']

type World = Awaited<ReturnType<typeof controllerWorld>>

async function familiesOf({ service }: World): Promise<readonly unknown[]> {
  const { ipFamilyPolicy, clusterIPs = [] } = (await service())?.spec ?? {}
  return [ipFamilyPolicy, ...clusterIPs]
}

async function portOf({ service }: World): Promise<number | undefined> {
  return (await service())?.spec?.ports?.[0]?.port
}

/** A controller that created the Service a second ago. */
async function started(t: Parameters<typeof controllerWorld>[0], before?: (call: string) => void) {
  const members = new Members()
  const world = await controllerWorld(t, { reconciler: members, ...(before && { before }) })
  await world.time.advance(1_000)
  world.asked()
  return { ...world, world, members }
}

test('the Service has two families exactly while all members have two, and stays unchanged while that is unknown', async (t) => {
  const { world, time, controller, members } = await started(t)
  const after = async (isDual: boolean | undefined) => {
    members.dual = isDual
    controller.request()
    await time.advance(100)
    return familiesOf(world)
  }
  assert.deepEqual(await after(true), dual)
  assert.deepEqual(await after(undefined), dual)
  assert.deepEqual(await after(false), single)
  assert.deepEqual(await after(undefined), single)
  assert.deepEqual(await after(true), dual)
})

test('the Service follows the families that a read at the interval, or a write of the list, discovers', async (t) => {
  const { world, time, clock, members, controller } = await started(t)
  members.read = async (signal) => {
    // The controller reconciles the Service before it gets this answer.
    await sleep(clock, 100, signal)
    members.dual = true
  }
  await time.advance(INTERVAL_MS - 700)
  assert.deepEqual(await familiesOf(world), dual)
  members.read = async () => {}
  members.satisfied = false
  members.write = async () => {
    members.dual = false
  }
  controller.request()
  await time.advance(1)
  assert.deepEqual(await familiesOf(world), single)
})

test('the ports of the Service are corrected as soon as the members agree on them', async (t) => {
  const { world, time, members, setPort } = await started(t)
  members.agreed = false
  await setPort(8443)
  await time.advance(100)
  assert.equal(await portOf(world), 8443)
  await time.advance(INTERVAL_MS)
  assert.equal(await portOf(world), 8443)
  members.satisfied = false
  members.write = async () => {
    members.agreed = true
  }
  // Only a change of the list shows that the members agree.
  await world.putEndpoints()
  await time.advance(1)
  assert.equal(await portOf(world), 443)
})

test('after a failed read of the members, families and ports stay as found until a read succeeds', async (t) => {
  const { world, time, members, setPort } = await started(t)
  members.dual = true
  let failures = 0
  members.read = async () => {
    failures++
    throw away
  }
  await time.advance(INTERVAL_MS)
  await setPort(8443)
  await time.advance(5_000)
  assert.ok(failures > 3, 'the read is retried')
  assert.deepEqual([await portOf(world), await familiesOf(world)], [8443, single])
  members.read = async () => {}
  await time.advance(2_000)
  assert.deepEqual([await portOf(world), await familiesOf(world)], [443, dual])
})

test('a change made while the members cannot be read is corrected as soon as they can be read', async (t) => {
  const { world, time, members, setPort } = await started(t)
  members.read = () => Promise.reject(away)
  await time.advance(INTERVAL_MS)
  await setPort(8443)
  await time.advance(3_000)
  assert.equal(await portOf(world), 8443)
  members.read = async () => {}
  await time.advance(2_000)
  assert.equal(await portOf(world), 443)
})

test('if only the families differ, the controller reads the members before it changes the Service', async (t) => {
  const { world, time, api, members, asked } = await started(t)
  const policy = (ipFamilyPolicy: string, ipFamilies: readonly string[], clusterIPs: readonly string[]) =>
    api.patch(services, KUBERNETES_SERVICE, {
      type: 'merge',
      body: { spec: { ipFamilyPolicy, ipFamilies, clusterIPs } },
    })
  members.reads = 0
  members.read = async () => {
    members.dual = true
  }
  await policy('PreferDualStack', ['IPv4', 'IPv6'], ['10.96.0.1', 'fd00::1'])
  await time.advance(100)
  assert.deepEqual(await familiesOf(world), dual)
  assert.equal(members.reads, 1)
  assert.ok(!asked().includes('update services'))
  members.read = async () => {}
  await policy('SingleStack', ['IPv4'], ['10.96.0.1'])
  await time.advance(100)
  assert.deepEqual(await familiesOf(world), dual, 'the members have two')
  assert.equal(members.reads, 2)
  members.reads = 0
  await world.setPort(8443)
  await time.advance(100)
  assert.deepEqual([await portOf(world), members.reads], [443, 0])
})

test('with master-count, a client that keeps changing the families lets no master claim a place before the interval', async (t) => {
  const address = parseAddress('192.0.2.1')
  const world = await controllerWorld(t, {
    reconciler: (parts) =>
      new MasterCountEndpointReconciler({ ...parts, adapter: new EndpointsAdapter(parts), address, count: 1 }),
  })
  const { time, api } = world
  const listed = async () => addressesIn(await api.get(endpoints, KUBERNETES_SERVICE))
  await time.advance(1_000)
  assert.deepEqual(await listed(), ['192.0.2.1'])
  const subsets = [{ addresses: [{ ip: '192.0.2.9' }], ports: [...endpointPorts(6443)] }]
  for (const label of ['first', 'second']) {
    const body = { metadata: { labels: { label } }, subsets }
    await api.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body })
    await time.advance(100)
    assert.deepEqual(await listed(), ['192.0.2.9'], label)
    const spec = { ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['IPv4', 'IPv6'], clusterIPs: dual.slice(1) }
    await api.patch(services, KUBERNETES_SERVICE, { type: 'merge', body: { spec } })
    await time.advance(100)
    assert.deepEqual(await familiesOf(world), single)
  }
  await time.advance(INTERVAL_MS)
  assert.deepEqual(await listed(), ['192.0.2.1'])
})

test('if the members cannot be read before a change of families, the families stay as found', async (t) => {
  const { world, time, members, controller, asked, availability } = await started(t)
  members.dual = true
  members.reads = 0
  members.read = () => Promise.reject(away)
  controller.request()
  await time.advance(100)
  assert.deepEqual(await familiesOf(world), single)
  assert.ok(!asked().includes('update services'))
  assert.equal(availability.available, true)
  await time.advance(INTERVAL_MS - 1_200)
  assert.deepEqual([asked(), members.reads], [[], 1], 'nothing is retried before the interval')
  await world.setPort(8443)
  members.read = async () => {}
  await time.advance(INTERVAL_MS)
  assert.deepEqual([await portOf(world), await familiesOf(world)], [443, dual])
})

/** A controller on a server with one family, which has therefore refused the second. `refuse` counts down. */
async function onOneFamily(t: Parameters<typeof controllerWorld>[0]) {
  const refuse = { left: 0 }
  const members = new Members()
  const before = (call: string): void => {
    if (call === 'update services' && refuse.left-- > 0) throw taken
  }
  const world = await controllerWorld(t, { reconciler: members, cidrs: ['10.96.0.0/16'], before })
  members.dual = true
  await world.time.advance(INTERVAL_MS - 1)
  assert.deepEqual(await familiesOf(world), ['PreferDualStack', '10.96.0.1'])
  await world.time.advance(1_000)
  await world.api.create(serviceCidrs, { metadata: { name: 'second' }, spec: { cidrs: ['fd00::/112'] } })
  return { ...world, world, members, refuse }
}

test('a refused second address is requested again at the interval, and not before', async (t) => {
  const { world, time, controller } = await onOneFamily(t)
  controller.request()
  await time.advance(INTERVAL_MS - 1_001)
  assert.deepEqual(await familiesOf(world), ['PreferDualStack', '10.96.0.1'])
  await time.advance(1_000)
  assert.deepEqual(await familiesOf(world), dual)
})

test('when the server is back, the second address is requested again, with the full number of attempts', async (t) => {
  const { world, time, availability, refuse, asked } = await onOneFamily(t)
  asked()
  availability.failed('test', away)
  await time.advance(1)
  assert.deepEqual(asked(), [], 'nothing is asked of a server that is away')
  refuse.left = 9
  availability.succeeded('test')
  await time.advance(4_000)
  assert.deepEqual(await familiesOf(world), dual, 'an address is granted at the tenth attempt')
  assert.equal(refuse.left, -1)
})

test('during a fight a correction waits, and is made when the back-off ends', async (t) => {
  const { world, time, setPort } = await started(t)
  for (let fight = 0; fight < FIGHT.burst; fight++) {
    await setPort(8_000 + fight)
    await time.advance(10)
    assert.equal(await portOf(world), 443, `${fight}`)
  }
  await setPort(9_000)
  await time.advance(10)
  assert.equal(await portOf(world), 9_000)
  await time.advance(FIGHT.leastMs)
  assert.equal(await portOf(world), 443)
})

test('after the controller has ended, its writer no longer delays writes because of a fight', async (t) => {
  const { time, setPort, end, service, writer } = await started(t)
  for (let fight = 0; fight <= FIGHT.burst; fight++) {
    await setPort(8_000 + fight)
    await time.advance(1)
  }
  const found = await service()
  const isSettled = () => writer.isSettled(services, planService(found, SETTINGS, true), found)
  assert.equal(isSettled(), true, 'it waits')
  await end()
  assert.equal(isSettled(), false)
})

test('while the members disagree, other ports in Endpoints are logged once, and again when they change', async (t) => {
  const { time, api, logger, members, putEndpoints, controller } = await started(t)
  const logged = () => logger.lines.filter(({ message }) => /ports of the Endpoints differ/.test(message)).length
  const set = async (port: number | undefined) => {
    const ports = port === undefined ? undefined : [{ name: 'https', port, protocol: 'TCP' }]
    await api.patch(endpoints, KUBERNETES_SERVICE, {
      type: 'merge',
      body: { subsets: ports === undefined ? null : [{ addresses: [{ ip: '192.0.2.9' }], ports }] },
    })
    await time.advance(1)
    return logged()
  }
  await putEndpoints(7443)
  await time.advance(1)
  assert.equal(logged(), 0, 'the members agree, so they are corrected')
  members.agreed = false
  controller.request()
  await time.advance(1)
  assert.equal(logged(), 1)
  const [line] = logger.lines.filter(({ message }) => /ports of the Endpoints differ/.test(message))
  assert.deepEqual(line?.fields.found, [{ name: 'https', port: 7443, protocol: 'TCP' }])
  await time.advance(3 * INTERVAL_MS)
  assert.equal(logged(), 1)
  assert.equal(await set(8443), 2)
  await time.advance(INTERVAL_MS)
  assert.equal(logged(), 2)
  assert.equal(await set(6443), 2, 'their own')
  assert.equal(await set(8443), 3)
  assert.equal(await set(undefined), 3, 'no list')
})

test('the number of listed addresses is published once the Endpoints are known', async (t) => {
  const late = Promise.withResolvers<void>()
  const { time, api, putEndpoints, sample } = await controllerWorld(t, {
    reconciler: new Members(),
    late: { plural: endpoints.plural, until: late.promise },
  })
  const listed = 'apiserver_bootstrap_listed_addresses'
  await time.advance(100)
  assert.equal(await sample(listed), undefined)
  late.resolve()
  await time.advance(1)
  assert.equal(await sample(listed), `${listed} 0`)
  await putEndpoints()
  await time.advance(1)
  assert.equal(await sample(listed), `${listed} 1`)
  await api.delete(endpoints, KUBERNETES_SERVICE)
  await time.advance(1)
  assert.equal(await sample(listed), `${listed} 0`)
})
