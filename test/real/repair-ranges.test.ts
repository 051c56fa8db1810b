import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { loseIpAddresses } from '../peers/allocation-damage.ts'
import { countIpAddresses, createServices, eventsFor, portsOf, whenAllocated } from '../peers/allocations.ts'
import { auditIn, auditUser, logOf } from '../peers/audit-lines.ts'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { askHealth, metricOf, whenReady } from '../peers/program-health.ts'
import { changeRange, rangeKey, storedRange, storeRange } from '../peers/stored-ranges.ts'
import { timesWritten } from '../peers/stored-values.ts'
import { untilPasses } from '../peers/until.ts'

const withinMs = 30_000
const nodePort = { type: 'NodePort' }
const portsKey = rangeKey('servicenodeports')
const mismatch = 'apiserver_bootstrap_range_withheld{range="servicenodeports",reason="mismatch"}'

test('a NodePort range of the server that differs from the flag is only reported; --adopt-range changes it to the flag', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare', flags: ['--service-node-port-range=31000-31999'] })
  const { etcd, server } = cluster
  await storeRange(etcd, 'servicenodeports', { range: '31000-31999', taken: new Set() })
  const flags = [`--etcd-servers=${etcd.url}`]
  const master = await startMaster(owner, server, { address: '192.0.2.1', flags })
  const line = await master.waitForLog(/--service-node-port-range=31000-31999/, withinMs)
  assert.match(JSON.stringify(line), /servicenodeports/)
  const [event] = await untilPasses(
    'the event',
    async () => {
      const events = await eventsFor(server.api, 'ServiceRangeMismatch')
      assert.equal(events.length, 1)
      return events
    },
    { withinMs },
  )
  assert.equal(event?.type, 'Warning')
  assert.equal(event?.regarding?.kind, 'Service')
  assert.match(event?.note ?? '', /--service-node-port-range=31000-31999/)
  assert.equal(await metricOf(master, mismatch), 1)
  const services = await untilPasses('Services', () => createServices(server.api, 'a', 1, nodePort), { withinMs })
  const more = await createServices(server.api, 'b', 9, nodePort)
  const ports = [...services, ...more].flatMap(portsOf)
  assert.ok(ports.length === 10 && ports.every((port) => port >= 31_000 && port <= 31_999))
  const { status, text } = await askHealth(master, '/readyz?verbose')
  assert.equal(status, 500)
  assert.match(text, /^\[-\]node-port-repair failed/m)
  assert.match(text, /^\[\+\]cluster-ip-repair ok$/m)
  assert.equal(await timesWritten(etcd, portsKey), 11, 'once by this test and once for each Service by the server')
  assert.equal((await storedRange(etcd, 'servicenodeports'))?.range, '31000-31999')
  assert.equal((await eventsFor(server.api, 'ServiceRangeMismatch')).length, 1)
  await master.stop()

  await server.kill()
  await server.start({ flags: ['--service-node-port-range=31000-32767'] })
  const adopting = await startMaster(owner, server, {
    address: '192.0.2.1',
    flags: [...flags, '--service-node-port-range=31000-32767', '--adopt-range'],
  })
  await whenReady(adopting, withinMs)
  const { nodePorts } = await whenAllocated(cluster, withinMs)
  assert.equal(nodePorts?.range, '31000-32767')
  assert.equal(nodePorts?.taken.size, 10)
  const adoptions = auditIn(logOf(adopting)).filter(({ verb }) => verb === 'adopt')
  assert.deepEqual(
    adoptions.map(({ where, before, after, outcome, user }) => [where, before, after, outcome, user]),
    [
      [
        `${portsKey} in etcd`,
        { range: '31000-31999', allocated: 10 },
        { range: '31000-32767', allocated: 10 },
        'written',
        auditUser(hostname()),
      ],
    ],
  )
  assert.equal((await eventsFor(server.api, 'ServiceRangeAdopted')).length, 1)
  assert.equal(await metricOf(adopting, mismatch), 0)
  await createServices(server.api, 'c', 10, nodePort)
  const later = await whenAllocated(cluster, withinMs)
  assert.equal(later.nodePorts?.taken.size, 20)
})

test('two masters with the same ranges recreate each IPAddress once between them', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare' })
  const { etcd, server } = cluster
  const flags = [`--etcd-servers=${etcd.url}`]
  const masters = await Promise.all(
    ['192.0.2.1', '192.0.2.2'].map((address) => startMaster(owner, server, { address, host: address, flags })),
  )
  for (const master of masters) await whenReady(master, withinMs)
  await createServices(server.api, 'a', 100, nodePort)
  await whenAllocated(cluster, withinMs)
  const count = await countIpAddresses(owner, server.api)
  const writesBefore = await timesWritten(etcd, portsKey)
  const rounds = 3
  for (let round = 1; round <= rounds; round++) {
    await loseIpAddresses(etcd)
    await changeRange(etcd, 'servicenodeports', (taken) => taken.clear())
    await untilPasses('all to be gone', () => assert.ok(count.deleted >= round * 101), { withinMs, everyMs: 5 })
    await whenAllocated(cluster, withinMs)
  }
  await sleep(3_000)
  await whenAllocated(cluster, 1_000)
  assert.deepEqual([count.added, count.deleted], [rounds * 101, rounds * 101])
  const writes = (await timesWritten(etcd, portsKey)) - writesBefore - rounds
  assert.ok(writes <= rounds * 2, `${writes} writes of the bitmap in ${rounds} rounds`)
  for (const master of masters) {
    const { status, text } = await askHealth(master, '/readyz?verbose')
    assert.equal(status, 200, text)
    assert.equal(master.logged(/"level":"error"/).length, 0)
  }
})

test('each master whose range differs from the stored one reports it once, and none writes the range', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare' })
  const { etcd, server } = cluster
  const start = (name: string, address: string, range: string) =>
    startMaster(owner, server, {
      address,
      host: name,
      flags: [`--etcd-servers=${etcd.url}`, `--service-node-port-range=${range}`],
    })
  const right = await start('right', '192.0.2.1', '30000-32767')
  await whenReady(right, withinMs)
  const written = await timesWritten(etcd, portsKey)
  const others = [await start('first', '192.0.2.2', '31000-31999'), await start('second', '192.0.2.3', '30000-30999')]
  for (const other of others) {
    await other.waitForLog(/--service-node-port-range=30000-32767/, withinMs)
    await untilPasses('the metric', async () => assert.equal(await metricOf(other, mismatch), 1), { withinMs })
  }
  await sleep(5_000)
  const events = await eventsFor(server.api, 'ServiceRangeMismatch')
  assert.deepEqual(events.map(({ reportingInstance }) => reportingInstance).sort(), ['first', 'second'])
  for (const { series } of events) assert.equal(series?.count ?? 1, 1)
  for (const other of others) {
    assert.equal(other.logged(/--service-node-port-range=30000-32767/).length, 1)
    assert.equal((await askHealth(other, '/readyz')).status, 500)
  }
  assert.equal(await timesWritten(etcd, portsKey), written)
  await createServices(server.api, 'a', 20, nodePort)
  await whenAllocated(cluster, withinMs)
  assert.equal(await timesWritten(etcd, portsKey), written + 20)
  assert.equal((await askHealth(right, '/readyz')).status, 200)
})
