import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Lease, leases as leaseResource } from '../../../src/kube/resources.ts'
import { renewalOf } from '../../../src/kubernetes-service/leases/ended-leases.ts'
import { holderOf } from '../../../src/kubernetes-service/leases/kubernetes.ts'
import { encodeHolder } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { trimLease } from '../../../src/kubernetes-service/leases/trimmed-lease.ts'
import { holder } from './holders.ts'
import { follow, openWorld } from './lease-world.ts'

const { signal } = new AbortController()
const self = holder('192.0.2.1')
const other = holder('192.0.2.2', { host: 'other' })
const long = 'x'.repeat(20_000)
const renewTime = '2026-01-01T00:00:00.000000Z'

/** The Lease of `other`, whose fields somebody has filled with long texts. */
const filled = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: {
    name: 'any',
    namespace: 'kube-system',
    labels: { 'apiserver-bootstrap/lease': 'master', other: 'label' },
    annotations: { 'apiserver-bootstrap/holder': encodeHolder(other), other: long },
    ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: long, uid: 'u' }],
    managedFields: [{ manager: long }],
  },
  spec: { holderIdentity: long, leaseDurationSeconds: 15, renewTime, acquireTime: renewTime, strategy: long },
} as Lease

test('a trimmed Lease has the fields that readers need, without texts that no master writes', () => {
  const served = { ...filled.metadata, uid: 'u', resourceVersion: '7', creationTimestamp: renewTime }
  assert.deepEqual(trimLease({ ...filled, metadata: served } as unknown as Lease), {
    metadata: {
      name: 'any',
      namespace: 'kube-system',
      uid: 'u',
      resourceVersion: '7',
      creationTimestamp: renewTime,
      labels: { 'apiserver-bootstrap/lease': 'master' },
      annotations: { 'apiserver-bootstrap/holder': encodeHolder(other) },
    },
    spec: { holderIdentity: undefined, leaseDurationSeconds: 15, renewTime },
  })
  const annotations = { 'apiserver-bootstrap/holder': long }
  assert.deepEqual(
    trimLease({ ...filled, metadata: { ...served, annotations } } as unknown as Lease).metadata?.annotations,
    {},
  )
  assert.deepEqual(trimLease({}).metadata?.labels, {})
})

test('a time that the server sends as null, and texts of other types, are left out', () => {
  const forged = {
    metadata: { name: 'a', annotations: { 'apiserver-bootstrap/holder': null } },
    spec: { renewTime: null },
  }
  const { metadata, spec } = trimLease(forged as unknown as Lease)
  assert.deepEqual([metadata?.annotations, spec?.renewTime], [{}, undefined])
})

test("a master's Lease means the same when it is trimmed", async () => {
  const { direct, open } = await openWorld()
  await open().leases.update(holder('192.0.2.1', { host: 'h'.repeat(300), instanceId: 'i'.repeat(300) }), signal)
  const [lease = {}] = (await direct.list(leaseResource)).items
  assert.notEqual(holderOf(lease), undefined)
  assert.deepEqual(holderOf(trimLease(lease)), holderOf(lease))
  assert.equal(renewalOf(trimLease(lease)), renewalOf(lease))
})

test('each page of a list is trimmed', async () => {
  const { direct, open } = await openWorld()
  await direct.create(leaseResource, filled)
  const [listed] = await open().leases.list(signal)
  assert.deepEqual(listed?.holder, other)
  assert.equal(listed?.renewal, `undefined ${renewTime}`)
})

test('a watch trims Leases as a list does: another change of a Lease with a long identity is no renewal', async (t) => {
  const { time, direct, open } = await openWorld()
  const seen = follow(t, time, open())
  await time.advance(3_000)
  await direct.create(leaseResource, filled)
  await time.advance(8_000)
  const body = { metadata: { annotations: { other: 'changed' } } }
  await direct.patch(leaseResource, { namespace: 'kube-system', name: 'any' }, { type: 'merge', body })
  await time.advance(9_500)
  assert.deepEqual(seen, ['0 ', '3000 192.0.2.2', '18000 '])
})

test('renewals and marks of a Lease preserve its metadata of other programs', async () => {
  const { direct, open } = await openWorld()
  const { leases } = open()
  await leases.update(self, signal)
  const [{ metadata } = {}] = (await direct.list(leaseResource)).items
  const { ownerReferences } = filled.metadata ?? {}
  const body = { metadata: { labels: { other: 'label' }, annotations: { other: long }, ownerReferences } }
  const place = { namespace: 'kube-system', name: metadata?.name ?? '' }
  await direct.patch(leaseResource, place, { type: 'merge', body })
  await leases.list(signal)
  for (const write of [() => leases.update(self, signal), () => leases.mark({ ...self, state: 'failing' }, signal)]) {
    await write()
    await leases.list(signal)
    await leases.update(self, signal)
    const stored = await direct.get(leaseResource, place)
    assert.deepEqual(stored.metadata?.ownerReferences, ownerReferences)
    assert.equal(stored.metadata?.labels?.other, 'label')
    assert.equal(stored.metadata?.annotations?.other, long)
  }
})
