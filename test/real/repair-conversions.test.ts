import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Service } from '../../src/kube/resources.ts'
import { allocationPaths, createServices, eventsFor, serviceNamed, whenAllocated } from '../peers/allocations.ts'
import { ApiFailure } from '../peers/api-client.ts'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { metricOf, whenReady } from '../peers/program-health.ts'
import { storedRange, storeRange } from '../peers/stored-ranges.ts'
import { untilPasses } from '../peers/until.ts'

const address = '192.0.2.1'
const withinMs = 30_000
/** Without an address and without a port. */
const external = {
  type: 'ExternalName',
  externalName: 'elsewhere.example',
  clusterIP: null,
  clusterIPs: null,
  ipFamilies: null,
  ipFamilyPolicy: null,
  ports: [{ port: 80, nodePort: null }],
}

test('a Service that becomes ExternalName and back gets the same ClusterIP and NodePort again', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare' })
  const { etcd, server } = cluster
  const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`] })
  await whenReady(master, withinMs)
  const rounds = { done: 0, refused: 0 }
  const endMs = performance.now() + 15_000
  const worker = async (number: number): Promise<void> => {
    const clusterIP = `10.96.7.${number}`
    const held = { type: 'NodePort', clusterIP, ports: [{ port: 80, nodePort: 30_700 + number }] }
    const path = `${allocationPaths.services}/w-${number}`
    while (performance.now() < endMs) {
      await server.api.create<Service>(allocationPaths.services, serviceNamed(`w-${number}`, held))
      await server.api.merge(path, { spec: external })
      // The server would refuse here if the address and port that it has just released were taken.
      const back = { spec: { ...held, externalName: null, clusterIPs: [clusterIP] } }
      await server.api.merge(path, back).catch(async (error: unknown) => {
        if (!(error instanceof ApiFailure && error.status === 422)) throw error
        rounds.refused++
        t.diagnostic(error.message)
        // If the server was stopped between the release and the store, the address must be available again when the
        // program has seen that no Service holds it.
        await untilPasses(`w-${number} gets its address again`, () => server.api.merge(path, back), { withinMs })
      })
      if (rounds.done++ % 2 === 0) await server.api.merge(path, { spec: external })
      await sleep(Math.random() * 20)
      await server.api.delete(path)
    }
  }
  await Promise.all([1, 2, 3, 4].map(worker))
  t.diagnostic(`${rounds.done} rounds, ${rounds.refused} refused at first`)
  assert.ok(rounds.done >= 50, `only ${rounds.done} rounds`)
  assert.ok(rounds.refused <= rounds.done / 50, `${rounds.refused} of ${rounds.done} refused`)
  await whenAllocated(cluster, withinMs)
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
})

test('the unused bitmap of ClusterIPs of an upgraded cluster is not changed', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'bare' })
  // It even has another range: it is from long ago.
  const old = { range: '10.0.0.0/24', taken: new Set([0, 9]) }
  await storeRange(etcd, 'serviceips', old)
  const flags = [`--etcd-servers=${etcd.url}`, '--repair-interval=2s']
  const master = await startMaster(owner, server, { address, flags })
  await whenReady(master, withinMs)
  await createServices(server.api, 'a', 20)
  await sleep(6_000)
  await createServices(server.api, 'b', 20)
  await sleep(3_000)
  assert.equal((await storedRange(etcd, 'serviceips'))?.range, old.range)
  assert.deepEqual((await storedRange(etcd, 'serviceips'))?.taken, old.taken)
  for (const reason of ['ClusterIPNotAllocated', 'ClusterIPOutOfRange', 'ServiceRangeMismatch']) {
    assert.deepEqual(await eventsFor(server.api, reason), [], reason)
  }
  assert.equal(await metricOf(master, 'kube_apiserver_clusterip_allocator_allocated_ips{cidr="10.96.0.0/12"}'), 41)
  await whenReady(master, withinMs)
})

test('two masters stop the repair of a bitmap that the servers no longer use after their upgrade', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'bare' })
  const bitmap = async (): Promise<ReadonlySet<number>> => (await storedRange(etcd, 'serviceips'))?.taken ?? new Set()
  const range = '10.96.0.0/12'
  await storeRange(etcd, 'serviceips', { range, taken: new Set([0, 9]) })
  const masters = await Promise.all(
    [address, '192.0.2.2'].map((own) =>
      startMaster(owner, server, { address: own, flags: [`--etcd-servers=${etcd.url}`, '--repair-interval=2s'] }),
    ),
  )
  for (const master of masters) await whenReady(master, withinMs)
  const create = (offset: number): Promise<unknown> => {
    const clusterIP = `10.96.1.${offset}`
    return server.api.create(
      allocationPaths.services,
      serviceNamed(`s-${offset}`, { clusterIP, ports: [{ port: 80 }] }),
    )
  }
  const offsetOf = (offset: number): number => 256 + offset - 1
  // This server writes no bitmap, so the test sets the bits that an old one would set. The first change shows the
  // masters only what the bitmap was before.
  await storeRange(etcd, 'serviceips', { range, taken: new Set([0, 9]) })
  await storeRange(etcd, 'serviceips', { range, taken: new Set([0, 9, offsetOf(7)]) })
  await create(7)
  // Once the bitmap is in use, it gets the bits of all Services.
  for (const offset of [11, 12, 13, 14, 15, 16, 17]) {
    await create(offset)
    const isSet = async (): Promise<void> => assert.ok((await bitmap()).has(offsetOf(offset)))
    await untilPasses(`the bit of 10.96.1.${offset} is set`, isSet, { withinMs })
    await sleep(300)
  }
  await untilPasses(
    'both masters have ended the repair',
    async () => {
      for (const master of masters)
        assert.equal(master.logged(/stores new ClusterIPs in the bitmap any more/).length, 1)
    },
    { withinMs },
  )
  const before = await eventsFor(server.api, 'ClusterIPNotAllocated')
  assert.ok(before.length > 0)
  await create(21)
  await sleep(5_000)
  assert.ok(!(await bitmap()).has(offsetOf(21)))
  assert.deepEqual(await eventsFor(server.api, 'ClusterIPNotAllocated'), before)
  for (const master of masters) await whenReady(master, withinMs)
})
