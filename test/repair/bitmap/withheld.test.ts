import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EtcdError } from '../../../src/etcd/kv.ts'
import { parseCidr } from '../../../src/net/cidr.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { clusterIpClaims, nodePortClaims } from '../../../src/repair/bitmap/claims.ts'
import { readOnly } from './range-writer-world.ts'
import { type RangeMaster, RangeWorld, thirtySeconds } from './world.ts'

function audited({ logger }: RangeMaster) {
  return logger.lines.filter(({ fields }) => fields.audit === true).map(({ fields }) => fields)
}

const withheld = 'apiserver_bootstrap_range_withheld'

test('a range stored for another flag is not changed; a Warning event names the flag to set, and a metric shows it', async () => {
  const world = await RangeWorld.start()
  world.store([31_050], '31000-31099')
  await world.service(30_001)
  const master = world.master('a').run()
  await world.time.advance(20_000)
  assert.deepEqual(await world.taken(31_000), [31_050])
  const note =
    'servicenodeports in memory has the range 31000-31099, not 30000-30099; it is not changed, because a server that uses it would reject every new Service; set --service-node-port-range=31000-31099, or restart with --adopt-range to rewrite it'
  assert.deepEqual(
    master.events.map((event) => [event.type, event.reason, event.action, event.note]),
    [['Warning', 'ServiceRangeMismatch', 'RangeAllocation', note]],
  )
  assert.deepEqual(await master.metric(withheld), { 'range="servicenodeports",reason="mismatch"': 1 })
  assert.equal(master.repair.fault(), note)
  // Waiting does not correct it, so it does not delay anything that waits for the first pass.
  assert.equal(master.settled, true)
  assert.ok(!master.requests().some((request) => request.startsWith('write')))
  const second = world.master('b').run()
  await world.time.advance(1_000)
  assert.deepEqual(await second.metric(withheld), { 'range="servicenodeports",reason="mismatch"': 1 })
  await second.stop()
  assert.deepEqual(await second.metric(withheld), {}, 'a repair that has ended reports no withheld range')
  world.store([30_050])
  await world.time.advance(1_000)
  assert.deepEqual(await world.taken(), [30_001, 30_050])
  assert.equal(master.repair.fault(), undefined)
  assert.equal(master.settled, true)
  assert.deepEqual(await master.metric(withheld), {})
  await master.stop()
})

test('a range that is changed while a master manages it is not rewritten, even with adoptRange', async () => {
  for (const adoptRange of [false, true]) {
    const world = await RangeWorld.start()
    await world.service(30_001)
    const master = world.master('a', { adoptRange }).run()
    await world.time.advance(1_000)
    world.store([31_050], '31000-31099')
    await world.time.advance(2 * thirtySeconds)
    assert.deepEqual(await world.taken(31_000), [31_050])
    assert.match(master.repair.fault() ?? '', /--service-node-port-range=31000-31099/)
    await master.stop()
  }
})

test('of two masters with different flags the later one writes nothing', async () => {
  const world = await RangeWorld.start()
  await world.service(30_001)
  const first = world.master('a').run()
  await world.time.advance(1_000)
  const second = world.master('b', { claims: nodePortClaims(parsePortRange('31000-31099')) }).run()
  await world.time.advance(3 * thirtySeconds)
  assert.deepEqual(await world.taken(), [30_001])
  assert.deepEqual(first.events.slice(1), [])
  assert.equal(first.repair.fault(), undefined)
  assert.ok(!second.requests().some((request) => request.startsWith('write')))
  assert.match(second.repair.fault() ?? '', /has the range 30000-30099, not 31000-31099/)
  await first.stop()
  await second.stop()
})

test('two masters whose flags both differ from the stored range write nothing and warn', async () => {
  const world = await RangeWorld.start()
  world.store([32_001], '32000-32099')
  const masters = ['30000-30099', '31000-31099'].map((text) =>
    world.master(text, { claims: nodePortClaims(parsePortRange(text)) }).run(),
  )
  await world.time.advance(20_000)
  assert.deepEqual(await world.taken(32_000), [32_001])
  for (const master of masters) {
    assert.equal(master.events.length, 1)
    assert.deepEqual(await master.metric(withheld), { 'range="servicenodeports",reason="mismatch"': 1 })
    assert.ok(!master.requests().some((request) => request.startsWith('write')))
    await master.stop()
  }
})

test('with --adopt-range a range is rewritten with all held numbers and the allocated ones that both ranges have', async () => {
  const world = await RangeWorld.start()
  world.store([29_999, 30_010, 30_020], '29950-30050')
  await world.service(30_001)
  await world.service(30_010)
  const user = { host: 'host-1' }
  const master = world.master('a', { adoptRange: true, user }).run()
  await world.time.advance(1_000)
  assert.deepEqual(await world.taken(), [30_001, 30_010, 30_020])
  const where = 'servicenodeports in memory'
  assert.deepEqual(audited(master), [
    {
      ...{ audit: true, verb: 'adopt', reasons: ['adopt-range'], outcome: 'written', user, where },
      objectRef: { resource: 'rangeallocations', name: 'servicenodeports' },
      before: { range: '29950-30050', allocated: 3 },
      after: { range: '30000-30099', allocated: 3 },
    },
  ])
  assert.deepEqual(
    master.events.filter(({ reason }) => reason === 'ServiceRangeAdopted').map(({ note }) => note),
    [`${where} was rewritten from the range 29950-30050 to 30000-30099 (by host-1)`],
  )
  assert.equal(master.settled, true)
  assert.equal(master.repair.fault(), undefined)
  await master.stop()
})

test('an adoption whose answer is lost is audited as unknown and emits no event', async () => {
  const world = await RangeWorld.start()
  world.store([30_010], '29950-30050')
  const master = world.master('a', { adoptRange: true, user: { host: 'host-1' } })
  master.registry.writesHappen = true
  master.registry.beforeWrite = () => {
    master.registry.failure = new EtcdError('Timeout', 'no answer')
  }
  master.run()
  await world.time.advance(100)
  master.registry.failure = undefined
  master.registry.beforeWrite = () => {}
  await world.time.advance(1_000)
  assert.deepEqual(await world.taken(), [30_010])
  assert.deepEqual(
    audited(master).map(({ verb, outcome }) => [verb, outcome]),
    [['adopt', 'unknown']],
  )
  assert.deepEqual(master.events, [])
  await master.stop()
})

test('two masters that may adopt different ranges write at most three times', async () => {
  const world = await RangeWorld.start()
  world.store([], '32000-32099')
  const masters = ['30000-30099', '31000-31099'].map((text) =>
    world.master(text, { adoptRange: true, claims: nodePortClaims(parsePortRange(text)) }).run(),
  )
  await world.time.advance(10 * thirtySeconds)
  const writes = masters.flatMap((master) => master.requests()).filter((request) => request.startsWith('write'))
  // One write of each master, and one more that was overtaken.
  assert.ok(writes.length <= 3, `${writes.length} writes`)
  assert.equal(masters.filter((master) => master.repair.fault() !== undefined).length, 1)
  await Promise.all(masters.map((master) => master.stop()))
})

const unreadable = {
  'numbers beyond its range': { range: '30000-30099', data: new Uint8Array(20).fill(255) },
  'another range and with numbers beyond it': { range: '31000-31007', data: new Uint8Array([1, 0]) },
  'a malformed range': { range: 'ports', data: new Uint8Array() },
}
for (const [name, content] of Object.entries(unreadable)) {
  test(`a stored range with ${name} is never written, not even with --adopt-range`, async () => {
    const world = await RangeWorld.start()
    world.registry.put('servicenodeports', content)
    await world.service(30_001)
    const master = world.master('a', { adoptRange: true }).run()
    await world.time.advance(3 * thirtySeconds)
    assert.deepEqual(master.events[0]?.reason, 'ServiceRangeUnreadable')
    assert.match(master.repair.fault() ?? '', /^servicenodeports in memory .*; it is not changed$/)
    assert.deepEqual(await master.metric(withheld), { 'range="servicenodeports",reason="unreadable"': 1 })
    assert.ok(!master.requests().some((request) => request.startsWith('write')))
    await master.stop()
  })
}

test('a mismatched range of one family does not prevent the repair of the other family', async () => {
  const world = await RangeWorld.start()
  world.registry.put('secondaryserviceips', { range: 'fd01::/120', data: new Uint8Array() })
  const claims = clusterIpClaims([parseCidr('10.96.0.0/24'), parseCidr('fd00::/120')])
  await world.service(30_001)
  const master = world.master('a', { claims }).run()
  await world.time.advance(1_000)
  const stored = await world.registry.read('serviceips', new AbortController().signal)
  assert.ok(stored.type === 'range')
  assert.deepEqual([...stored.data], [1])
  assert.match(master.repair.fault() ?? '', /set --service-cluster-ip-range=10.96.0.0\/24,fd01::\/120/)
  await master.stop()
})

test('a range that is stored without its text gets the text and its missing numbers', async () => {
  const world = await RangeWorld.start()
  world.registry.put('servicenodeports', { range: '', data: new Uint8Array([1]) })
  await world.service(30_001)
  const master = world.master('a').run()
  await world.time.advance(1_000)
  const stored = await world.registry.read('servicenodeports', new AbortController().signal)
  assert.ok(stored.type === 'range')
  assert.deepEqual([stored.range, ...stored.data], ['30000-30099', 3])
  await master.stop()
})

test('once a mismatched range matches again, all Services are checked at once and problems are reported', async () => {
  const world = await RangeWorld.start()
  world.store([31_050], '31000-31099')
  await world.service(31_050)
  const master = world.master('a', { intervalMs: 600_000 }).run()
  await world.time.advance(2_000)
  assert.deepEqual(
    master.events.map(({ reason }) => reason),
    ['ServiceRangeMismatch'],
  )
  world.store([])
  await world.time.advance(1_000)
  assert.deepEqual(master.events.map(({ reason }) => reason).slice(1), ['PortOutOfRange'])
  await master.stop()
})

test('a range that is withheld, released and withheld again is logged both times, also between full passes', async () => {
  const world = await RangeWorld.start()
  world.store([])
  const master = world.master('a', { intervalMs: 600_000 }).run()
  await world.time.advance(1_000)
  for (let time = 0; time < 2; time++) {
    world.store([], '31000-31099')
    await world.time.advance(1_000)
    world.store([])
    await world.time.advance(1_000)
  }
  const reason = 'ServiceRangeMismatch'
  assert.equal(master.logger.lines.filter(({ fields }) => fields.reason === reason).length, 2)
  assert.equal(master.events.filter((event) => event.reason === reason).length, 2)
  await master.stop()
})

test('a range that cannot be rewritten is logged once, although other writers change it', async () => {
  const world = await RangeWorld.start()
  world.store([])
  await world.service(30_001)
  const master = world.master('a', { registry: readOnly(world.registry), intervalMs: 600_000 }).run()
  for (const ports of [[30_002], [30_002, 30_003]]) {
    await world.time.advance(1_000)
    assert.notEqual(master.repair.fault(), undefined)
    world.store(ports)
  }
  await world.time.advance(1_000)
  assert.equal(master.logger.lines.filter(({ fields }) => fields.reason === 'ServiceRangeUnreadable').length, 1)
  await master.stop()
})

test('a range that cannot be rewritten is logged again if it was in order meanwhile, also between full passes', async () => {
  const world = await RangeWorld.start()
  world.store([])
  await world.service(30_001)
  const master = world.master('a', { registry: readOnly(world.registry), intervalMs: 600_000 }).run()
  await world.time.advance(1_000)
  world.store([30_001])
  await world.time.advance(1_000)
  assert.equal(master.repair.fault(), undefined)
  world.store([])
  await world.time.advance(1_000)
  assert.notEqual(master.repair.fault(), undefined)
  assert.equal(master.logger.lines.filter(({ fields }) => fields.reason === 'ServiceRangeUnreadable').length, 2)
  await master.stop()
})

test('a full pass does not report a range that the watch releases during the pass', async () => {
  const world = await RangeWorld.start()
  const claims = clusterIpClaims([parseCidr('10.96.0.0/24'), parseCidr('fd00::/120')])
  world.registry.put('serviceips', { range: '10.96.0.0/24', data: new Uint8Array() })
  world.registry.put('secondaryserviceips', { range: 'fd00::/120', data: new Uint8Array() })
  await world.service(30_001)
  const registry = readOnly(world.registry)
  const master = world.master('a', { claims, registry, intervalMs: 600_000 })
  // The address of the Service is set while the pass reads the other family.
  const { registry: tried } = master
  tried.afterRead = () => {
    if (tried.calls.at(-1) !== 'read secondaryserviceips') return
    tried.afterRead = () => {}
    world.registry.put('serviceips', { range: '10.96.0.0/24', data: new Uint8Array([1]) })
  }
  master.run()
  await world.time.advance(5_000)
  assert.equal(master.repair.fault(), undefined)
  assert.deepEqual(master.events, [])
  await master.stop()
})

test('a range that cannot be rewritten is logged once, although another writer changes it during each full pass', async () => {
  const world = await RangeWorld.start()
  world.store([])
  await world.service(30_001)
  const master = world.master('a', { registry: readOnly(world.registry) })
  let port = 30_010
  master.registry.afterRead = () => {
    if (master.registry.calls.length === 1) world.store([port++])
  }
  master.run()
  for (let pass = 0; pass < 4; pass++) {
    await world.time.advance(thirtySeconds)
    assert.notEqual(master.repair.fault(), undefined)
    master.registry.calls.length = 0
  }
  assert.equal(master.logger.lines.filter(({ fields }) => fields.reason === 'ServiceRangeUnreadable').length, 1)
  await master.stop()
})

test('a range that is withheld for one reason after another is logged for each of them', async () => {
  const world = await RangeWorld.start()
  const put = (data: number, range = '30000-30099'): void =>
    world.registry.put('servicenodeports', { range, data: new Uint8Array(20).fill(data) })
  put(255)
  const master = world.master('a', { intervalMs: 600_000 }).run()
  for (const range of ['31000-31099', '32000-32099', '30000-30099', '31000-31099']) {
    await world.time.advance(1_000)
    put(0, range)
  }
  await world.time.advance(1_000)
  assert.deepEqual(
    master.logger.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields.item),
    ['servicenodeports', '31000-31099', '32000-32099', '31000-31099'],
  )
  await master.stop()
})
