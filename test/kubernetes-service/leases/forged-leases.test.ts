import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi } from '../../../src/kube/api.ts'
import { type Lease, leases as leaseResource } from '../../../src/kube/resources.ts'
import type { Holder } from '../../../src/kubernetes-service/leases/master-leases.ts'
import type { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { addressesOf, holder } from './holders.ts'
import { follow, keepRenewed, type Opened, openWorld, ttlMs } from './lease-world.ts'

const { signal } = new AbortController()
const self = holder('192.0.2.1')
const foreign = '203.0.113.66'

/** A Lease that anybody who may write Leases can create. */
function forged(name: string, record: Holder, spec: Lease['spec'] = {}): Lease {
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      name,
      namespace: 'kube-system',
      labels: { 'apiserver-bootstrap/lease': 'master' },
      annotations: { 'apiserver-bootstrap/holder': JSON.stringify(record) },
    },
    spec: { holderIdentity: 'forged', leaseDurationSeconds: 15, renewTime: '2026-01-01T00:00:00.000000Z', ...spec },
  }
}

async function nameOf(api: KubeApi, address: string): Promise<string> {
  const { items } = await api.list(leaseResource, { namespace: 'kube-system' })
  const own = items.find(({ metadata }) => metadata?.annotations?.['apiserver-bootstrap/holder']?.includes(address))
  return own?.metadata?.name ?? ''
}

function count(method: string, { sent }: Opened): number {
  return sent.filter((line) => line.endsWith(` ${method}`)).length
}

/** Creates another Lease ten times a second, and deletes it again. */
async function comeAndGo(api: KubeApi, time: VirtualClock, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    await api.create(leaseResource, forged('any', holder(foreign)))
    await time.advance(50)
    await api.delete(leaseResource, { namespace: 'kube-system', name: 'any' })
    await time.advance(50)
  }
}

test('a Lease with a duration of a day is trusted for five minutes', async (t) => {
  const { time, direct, open } = await openWorld()
  const observer = open()
  const seen = follow(t, time, observer)
  await direct.create(leaseResource, forged('any', holder(foreign), { leaseDurationSeconds: 86_400 }))
  await time.advance(20 * ttlMs - 1_000)
  assert.match(seen.at(-1) ?? '', / 203\.0\.113\.66$/)
  await time.advance(3_000)
  assert.match(seen.at(-1) ?? '', / $/)
})

test("a Lease with the name of a master's Lease does not count for another address", async () => {
  const { direct, open } = await openWorld()
  const { leases } = open()
  await leases.update(self, signal)
  const name = await nameOf(direct, '192.0.2.1')
  const body = { metadata: { annotations: { 'apiserver-bootstrap/holder': JSON.stringify(holder(foreign)) } } }
  await direct.patch(leaseResource, { namespace: 'kube-system', name }, { type: 'merge', body })
  assert.deepEqual(await addressesOf(leases), [])
})

test('a master overwrites a foreign Lease that has its name and no label', async () => {
  const { direct, open } = await openWorld()
  const { leases } = open()
  await leases.update(self, signal)
  const name = await nameOf(direct, '192.0.2.1')
  const later = { ...self, instanceId: 'forged', startedAt: '2026-12-31T00:00:00.000000Z' }
  const { labels: _, ...metadata } = forged(name, later).metadata ?? {}
  await direct.delete(leaseResource, { namespace: 'kube-system', name })
  await direct.create(leaseResource, { ...forged(name, later), metadata })
  await leases.update(self, signal)
  const [found] = await leases.list(signal)
  assert.equal(found?.holder?.instanceId, self.instanceId)
})

test("a master's record in another Lease counts only while the master has no Lease of its own", async () => {
  const { direct, open } = await openWorld()
  const { leases } = open()
  const record = { ...self, instanceId: 'forged', state: 'withdrawn' } as const
  await direct.create(leaseResource, forged('any', record))
  assert.deepEqual(
    (await leases.list(signal)).map(({ holder }) => holder?.instanceId),
    ['forged'],
  )
  await leases.update(self, signal)
  assert.deepEqual(
    (await leases.list(signal)).map(({ holder }) => holder?.instanceId),
    [self.instanceId],
  )
})

test('different addresses have different parts in the names of Leases', async () => {
  const { direct, open } = await openWorld()
  const parts: string[] = []
  for (const address of ['192.0.2.1', '192:0:2::1', '192::2:1', '::1:2', '1:2::']) {
    await open().leases.update(holder(address), signal)
    parts.push((await nameOf(direct, `"${address}"`)).replace(/-[0-9a-f]{8}$/, ''))
  }
  assert.equal(new Set(parts).size, parts.length, parts.join())
  for (const part of parts) assert.match(part, /^[a-z0-9][a-z0-9-]*$/)
})

test('of ten thousand Leases a list has a thousand, with all older ones of the masters', async () => {
  const { time, direct, open } = await openWorld()
  const [a, b] = [open(), open()]
  await a.leases.update(self, signal)
  await b.leases.update(holder('192.0.2.2', { host: 'other' }), signal)
  await time.advance(2_000)
  for (let i = 0; i < 10_000; i++) {
    await direct.create(leaseResource, forged(`any-${i}`, holder(`10.66.${i >> 8}.${i & 255}`, { host: `${i}` })))
  }
  const addresses = await addressesOf(a.leases)
  assert.equal(addresses.length, 1_000)
  assert.deepEqual(
    addresses.filter((address) => address.startsWith('192.0.2.')),
    ['192.0.2.1', '192.0.2.2'],
  )
})

test("a master's own Lease counts beside two thousand older Leases", async () => {
  const { time, direct, open } = await openWorld()
  for (let i = 0; i < 2_000; i++) {
    await direct.create(leaseResource, forged(`any-${i}`, holder(`10.66.${i >> 8}.${i & 255}`, { host: `${i}` })))
  }
  await time.advance(2_000)
  const { leases } = open()
  await leases.update(self, signal)
  assert.ok((await addressesOf(leases)).includes('192.0.2.1'))
})

test('twenty changes of Leases per second cause few lists', async (t) => {
  const { time, direct, open } = await openWorld()
  const observer = open()
  follow(t, time, observer)
  const stop = keepRenewed(time, observer, self)
  await time.advance(1_000)
  const before = count('GET', observer)
  await comeAndGo(direct, time, 600)
  stop()
  const lists = count('GET', observer) - before
  assert.ok(lists <= 30 + 60 * 4 + 60, `${lists} lists in a minute`)
})

test('after a burst of Lease changes a new master is seen at once, not only at the interval', async (t) => {
  const { time, direct, open } = await openWorld()
  const observer = open()
  const seen = follow(t, time, observer)
  await comeAndGo(direct, time, 100)
  await time.advance(3_000)
  await open().leases.update(self, signal)
  await time.advance(100)
  assert.equal(seen.at(-1), '13000 192.0.2.1')
})

test('the deletion of a Lease that a finalizer blocks is retried only now and then', async (t) => {
  const { time, direct, open } = await openWorld()
  const observer = open()
  const seen = follow(t, time, observer)
  const lease = forged('any', holder(foreign))
  await direct.create(leaseResource, { ...lease, metadata: { ...lease.metadata, finalizers: ['example.com/keep'] } })
  await time.advance(600_000)
  assert.match(seen.at(-1) ?? '', / $/)
  const deletions = count('DELETE', observer)
  assert.ok(deletions >= 2 && deletions <= 20, `${deletions} deletions in ten minutes`)
})

test('expired Leases do not count, and each list deletes at most a hundred of them', async () => {
  const { time, direct, open } = await openWorld()
  const observer = open()
  for (let i = 0; i < 250; i++) {
    await direct.create(leaseResource, forged(`any-${i}`, holder(`10.66.0.${i}`, { host: `${i}` })))
  }
  const found: number[] = []
  for (const untilNextMs of [10_000, 4_000, 3_000, 100, 100, 100]) {
    const before = count('DELETE', observer)
    const { length } = await addressesOf(observer.leases)
    found.push(length, count('DELETE', observer) - before)
    await time.advance(untilNextMs)
  }
  assert.deepEqual(found, [250, 0, 250, 0, 250, 0, 0, 100, 0, 100, 0, 50])
})
