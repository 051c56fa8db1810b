import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EndpointSlice, Endpoints, Service } from '../../src/kube/resources.ts'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { startEtcd } from '../peers/etcd.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { listedIn, listedInSlices, paths, readState } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'

// Long enough that no master leaves the list when a busy machine delays a renewal by a second or two.
const shortLease = ['--lease-ttl=8s', '--reconcile-interval=2s']
const boundMs = 30_000

/** The order of the families, and the names of the objects of the second one. */
interface Families {
  readonly ranges: readonly [string, string]
  /** The addresses of a master, by its number; the primary one comes first. */
  readonly addresses: (number: number) => readonly [string, string]
  readonly clusterIPs: readonly [string, string]
  readonly ipFamilies: readonly ['IPv4' | 'IPv6', 'IPv4' | 'IPv6']
  readonly secondSlice: string
}

const fourFirst: Families = {
  ranges: ['10.96.0.0/12', 'fd00:10:96::/112'],
  addresses: (number) => [`192.0.2.${number}`, `2001:db8::${number}`],
  clusterIPs: ['10.96.0.1', 'fd00:10:96::1'],
  ipFamilies: ['IPv4', 'IPv6'],
  secondSlice: 'kubernetes-ipv6',
}
const sixFirst: Families = {
  ranges: ['fd00:10:96::/112', '10.96.0.0/12'],
  addresses: (number) => [`2001:db8::${number}`, `192.0.2.${number}`],
  clusterIPs: ['fd00:10:96::1', '10.96.0.1'],
  ipFamilies: ['IPv6', 'IPv4'],
  secondSlice: 'kubernetes-ipv4',
}

function rangeFlags(ranges: readonly string[], ...more: readonly string[]): readonly string[] {
  return [`--service-cluster-ip-range=${ranges.join(',')}`, ...more]
}

function startDual(
  owner: Owner,
  server: Apiserver,
  families: Families,
  number: number,
  ...flags: readonly string[]
): Promise<Program> {
  return startMaster(owner, server, {
    // In reverse order: the ranges decide which family is the primary one.
    address: families.addresses(number).toReversed().join(','),
    serviceClusterIpRange: families.ranges.join(','),
    flags: [...shortLease, ...flags],
  })
}

function startSingle(owner: Owner, server: Apiserver, families: Families, number: number): Promise<Program> {
  return startMaster(owner, server, {
    address: families.addresses(number)[0],
    serviceClusterIpRange: families.ranges[0],
    flags: shortLease,
  })
}

/** What default/kubernetes states about families, in its own order. */
interface Seen {
  readonly policy: string | undefined
  readonly families: readonly string[] | undefined
  readonly clusterIPs: readonly string[] | undefined
  readonly listed: readonly string[]
  /** By name: the type, whether the ports are right, and what is listed. */
  readonly slices: Readonly<Record<string, readonly string[]>>
}

async function see(server: Apiserver): Promise<Seen> {
  const { service, endpoints, slices } = await readState(server.api)
  return {
    policy: service?.spec?.ipFamilyPolicy,
    families: service?.spec?.ipFamilies,
    clusterIPs: service?.spec?.clusterIPs,
    listed: listedIn(endpoints),
    slices: Object.fromEntries(
      slices.map((slice) => [
        slice.metadata?.name ?? '',
        [slice.addressType, portsOf(slice, server), ...listedInSlices([slice])],
      ]),
    ),
  }
}

function portsOf({ ports }: EndpointSlice, server: Apiserver): string {
  const text = JSON.stringify(ports?.map(({ name, port, protocol }) => [name, port, protocol]))
  return text === JSON.stringify([['https', server.port, 'TCP']]) ? 'right' : text
}

function dualOf(families: Families, ...numbers: readonly number[]): Seen {
  const listed = numbers.map((number) => families.addresses(number)[0]).sort()
  const second = numbers.map((number) => families.addresses(number)[1]).sort()
  return {
    policy: 'PreferDualStack',
    families: families.ipFamilies,
    clusterIPs: families.clusterIPs,
    listed,
    slices: {
      kubernetes: [families.ipFamilies[0], 'right', ...listed],
      [families.secondSlice]: [families.ipFamilies[1], 'right', ...second],
    },
  }
}

function singleOf(families: Families, ...numbers: readonly number[]): Seen {
  const { kubernetes = [], [families.secondSlice]: _second } = dualOf(families, ...numbers).slices
  return {
    policy: 'SingleStack',
    families: families.ipFamilies.slice(0, 1),
    clusterIPs: families.clusterIPs.slice(0, 1),
    listed: dualOf(families, ...numbers).listed,
    slices: { kubernetes },
  }
}

function whenSeen(server: Apiserver, expected: Seen): Promise<void> {
  return untilPasses('default/kubernetes', async () => assert.deepEqual(await see(server), expected), {
    withinMs: boundMs,
  })
}

/** The resourceVersions of all managed objects: each write changes one. */
async function versions(server: Apiserver): Promise<readonly unknown[]> {
  const { service, endpoints, slices } = await readState(server.api)
  const objects: readonly (Service | Endpoints | EndpointSlice | undefined)[] = [service, endpoints, ...slices]
  return objects.map((object) => [object?.kind, object?.metadata?.name, object?.metadata?.resourceVersion])
}

/** Asserts that nobody writes for a while: longer than two reconcile intervals of the masters. */
async function assertQuiet(server: Apiserver, forMs = 5_000): Promise<void> {
  const before = await versions(server)
  await sleep(forMs)
  assert.deepEqual(await versions(server), before)
}

async function startDualCluster(t: TestContext, families: Families): Promise<{ owner: Owner; server: Apiserver }> {
  const owner = openOwner(t)
  const [advertiseAddress] = families.addresses(250)
  const { server } = await startCluster(owner, { kind: 'bare', advertiseAddress, flags: rangeFlags(families.ranges) })
  return { owner, server }
}

for (const [name, families] of Object.entries({ 'IPv4 first': fourFirst, 'IPv6 first': sixFirst })) {
  test(`a dual-stack fleet, ${name}, is single-stack while a single-stack master is listed, and dual-stack again afterwards`, async (t) => {
    const { owner, server } = await startDualCluster(t, families)
    const one = await startDual(owner, server, families, 1)
    let two = await startDual(owner, server, families, 2)
    await whenSeen(server, dualOf(families, 1, 2))

    assert.deepEqual(await two.stop(), { code: 0, signal: null })
    await whenSeen(server, dualOf(families, 1))
    two = await startSingle(owner, server, families, 2)
    await whenSeen(server, singleOf(families, 1, 2))
    await assertQuiet(server, 15_000)

    await two.kill()
    await whenSeen(server, dualOf(families, 1))
    two = await startDual(owner, server, families, 2)
    await whenSeen(server, dualOf(families, 1, 2))
    await assertQuiet(server)
    for (const master of [one, two]) master.assertRunning()
  })
}

test('kubectl shows both families', async (t) => {
  const { owner, server } = await startDualCluster(t, fourFirst)
  await startDual(owner, server, fourFirst, 1)
  await whenSeen(server, dualOf(fourFirst, 1))
  const kubectl = kubectlFor(owner, server.kubeconfig)
  const { stdout } = await kubectl('get', 'endpoints,endpointslices', '--no-headers')
  assert.match(stdout, new RegExp(`^endpoints/kubernetes +192\\.0\\.2\\.1:${server.port} `, 'm'))
  assert.match(stdout, new RegExp(`endpointslice\\S*/kubernetes +IPv4 +${server.port} +192\\.0\\.2\\.1 `, 'm'))
  assert.match(stdout, new RegExp(`endpointslice\\S*/kubernetes-ipv6 +IPv6 +${server.port} +2001:db8::1 `, 'm'))
  const described = await kubectl('describe', 'service', 'kubernetes')
  assert.match(described.stdout, /IP Family Policy: +PreferDualStack/)
  assert.match(described.stdout, /IPs: +10\.96\.0\.1,fd00:10:96::1/)
})

test('damage to the second slice and to the families of the Service is repaired', async (t) => {
  const { owner, server } = await startDualCluster(t, fourFirst)
  const { api } = server
  for (const number of [1, 2]) await startDual(owner, server, fourFirst, number)
  const right = dualOf(fourFirst, 1, 2)
  await whenSeen(server, right)
  const path = `${paths.slices}/${fourFirst.secondSlice}`
  const { resourceVersion: _version, uid: _uid, ...metadata } = (await api.get<EndpointSlice>(path)).metadata ?? {}
  const wrongType = { metadata, addressType: 'IPv4', endpoints: [{ addresses: ['198.51.100.9'] }] }
  const damages: Readonly<Record<string, () => Promise<unknown>>> = {
    'slice deleted': () => api.delete(path),
    'slice without labels': () => api.merge(path, { metadata: { labels: null } }),
    'slice without endpoints': () => api.merge(path, { endpoints: [] }),
    'slice with a foreign endpoint': () => api.merge(path, { endpoints: [{ addresses: ['2001:db8::bad'] }] }),
    'slice with a foreign port': () => api.merge(path, { ports: [{ name: 'https', port: 4444, protocol: 'TCP' }] }),
    'slice of the other type': async () => {
      await api.delete(path)
      await api.create(paths.slices, wrongType)
    },
    'Service with one family': () => api.merge(paths.service, { spec: { ipFamilyPolicy: 'SingleStack' } }),
    'Service that requires two families': () =>
      api.merge(paths.service, { spec: { ipFamilyPolicy: 'RequireDualStack' } }),
    'Service deleted': () => api.delete(paths.service),
  }
  for (const [name, damage] of Object.entries(damages)) {
    await t.test(name, async () => {
      // The masters may be faster than a damage that deletes and then creates.
      await damage().catch((error: Error) => assert.match(error.message, /already exists/))
      await whenSeen(server, right)
      const slice = await api.get<EndpointSlice>(path)
      assert.deepEqual(slice.metadata?.labels, { 'kubernetes.io/service-name': 'kubernetes' })
    })
  }
  await assertQuiet(server)
})

test('the Service follows API servers that change from one family to two and back, and no slice is left over', async (t) => {
  const owner = openOwner(t)
  const families = fourFirst
  const { server } = await startCluster(owner, { kind: 'bare' })
  let master = await startDual(owner, server, families, 1)
  const preferring = { ...dualOf(families, 1), families: ['IPv4'], clusterIPs: ['10.96.0.1'] }
  await whenSeen(server, preferring)
  await assertQuiet(server)

  await server.kill()
  await server.start({ flags: rangeFlags(families.ranges) })
  await whenSeen(server, dualOf(families, 1))

  // Back to one family, at the API server first: it does not free the second address when the Service gives it up.
  await server.kill()
  await server.start({ flags: rangeFlags(families.ranges.slice(0, 1)) })
  await whenSeen(server, dualOf(families, 1))
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
  master = await startSingle(owner, server, families, 1)
  await whenSeen(server, singleOf(families, 1))

  // To two families again: no Service holds the former second address, but it is unavailable. So the Service gets
  // another one.
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
  await server.kill()
  await server.start({ flags: rangeFlags(families.ranges) })
  master = await startDual(owner, server, families, 1)
  await untilPasses(
    'another second address',
    async () => {
      const seen = await see(server)
      assert.equal(seen.clusterIPs?.length, 2)
      assert.deepEqual({ ...seen, clusterIPs: [] }, { ...dualOf(families, 1), clusterIPs: [] })
    },
    { withinMs: boundMs },
  )
  await assertQuiet(server)
  master.assertRunning()
})

test('beside a kube-apiserver with its own lease reconciler the list has one family, without a fight, and two after it dies', async (t) => {
  const owner = openOwner(t)
  const families = fourFirst
  const etcd = await startEtcd(owner)
  const flags = rangeFlags(families.ranges)
  const server = await startApiserver(owner, { kind: 'bare', etcd, flags })
  const ours = await Promise.all(
    [1, 2].map((number) => startDual(owner, server, families, number, `--etcd-servers=${etcd.url}`)),
  )
  await whenSeen(server, dualOf(families, 1, 2))

  const [advertiseAddress] = families.addresses(3)
  const stock = await startApiserver(owner, { kind: 'stock', etcd, advertiseAddress, flags })
  await whenSeen(server, singleOf(families, 1, 2, 3))
  // A kube-apiserver reconciles every ten seconds.
  await assertQuiet(server, 25_000)

  await stock.kill()
  await whenSeen(server, dualOf(families, 1, 2))
  for (const master of ours) master.assertRunning()
})
