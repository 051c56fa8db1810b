import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { refusedWith } from '../../../src/apiserver/faults.ts'
import { Availability } from '../../../src/kube/availability.ts'
import { endpointSlices, endpoints, namespaces } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import type { Transport } from '../../../src/kube/transport.ts'
import {
  addressesIn,
  addressesInSlice,
  endpointPorts,
  KUBERNETES_SERVICE,
} from '../../../src/kubernetes-service/identity.ts'
import type { MasterLeases } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../../src/kubernetes-service/leases/memory.ts'
import { outMessages } from '../../../src/kubernetes-service/membership/state.ts'
import { parseAddress } from '../../../src/net/address.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { RequestTimeout } from '../../../src/runtime/request-limit.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger, silentLogger } from '../../../src/telemetry/logger.ts'
import { addressesOf, holder } from '../leases/holders.ts'
import { startMaster } from './master-in-process.ts'

const { signal } = new AbortController()

/** Leases in one store, and masters whose requests to it may fail. */
function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'server')
  const direct = inProcessTransport(createApiServer({ clock, random }))
  const server = { refusesWrites: '' as '' | 'all' | 'endpoints', status: 403, refused: 0 }
  const transport: Transport = {
    ...direct,
    async send(request, signal) {
      const { refusesWrites, status } = server
      const refuses = refusesWrites === 'all' || (refusesWrites !== '' && request.path.includes(`/${refusesWrites}/`))
      if (!refuses || request.method === 'GET') return direct.send(request, signal)
      server.refused++
      return refusedWith(status, undefined)
    },
  }
  const api = restKubeApi({ transport, clock, random })
  const leases = new MemoryLeases(new MemoryLeaseRegistry(clock), { ttlMs: 15_000 })
  const start = (address: string) => {
    const link = { loses: 'nothing' as 'nothing' | 'writes' | 'everything', lists: [] as ('since own' | 'present')[] }
    const through = <T>(call: () => Promise<T>, isWrite = true): Promise<T> =>
      link.loses === 'everything' || (link.loses === 'writes' && isWrite)
        ? Promise.reject(new RequestTimeout(1_500))
        : call()
    const own: MasterLeases = {
      list: (signal, sinceOwn = false) => {
        link.lists.push(sinceOwn ? 'since own' : 'present')
        return through(() => leases.list(signal), false)
      },
      update: (one, signal) => through(() => leases.update(one, signal)),
      mark: (one, signal) => through(() => leases.mark(one, signal)),
      remove: (one, signal) => through(() => leases.remove(one, signal)),
      watch: (onChange, signal) => leases.watch(onChange, signal),
    }
    const availability = new Availability({ clock, logger: silentLogger })
    const logger = memoryLogger()
    const master = startMaster({ api, clock }, own, holder(address, { host: address }), { availability, logger })
    return { ...master, master, link, availability, logger }
  }
  /** Two masters, both listed. */
  const startTwo = async () => {
    await api.create(namespaces, { metadata: { name: 'default' } })
    const two = [start('192.0.2.1'), start('192.0.2.2')] as const
    await time.advance(9_500)
    const listed = two[0].runner.reconcileEndpoints(parseAddress('192.0.2.1'), [], 'agreed', signal)
    await time.advance(0)
    await listed
    return two
  }
  return { time, leases, start, startTwo, server, api }
}

test('a master whose lease expires because its server is dead still notices the end of an outage of the store', async () => {
  const { time, leases, start } = setUp()
  const [one, two] = [start('192.0.2.1'), start('192.0.2.2')]
  await time.advance(9_500)
  one.link.loses = 'everything'
  await time.advance(3_000)
  assert.equal(one.availability.available, false)
  one.master.answer = { answered: false, reason: 'connection refused' }
  await time.advance(30_000)
  one.link.loses = 'nothing'
  await time.advance(15_000)
  // The controller does this at each interval.
  await one.runner.refreshMembers(signal)
  assert.deepEqual(await addressesOf(leases), ['192.0.2.2'])
  assert.equal(one.availability.available, true)
  await Promise.all([one.kill(), two.kill()])
})

test('an outage of the store lasts while its renewals get no answer, although its reads do', async () => {
  const { time, start } = setUp()
  const one = start('192.0.2.1')
  await time.advance(9_500)
  one.link.loses = 'writes'
  await time.advance(3_000)
  for (let read = 0; read < 20; read++) {
    await time.advance(10_000)
    await one.runner.refreshMembers(signal)
    assert.equal(one.availability.available, false)
  }
  one.link.loses = 'nothing'
  await time.advance(2_000)
  assert.equal(one.availability.available, true)
  await one.kill()
})

test('a list of leases may be outdated only while neither Endpoints nor an EndpointSlice exists', async () => {
  const { time, start, api } = setUp()
  await api.create(namespaces, { metadata: { name: 'default' } })
  const one = start('192.0.2.1')
  await time.advance(9_500)
  const ports = [...endpointPorts(6443)]
  const reconciled = async () => {
    one.link.lists.splice(0)
    const done = one.runner.reconcileEndpoints(parseAddress('192.0.2.1'), ports, 'agreed', signal)
    await time.advance(0)
    await done
    return one.link.lists
  }
  assert.deepEqual(await reconciled(), ['since own', 'present'], 'the leases are read again')
  assert.deepEqual(await reconciled(), ['present'])
  await api.delete(endpoints, KUBERNETES_SERVICE)
  assert.deepEqual(await reconciled(), ['present'], 'a slice lists')
  await api.delete(endpointSlices, KUBERNETES_SERVICE)
  assert.deepEqual(await reconciled(), ['present'], 'the Endpoints list')
  await one.kill()
})

test('a newcomer preserves the addresses that it found at first, but none that was added later without a lease', async () => {
  const { time, start, api } = setUp()
  await api.create(namespaces, { metadata: { name: 'default' } })
  const ports = [...endpointPorts(6443)]
  const listed = (...addresses: readonly string[]) => [{ addresses: addresses.map((ip) => ({ ip })), ports }]
  await api.create(endpoints, { metadata: KUBERNETES_SERVICE, subsets: listed('192.0.2.9') })
  const one = start('192.0.2.1')
  one.link.loses = 'everything'
  await time.advance(1_000)
  one.link.loses = 'nothing'
  await time.advance(2_000)
  const reconciled = async () => {
    const done = one.runner.reconcileEndpoints(parseAddress('192.0.2.1'), ports, 'agreed', signal)
    await time.advance(0)
    await done
    return addressesIn(await api.get(endpoints, KUBERNETES_SERVICE))
  }
  assert.deepEqual(await reconciled(), ['192.0.2.1', '192.0.2.9'])
  const subsets = listed('192.0.2.1', '192.0.2.8', '192.0.2.9')
  await api.update(endpoints, { ...(await api.get(endpoints, KUBERNETES_SERVICE)), subsets })
  const slice = await api.get(endpointSlices, KUBERNETES_SERVICE)
  const added = { addresses: ['192.0.2.8'], conditions: { ready: true } }
  await api.update(endpointSlices, { ...slice, endpoints: [...(slice.endpoints ?? []), added] })
  assert.deepEqual(await reconciled(), ['192.0.2.1', '192.0.2.9'])
  await one.kill()
})

test('a master that stops while neither its server nor the store answers gives up after five seconds', async () => {
  const { time, start } = setUp()
  const one = start('192.0.2.1')
  await time.advance(9_500)
  one.link.loses = 'everything'
  one.master.answer = { answered: false, reason: 'connection refused' }
  let reason: string | undefined
  const stopped = one.runner.stop('withdraw', signal).then((why) => {
    reason = why
  })
  await time.advance(4_900)
  assert.equal(reason, undefined)
  await time.advance(200)
  assert.equal(reason, 'left-listed')
  await stopped
  await one.kill()
})

test('a leaving master that may not change the list logs that once, not at each attempt', {
  timeout: 30_000,
}, async () => {
  const { time, startTwo, server } = setUp()
  const [one, two] = await startTwo()
  server.refusesWrites = 'all'
  const deadline = new AbortController()
  const stopped = assert.rejects(one.runner.stop('always', deadline.signal), /too late/)
  await time.advance(5_000)
  deadline.abort(new Error('too late'))
  await stopped
  assert.deepEqual(
    one.logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message),
    [
      'could not withdraw the address',
      'could not update the list in time; the lease is gone, and the address stays listed until a master can write the Endpoints',
    ],
  )
  await Promise.all([one.kill(), two.kill()])
})

test('while the server refuses writes of Endpoints, a stopped master removes its lease and leaves them to the others', {
  timeout: 30_000,
}, async () => {
  const { time, startTwo, leases, server, api } = setUp()
  const [one, two] = await startTwo()
  server.refusesWrites = 'endpoints'
  const stopped = one.runner.stop('withdraw', signal)
  await time.advance(6_000)
  assert.equal(await stopped, 'denied')
  assert.deepEqual(await addressesOf(leases), ['192.0.2.2'])
  assert.deepEqual(addressesInSlice(await api.get(endpointSlices, KUBERNETES_SERVICE)), ['192.0.2.2'])
  assert.deepEqual(
    one.logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message),
    ['could not withdraw the address'],
  )
  await Promise.all([one.kill(), two.kill()])
})

test('a leaving master changes no ports; the remaining masters decide about them', { timeout: 30_000 }, async () => {
  const { time, startTwo, api } = setUp()
  const [one, two] = await startTwo()
  const listed = await api.get(endpoints, KUBERNETES_SERVICE)
  const subsets = listed.subsets?.map((subset) => ({ ...subset, ports: [...endpointPorts(7443)] }))
  await api.update(endpoints, { ...listed, subsets } as typeof listed)
  const stopped = one.runner.stop('withdraw', signal)
  await time.advance(6_000)
  assert.equal(await stopped, 'left')
  const left = await api.get(endpoints, KUBERNETES_SERVICE)
  assert.deepEqual([addressesIn(left), left.subsets?.[0]?.ports?.[0]?.port], [['192.0.2.2'], 7443])
  await Promise.all([one.kill(), two.kill()])
})

test('a stopping master retries a write of Endpoints that fails with 500 or 401', {
  timeout: 30_000,
}, async () => {
  for (const status of [500, 401]) await stopWhileWritesFail(status)
})

async function stopWhileWritesFail(status: number): Promise<void> {
  const { time, startTwo, server, api } = setUp()
  const [one, two] = await startTwo()
  Object.assign(server, { refusesWrites: 'endpoints', status })
  const stopped = one.runner.stop('withdraw', signal)
  await time.advance(6_000)
  server.refusesWrites = ''
  await time.advance(1_000)
  assert.equal(await stopped, 'left')
  assert.deepEqual(addressesIn(await api.get(endpoints, KUBERNETES_SERVICE)), ['192.0.2.2'])
  await Promise.all([one.kill(), two.kill()])
}

test('the last live master leaves with always: withdrawn masters are removed too, addresses without a lease stay', {
  timeout: 30_000,
}, async () => {
  const { time, start, leases, api } = setUp()
  await api.create(namespaces, { metadata: { name: 'default' } })
  const one = start('192.0.2.1')
  await time.advance(1_000)
  const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
  const subsets = [{ addresses: addresses.map((ip) => ({ ip })), ports: [...endpointPorts(6443)] }]
  await api.create(endpoints, { metadata: KUBERNETES_SERVICE, subsets })
  await leases.update(holder('192.0.2.2', { state: 'withdrawn' }))
  const stopped = one.runner.stop('always', signal)
  await time.advance(2_000)
  assert.equal(await stopped, 'left')
  assert.deepEqual(addressesIn(await api.get(endpoints, KUBERNETES_SERVICE)), ['192.0.2.3'])
  await one.kill()
})

for (const isRead of [true, false]) {
  const when = isRead ? 'knows that' : 'has not read it yet'
  test(`a withdrawn last master does not list itself again when it stops; it ${when}`, {
    timeout: 30_000,
  }, async () => {
    const { time, start, leases, api } = setUp()
    await api.create(namespaces, { metadata: { name: 'default' } })
    const one = start('192.0.2.1')
    await time.advance(1_000)
    await api.create(endpoints, { metadata: KUBERNETES_SERVICE, subsets: [] })
    for (const own of await leases.list()) {
      if (own.holder !== undefined) await leases.mark({ ...own.holder, state: 'withdrawn' })
    }
    if (isRead) await time.advance(1_000)
    assert.equal(one.runner.fault(), isRead ? outMessages.withdrawn : undefined)
    assert.equal(one.runner.renewedMs !== undefined, !isRead, 'listed')
    const stopped = one.runner.stop('withdraw', signal)
    await time.advance(5_000)
    assert.equal(await stopped, 'left')
    assert.deepEqual(await addressesOf(leases), [])
    assert.deepEqual(addressesIn(await api.get(endpoints, KUBERNETES_SERVICE)), [])
    await one.kill()
  })
}

test('a leaving master repeats a write at once after three conflicts, and then at most 20 times a second', async () => {
  const { time, startTwo, server, leases } = setUp()
  const [one, two] = await startTwo()
  Object.assign(server, { refusesWrites: 'endpoints', status: 409 })
  const left = one.runner.stop('always', signal)
  await time.advance(49)
  assert.equal(server.refused, 4)
  await time.advance(1_001)
  assert.equal(server.refused, 4 + 21)
  server.refusesWrites = ''
  await time.advance(100)
  await left
  assert.deepEqual(await addressesOf(leases), ['192.0.2.2'])
  await Promise.all([one.kill(), two.kill()])
})
