import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { IpAddress, Service } from '../../src/kube/resources.ts'
import { changeIpAddress, ipAddressNamed, storeService } from '../peers/allocation-damage.ts'
import {
  addressesOf,
  allocationPaths,
  createServices,
  eventsFor,
  ipAddressLabels,
  readAllocations,
  whenAllocated,
} from '../peers/allocations.ts'
import type { ApiClient } from '../peers/api-client.ts'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { metricOf, whenReady } from '../peers/program-health.ts'
import { changeRange, storedRange } from '../peers/stored-ranges.ts'
import { throughout, untilPasses } from '../peers/until.ts'

// These tests mostly wait until something may be freed; their clusters wait at the same time.

const address = '192.0.2.1'
const withinMs = 30_000

/** Waits for an event with this reason about an object, such as `Service a`. */
async function assertEvent(api: ApiClient, reason: string, about: string, note: RegExp): Promise<void> {
  await untilPasses(
    `an event ${reason} about ${about}`,
    async () => {
      const events = await eventsFor(api, reason)
      const found = events.find(({ regarding }) => `${regarding?.kind} ${regarding?.name}` === about)
      assert.ok(found !== undefined, JSON.stringify(events.map(({ regarding, note: text }) => [regarding?.name, text])))
      assert.equal(found.type, 'Warning')
      assert.match(found.note ?? '', note)
    },
    { withinMs },
  )
}

describe('repairs correct wrong allocations at once and free unused ones only after a grace period', {
  concurrency: true,
}, () => {
  test('wrong parents and labels are corrected, orphans deleted after a minute, duplicate and out-of-range IPs only reported', async (t) => {
    const owner = openOwner(t)
    const cluster = await startCluster(owner, { kind: 'bare' })
    const { etcd, server } = cluster
    const { api } = server
    const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`] })
    await whenReady(master, withinMs)
    const made = await createServices(api, 'a', 6)
    const service = (index: number) => made.find(({ metadata }) => metadata?.name === `a-${index}`) as Service
    const ipOf = (index: number): string => addressesOf(service(index))[0] as string
    await api.create(allocationPaths.services, {
      metadata: { name: 'external' },
      spec: { type: 'ExternalName', externalName: 'example.com' },
    })
    await whenAllocated(cluster, withinMs)
    const path = (ip: string): string => `${allocationPaths.ipAddresses}/${ip}`
    const find = (ip: string) => api.find<IpAddress>(path(ip))

    // These IPAddresses stay for as long as an API server may take to store a Service after it has allocated the
    // address.
    const parents = { '10.100.0.1': 'nobody', '10.100.0.2': 'external', '10.100.0.4': 'a-0' }
    const orphans = Object.keys(parents)
    for (const [ip, name] of Object.entries(parents)) {
      await api.create(allocationPaths.ipAddresses, ipAddressNamed(ip, { name }))
    }
    const orphanedAt = performance.now()
    const elapsed = (): number => performance.now() - orphanedAt
    const gateway = { group: 'gateway.networking.k8s.io', resource: 'gateways', name: 'gateway' }
    await api.create(allocationPaths.ipAddresses, ipAddressNamed('10.100.0.3', gateway, {}))
    const stillThere = throughout(
      55_000,
      async () => {
        for (const ip of orphans) assert.ok((await find(ip)) !== undefined, `${ip} was gone after ${elapsed()} ms`)
      },
      { everyMs: 1_000 },
    )

    const parent = (parentRef: object) => (ipAddress: IpAddress) =>
      ({ ...ipAddress, spec: { parentRef: { ...ipAddress.spec?.parentRef, ...parentRef } } }) as IpAddress
    const labelled = (labels: Readonly<Record<string, string>> | undefined) => (ipAddress: IpAddress) =>
      ({ ...ipAddress, metadata: { ...ipAddress.metadata, labels } }) as IpAddress
    const damages = [
      parent({ name: 'nobody' }),
      parent(gateway),
      parent({ name: 'external' }),
      labelled(undefined),
      labelled({ ...ipAddressLabels, 'ipaddress.kubernetes.io/managed-by': 'somebody', mine: 'x' }),
    ]
    for (const [index, damage] of damages.entries()) await changeIpAddress(cluster, ipOf(index), damage)
    await untilPasses(
      'these to be right',
      async () => {
        for (const index of damages.keys()) {
          const { metadata, spec } = await api.get<IpAddress>(path(ipOf(index)))
          assert.deepEqual(spec?.parentRef, { resource: 'services', namespace: 'default', name: `a-${index}` })
          for (const [label, value] of Object.entries(ipAddressLabels)) assert.equal(metadata?.labels?.[label], value)
        }
      },
      { withinMs },
    )
    for (const index of [0, 1]) {
      await assertEvent(api, 'ClusterIPNotAllocated', `Service a-${index}`, /has a wrong reference; repairing$/)
    }

    const owned = await api.get<IpAddress>(path(ipOf(5)))
    await storeService(etcd, 'duplicate', { clusterIP: ipOf(5), clusterIPs: [ipOf(5)] })
    await storeService(etcd, 'outside', { clusterIP: '172.31.0.9', clusterIPs: ['172.31.0.9'] })
    await assertEvent(
      api,
      'ClusterIPAlreadyAllocated',
      'Service duplicate',
      /was assigned to multiple services; please recreate/,
    )
    await assertEvent(
      api,
      'ClusterIPOutOfRange',
      'Service outside',
      /172\.31\.0\.9 is not within any configured Service CIDR/,
    )

    await stillThere
    await untilPasses(
      'the orphans to go',
      async () => assert.deepEqual((await Promise.all(orphans.map(find))).filter(Boolean), []),
      { withinMs: 90_000 },
    )
    t.diagnostic(`orphans gone after ${Math.round(elapsed())} ms`)
    await assertEvent(api, 'IPAddressNotAllocated', 'IPAddress 10.100.0.1', /appears to have leaked: cleaning up$/)
    for (const ip of ['10.100.0.2', '10.100.0.4']) {
      await assertEvent(api, 'IPAddressWrongReference', `IPAddress ${ip}`, /has a wrong reference; cleaning up$/)
    }

    assert.equal((await find(ipOf(5)))?.metadata?.uid, owned.metadata?.uid)
    assert.equal(await find('172.31.0.9'), undefined)
    assert.ok((await find('10.100.0.3')) !== undefined, 'it is not of the allocator')
    const left = (await readAllocations(cluster)).services.map(({ metadata }) => metadata?.name)
    assert.ok(left.includes('duplicate') && left.includes('outside'))
  })

  test('bitmap bits without an owner are freed only after two minutes', async (t) => {
    const owner = openOwner(t)
    const cluster = await startCluster(owner, { kind: 'bare-1.32' })
    const { etcd, server } = cluster
    const flags = [`--etcd-servers=${etcd.url}`, '--repair-interval=5s']
    const master = await startMaster(owner, server, { address, flags })
    await whenReady(master, withinMs)
    await createServices(server.api, 'a', 20, { type: 'NodePort' })
    await whenAllocated(cluster, withinMs)

    const leaked = [40, 41, 2_000]
    const ranges = ['serviceips', 'servicenodeports'] as const
    const stillSet = async (): Promise<readonly string[]> => {
      const found: string[] = []
      for (const name of ranges) {
        const stored = await storedRange(etcd, name)
        for (const number of leaked) if (stored?.taken.has(number)) found.push(`${name} ${number}`)
      }
      return found
    }
    for (const name of ranges) {
      await changeRange(etcd, name, (taken) => {
        for (const number of leaked) taken.add(number)
      })
    }
    const leakedAt = performance.now()
    const all = await stillSet()
    assert.equal(all.length, leaked.length * ranges.length)
    await throughout(
      118_000,
      async () => assert.deepEqual(await stillSet(), all, `after ${Math.round(performance.now() - leakedAt)} ms`),
      { everyMs: 1_000 },
    )
    await untilPasses('them to be freed', async () => assert.deepEqual(await stillSet(), []), { withinMs })
    t.diagnostic(`freed after ${Math.round(performance.now() - leakedAt)} ms`)
    await whenAllocated(cluster, 1_000)
    for (const line of [
      'apiserver_clusterip_repair_ip_errors_total{type="leak"}',
      'apiserver_nodeport_repair_port_errors_total{type="leak"}',
    ]) {
      assert.equal(await metricOf(master, line), leaked.length, line)
    }
  })
})
