import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EtcdError } from '../../../src/etcd/kv.ts'
import { parseCidr } from '../../../src/net/cidr.ts'
import { clusterIpClaims } from '../../../src/repair/bitmap/claims.ts'
import { RangeWorld, thirtySeconds } from './world.ts'

const minute = 60_000

/** After how many milliseconds from now a port is no longer allocated. */
async function freedAfter(world: RangeWorld, port: number, limitMs: number): Promise<number | undefined> {
  const from = world.time.nowMs
  for (let ms = 0; ms < limitMs; ms += 1_000) {
    await world.time.advance(1_000)
    if (!(await world.taken())?.includes(port)) return world.time.nowMs - from
  }
  return undefined
}

test('a leaked number is freed in the third full pass that finds it', async () => {
  const world = await RangeWorld.start()
  world.store([30_001, 30_077])
  await world.service(30_001)
  const master = world.master('a', { intervalMs: 3 * minute }).run()
  const freedMs = (await freedAfter(world, 30_077, 15 * minute)) ?? 0
  assert.ok(freedMs > 5.4 * minute && freedMs < 6.7 * minute, `${freedMs} ms`)
  assert.deepEqual(await world.taken(), [30_001])
  assert.deepEqual(await master.metric('apiserver_nodeport_repair_port_errors_total'), { 'type="leak"': 1 })
  assert.deepEqual(await master.metric('apiserver_bootstrap_repairs_total'), {
    'repair="node-port",reason="PortLeaked"': 1,
  })
  assert.equal(master.events.length, 0)
  const line = master.logger.lines.find(({ message }) => message === 'Port 30077 appears to have leaked: cleaning up')
  assert.equal(line?.fields.type, 'leak')
  await master.stop()
})

test('a leaked number is not freed before two minutes, however many passes run', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const master = world.master('a', { intervalMs: thirtySeconds }).run()
  const freedMs = (await freedAfter(world, 30_077, 5 * minute)) ?? 0
  assert.ok(freedMs >= 2 * minute && freedMs < 2 * minute + 34_000, `${freedMs} ms`)
  await master.stop()
})

test('freeing a leak takes one list of Services after the last read, and then one write', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const master = world.master('a', { intervalMs: 3 * minute }).run()
  await world.time.advance(6.7 * minute)
  assert.deepEqual(master.requests(), [
    ...['read servicenodeports', 'read servicenodeports', 'read servicenodeports'],
    'GET /api/v1/services',
    'write servicenodeports',
  ])
  await master.stop()
})

test('the two minutes of a leaked number start anew if it is released and allocated again', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const master = world.master('a', { intervalMs: thirtySeconds }).run()
  await world.time.advance(110_000)
  world.store([])
  world.store([30_077])
  const freedMs = (await freedAfter(world, 30_077, 5 * minute)) ?? 0
  assert.ok(freedMs >= 2 * minute, `${freedMs} ms`)
  await master.stop()
})

test('the two minutes of a leaked number start anew after a gap in the watch', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const master = world.master('a', { intervalMs: thirtySeconds }).run()
  await world.time.advance(110_000)
  master.registry.gap()
  const freedMs = (await freedAfter(world, 30_077, 5 * minute)) ?? 0
  assert.ok(freedMs >= 2 * minute, `${freedMs} ms`)
  await master.stop()
})

test('no number is freed while the watch of the range lags behind', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const master = world.master('a', { intervalMs: thirtySeconds })
  master.registry.hold()
  master.run()
  await world.time.advance(100_000)
  // The port is released, and a request that is still under way allocates it again. The watch has not reported it.
  world.store([])
  world.store([30_077])
  await world.time.advance(59_000)
  assert.deepEqual(await world.taken(), [30_077])
  assert.equal(master.requests().filter((request) => request.startsWith('write')).length, 0)
  master.registry.release()
  const freedMs = (await freedAfter(world, 30_077, 5 * minute)) ?? 0
  assert.ok(freedMs >= 2 * minute - 60_000, `${freedMs} ms`)
  await master.stop()
})

test('the number of a Service that is still being created is never freed', async () => {
  for (let delay = 0; delay < 12; delay++) {
    const world = await RangeWorld.start()
    world.store([30_077])
    const master = world.master('a', { intervalMs: thirtySeconds }).run()
    // Another client cleans up an old leak, and a request that takes 50 s allocates the number at once.
    await world.time.advance(80_000 + delay * 5_000)
    world.store([])
    world.store([30_077])
    await world.time.advance(50_000)
    assert.deepEqual(await world.taken(), [30_077])
    await world.service(30_077)
    await world.time.advance(10 * minute)
    assert.deepEqual(await world.taken(), [30_077])
    await master.stop()
  }
})

test('a leaked number is freed although other writes come first, and nothing of those writes is lost', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const master = world.master('a', { intervalMs: 3 * minute }).run()
  let writes = 0
  master.registry.beforeWrite = () => {
    if (writes++ < 3) world.store([30_077, 30_001])
  }
  await world.time.advance(7 * minute)
  assert.deepEqual(await world.taken(), [30_001])
  assert.equal(writes, 4)
  await master.stop()
})

test('while Services cannot be listed, no number is freed and a fault is reported', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const master = world.master('a', { intervalMs: thirtySeconds }).run()
  await world.time.advance(100_000)
  master.faults.add({
    methods: ['GET'],
    pathPrefix: '/api/v1/services',
    stream: false,
    fault: { type: 'status', status: 500 },
  })
  await world.time.advance(minute)
  assert.deepEqual(await world.taken(), [30_077])
  assert.notEqual(master.repair.fault(), undefined)
  master.faults.clear()
  await world.time.advance(5_000)
  assert.deepEqual(await world.taken(), [])
  assert.equal(master.repair.fault(), undefined)
  await master.stop()
})

test('a leak that may not be freed is logged once, and counts in every full pass from the third on', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const permit = { mode: 'report', granted: async () => false } as const
  const master = world.master('a', { intervalMs: 3 * minute, permit }).run()
  await world.time.advance(30 * minute)
  const passes = master.requests().filter((request) => request.startsWith('read')).length
  assert.ok(passes > 8, `${passes} passes`)
  assert.deepEqual(await master.metric('apiserver_nodeport_repair_port_errors_total'), {
    'type="leak"': passes - 2,
  })
  assert.deepEqual(await world.taken(), [30_077])
  const lines = master.logger.lines.filter(({ message }) => message === 'Port 30077 appears to have leaked')
  assert.equal(lines.length, 1)
  await master.stop()
})

test('the freeing of a leak is logged even if the leak was logged before, when it could not be freed', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  let granted = false
  const permit = { granted: async () => granted }
  const master = world.master('a', { intervalMs: thirtySeconds, permit }).run()
  await world.time.advance(4 * minute)
  granted = true
  await world.time.advance(minute)
  assert.deepEqual(await world.taken(), [])
  assert.deepEqual(
    master.logger.lines.filter(({ fields }) => fields.reason === 'PortLeaked').map(({ message }) => message),
    ['Port 30077 appears to have leaked', 'Port 30077 appears to have leaked: cleaning up'],
  )
  await master.stop()
})

test('a leak that may not be freed is not logged again after another range was withheld and released', async () => {
  const world = await RangeWorld.start()
  const claims = clusterIpClaims([parseCidr('10.96.0.0/24'), parseCidr('fd00::/120')])
  world.registry.put('serviceips', { range: '10.96.0.0/24', data: new Uint8Array([0b100]) })
  world.registry.put('secondaryserviceips', { range: 'fd00::/120', data: new Uint8Array() })
  const permit = { mode: 'report', granted: async () => false } as const
  const master = world.master('a', { claims, intervalMs: 3 * minute, permit }).run()
  const leaks = async () => ({
    lines: master.logger.lines.filter(({ fields }) => fields.type === 'leak').map(({ fields }) => fields.item),
    metric: await master.metric('apiserver_clusterip_repair_ip_errors_total'),
  })
  await world.time.advance(7 * minute)
  const reported = await leaks()
  assert.deepEqual(reported.lines, ['10.96.0.3'])
  world.registry.put('secondaryserviceips', { range: 'fd01::/120', data: new Uint8Array() })
  await world.time.advance(1_000)
  assert.notEqual(master.repair.fault(), undefined)
  world.registry.put('secondaryserviceips', { range: 'fd00::/120', data: new Uint8Array() })
  await world.time.advance(1_000)
  assert.equal(master.repair.fault(), undefined)
  await world.time.advance(10 * minute)
  assert.deepEqual((await leaks()).lines, reported.lines)
  await master.stop()
})

test('a leak that other writers prevent from being freed is freed in the next full pass', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const master = world.master('a', { intervalMs: 3 * minute }).run()
  let writes = 0
  master.registry.beforeWrite = () => {
    if (++writes <= 5) world.store([30_077, 30_001])
  }
  const freedMs = (await freedAfter(world, 30_077, 20 * minute)) ?? 0
  assert.equal(writes, 6)
  assert.ok(freedMs > 8.1 * minute && freedMs < 10 * minute, `${freedMs} ms`)
  await master.stop()
})

test('a freed number that is allocated again counts as a new leak, even if the answer to its write was lost', async () => {
  for (const lost of [false, true]) {
    const world = await RangeWorld.start()
    world.store([30_077, 30_078])
    const master = world.master('a', { intervalMs: thirtySeconds })
    master.registry.writesHappen = true
    master.registry.afterWrite = () => {
      if (lost) master.registry.failure = new EtcdError('Timeout', 'no answer')
      // Requests that are still under way allocate one of the numbers at once.
      world.store([30_077])
    }
    master.run()
    await freedAfter(world, 30_078, 5 * minute)
    master.registry.failure = undefined
    master.registry.afterWrite = () => {}
    assert.deepEqual(await world.taken(), [30_077])
    const freedMs = (await freedAfter(world, 30_077, 5 * minute)) ?? 0
    assert.ok(freedMs >= 2 * minute - 1_000, `${freedMs} ms`)
    await master.stop()
  }
})

test('a leak that cannot be freed for long is not freed once another Service has allocated its number', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  let granted = false
  const permit = { granted: async () => granted }
  const master = world.master('a', { intervalMs: thirtySeconds, permit }).run()
  await world.time.advance(5 * minute)
  assert.deepEqual(await master.metric('apiserver_bootstrap_repairs_total'), {})
  // Another client clears the bit, and a request that takes 59 s allocates the number at once.
  world.store([])
  world.store([30_077])
  granted = true
  await world.time.advance(59_000)
  await world.service(30_077)
  await world.time.advance(10 * minute)
  assert.deepEqual(await world.taken(), [30_077])
  assert.deepEqual(await master.metric('apiserver_bootstrap_repairs_total'), {})
  await master.stop()
})

test('of several masters only one writes to free a leaked number', async () => {
  const world = await RangeWorld.start()
  world.store([30_001, 30_077])
  await world.service(30_001)
  const masters = ['a', 'b'].map((name) => world.master(name, { intervalMs: thirtySeconds }).run())
  await world.time.advance(6 * minute)
  assert.deepEqual(await world.taken(), [30_001])
  const writes = masters.flatMap((master) => master.requests()).filter((request) => request.startsWith('write'))
  assert.equal(writes.length, 1)
  await Promise.all(masters.map((master) => master.stop()))
})

test('the number of a Service that the watch has not delivered yet is not freed', async () => {
  const world = await RangeWorld.start()
  world.store([30_077])
  const master = world.master('a', { intervalMs: thirtySeconds }).run()
  await world.time.advance(119_000)
  master.faults.add({ stream: true, fault: { type: 'stall', afterEvents: 0 } })
  master.faults.resetStreams()
  await world.time.advance(500)
  await world.service(30_077)
  master.requests()
  await world.time.runUntil(() => master.registry.calls.length > 0, 40_000)
  await world.time.advance(100)
  assert.deepEqual(await world.taken(), [30_077])
  assert.deepEqual(master.requests(), ['read servicenodeports', 'GET /api/v1/services'])
  await master.stop()
})
