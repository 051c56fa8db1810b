import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { IpAddress, Service } from '../../src/kube/resources.ts'
import { ipAddressNamed } from '../peers/allocation-damage.ts'
import {
  addressesOf,
  allocationPaths,
  allocationProblems,
  createServices,
  ipAddressLabels,
  ipAddressPrefix,
  portsOf,
  readAllocations,
  serviceNamed,
  whenAllocated,
} from '../peers/allocations.ts'
import type { ApiAnswer, ApiClient } from '../peers/api-client.ts'
import { startApiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { startEtcd } from '../peers/etcd.ts'
import { startKine } from '../peers/kine.ts'
import { paths } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { whenReady } from '../peers/program-health.ts'
import { changeRange, numberIn, storedRange } from '../peers/stored-ranges.ts'
import { storedValues } from '../peers/stored-values.ts'
import { untilPasses } from '../peers/until.ts'

const address = '192.0.2.1'
const withinMs = 30_000

const nodePort = { type: 'NodePort' }

function create(api: ApiClient, name: string, spec = {}): Promise<ApiAnswer> {
  return api.send('POST', allocationPaths.services, { body: serviceNamed(name, spec) })
}

async function whenCreated(api: ApiClient, name: string, spec = {}): Promise<Service> {
  return untilPasses(
    `Service ${name}`,
    async () => {
      const { status, body } = await create(api, name, spec)
      assert.equal(status, 201, JSON.stringify(body))
      return body as Service
    },
    { withinMs },
  )
}

// How each server refuses before it is bootstrapped. 1.32 serves no IPAddresses: its ClusterIPs are in a bitmap.
const servers = [
  { name: '1.36 on etcd', kind: 'bare', on: 'etcd', refusal: /range is full/ },
  { name: '1.36 on kine', kind: 'bare', on: 'kine', refusal: /range is full/ },
  {
    name: '1.32 on etcd',
    kind: 'bare-1.32',
    on: 'etcd',
    refusal: /cannot allocate resources of type serviceipallocations at this time/,
  },
] as const

for (const { name, kind, on, refusal } of servers) {
  test(`kube-apiserver ${name} refuses Services before the program starts, and accepts them soon after`, async (t) => {
    const owner = openOwner(t)
    const etcd = on === 'etcd' ? await startEtcd(owner) : undefined
    const store = etcd ?? (await startKine(owner))
    const server = await startApiserver(owner, { kind, etcd: store })
    const { api } = server
    // So that a missing namespace is not the reason for the refusal.
    await api.create(paths.namespaces, { metadata: { name: 'default' } })
    for (const spec of [{}, nodePort]) {
      const early = await create(api, 'early', spec)
      assert.equal(early.status, 500)
      assert.match(JSON.stringify(early.body), refusal)
    }

    const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${store.url}`] })
    const [first, second] = await Promise.all([
      whenCreated(api, 'cluster-ip'),
      whenCreated(api, 'node-port', nodePort),
      whenReady(master, withinMs),
    ])
    assert.equal(addressesOf(first).length, 1)
    assert.equal(addressesOf(second).length, 1)
    assert.equal(portsOf(second).length, 1)
    const { services } = await whenAllocated({ server, ...(etcd && { etcd }) }, withinMs)
    assert.equal(services.length, 3)
    assert.deepEqual(await master.stop(), { code: 0, signal: null })
  })
}

test('a dry run logs each repair that it would make, and makes none', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare' })
  const { etcd, server } = cluster
  const flags = [`--etcd-servers=${etcd.url}`]
  const keeper = await startMaster(owner, server, { address, flags })
  await whenReady(keeper, withinMs)
  const services = await createServices(server.api, 'a', 40, nodePort)
  await whenAllocated(cluster, withinMs)
  assert.deepEqual(await keeper.stop(), { code: 0, signal: null })

  const [unlabelled, wrongParent, ...missing] = services.slice(0, 32).flatMap(addressesOf)
  const unset = services.slice(8).flatMap(portsOf)
  assert.ok(unlabelled !== undefined && wrongParent !== undefined)
  await Promise.all([...missing, wrongParent].map((ip) => server.api.delete(`${allocationPaths.ipAddresses}/${ip}`)))
  await server.api.create(allocationPaths.ipAddresses, ipAddressNamed(wrongParent, { name: 'nobody' }))
  await server.api.merge<IpAddress>(`${allocationPaths.ipAddresses}/${unlabelled}`, {
    metadata: { labels: Object.fromEntries(Object.keys(ipAddressLabels).map((label) => [label, null])) },
  })
  const ports = await storedRange(etcd, 'servicenodeports')
  assert.ok(ports !== undefined)
  await changeRange(etcd, 'servicenodeports', (taken) => {
    for (const port of unset) taken.delete(numberIn(ports, port))
  })

  const stored = async () =>
    new Map([...(await storedValues(etcd, ipAddressPrefix)), ...(await storedValues(etcd, '/registry/ranges/'))])
  const before = await stored()
  const problems = allocationProblems(await readAllocations(cluster))
  const dry = await startMaster(owner, server, { address, flags: [...flags, '--dry-run'] })
  const isLogged = (item: string | number): boolean =>
    dry.logged(new RegExp(`[ :]${String(item).replaceAll('.', '\\.')} `)).length > 0
  await untilPasses(
    'a line about each',
    () =>
      assert.deepEqual(
        [...missing, unlabelled, wrongParent, ...unset].filter((item) => !isLogged(item)),
        [],
      ),
    { withinMs },
  )
  await sleep(3_000)
  dry.assertRunning()
  assert.deepEqual(await stored(), before)
  assert.deepEqual(allocationProblems(await readAllocations(cluster)), problems)
  assert.deepEqual(await dry.stop(), { code: 0, signal: null })
})
