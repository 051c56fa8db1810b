import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type IpAddress, ipAddresses, serviceCidrs } from '../../../src/kube/resources.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { address, Cluster, FINALIZER } from './cluster.ts'

const COLLECTION = '/apis/networking.k8s.io/v1/servicecidrs'
const READY = 'protected Ready=True'
const BLOCKED = 'protected deleting Ready=False Terminating'

test('a ServiceCIDR is protected and set to Ready with two requests, and then left alone', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'], ['x/y'])
  await cluster.pass()
  assert.equal(await cluster.state('a'), READY)
  assert.deepEqual((await cluster.find('a'))?.metadata?.finalizers, [FINALIZER, 'x/y'])
  assert.deepEqual(cluster.written(), ['patch a 200', 'patch a status 200'])
  await cluster.pass(3_600_000)
  assert.deepEqual(cluster.written(), [])
  await end()
})

test('a finalizer that somebody removes and a condition that somebody overwrites are restored', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.pass()
  await cluster.api.patch(serviceCidrs, { name: 'a' }, { type: 'merge', body: { metadata: { finalizers: [] } } })
  await cluster.pass()
  assert.equal(await cluster.state('a'), READY)
  await cluster.api.patch(
    serviceCidrs,
    { name: 'a' },
    { type: 'merge', body: { status: { conditions: [{ type: 'Ready', status: 'False', reason: 'Mine' }] } } },
    { subresource: 'status' },
  )
  await cluster.pass()
  assert.equal(await cluster.state('a'), READY)
  await end()
})

test('conditions of other writers are preserved', async () => {
  const cluster = await Cluster.started()
  await cluster.create('a', ['10.0.0.0/24'])
  const conditions = [{ type: 'Routed', status: 'True', reason: 'ok', lastTransitionTime: '2026-01-01T00:00:00Z' }]
  await cluster.api.patch(
    serviceCidrs,
    { name: 'a' },
    { type: 'merge', body: { status: { conditions } } },
    { subresource: 'status' },
  )
  const end = await cluster.lead()
  assert.equal(await cluster.state('a'), 'protected Routed=True ok Ready=True')
  await end()
})

test('a deleted ServiceCIDR disappears after ten seconds, and stays Ready until then', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.pass()
  await cluster.delete('a')
  await cluster.pass(9_000)
  assert.equal(await cluster.state('a'), 'protected deleting Ready=True')
  await cluster.pass(1_000)
  assert.equal(await cluster.state('a'), 'gone')
  await end()
})

test('a ServiceCIDR deleted while this clock was an hour behind disappears soon after the clock is corrected', async () => {
  const cluster = await Cluster.started()
  const { time } = cluster.embedded
  const clock = time.view({ skewMs: -3_600_000 })
  const end = await cluster.lead({ clock })
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.pass()
  await cluster.delete('a')
  await cluster.pass(5_000)
  clock.setSkew(0)
  await cluster.pass(10_000)
  assert.equal(await cluster.state('a'), 'gone')
  await end()
})

test('a deleted ServiceCIDR with an IPAddress stays and is not Ready; it disappears with its last IPAddress', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24', 'fd00::/112'])
  await cluster.allocate('10.0.0.7')
  await cluster.allocate('fd00::7')
  await cluster.pass()
  await cluster.delete('a')
  await cluster.pass()
  assert.equal(await cluster.state('a'), BLOCKED)
  await cluster.release('10.0.0.7')
  await cluster.pass(60_000)
  assert.equal(await cluster.state('a'), BLOCKED)
  cluster.written()
  await cluster.release('fd00::7')
  await cluster.pass()
  assert.equal(await cluster.state('a'), 'gone')
  assert.deepEqual(cluster.written(), ['patch a 200'])
  await end()
})

test('an address that a slow API server allocates during the grace period blocks the ServiceCIDR', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.pass()
  await cluster.delete('a')
  await cluster.pass(5_000)
  await cluster.allocate('10.0.0.7')
  await cluster.pass(60_000)
  assert.equal(await cluster.state('a'), BLOCKED)
  await end()
})

test('IPAddresses that are unmanaged, outside, or covered by another ServiceCIDR do not block the deletion', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.create('b', ['10.0.0.0/28'])
  const { labels: _none, ...metadata } = address('10.0.0.99').metadata ?? {}
  await cluster.api.create(ipAddresses, { ...address('10.0.0.99'), metadata })
  for (const name of ['10.0.0.0', '10.0.0.255', '10.0.1.1', '10.0.0.7']) await cluster.allocate(name)
  await cluster.pass()
  await cluster.delete('a')
  await cluster.pass(11_000)
  assert.equal(await cluster.state('a'), 'gone')
  await end()
})

test('a change of an IPAddress’s labels blocks or unblocks a deleted ServiceCIDR', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.allocate('10.0.0.7')
  await cluster.pass()
  await cluster.delete('a')
  const relabel = (labels: NonNullable<IpAddress['metadata']>['labels'] | null) =>
    cluster.api.patch(ipAddresses, { name: '10.0.0.7' }, { type: 'merge', body: { metadata: { labels } } })
  await relabel(null)
  await cluster.pass(5_000)
  await relabel(address('10.0.0.7').metadata?.labels)
  await cluster.pass(10_000)
  assert.equal(await cluster.state('a'), BLOCKED)
  await relabel(null)
  await cluster.pass()
  assert.equal(await cluster.state('a'), 'gone')
  await end()
})

test('a new ServiceCIDR with the same addresses unblocks a deleted one', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.allocate('10.0.0.7')
  await cluster.pass()
  await cluster.delete('a')
  await cluster.pass(60_000)
  assert.equal(await cluster.state('a'), BLOCKED)
  await cluster.create('b', ['10.0.0.0/16'])
  await cluster.pass()
  assert.deepEqual([await cluster.state('a'), await cluster.state('b')], ['gone', READY])
  await end()
})

test('of two ServiceCIDRs with the same addresses that are deleted together, one stays', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  for (const name of ['a', 'b']) await cluster.create(name, ['10.0.0.0/24'])
  await cluster.allocate('10.0.0.7')
  await cluster.pass()
  for (const name of ['a', 'b']) await cluster.delete(name)
  await cluster.pass(60_000)
  assert.deepEqual([await cluster.state('a'), await cluster.state('b')], ['gone', BLOCKED])
  await end()
})

test('when an overlapping ServiceCIDR is deleted too, both are reconsidered', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('whole', ['10.0.0.0/24'])
  await cluster.create('part', ['10.0.0.0/28'])
  await cluster.allocate('10.0.0.7')
  await cluster.pass()
  await cluster.delete('part')
  await cluster.pass(5_000)
  await cluster.delete('whole')
  await cluster.pass(60_000)
  assert.deepEqual([await cluster.state('part'), await cluster.state('whole')], ['gone', BLOCKED])
  await end()
})

test('ServiceCIDRs created or deleted without a leader are reconciled at the start of the next term', async () => {
  const cluster = await Cluster.started()
  await (await cluster.lead())()
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.create('b', ['10.1.0.0/24'], [FINALIZER])
  await cluster.delete('b')
  await cluster.pass(60_000)
  const end = await cluster.lead()
  assert.deepEqual([await cluster.state('a'), await cluster.state('b')], [READY, 'gone'])
  await end()
})

test('a refused status patch is recorded as an Event with upstream’s message, and retried', async () => {
  const cluster = await Cluster.started()
  const heal = cluster.fault({ fault: { type: 'status', status: 403 }, methods: ['PATCH'], pathPrefix: statusOf('a') })
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.pass()
  const [event] = cluster.events
  const { regarding, ...rest } = event ?? {}
  assert.deepEqual(rest, {
    type: 'Warning',
    reason: 'KubernetesServiceCIDRError',
    action: 'Sync',
    note: 'The ServiceCIDR Status can not be set to Ready=True',
  })
  assert.deepEqual([regarding?.kind, regarding?.name], ['ServiceCIDR', 'a'])
  await cluster.pass(3_500_000)
  heal()
  await cluster.pass(60_000)
  assert.equal(await cluster.state('a'), READY)
  await end()
})

test('an unreachable server causes no Event, and expedite() retries at once when it is back', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  const heal = cluster.fault({ fault: { type: 'refuse' }, methods: ['PATCH'], pathPrefix: statusOf('a') })
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.pass(120_000)
  assert.deepEqual(cluster.events, [])
  heal()
  cluster.controller?.expedite()
  await cluster.pass(10)
  assert.equal(await cluster.state('a'), READY)
  await end()
})

test('a finalizer that another writer adds concurrently is not lost', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'])
  cluster.fault({ fault: { type: 'delay', ms: 500 }, stream: true, pathPrefix: COLLECTION })
  await cluster.api.patch(serviceCidrs, { name: 'a' }, { type: 'merge', body: { metadata: { finalizers: ['x/y'] } } })
  await cluster.pass(10_000)
  assert.deepEqual([...((await cluster.find('a'))?.metadata?.finalizers ?? [])].sort(), [FINALIZER, 'x/y'])
  await end()
})

test('no deleted ServiceCIDR is released before all IPAddresses are listed', async () => {
  const cluster = await Cluster.started()
  await cluster.create('a', ['10.0.0.0/24'], [FINALIZER])
  await cluster.allocate('10.0.0.7')
  await cluster.delete('a')
  await cluster.pass(60_000)
  const pathPrefix = '/apis/networking.k8s.io/v1/ipaddresses'
  cluster.fault({ fault: { type: 'delay', ms: 5_000 }, pathPrefix })
  const logger = memoryLogger()
  const end = await cluster.lead({ logger })
  await cluster.pass(60_000)
  assert.equal(await cluster.state('a'), BLOCKED)
  assert.deepEqual(
    logger.lines.filter(({ level }) => level === 'warn'),
    [],
    'the copy was not asked before it was there',
  )
  await end()
})

test('a refusal after an outage is logged as a warning, once', async () => {
  const cluster = await Cluster.started()
  const logger = memoryLogger()
  const end = await cluster.lead({ logger })
  cluster.fault({ fault: { type: 'refuse' }, methods: ['PATCH'], times: 1 })
  cluster.fault({ fault: { type: 'status', status: 403 }, methods: ['PATCH'], times: 3 })
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.pass(60_000)
  const warnings = logger.lines.filter(({ level, message }) => level === 'warn' && message.startsWith('a sync failed'))
  assert.equal(warnings.length, 1)
  assert.equal(await cluster.state('a'), READY)
  await end()
})

test('a ServiceCIDR that is gone before it is protected is no failure', async () => {
  const cluster = await Cluster.started()
  const logger = memoryLogger()
  const end = await cluster.lead({ logger })
  cluster.fault({ fault: { type: 'delay', ms: 1_000 }, methods: ['PATCH'] })
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.pass(500)
  await cluster.delete('a')
  await cluster.pass(10_000)
  assert.deepEqual([cluster.written(), cluster.events, logger.lines], [['patch a 404'], [], []])
  await end()
})

test('an IPAddress that the copy has missed blocks the deletion of its ServiceCIDR', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.pass()
  cluster.fault({ fault: { type: 'lose' }, stream: true, pathPrefix: '/apis/networking.k8s.io/v1/ipaddresses' })
  await cluster.allocate('10.0.0.7')
  await cluster.delete('a')
  await cluster.pass(60_000)
  assert.equal(await cluster.state('a'), 'protected deleting Ready=True')
  await cluster.release('10.0.0.7')
  await cluster.pass(10_000)
  assert.equal(await cluster.state('a'), 'gone')
  await end()
})

test('an IPAddress that the copy has missed blocks its ServiceCIDR, even if 500 others are listed before it', async () => {
  const cluster = await Cluster.started()
  for (let i = 0; i < 500; i++) await cluster.allocate(`10.0.${i >> 7}.${i & 127}`)
  const end = await cluster.lead()
  await cluster.create('a', ['10.9.0.0/24'])
  await cluster.pass()
  cluster.fault({ fault: { type: 'lose' }, stream: true, pathPrefix: '/apis/networking.k8s.io/v1/ipaddresses' })
  await cluster.allocate('10.9.0.7')
  await cluster.delete('a')
  await cluster.pass(60_000)
  assert.equal(await cluster.state('a'), 'protected deleting Ready=True')
  await end()
})

test('a stale copy causes no second write', async () => {
  const cluster = await Cluster.started()
  const end = await cluster.lead()
  cluster.fault({ fault: { type: 'delay', ms: 2_000 }, stream: true, pathPrefix: COLLECTION })
  await cluster.create('a', ['10.0.0.0/24'])
  await cluster.create('b', ['10.0.0.0/24'])
  await cluster.pass(10_000)
  assert.deepEqual(cluster.written(), ['patch a 200', 'patch b 200', 'patch a status 200', 'patch b status 200'])
  await end()
})

function statusOf(name: string): string {
  return `${COLLECTION}/${name}/status`
}
