import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Service } from '../../src/kube/resources.ts'
import {
  addressesOf,
  allocationPaths,
  createServices,
  portsOf,
  serviceNamed,
  whenAllocated,
} from '../peers/allocations.ts'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { metricOf, whenReady } from '../peers/program-health.ts'
import { changeRange, storedRange } from '../peers/stored-ranges.ts'
import { untilPasses } from '../peers/until.ts'

const address = '192.0.2.1'
const withinMs = 30_000
const nodePort = { type: 'NodePort' }
const ranges = ['serviceips', 'servicenodeports'] as const

test('zeroed bitmaps of the ClusterIPs and NodePorts of 200 Services are repaired', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare-1.32' })
  const { etcd, server } = cluster
  const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`] })
  await whenReady(master, withinMs)
  await createServices(server.api, 'a', 200, nodePort)
  await whenAllocated(cluster, withinMs)
  for (const name of ranges) await changeRange(etcd, name, (taken) => taken.clear())
  const startedAt = performance.now()
  const { clusterIps, nodePorts } = await whenAllocated(cluster, withinMs)
  t.diagnostic(`right again after ${Math.round(performance.now() - startedAt)} ms`)
  assert.equal(clusterIps?.taken.size, 201, 'with that of default/kubernetes')
  assert.equal(nodePorts?.taken.size, 200)
  assert.equal(clusterIps?.range, '10.96.0.0/12')
  assert.equal(nodePorts?.range, '30000-32767')
  const { ipAddresses } = await whenAllocated(cluster, withinMs)
  assert.equal(ipAddresses, undefined, '1.32 has none')
  for (const [line, value] of [
    ['kube_apiserver_clusterip_allocator_allocated_ips{cidr="10.96.0.0/12"}', 201],
    ['kube_apiserver_nodeport_allocator_allocated_ports', 200],
    ['kube_apiserver_nodeport_allocator_available_ports', 2568],
  ] as const) {
    await untilPasses(line, async () => assert.equal(await metricOf(master, line), value), { withinMs })
  }
})

test('the server allocates from the repaired bitmaps: nothing twice, and everything in the range', async (t) => {
  const owner = openOwner(t)
  const small = { clusterIps: '10.96.0.0/28', nodePorts: '30000-30009' }
  const flags = [`--service-cluster-ip-range=${small.clusterIps}`, `--service-node-port-range=${small.nodePorts}`]
  const cluster = await startCluster(owner, { kind: 'bare-1.32', flags })
  const { etcd, server } = cluster
  const { api } = server
  const master = await startMaster(owner, server, {
    address,
    serviceClusterIpRange: small.clusterIps,
    flags: [`--etcd-servers=${etcd.url}`, `--service-node-port-range=${small.nodePorts}`],
  })
  await whenReady(master, withinMs)
  const fixed = await api.create<Service>(
    allocationPaths.services,
    serviceNamed('fixed', { ...nodePort, clusterIP: '10.96.0.5', ports: [{ port: 80, nodePort: 30_003 }] }),
  )
  await whenAllocated(cluster, withinMs)
  for (const name of ranges) await changeRange(etcd, name, (taken) => taken.clear())
  await whenAllocated(cluster, withinMs)

  const refused = async (name: string, spec: object, reason: RegExp): Promise<void> => {
    const { status, body } = await api.send('POST', allocationPaths.services, { body: serviceNamed(name, { ...spec }) })
    assert.notEqual(status, 201)
    assert.match(JSON.stringify(body), reason)
  }
  await refused('other', { ...nodePort, ports: [{ port: 80, nodePort: 30_003 }] }, /already allocated/)
  await refused('other', { clusterIP: '10.96.0.5' }, /already allocated/)
  const rest = [
    ...(await createServices(api, 'port', 9, nodePort)),
    // Of 14 addresses default/kubernetes has one.
    ...(await createServices(api, 'address', 3)),
  ]
  const all = [fixed, ...rest]
  assert.equal(new Set(all.flatMap(addressesOf)).size, 13)
  assert.equal(new Set(all.flatMap(portsOf)).size, 10)
  await refused('more', {}, /range is full/)
  const { clusterIps, nodePorts } = await whenAllocated(cluster, withinMs)
  assert.equal(clusterIps?.taken.size, 14)
  assert.equal(nodePorts?.taken.size, 10)
  assert.deepEqual((await storedRange(etcd, 'serviceips'))?.range, small.clusterIps)
  await api.delete(`${allocationPaths.services}/fixed`)
  await whenAllocated(cluster, withinMs)
  await createServices(api, 'again', 1, nodePort)
  await whenAllocated(cluster, withinMs)
})
