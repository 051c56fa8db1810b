import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError, type KubeErrorCode } from '../../../src/kube/errors.ts'
import { type Endpoints, endpointSlices, endpoints } from '../../../src/kube/resources.ts'
import { EndpointsAdapter } from '../../../src/kubernetes-service/endpoints-adapter.ts'
import { ObjectWriter } from '../../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { endpointPorts, KUBERNETES_SERVICE } from '../../../src/kubernetes-service/identity.ts'
import { MasterCountEndpointReconciler } from '../../../src/kubernetes-service/reconcilers/master-count.ts'
import { parseAddress } from '../../../src/net/address.ts'
import { type Random, seededRandom } from '../../../src/runtime/random.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'
import { Embedded } from '../../apiserver/embedded.ts'

const { signal } = new AbortController()

async function setUp() {
  const { api } = await Embedded.started([])
  let failing: string | undefined
  let failure: KubeErrorCode = 'ServerError'
  const faulty = {
    get: api.get.bind(api),
    list: api.list.bind(api),
    patch: api.patch.bind(api),
    delete: api.delete.bind(api),
    watch: api.watch.bind(api),
    create: api.create.bind(api),
    update: ((resource, ...rest) => {
      if (resource.plural === failing) throw new KubeError(failure, 'not now')
      return api.update(resource, ...rest)
    }) as typeof api.update,
  }
  const stored = (): Promise<Endpoints> => api.get(endpoints, KUBERNETES_SERVICE)
  return {
    api,
    stored,
    /** Updates of this kind fail from now on. */
    fail(plural: string | undefined, code: KubeErrorCode = 'ServerError'): void {
      failing = plural
      failure = code
    },
    open(address: string, count: number, securePort = 6443): Member {
      const writer = new ObjectWriter({ api: faulty, metrics: prometheusMetrics() })
      const logger = memoryLogger()
      const adapter = new EndpointsAdapter({ api: faulty, writer })
      const ip = parseAddress(address)
      const reconciler = new MasterCountEndpointReconciler({ adapter, logger, address: ip, count })
      const ports = endpointPorts(securePort)
      return {
        ip,
        ports,
        reconciler,
        warnings: () => logger.lines.filter(({ level }) => level === 'warn').length,
        async reconcile(cause) {
          if (cause === 'interval') await reconciler.refreshMembers(signal)
          const [seen] = (await api.list(endpoints)).items
          const [slice] = (await api.list(endpointSlices)).items
          if (reconciler.isSatisfied({ endpoints: seen, slice, secondSlices: [] }, ports, reconciler.portsAgreed()))
            return
          await reconciler.reconcileEndpoints(ip, ports, 'agreed', signal)
        },
        leave: () => reconciler.leave(ip, ports, signal),
        remove: () => reconciler.removeEndpoints(ip, ports, signal),
      }
    },
    async listed(): Promise<readonly string[]> {
      const { subsets } = await stored()
      return (subsets ?? []).flatMap((subset) => subset.addresses ?? []).map(({ ip }) => ip)
    },
    async slice(): Promise<readonly string[]> {
      return (await api.get(endpointSlices, KUBERNETES_SERVICE)).endpoints?.flatMap((one) => one.addresses) ?? []
    },
    async list(...addresses: readonly string[]): Promise<void> {
      const subset = { addresses: addresses.map((ip) => ({ ip })), ports: endpointPorts(6443) }
      await api.update(endpoints, { ...(await stored()), subsets: addresses.length === 0 ? [] : [subset] })
    },
    async revision(): Promise<string> {
      return (await api.list(endpoints)).metadata?.resourceVersion ?? ''
    },
  }
}

interface Member {
  readonly ip: ReturnType<typeof parseAddress>
  readonly ports: ReturnType<typeof endpointPorts>
  readonly reconciler: MasterCountEndpointReconciler
  warnings(): number
  /** What the controller does after an interval, or after a change of the objects. */
  reconcile(cause: 'interval' | 'objects'): Promise<void>
  leave(): Promise<'left' | 'last-one'>
  remove(): Promise<void>
}

type World = Awaited<ReturnType<typeof setUp>>

/** Reconciles all masters after each change until nobody writes. Returns the number of rounds with a write. */
async function settle(world: World, members: readonly Member[]): Promise<number> {
  for (let rounds = 0; ; rounds += 1) {
    assert.ok(rounds < 100, 'the masters do not stop writing')
    const before = await world.revision()
    // In every other round all reconcile at once, then one after the other: after a conflict a reconciliation is
    // repeated.
    if (rounds % 2 === 0) await Promise.allSettled(members.map((member) => member.reconcile('objects')))
    for (const member of members) await member.reconcile('objects')
    if ((await world.revision()) === before) return rounds
  }
}

function shuffled<T>(items: readonly T[], random: Random): readonly T[] {
  return items
    .map((item) => ({ item, key: random.next() }))
    .toSorted((a, b) => a.key - b.key)
    .map(({ item }) => item)
}

test('as many masters are listed as there are masters or places, whichever is less, in whatever order they start', async () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const random = seededRandom(seed, 'order')
    const world = await setUp()
    const masters = 1 + Math.floor(random.next() * 5)
    const count = 1 + Math.floor(random.next() * 5)
    const members = Array.from({ length: masters }, (_, index) => world.open(`192.0.2.${index + 1}`, count))
    for (let round = 0; round < 3; round += 1) {
      for (const member of shuffled(members, random)) {
        await member.reconcile('interval')
        if (random.next() < 0.5) await settle(world, shuffled(members, random))
      }
    }
    await settle(world, members)
    const listed = await world.listed()
    assert.equal(listed.length, Math.min(masters, count), `seed ${seed}`)
    assert.deepEqual(await world.slice(), listed)
    assert.ok(members.every((member) => member.warnings() === 0))
  }
})

test('whatever happens to the list, the masters stop writing before the next interval', async () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const random = seededRandom(seed, 'damage')
    const world = await setUp()
    const masters = 1 + Math.floor(random.next() * 6)
    const members = Array.from({ length: masters }, (_, index) =>
      // Some masters do not agree on how many they are.
      world.open(`192.0.2.${index + 1}`, 1 + Math.floor(random.next() * 4)),
    )
    for (let interval = 0; interval < 5; interval += 1) {
      for (const member of shuffled(members, random)) {
        await member.reconcile('interval')
        const somebody = `192.0.2.${1 + Math.floor(random.next() * 9)}`
        if (random.next() < 0.3) await world.list(...new Set([...(await world.listed()), somebody]))
        if (random.next() < 0.2) await world.list()
      }
      const rounds = await settle(world, members)
      assert.ok(rounds <= 3 * masters + 1, `seed ${seed}: ${rounds} rounds`)
    }
    assert.notEqual((await world.listed()).length, 0)
  }
})

test('a master that lost its place takes it back at its next interval, not when it sees the loss', async () => {
  const world = await setUp()
  const [one, two, three] = [world.open('192.0.2.1', 2), world.open('192.0.2.2', 2), world.open('192.0.2.3', 2)]
  for (const member of [one, two, three]) await member.reconcile('interval')
  assert.deepEqual(await world.listed(), ['192.0.2.2', '192.0.2.3'])
  await one.reconcile('objects')
  assert.deepEqual(await world.listed(), ['192.0.2.2', '192.0.2.3'])
  await one.reconcile('interval')
  assert.deepEqual(await world.listed(), ['192.0.2.1', '192.0.2.3'])
  assert.equal(await settle(world, [one, two, three]), 0)
})

test('damage is corrected at once: a missing label, extra subsets, not-ready addresses, a deleted list, a lost slice', async () => {
  const world = await setUp()
  const member = world.open('192.0.2.1', 2)
  await member.reconcile('interval')
  await world.list('192.0.2.1', '198.51.100.7')
  await member.reconcile('objects')
  const right = await world.stored()
  const [subset] = right.subsets ?? []
  const foreign = { addresses: [{ ip: '203.0.113.9' }], ports: member.ports }
  for (const [damage, expected] of [
    [{ ...right, metadata: { ...right.metadata, labels: { other: 'yes' } } }, ['192.0.2.1', '198.51.100.7']],
    [{ ...right, subsets: [{ ...subset, notReadyAddresses: foreign.addresses }] }, ['192.0.2.1', '198.51.100.7']],
    [{ ...right, subsets: [subset, foreign] }, ['192.0.2.1']],
  ] as [Endpoints, string[]][]) {
    await world.list('192.0.2.1', '198.51.100.7')
    const { resourceVersion = '' } = (await world.stored()).metadata ?? {}
    await world.api.update(endpoints, { ...damage, metadata: { ...damage.metadata, resourceVersion } })
    await member.reconcile('objects')
    const { metadata, subsets } = await world.stored()
    assert.equal(metadata?.labels?.['endpointslice.kubernetes.io/skip-mirror'], 'true')
    assert.deepEqual(
      subsets?.map((one) => one.addresses?.map(({ ip }) => ip)),
      [expected],
    )
    assert.equal(subsets?.[0]?.notReadyAddresses, undefined)
    assert.deepEqual(await world.slice(), expected)
  }
  await world.api.delete(endpoints, KUBERNETES_SERVICE)
  await member.reconcile('objects')
  assert.deepEqual(await world.listed(), ['192.0.2.1'])
  await world.api.delete(endpointSlices, KUBERNETES_SERVICE)
  await member.reconcile('objects')
  assert.deepEqual(await world.slice(), ['192.0.2.1'])
})

test('masters with different counts flap a few times in an interval, not without end, and each warns once', async () => {
  const world = await setUp()
  const [one, two] = [world.open('192.0.2.1', 1), world.open('192.0.2.2', 2)]
  for (let interval = 1; interval <= 3; interval += 1) {
    await one.reconcile('interval')
    await two.reconcile('interval')
    assert.ok((await settle(world, [one, two])) <= 3)
  }
  assert.deepEqual([one.warnings(), two.warnings()], [1, 1])
  await world.list('192.0.2.1')
  await two.reconcile('objects')
  assert.deepEqual(await world.listed(), ['192.0.2.1'])
  await two.reconcile('interval')
  assert.deepEqual(await world.listed(), ['192.0.2.1', '192.0.2.2'])
})

test('a master corrects the ports when it is alone, and leaves them unchanged beside others', async () => {
  const world = await setUp()
  const [old, renewed] = [world.open('192.0.2.1', 2, 6443), world.open('192.0.2.2', 2, 7443)]
  const port = async () => (await world.stored()).subsets?.[0]?.ports?.[0]?.port
  await old.reconcile('interval')
  await renewed.reconcile('interval')
  assert.equal(await settle(world, [old, renewed]), 0)
  assert.deepEqual([await world.listed(), await port()], [['192.0.2.1', '192.0.2.2'], 6443])
  assert.equal(await old.leave(), 'left')
  await renewed.reconcile('interval')
  assert.equal(await port(), 7443)
})

test('ports are left unchanged beside another master that is seen for the first time', async () => {
  const world = await setUp()
  const one = world.open('192.0.2.1', 2, 7443)
  await one.reconcile('interval')
  await world.list('192.0.2.1', '192.0.2.2')
  await one.reconcile('objects')
  assert.equal((await world.stored()).subsets?.[0]?.ports?.[0]?.port, 6443)
})

test('the last master stays listed when it leaves, and is removed on request only after its reconciler was stopped', async () => {
  const world = await setUp()
  const [one, two] = [world.open('192.0.2.1', 2), world.open('192.0.2.2', 2)]
  await one.reconcile('interval')
  await two.reconcile('interval')
  assert.equal(await one.leave(), 'left')
  assert.deepEqual([await world.listed(), await world.slice()], [['192.0.2.2'], ['192.0.2.2']])
  assert.equal(await two.leave(), 'last-one')
  await assert.rejects(two.remove(), { code: 'NoLiveMasters' })
  assert.deepEqual(await world.listed(), ['192.0.2.2'])
  two.reconciler.stopReconciling()
  await two.reconcile('interval')
  await two.remove()
  assert.deepEqual([await world.listed(), await world.slice()], [[], []])
  await two.reconcile('interval')
  await two.remove()
  assert.deepEqual(await world.listed(), [])
})

test('masters that leave at the same moment do not empty the list: the second one fails, then finds itself the last', async () => {
  const world = await setUp()
  const members = [world.open('192.0.2.1', 2), world.open('192.0.2.2', 2)]
  for (const member of members) await member.reconcile('interval')
  const both = await Promise.allSettled(members.map((member) => member.leave()))
  assert.deepEqual(both.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  const second = members[both.findIndex(({ status }) => status === 'rejected')]
  assert.equal(await second?.leave(), 'last-one')
  assert.equal((await world.listed()).length, 1)
})

test('a removal that reached the Endpoints but not the slice continues from there', async () => {
  const world = await setUp()
  const member = world.open('192.0.2.1', 1)
  await member.reconcile('interval')
  member.reconciler.stopReconciling()
  world.fail('endpointslices')
  await assert.rejects(member.remove(), { code: 'ServerError' })
  assert.deepEqual([await world.listed(), await world.slice()], [[], ['192.0.2.1']])
  world.fail(undefined)
  await member.remove()
  assert.deepEqual(await world.slice(), [])
})

test('the entry of an earlier life is cleared, unless it is the last', async () => {
  const world = await setUp()
  const [one, two] = [world.open('192.0.2.1', 2), world.open('192.0.2.2', 2)]
  const clear = (member: Member) => member.reconciler.clearAway(member.ip, member.ports, signal)
  await one.reconcile('interval')
  assert.equal(await clear(one), false)
  await two.reconcile('interval')
  assert.equal(await clear(one), true)
  assert.equal(await clear(one), false)
  assert.deepEqual(await world.listed(), ['192.0.2.2'])
})

test('taking a place back at the interval uses up none of the corrections that may follow', async () => {
  const world = await setUp()
  const one = world.open('192.0.2.1', 1)
  await one.reconcile('interval')
  await world.list('192.0.2.2')
  await one.reconcile('interval')
  assert.deepEqual(await world.listed(), ['192.0.2.1'])
  for (let correction = 1; correction <= 3; correction += 1) {
    await world.list('192.0.2.1', `192.0.2.${correction + 1}`)
    await one.reconcile('objects')
    assert.deepEqual(await world.listed(), ['192.0.2.1'], `correction ${correction}`)
  }
})

test('damage that does not change the addresses uses up none of the corrections of a listed master', async () => {
  const world = await setUp()
  const one = world.open('192.0.2.1', 1)
  await one.reconcile('interval')
  for (let damage = 0; damage < 4; damage += 1) {
    const { metadata, ...stored } = await world.stored()
    await world.api.update(endpoints, { ...stored, metadata: { ...metadata, labels: { damaged: `${damage}` } } })
    await one.reconcile('objects')
  }
  await world.list('192.0.2.1', '192.0.2.2')
  await one.reconcile('objects')
  assert.deepEqual(await world.listed(), ['192.0.2.1'])
  await one.reconcile('interval')
  assert.equal(one.warnings(), 0)
})

test('while a policy forbids writing Endpoints, masters do not overwrite the slice of each other', async () => {
  const world = await setUp()
  const [one, two, three] = [1, 2, 3].map((number) => world.open(`192.0.2.${number}`, 3)) as [Member, Member, Member]
  await one.reconcile('interval')
  const { resourceVersion } = (await world.api.get(endpointSlices, KUBERNETES_SERVICE)).metadata ?? {}
  world.fail('endpoints', 'Invalid')
  for (let round = 0; round < 2; round += 1) {
    for (const joining of [two, three]) await assert.rejects(joining.reconcile('interval'), { code: 'Invalid' })
    await one.reconcile('interval')
    const slice = await world.api.get(endpointSlices, KUBERNETES_SERVICE)
    assert.equal(slice.metadata?.resourceVersion, resourceVersion, 'a plan by count is only that of one master')
  }
  world.fail(undefined)
  for (const joining of [two, three]) await joining.reconcile('interval')
  assert.deepEqual(await world.slice(), ['192.0.2.1', '192.0.2.2', '192.0.2.3'])
})
