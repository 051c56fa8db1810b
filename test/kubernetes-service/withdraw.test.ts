import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import { endpointSlices, endpoints } from '../../src/kube/resources.ts'
import { EndpointsAdapter } from '../../src/kubernetes-service/endpoints-adapter.ts'
import { planEndpoints } from '../../src/kubernetes-service/endpoints-plan.ts'
import { FleetView } from '../../src/kubernetes-service/fleet-view.ts'
import { ObjectWriter } from '../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { addressesIn, addressesInSlice, KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import type { Holder, MasterLease, MasterLeases } from '../../src/kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../src/kubernetes-service/leases/memory.ts'
import { secondAddresses } from '../../src/kubernetes-service/members.ts'
import { withdraw } from '../../src/kubernetes-service/withdraw.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { Embedded } from '../apiserver/embedded.ts'
import { passedOn } from '../kube/passed-on.ts'
import { holder } from './membership/one-input.ts'

const INTERVAL_MS = 10_000
const away = new KubeError('Unreachable', 'connection refused')

/** These masters, with leases that do not expire, and their list. */
async function open(masters: readonly Holder[], listed = masters) {
  const embedded = await Embedded.started()
  const { time, clock } = embedded
  const registry = new MemoryLeaseRegistry(clock)
  const stored = new MemoryLeases(registry, { ttlMs: 3_600_000 })
  for (const one of masters) await stored.update(one)
  /**
   * `before`: called before each request, which rejects with what it throws. `marks`: what a store states beside a
   * lease.
   */
  const hooks: { before: (call: string) => void | Promise<void>; marks: Map<string, Partial<MasterLease>> } = {
    before: () => {},
    marks: new Map(),
  }
  const calls: string[] = []
  const note = async (call: string): Promise<void> => {
    calls.push(call)
    await hooks.before(call)
  }
  const leases: MasterLeases = {
    async list(signal) {
      await note('list')
      return (await stored.list(signal)).map((lease) => ({ ...lease, ...hooks.marks.get(lease.address) }))
    },
    async mark(one, signal) {
      await note(`mark ${one.addresses[0]} ${one.state}`)
      await stored.mark(one, signal)
    },
    update: (one, signal) => stored.update(one, signal),
    remove: (one, signal) => stored.remove(one, signal),
    watch: (onChange, signal) => stored.watch(onChange, signal),
  }
  const api = passedOn(embedded.api, {
    async get(resource, ...args) {
      await note(`get ${resource.plural}`)
      return embedded.api.get(resource, ...args)
    },
    async update(resource, ...args) {
      await note(`update ${resource.plural}`)
      return embedded.api.update(resource, ...args)
    },
  })
  const metrics = prometheusMetrics()
  const adapterAt = (through: typeof api) =>
    new EndpointsAdapter({ api: through, writer: new ObjectWriter({ api: through, metrics }) })
  const adapter = adapterAt(api)
  const fleet = new FleetView({ clock, metrics, ttlMs: 15_000 })
  const begin = new AbortController()
  const addresses = listed.flatMap((one) => one.addresses[0] ?? [])
  await adapterAt(embedded.api).reconcile(
    async ({ endpoints: current }) => ({
      endpoints: planEndpoints({
        ...{ addresses, current, reconcilePorts: true, mayBecomeEmpty: false },
        ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
      }),
      secondAddresses: secondAddresses(listed.map((one) => ({ address: one.addresses[0] ?? '', holder: one }))),
    }),
    begin.signal,
  )
  const logger = memoryLogger()
  const events: EventToRecord[] = []
  const stop = new AbortController()
  const run = (self: Holder, always = false) =>
    withdraw(
      {
        ...{ leases, adapter, self, always, fleet, clock, intervalMs: INTERVAL_MS, place: 'in the store' },
        audit: { logger, events: { record: (event) => void events.push(event) }, user: { host: 'operator' } },
      },
      stop.signal,
    )
  const list = async () => {
    const read = <T>(answer: Promise<T>) => answer.catch(() => undefined)
    const slice = (name: string) => read(embedded.api.get(endpointSlices, { ...KUBERNETES_SERVICE, name }))
    return {
      endpoints: addressesIn(await read(embedded.api.get(endpoints, KUBERNETES_SERVICE))),
      slice: addressesInSlice(await slice('kubernetes')),
      second: addressesInSlice(await slice('kubernetes-ipv6')),
    }
  }
  const states = () => Object.fromEntries(registry.list().map(({ address, holder: one }) => [address, one?.state]))
  const ports = async () => (await embedded.api.get(endpoints, KUBERNETES_SERVICE)).subsets?.[0]?.ports?.[0]?.port
  return {
    time,
    api: embedded.api,
    stored,
    registry,
    hooks,
    calls,
    run,
    list,
    states,
    ports,
    logger,
    events,
    stop,
    fleet,
  }
}

const pair = [holder(1), holder(2)]
/** The record of the command, which has just started. */
const self = holder(1, { instanceId: 'command' })

test('a master is withdrawn while another is ready: it is marked leaving, then withdrawn, then the list is written', async () => {
  const { run, calls, list, states, logger, events, fleet } = await open(pair)
  assert.deepEqual(await run(self), { type: 'withdrawn', reason: '192.0.2.1 was removed from the list' })
  assert.deepEqual(
    calls.filter((call) => !call.startsWith('get ')),
    [
      ...['list', 'mark 192.0.2.1 leaving', 'list', 'mark 192.0.2.1 withdrawn', 'list'],
      ...['list', 'update endpoints', 'update endpointslices'],
    ],
  )
  assert.ok(calls.indexOf('get endpoints') > calls.indexOf('mark 192.0.2.1 withdrawn'))
  assert.ok(calls.lastIndexOf('list') > calls.lastIndexOf('get endpoints'), 'the leases are read after the list')
  assert.deepEqual(await list(), { endpoints: ['192.0.2.2'], slice: ['192.0.2.2'], second: [] })
  assert.deepEqual(states(), { '192.0.2.1': 'withdrawn', '192.0.2.2': 'ready' })
  assert.deepEqual(fleet.removed('192.0.2.1'), { reason: 'withdrawn' }, 'the Event states the withdrawal')
  const { fields } = logger.lines.find(({ message }) => message === 'withdrew a master') ?? {}
  const { before, after, objectRef, where } = (fields ?? {}) as Record<string, unknown>
  const record = { host: 'host-1', instanceId: 'life-1' }
  assert.deepEqual(
    [before, after],
    [
      { ...record, state: 'ready' },
      { ...record, state: 'withdrawn' },
    ],
  )
  assert.deepEqual([objectRef, where], [{ resource: 'masterleases', name: '192.0.2.1' }, 'in the store'])
  assert.deepEqual(
    events.map(({ reason }) => reason),
    ['MasterWithdrawn'],
  )
})

test('a host that no lease, or more than one, matches is not withdrawn, and the reason names the leases', async () => {
  const more = [holder(3, { host: 'host-1' }), ...pair]
  const { run, states, registry, fleet } = await open(more)
  registry.addForeign('192.0.2.9')
  const before = states()
  const reasonOf = async (host: string, ...addresses: string[]): Promise<string> => {
    const { type, reason } = await run(holder(0, { host, addresses }))
    assert.equal(type, 'nothing')
    return reason
  }
  assert.equal(await reasonOf('host-7'), 'no lease of host host-7 in the store')
  assert.equal(await reasonOf('host-7', '192.0.2.8'), 'no lease of host host-7 for 192.0.2.8 in the store')
  const elsewhere = '(--hostname-override selects the host)'
  assert.equal(
    await reasonOf('host-1', '192.0.2.2'),
    `no lease of host host-1 for 192.0.2.2 in the store; it is held by host-2 ${elsewhere}`,
  )
  assert.equal(
    await reasonOf('host-1', '192.0.2.9'),
    `no lease of host host-1 for 192.0.2.9 in the store; it is held by unknown ${elsewhere}`,
  )
  assert.equal(
    await reasonOf('host-1'),
    'host host-1 has several addresses: 192.0.2.1, 192.0.2.3; select one with --advertise-address',
  )
  assert.deepEqual(states(), before)
  assert.equal(fleet.isKnown('192.0.2.1'), true)
})

test('a master whose lease a kube-apiserver renews too is not withdrawn, because its address stays listed', async () => {
  const { run, states, calls } = await open([holder(1, { coHolder: true }), holder(2)])
  const before = states()
  assert.deepEqual(await run(holder(1)), {
    type: 'nothing',
    reason: '192.0.2.1 stays listed, because a kube-apiserver with its own endpoint reconciler renews its lease',
  })
  assert.deepEqual([states(), calls], [before, ['list']])
})

test('a host alone selects its master if it has one lease; if it has several, the address selects it', async () => {
  const alone = await open(pair)
  assert.equal((await alone.run(holder(0, { host: 'host-2', addresses: [] }))).type, 'withdrawn')
  assert.deepEqual(alone.states(), { '192.0.2.1': 'ready', '192.0.2.2': 'withdrawn' })
  const several = await open([...pair, holder(3, { host: 'host-1' })])
  assert.equal((await several.run(holder(3, { host: 'host-1', instanceId: 'command' }))).type, 'withdrawn')
  assert.deepEqual((await several.list()).endpoints, ['192.0.2.1', '192.0.2.2'])
})

test('an unready master is marked unready, not leaving, before it is withdrawn', async () => {
  const { run, calls, states } = await open([holder(1, { state: 'unready' }), holder(2)])
  assert.equal((await run(self)).type, 'withdrawn')
  assert.deepEqual(
    calls.filter((call) => call.startsWith('mark')),
    ['mark 192.0.2.1 unready', 'mark 192.0.2.1 withdrawn'],
  )
  assert.equal(states()['192.0.2.1'], 'withdrawn')
})

test('the last ready master stays listed, and its record has its previous state again', async () => {
  const failing = holder(1, { state: 'failing' })
  for (const masters of [
    [holder(1)],
    [failing, holder(2, { state: 'unready' })],
    [holder(1), holder(2, { state: 'leaving' })],
  ]) {
    const { run, calls, list, states, events } = await open(masters, [holder(1)])
    const { type, reason } = await run(self)
    assert.equal(type, 'last-one')
    assert.match(reason, /^no other master is ready, so 192\.0\.2\.1 stays listed; use --on-shutdown=always/)
    assert.equal(states()['192.0.2.1'], masters[0]?.state)
    assert.ok(calls.includes('mark 192.0.2.1 leaving'))
    assert.deepEqual([(await list()).endpoints, events], [['192.0.2.1'], []])
  }
})

test('with always even the last master is withdrawn at once, after it was marked leaving', async () => {
  const { run, calls, list, states } = await open([holder(1)])
  assert.equal((await run(self, true)).type, 'withdrawn')
  assert.deepEqual(calls.slice(0, 3), ['list', 'mark 192.0.2.1 leaving', 'mark 192.0.2.1 withdrawn'])
  assert.deepEqual([(await list()).endpoints, states()], [[], { '192.0.2.1': 'withdrawn' }])
})

test('with always the addresses of masters whose leases have all ended stay listed', async () => {
  const { run, list } = await open([holder(1)], pair)
  assert.equal((await run(self, true)).type, 'withdrawn')
  assert.deepEqual((await list()).endpoints, ['192.0.2.2'])
})

test('the last master can be withdrawn again once it is off the list, also without always', async () => {
  const { run, list } = await open([holder(1)])
  await run(self, true)
  assert.deepEqual(await run(self), {
    type: 'withdrawn',
    reason: '192.0.2.1 is not listed; the list stays as it is, because no other master has a lease',
  })
  assert.deepEqual((await list()).endpoints, [])
})

test('an address that only the slice lists counts as listed', async () => {
  const { run, api, list } = await open([holder(1, { state: 'withdrawn' })], [holder(1)])
  await api.update(endpoints, { ...(await api.get(endpoints, KUBERNETES_SERVICE)), subsets: [] })
  await assert.rejects(run(self), { code: 'NoLiveMasters' })
  assert.deepEqual((await list()).slice, ['192.0.2.1'])
})

test('a master that wanted to leave by itself counts as withdrawn too', async () => {
  const { run, fleet } = await open([holder(1, { state: 'failing', departure: 'life-1/1' }), holder(2)])
  assert.equal((await run(self)).type, 'withdrawn')
  assert.deepEqual(fleet.removed('192.0.2.1'), { reason: 'withdrawn' })
})

test('with always the addresses of masters that were withdrawn before are removed too', async () => {
  const { run, list } = await open([holder(1), holder(2, { state: 'withdrawn' })], [...pair, holder(3)])
  assert.equal((await run(self, true)).type, 'withdrawn')
  assert.deepEqual((await list()).endpoints, ['192.0.2.3'])
})

test('with always the second addresses of masters whose leases have all ended stay listed too', async () => {
  const dual = [1, 2].map((number) => holder(number, { addresses: [`192.0.2.${number}`, `2001:db8::${number}`] }))
  const { run, list } = await open(dual.slice(0, 1), dual)
  assert.equal((await run(self, true)).type, 'withdrawn')
  assert.deepEqual(await list(), { endpoints: ['192.0.2.2'], slice: ['192.0.2.2'], second: ['2001:db8::2'] })
})

test('an address that other masters hold too stays listed, and the reason names them', async () => {
  const shared = [holder(1), holder(2, { addresses: ['192.0.2.1'] }), holder(3)]
  const { run, registry, list } = await open(shared)
  const stays = '192.0.2.1 stays listed, because it is also held by'
  assert.deepEqual(await run(self), { type: 'withdrawn', reason: `${stays} host-2` })
  registry.addForeign('192.0.2.1')
  assert.deepEqual(await run(self), { type: 'withdrawn', reason: `${stays} host-2, unknown` })
  assert.deepEqual((await list()).endpoints, ['192.0.2.1', '192.0.2.3'])
})

test('a master that is already withdrawn is not marked again, and the list is written without it', async () => {
  const { run, calls, list, events } = await open([holder(1, { state: 'withdrawn' }), holder(2)], pair)
  assert.deepEqual(await run(self), { type: 'withdrawn', reason: '192.0.2.1 was removed from the list' })
  assert.deepEqual([calls.some((call) => call.startsWith('mark')), events], [false, []])
  assert.deepEqual((await list()).endpoints, ['192.0.2.2'])
  const again = '192.0.2.1 was already withdrawn, and is not listed'
  assert.deepEqual(await run(self), { type: 'withdrawn', reason: again })
})

test('the withdrawal succeeds if another process withdraws the master at the same time', async () => {
  for (const [state, call] of [
    ['ready', 'list'],
    ['ready', 'mark 192.0.2.1 leaving'],
    ['ready', 'mark 192.0.2.1 withdrawn'],
    ['failing', 'mark 192.0.2.1 ready'],
  ] as const) {
    const { run, hooks, stored, states, list } = await open([holder(1), holder(2, { state })], pair)
    hooks.before = (now) => (now === call ? stored.mark(holder(1, { state: 'withdrawn' })) : undefined)
    assert.equal((await run(self)).type, 'withdrawn', call)
    assert.deepEqual([(await list()).endpoints, states()['192.0.2.1']], [['192.0.2.2'], 'withdrawn'], call)
  }
})

test('if no other master is left when the list is written, the list does not become empty', async () => {
  const { run, hooks, stored, list } = await open(pair)
  hooks.before = (call) => (call === 'mark 192.0.2.1 withdrawn' ? stored.remove(holder(2)) : undefined)
  await assert.rejects(run(self), { code: 'NoLiveMasters' })
  assert.deepEqual((await list()).endpoints, ['192.0.2.1', '192.0.2.2'])
})

test('the ports stay as found, and the address is removed from the second slice too', async () => {
  const dual = [1, 2, 3].map((number) => holder(number, { addresses: [`192.0.2.${number}`, `2001:db8::${number}`] }))
  const { run, list, ports, hooks } = await open(dual, dual.slice(0, 2))
  hooks.marks.set('192.0.2.3', { found: true })
  assert.deepEqual((await list()).second, ['2001:db8::1', '2001:db8::2'])
  await run(holder(1, { instanceId: 'command', ports: { securePort: 443, nodePort: 0 } }))
  assert.deepEqual(await list(), { endpoints: ['192.0.2.2'], slice: ['192.0.2.2'], second: ['2001:db8::2'] })
  assert.equal(await ports(), 6443)
})

test('deleted Endpoints are created again with the ports of the command', async () => {
  const { run, api, list, ports } = await open(pair)
  await api.delete(endpoints, KUBERNETES_SERVICE)
  await run(holder(1, { ports: { securePort: 443, nodePort: 0 } }))
  assert.deepEqual([(await list()).endpoints, await ports()], [['192.0.2.2'], 443])
})

test('after conflicts with a running master the withdrawal reads again and succeeds', async () => {
  const { run, hooks, api, list, time } = await open([...pair, holder(3)])
  let conflicts = 3
  hooks.before = async (call) => {
    if (call !== 'update endpoints' || conflicts-- <= 0) return
    await api.patch(endpoints, KUBERNETES_SERVICE, {
      type: 'merge',
      body: { metadata: { annotations: { n: `${conflicts}` } } },
    })
  }
  const running = run(self)
  await time.advance(1_000)
  assert.equal((await running).type, 'withdrawn')
  assert.deepEqual((await list()).endpoints, ['192.0.2.2', '192.0.2.3'])
})

test('a server that answers every write with a conflict is not flooded with writes', async () => {
  const { run, hooks, time } = await open(pair)
  let writes = 0
  hooks.before = (call) => {
    if (call !== 'update endpoints') return
    writes++
    throw new KubeError('Conflict', 'always')
  }
  const running = run(self)
  await time.advance(1_000)
  assert.ok(writes > 4 && writes <= 24, `${writes}`)
  hooks.before = () => {}
  await time.advance(1_000)
  assert.equal((await running).type, 'withdrawn')
})

test('if the API server does not answer, the mark is enough while another master serves', async () => {
  const fails = async (masters: readonly Holder[], error: Error, meanwhile = async (_: MemoryLeases) => {}) => {
    const world = await open(masters, pair)
    world.hooks.before = async (call) => {
      if (!call.startsWith('get ')) return
      await meanwhile(world.stored)
      throw error
    }
    return world
  }
  const served = await fails(pair, away)
  const { type, reason } = await served.run(self)
  assert.equal(type, 'withdrawn')
  assert.match(reason, /^192\.0\.2\.1 is marked as withdrawn, and other masters remove it.*connection refused$/)
  assert.equal(served.states()['192.0.2.1'], 'withdrawn')
  const gone = await fails(pair, away, (stored) => stored.remove(holder(2)))
  await assert.rejects(gone.run(self), away)
  const alone = await fails([holder(1)], away)
  await assert.rejects(alone.run(self, true), away)
  for (const error of [new KubeError('Forbidden', 'forbidden'), new TypeError('a mistake')]) {
    const refused = await fails(pair, error)
    await assert.rejects(refused.run(self), error)
  }
})

test('Endpoints are read before the mark only if the lease was only found', async () => {
  for (const found of [undefined, true]) {
    const { run, hooks, calls } = await open(pair)
    hooks.marks.set('192.0.2.1', { found })
    await run(self)
    assert.equal(calls.indexOf('get endpoints') < calls.indexOf('mark 192.0.2.1 withdrawn'), found === true)
  }
})

test('a found lease counts only if its address is listed', async () => {
  const found = async (listed: readonly Holder[], lapsed?: boolean) => {
    const world = await open([...pair, holder(3)], listed)
    for (const number of [2, 3]) world.hooks.marks.set(`192.0.2.${number}`, { found: true, lapsed })
    return world
  }
  const dead = await found([holder(1)])
  assert.equal((await dead.run(self)).type, 'last-one')
  const alive = await found([holder(1), holder(2)])
  assert.equal((await alive.run(self)).type, 'withdrawn')
  assert.deepEqual((await alive.list()).endpoints, ['192.0.2.2'], 'the other master is not added to the list')
})

test('while a policy forbids writing Endpoints, a found master that only the slice lists stays listed and counts', async () => {
  const denied = new KubeError('Invalid', 'a policy denied the request', { httpStatus: 422 })
  const { run, hooks, api, list } = await open([holder(1), holder(3)], [holder(1)])
  hooks.marks.set('192.0.2.3', { found: true })
  const both = [1, 3].map((number) => ({ addresses: [`192.0.2.${number}`] }))
  await api.patch(endpointSlices, KUBERNETES_SERVICE, { type: 'merge', body: { endpoints: both } })
  hooks.before = (call) => {
    if (call === 'update endpoints') throw denied
  }
  await assert.rejects(run(self), denied)
  assert.deepEqual(await list(), { endpoints: ['192.0.2.1'], slice: ['192.0.2.3'], second: [] })
})

test('if all other leases seem to have ended, the command waits 1.2 intervals for a renewal, and repeats its mark', async () => {
  const lapsed = async () => {
    const world = await open(pair)
    world.hooks.marks.set('192.0.2.2', { found: true, lapsed: true })
    return { ...world, withdrawing: world.run(self) }
  }
  const { time, calls, withdrawing, states } = await lapsed()
  let type: string | undefined
  void withdrawing.then((ended) => {
    type = ended.type
  })
  await time.advance(1.2 * INTERVAL_MS - 1)
  assert.equal(type, undefined)
  assert.equal(states()['192.0.2.1'], 'leaving')
  const marks = calls.filter((call) => call === 'mark 192.0.2.1 leaving').length
  assert.equal(marks, 12, 'a renewal of the running master may overwrite it')
  await time.advance(1)
  assert.equal(type, 'last-one')
  assert.equal(states()['192.0.2.1'], 'ready')

  const renewed = await lapsed()
  await renewed.time.advance(1.1 * INTERVAL_MS - 1)
  renewed.hooks.marks.clear()
  await renewed.time.advance(1)
  assert.equal((await renewed.withdrawing).type, 'withdrawn')
})

test('one other master with a live lease is enough, whatever the leases of the others', async () => {
  const { run, hooks } = await open([...pair, holder(3)])
  hooks.marks.set('192.0.2.2', { found: true, lapsed: true })
  assert.equal((await run(self)).type, 'withdrawn')
})

test('a waiting withdrawal ends when its signal aborts', async () => {
  const { run, hooks, time, stop } = await open(pair)
  hooks.marks.set('192.0.2.2', { found: true, lapsed: true })
  const withdrawing = assert.rejects(run(self), /enough/)
  await time.advance(2_500)
  stop.abort(new Error('enough'))
  await withdrawing
})

test('if nothing else can be listed, all found leases are listed, because the list is damaged', async () => {
  const { run, hooks, list, api } = await open([holder(1, { state: 'withdrawn' }), holder(2)], pair)
  hooks.marks.set('192.0.2.2', { found: true })
  const foreign = [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'https', port: 6443, protocol: 'TCP' }] }]
  await api.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { subsets: foreign } })
  const inSlice = { endpoints: [{ addresses: ['192.0.2.1'], conditions: { ready: true } }] }
  await api.patch(endpointSlices, KUBERNETES_SERVICE, { type: 'merge', body: inSlice })
  await run(self)
  assert.deepEqual((await list()).endpoints, ['192.0.2.2'])
})

test('a master that is restarted during its withdrawal is withdrawn in its new life', async () => {
  for (const restart of ['list', 'mark 192.0.2.1 leaving', 'mark 192.0.2.1 withdrawn']) {
    const { run, hooks, stored, list, states, events } = await open(pair)
    let restarts = 1
    hooks.before = async (call) => {
      if (call !== restart || restarts-- <= 0) return
      await stored.update(holder(1, { instanceId: 'life-1b', startedAt: '2026-01-01T00:01:00.000000Z' }))
    }
    const { type } = await run(self)
    assert.deepEqual(
      [type, (await list()).endpoints, states()['192.0.2.1']],
      ['withdrawn', ['192.0.2.2'], 'withdrawn'],
      restart,
    )
    assert.equal(events.length, 1, 'the mark that did nothing is not recorded')
  }
})
