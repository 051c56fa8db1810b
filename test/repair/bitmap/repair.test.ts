import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EtcdError } from '../../../src/etcd/kv.ts'
import { services } from '../../../src/kube/resources.ts'
import { parseCidr } from '../../../src/net/cidr.ts'
import { clusterIpClaims } from '../../../src/repair/bitmap/claims.ts'
import { DryRunRangeRegistry } from '../../../src/repair/registries/memory.ts'
import { noneRegistry } from '../../../src/repair/registries/range-registry.ts'
import { aborted } from '../../../src/runtime/signals.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { busyClock } from '../../runtime/working-clock.ts'
import { RangeWorld, thirtySeconds } from './world.ts'

test('a missing range is created from the numbers of the Services, and later passes only read it', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  await world.service(30_002, 30_003)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  assert.deepEqual(await world.taken(), [30_001, 30_002, 30_003])
  assert.equal(master.settled, true)
  assert.equal(master.repair.fault(), undefined)
  master.requests()
  await world.time.advance(10 * thirtySeconds)
  const perPass = new Set(master.requests())
  assert.deepEqual([...perPass], ['read servicenodeports'])
  await master.stop()
})

test('a full pass that finds nothing reads the range once, at intervals with jitter', async () => {
  const world = await RangeWorld.start()
  world.store([30_001])
  await world.service(30_001)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  master.requests()
  const gaps: number[] = []
  let last = world.time.nowMs
  for (let i = 0; i < 20; i++) {
    await world.time.runUntil(() => master.registry.calls.length > i, 60_000)
    gaps.push(world.time.nowMs - last)
    last = world.time.nowMs
  }
  assert.deepEqual(master.requests(), Array(20).fill('read servicenodeports'))
  for (const gap of gaps.slice(1)) assert.ok(gap >= 27_000 && gap <= 33_000, `${gap} ms`)
  assert.ok(new Set(gaps).size > 10)
  await master.stop()
})

test('a full pass over many Services pauses between slices', async () => {
  const world = await RangeWorld.start()
  const ports = Array.from({ length: 100 }, (_, index) => 30_000 + index)
  world.store(ports)
  for (const port of ports) await world.service(port)
  for (let count = 0; count < 400; count++) {
    const metadata = { namespace: 'default', name: `plain-${count}` }
    await world.api.create(services, { metadata, spec: { clusterIP: 'None', ports: [{ port: 80 }] } })
  }
  const { timed, pauses } = busyClock()
  const master = world.master('a', { timed }).run()
  await world.time.advance(1_000)
  assert.equal(master.settled, true)
  const before = pauses()
  await world.time.advance(thirtySeconds * 1.1)
  // A slice is 160 steps.
  assert.ok(pauses() - before >= 3, `${pauses() - before} pauses`)
  await master.stop()
})

test('a lost bit is set again within 300 ms, and no other bit changes', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  await world.service(30_002)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  master.requests()
  world.store([30_002, 30_050])
  await world.time.advance(300)
  assert.deepEqual(await world.taken(), [30_001, 30_002, 30_050])
  assert.deepEqual(master.requests(), [
    'read servicenodeports',
    'GET /api/v1/namespaces/default/services/s1',
    'write servicenodeports',
  ])
  const [event] = master.events.slice(-1)
  assert.deepEqual(
    { ...event, regarding: event?.regarding.name },
    {
      regarding: 's1',
      type: 'Warning',
      reason: 'PortNotAllocated',
      action: 'PortAllocation',
      note: 'Port 30001 is not allocated; repairing',
    },
  )
  await master.stop()
})

test('a bitmap that was zeroed is restored for many Services in one write', async () => {
  const world = await RangeWorld.start()
  const ports = Array.from({ length: 90 }, (_, i) => 30_000 + i)
  for (const port of ports) await world.service(port)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  master.requests()
  world.store([])
  await world.time.advance(300)
  assert.deepEqual(await world.taken(), ports)
  assert.deepEqual(master.requests(), ['read servicenodeports', 'GET /api/v1/services', 'write servicenodeports'])
  assert.deepEqual(await master.metric('apiserver_bootstrap_repairs_total'), {
    'repair="node-port",reason="PortNotAllocated"': 180,
  })
  await master.stop()
})

test('a deleted range is created again', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  world.registry.put('servicenodeports', undefined)
  await world.time.advance(100)
  assert.deepEqual(await world.taken(), [30_001])
  await master.stop()
})

test('the normal creation and deletion of a Service cause no request', async () => {
  const world = await RangeWorld.start()
  const master = world.master('a').run()
  await world.time.advance(1_000)
  master.requests()
  world.store([30_005])
  await world.time.advance(5)
  const service = await world.service(30_005)
  await world.time.advance(500)
  await world.delete(service)
  await world.time.advance(5)
  world.store([])
  await world.time.advance(500)
  assert.deepEqual(master.requests(), [])
  assert.deepEqual(await world.taken(), [])
  await master.stop()
})

test('the number of a Service that is deleted before the write is not set again', async () => {
  const world = await RangeWorld.start()
  const service = await world.service(30_001)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  master.registry.beforeWrite = async () => {
    master.registry.beforeWrite = () => {}
    await world.delete(service)
    world.store([])
  }
  world.store([])
  await world.time.advance(1_000)
  assert.deepEqual(await world.taken(), [])
  await master.stop()
})

test('the number of a deleted Service is not set again even if the watch has not delivered the deletion', async () => {
  const world = await RangeWorld.start()
  const service = await world.service(30_001)
  await world.service(30_002)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  master.faults.add({ stream: true, fault: { type: 'stall', afterEvents: 0 } })
  master.faults.resetStreams()
  await world.time.advance(500)
  await world.delete(service)
  world.store([])
  await world.time.advance(5_000)
  assert.deepEqual(await world.taken(), [30_002])
  await master.stop()
})

test('a write that conflicts is planned anew on the newly stored state', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  let times = 2
  master.registry.beforeWrite = () => {
    if (times-- > 0) world.store([30_060 + times])
  }
  world.store([])
  await world.time.advance(1_000)
  assert.deepEqual(await world.taken(), [30_001, 30_060])
  await master.stop()
})

test('many lost bits are restored although every write after a full list conflicts', async () => {
  const world = await RangeWorld.start()
  const ports = Array.from({ length: 40 }, (_, i) => 30_000 + i)
  for (const port of ports) await world.service(port)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  master.registry.beforeWrite = () => {
    const listed = master.requests().includes('GET /api/v1/services')
    if (listed) world.store([30_099])
  }
  world.store([])
  await world.time.advance(5_000)
  assert.deepEqual(await world.taken(), [...ports, 30_099])
  await master.stop()
})

test('a write whose answer is lost is a fault, and the range is repaired whether or not the write happened', async () => {
  for (const happens of [true, false]) {
    const world = await RangeWorld.start()
    await world.service(30_001)
    const master = world.master('a').run()
    await world.time.advance(1_000)
    world.store([])
    master.registry.beforeWrite = () => {
      master.registry.failure = new EtcdError('Timeout', 'no answer')
      master.registry.writesHappen = happens
    }
    await world.time.advance(2_000)
    assert.match(master.repair.fault() ?? '', /no answer/)
    master.registry.beforeWrite = () => {}
    master.registry.failure = undefined
    await world.time.advance(2_000)
    assert.deepEqual(await world.taken(), [30_001])
    assert.equal(master.repair.fault(), undefined)
    await master.stop()
  }
})

test('a registry that does not answer at the start is retried until it does', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  const master = world.master('a')
  master.registry.failure = new EtcdError('Unreachable', 'connection refused')
  master.run()
  await world.time.advance(20_000)
  assert.equal(master.settled, false)
  assert.match(master.repair.fault() ?? '', /connection refused/)
  assert.equal(await world.taken(), undefined)
  master.registry.failure = undefined
  await world.time.advance(2_000)
  assert.equal(master.settled, true)
  assert.deepEqual(await world.taken(), [30_001])
  await master.stop()
})

test('the range is read after a gap in the watch', async () => {
  const world = await RangeWorld.start()
  const master = world.master('a').run()
  await world.time.advance(1_000)
  master.requests()
  master.registry.gap()
  await world.time.advance(100)
  assert.deepEqual(master.requests(), ['read servicenodeports'])
  await master.stop()
})

test('three masters restore a lost bitmap with few writes, and then only read it', async () => {
  const world = await RangeWorld.start()
  for (let port = 30_000; port < 30_030; port++) await world.service(port)
  const masters = ['a', 'b', 'c'].map((name) => world.master(name).run())
  await world.time.advance(1_000)
  for (const master of masters) master.requests()
  for (let round = 0; round < 5; round++) {
    world.store([])
    await world.time.advance(2_000)
    assert.equal((await world.taken())?.length, 30)
  }
  const writes = masters.flatMap((master) => master.requests()).filter((request) => request.startsWith('write'))
  assert.ok(writes.length <= 15, `${writes.length} writes`)
  await world.time.advance(5 * thirtySeconds)
  const later = masters.flatMap((master) => master.requests())
  assert.deepEqual(new Set(later), new Set(['read servicenodeports']))
  await Promise.all(masters.map((master) => master.stop()))
})

test('each full pass reports the problems of Services, and a duplicate number belongs to the oldest Service', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  await world.time.advance(2_000)
  await world.service(30_001)
  await world.service(31_000)
  const master = world.master('a').run()
  await world.time.advance(thirtySeconds * 2)
  const recorded = master.events.map(({ reason, regarding }) => `${reason} ${regarding.name}`)
  const pass = ['PortOutOfRange s3', 'PortAlreadyAllocated s2']
  assert.deepEqual(recorded.slice(0, 3), ['PortNotAllocated s1', ...pass])
  assert.deepEqual(recorded.slice(3, 5), pass)
  assert.deepEqual(await world.taken(), [30_001])
  await master.stop()
})

test('beside a repair of IPAddresses only missing numbers of the bitmap are reported', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  await world.service(30_001)
  await world.service(31_000)
  let isBeside = true
  const master = world.master('a', { isBesideIpAddresses: () => isBeside }).run()
  await world.time.advance(1_000)
  const reported = (): readonly string[] => master.events.splice(0).map(({ reason }) => reason)
  assert.deepEqual(reported(), ['PortNotAllocated'])
  assert.equal(master.settled, true)
  isBeside = false
  await world.time.advance(thirtySeconds)
  assert.deepEqual(reported(), ['PortOutOfRange', 'PortAlreadyAllocated'])
  await master.stop()
})

test('without a registry, duplicates and ports out of range are reported, and a fault is not', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  await world.time.advance(2_000)
  await world.service(30_001)
  await world.service(31_000)
  const master = world.master('a', { registry: noneRegistry }).run()
  await world.time.advance(1_000)
  assert.equal(master.settled, true)
  assert.equal(master.repair.fault(), undefined)
  assert.deepEqual(
    master.events.map(({ reason, regarding }) => `${reason} ${regarding.name}`),
    ['PortOutOfRange s3', 'PortAlreadyAllocated s2'],
  )
  await world.time.advance(thirtySeconds)
  assert.equal(master.events.length, 4)
  assert.deepEqual(await master.metric('kube_apiserver_nodeport_allocator_allocated_ports'), { '': 1 })
  await master.stop()
})

test('if the server repairs by itself, full passes report the problems and write nothing', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  world.store([])
  const master = world.master('a', { permit: { mode: 'report', granted: async () => false } }).run()
  await world.time.advance(1_000)
  assert.equal(master.settled, true)
  assert.deepEqual(
    master.events.map(({ note }) => note),
    ['Port 30001 is not allocated'],
  )
  await world.service(30_002)
  await world.time.advance(10_000)
  assert.equal(master.events.length, 1)
  await world.time.advance(thirtySeconds)
  assert.equal(master.events.length, 3)
  assert.deepEqual(await world.taken(), [])
  assert.deepEqual(new Set(master.requests().filter((request) => !request.startsWith('read'))), new Set())
  await master.stop()
})

test('a range is not written while the permit is refused', async () => {
  const world = await RangeWorld.start()
  let granted = true
  const master = world.master('a', { permit: { granted: async () => granted } }).run()
  await world.time.advance(1_000)
  granted = false
  const service = await world.service(30_001)
  await world.time.advance(thirtySeconds * 2)
  assert.deepEqual(await world.taken(), [])
  assert.ok(master.events.some(({ note }) => note === 'Port 30001 is not allocated'))
  granted = true
  await world.time.advance(thirtySeconds * 2)
  assert.deepEqual(await world.taken(), [30_001])
  await world.delete(service)
  await master.stop()
})

test('each of two IP families has its own bitmap', async () => {
  const world = await RangeWorld.start()
  const claims = clusterIpClaims([parseCidr('10.96.0.0/24'), parseCidr('fd00::/120')])
  const clusterIPs = ['10.96.0.7', 'fd00::7']
  await world.api.create(services, {
    metadata: { namespace: 'default', name: 'dual' },
    spec: { clusterIP: '10.96.0.7', clusterIPs, ipFamilyPolicy: 'PreferDualStack', ports: [{ port: 80 }] },
  })
  const master = world.master('a', { claims }).run()
  await world.time.advance(1_000)
  const { signal } = new AbortController()
  for (const name of ['serviceips', 'secondaryserviceips'] as const) {
    const stored = await world.registry.read(name, signal)
    assert.ok(stored.type === 'range')
    assert.deepEqual([...stored.data], [1 << 6])
  }
  world.registry.put('secondaryserviceips', { range: 'fd00::/120', data: new Uint8Array() })
  await world.time.advance(300)
  const corrected = await world.registry.read('secondaryserviceips', signal)
  assert.ok(corrected.type === 'range')
  assert.deepEqual([...corrected.data], [1 << 6])
  const notes = master.events.map(({ note }) => note)
  assert.equal(notes.at(-1), 'Cluster IP [IPv6]:fd00::7 is not allocated; repairing')
  await master.stop()
})

test('a dry run logs the problems and the planned writes, and writes nothing', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  await world.service(30_001)
  const planned = memoryLogger()
  const master = world.master('a', { registry: new DryRunRangeRegistry(world.registry, planned) }).run()
  await world.time.advance(1_000)
  await world.service(30_002)
  await world.time.advance(6 * thirtySeconds)
  assert.deepEqual(await world.taken(), [30_077])
  assert.equal(master.settled, true)
  const warned = master.logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
  assert.deepEqual(warned, [
    'Port 30001 is not allocated; repairing',
    'Port 30002 is not allocated; repairing',
    'Port 30077 appears to have leaked: cleaning up',
  ])
  assert.deepEqual(await master.metric('apiserver_bootstrap_repairs_total'), {})
  assert.ok(planned.lines.length > 0)
  await master.stop()
})

test('full passes repair the range even if its watch never works', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  const master = world.master('a')
  master.registry.watch = ({ signal }) => aborted(signal)
  master.run()
  await world.time.advance(2_000)
  assert.deepEqual(await world.taken(), [30_001])
  world.store([])
  await world.time.advance(1.2 * thirtySeconds)
  assert.deepEqual(await world.taken(), [30_001])
  await master.stop()
})

test('a stored range that must not be rewritten is a fault only when something is missing', async () => {
  const world = await RangeWorld.start()
  world.store([30_001])
  await world.service(30_001)
  const master = world.master('a')
  const read = master.registry.read.bind(master.registry)
  master.registry.read = async (...args) => {
    const stored = await read(...args)
    return stored.type === 'range' ? { ...stored, fixed: 'is not rewritten' } : stored
  }
  master.run()
  await world.time.advance(1_000)
  assert.equal(master.settled, true)
  assert.equal(master.repair.fault(), undefined)
  await world.service(30_002)
  await world.time.advance(1_000)
  assert.equal(master.repair.fault(), 'servicenodeports in memory is not rewritten; it is not changed')
  assert.deepEqual(await world.taken(), [30_001])
  assert.ok(!master.requests().some((request) => request.startsWith('write')))
  await master.stop()
})

test('if the server repairs by itself, a Service that it is still creating is not reported', async () => {
  const world = await RangeWorld.start()
  world.store([])
  await world.service(30_001)
  const master = world.master('a', { permit: { mode: 'report', granted: async () => false } })
  const read = master.registry.read.bind(master.registry)
  master.registry.read = async (...args) => {
    master.registry.read = read
    const stored = await read(...args)
    // The state was read, and the Service was received, before the number was allocated.
    world.time.view().schedule(10, () => world.store([30_001]))
    return stored
  }
  master.run()
  await world.time.advance(1_000)
  assert.equal(master.settled, true)
  assert.deepEqual(master.events, [])
  await master.stop()
})

test('a state that the watch delivers during a read overrides the older answer of the read', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  world.store([30_001])
  const master = world.master('a').run()
  await world.time.advance(2_000)
  master.registry.afterRead = () => {
    master.registry.afterRead = () => {}
    world.store([])
  }
  await world.time.advance(1.2 * thirtySeconds)
  assert.equal(master.requests().filter((request) => request.startsWith('write')).length, 1)
  assert.deepEqual(await world.taken(), [30_001])
  await master.stop()
})
