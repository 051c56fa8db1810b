import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer } from '../../../src/apiserver/api-server.ts'
import { inProcessTransport } from '../../../src/apiserver/in-process.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { KubeError } from '../../../src/kube/errors.ts'
import { endpoints, namespaces } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { EndpointsAdapter } from '../../../src/kubernetes-service/endpoints-adapter.ts'
import { endpointPorts, KUBERNETES_SERVICE } from '../../../src/kubernetes-service/identity.ts'
import type { Holder } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { LeaseNotFound } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../../src/kubernetes-service/leases/memory.ts'
import { ObjectWriter } from '../../../src/kubernetes-service/object-writer.ts'
import { LeaseEndpointReconciler } from '../../../src/kubernetes-service/reconcilers/lease.ts'
import { parseAddress } from '../../../src/net/address.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { formatMicroTime } from '../../../src/runtime/time-format.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'

const ports = endpointPorts(6443)
const { signal } = new AbortController()

async function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'test')
  const server = createApiServer({ clock, random })
  const api = restKubeApi({ transport: inProcessTransport(server), clock, random })
  await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } })
  const registry = new MemoryLeaseRegistry(clock)
  const open = (
    address: string,
    host: string,
    using: KubeApi = api,
    hooks: {
      readonly removed?: (() => Promise<unknown>) | undefined
      readonly life?: Partial<Holder> | undefined
    } = {},
  ): LeaseEndpointReconciler => {
    const holder: Holder = {
      instanceId: `${host} ${address}`,
      host,
      startedAt: '2026-01-01T00:00:00Z',
      addresses: [address],
      ports: { securePort: 6443, nodePort: 0 },
      state: 'ready',
      ...hooks.life,
    }
    const writer = new ObjectWriter({ api: using, metrics: prometheusMetrics() })
    const adapter = new EndpointsAdapter({ api: using, writer })
    const leases = new MemoryLeases(registry, { ttlMs: 15_000 })
    const remove = leases.remove.bind(leases)
    leases.remove = async (...args) => {
      await remove(...args)
      await hooks.removed?.()
    }
    return new LeaseEndpointReconciler({ clock, adapter, leases, holder })
  }
  const listed = async (): Promise<readonly string[]> => {
    const { subsets } = await api.get(endpoints, KUBERNETES_SERVICE)
    return (subsets ?? []).flatMap((subset) => subset.addresses ?? []).map(({ ip }) => ip)
  }
  return { time, clock, registry, api, open, listed }
}

/** The first update of Endpoints through it is refused with a conflict. */
function conflictingOnce(api: KubeApi): KubeApi {
  let refused = false
  return {
    ...bound(api),
    async update(resource, object, options) {
      if (refused || resource.plural !== 'endpoints') return api.update(resource, object, options)
      refused = true
      throw new KubeError('Conflict', 'somebody else was faster')
    },
  }
}

function bound(api: KubeApi): KubeApi {
  return {
    get: (...args) => api.get(...args),
    list: (...args) => api.list(...args),
    create: (...args) => api.create(...args),
    update: (...args) => api.update(...args),
    patch: (...args) => api.patch(...args),
    delete: (...args) => api.delete(...args),
    watch: (...args) => api.watch(...args),
  }
}

for (const how of ['removeEndpoints', 'leave'] as const) {
  test(`${how} that met a conflict after the lease was gone goes on from there`, async () => {
    const { api, open, listed } = await setUp()
    const [one, two] = [open('192.0.2.1', 'a', conflictingOnce(api)), open('192.0.2.2', 'b')]
    await one.reconcileEndpoints(parseAddress('192.0.2.1'), ports, true, signal)
    await two.reconcileEndpoints(parseAddress('192.0.2.2'), ports, true, signal)
    assert.deepEqual(await listed(), ['192.0.2.1', '192.0.2.2'])
    one.stopReconciling()
    await assert.rejects(one[how](parseAddress('192.0.2.1'), ports, signal), { code: 'Conflict' })
    await one[how](parseAddress('192.0.2.1'), ports, signal)
    assert.deepEqual(await listed(), ['192.0.2.2'])
  })
}

test('a master whose server became ready while its earlier entry was being taken out leaves at its stop all the same', async () => {
  const { api, open, listed } = await setUp()
  const [addressOne, addressTwo] = [parseAddress('192.0.2.1'), parseAddress('192.0.2.2')]
  await open('192.0.2.1', 'a').reconcileEndpoints(addressOne, ports, true, signal)
  await open('192.0.2.2', 'b').reconcileEndpoints(addressTwo, ports, true, signal)
  const later = open('192.0.2.1', 'a', conflictingOnce(api))
  await assert.rejects(later.clearAway(addressOne, ports, signal), { code: 'Conflict' })
  await later.reconcileEndpoints(addressOne, ports, true, signal)
  assert.deepEqual(await listed(), ['192.0.2.1', '192.0.2.2'])
  later.stopReconciling()
  assert.equal(await later.leave(addressOne, ports, signal), 'left')
  assert.deepEqual(await listed(), ['192.0.2.2'])
})

test('a life that announces itself only after a later life of its master has leaves the lease to that', async () => {
  const { time, clock, registry, api, open } = await setUp()
  const address = parseAddress('192.0.2.1')
  const begin = (instanceId: string): LeaseEndpointReconciler =>
    open('192.0.2.1', 'a', api, { life: { instanceId, startedAt: formatMicroTime(clock.wallMs()) } })
  const held = async () => {
    const leases = new MemoryLeases(registry, { ttlMs: 15_000 })
    return (await leases.list()).map(({ holder }) => holder?.instanceId)
  }
  const earlier = begin('earlier')
  await time.advance(5_000)
  const later = begin('later')
  await time.advance(1_000)
  await later.reconcileEndpoints(address, ports, true, signal)
  assert.equal(await earlier.clearAway(address, ports, signal), false)
  await earlier.reconcileEndpoints(address, ports, true, signal)
  assert.deepEqual(await held(), ['later'])
})

test('a master that finds, once its lease has gone, that the one who was to remain serves no more puts it back', async () => {
  for (const found of ['at once', 'after a conflict'] as const) {
    const { api, open, listed } = await setUp()
    const [addressOne, addressTwo] = [parseAddress('192.0.2.1'), parseAddress('192.0.2.2')]
    const two = open('192.0.2.2', 'b')
    const failing = () => two.announce(addressTwo, async () => 'failing', signal)
    const one = open('192.0.2.1', 'a', found === 'at once' ? api : conflictingOnce(api), {
      removed: found === 'at once' ? failing : undefined,
    })
    await one.reconcileEndpoints(addressOne, ports, true, signal)
    await two.reconcileEndpoints(addressTwo, ports, true, signal)
    one.stopReconciling()
    if (found === 'after a conflict') {
      await assert.rejects(one.leave(addressOne, ports, signal), { code: 'Conflict' })
      await failing()
    }
    assert.equal(await one.leave(addressOne, ports, signal), 'kept-the-last', found)
    assert.deepEqual(await listed(), ['192.0.2.1', '192.0.2.2'], found)
  }
})

test('a master that goes while all leases have ended takes its own address along, and leaves those of the others', async () => {
  const { time, registry, api, open, listed } = await setUp()
  const [addressOne, addressTwo] = [parseAddress('192.0.2.1'), parseAddress('192.0.2.2')]
  const [one, two] = [open('192.0.2.1', 'a', conflictingOnce(api)), open('192.0.2.2', 'b')]
  await one.reconcileEndpoints(addressOne, ports, true, signal)
  await two.reconcileEndpoints(addressTwo, ports, true, signal)
  one.stopReconciling()
  await assert.rejects(one.removeEndpoints(addressOne, ports, signal), { code: 'Conflict' })
  await time.advance(20_000)
  assert.deepEqual(await new MemoryLeases(registry, { ttlMs: 15_000 }).list(), [])
  await one.removeEndpoints(addressOne, ports, signal)
  assert.deepEqual(await listed(), ['192.0.2.2'])
})

test('two masters behind one address: when one leaves, the address stays', async () => {
  const { open, listed } = await setUp()
  const vip = parseAddress('192.0.2.10')
  const [one, two] = [open('192.0.2.10', 'a'), open('192.0.2.10', 'b')]
  await one.reconcileEndpoints(vip, ports, true, signal)
  await two.reconcileEndpoints(vip, ports, true, signal)
  one.stopReconciling()
  await one.removeEndpoints(vip, ports, signal)
  assert.deepEqual(await listed(), ['192.0.2.10'])
  await assert.rejects(one.removeEndpoints(vip, ports, signal), LeaseNotFound)
})

test('the last master does not leave, and is as it was', async () => {
  const { open, listed } = await setUp()
  const address = parseAddress('192.0.2.1')
  const one = open('192.0.2.1', 'a')
  await one.reconcileEndpoints(address, ports, true, signal)
  assert.equal(await one.leave(address, ports, signal), 'kept-the-last')
  assert.deepEqual(await listed(), ['192.0.2.1'])
  assert.equal(one.isSatisfied({ endpoints: undefined, slice: undefined }, ports, true), false)
  assert.equal(one.portsAgreed(), true)
})

test('nobody says that the ports are agreed while no lease lives: each would, and they would fight', async () => {
  const { open } = await setUp()
  const one = open('192.0.2.1', 'a')
  const two = open('192.0.2.2', 'b')
  await one.reconcileEndpoints(parseAddress('192.0.2.1'), ports, true, signal)
  await two.readMembers(signal)
  assert.equal(two.portsAgreed(), true)

  await one.removeEndpoints(parseAddress('192.0.2.1'), ports, signal).catch(() => {})
  await two.readMembers(signal)
  assert.equal(two.portsAgreed(), false)
})
