import assert from 'node:assert/strict'
import type { EtcdKv } from '../../../src/etcd/kv.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { leases } from '../../../src/kube/resources.ts'
import { EtcdLeaseKeys } from '../../../src/kubernetes-service/leases/etcd/snapshot.ts'
import { encodeHolder, type Holder } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { HOLDER_ANNOTATION } from '../../../src/kubernetes-service/leases/trimmed-lease.ts'

const { signal } = new AbortController()

/** Replaces the record in the Lease of a master. */
export async function spoilLease(api: KubeApi, of: Holder, text: string): Promise<void> {
  const { items } = await api.list(leases, { namespace: 'kube-system' })
  const record = encodeHolder(of)
  const lease = items.find(({ metadata }) => metadata?.annotations?.[HOLDER_ANNOTATION] === record)
  assert.ok(lease)
  const ref = { namespace: 'kube-system', name: lease.metadata?.name ?? '' }
  const body = { metadata: { annotations: { [HOLDER_ANNOTATION]: text } } }
  await api.patch(leases, ref, { type: 'merge', body })
}

/**
 * Replaces the record of a master in etcd, and deletes its lease: without a readable record that would be the lease of
 * a kube-apiserver, whose address is listed.
 */
export async function spoilRecord(etcd: EtcdKv, prefix: string, of: Holder, text: string): Promise<void> {
  const keys = new EtcdLeaseKeys(prefix)
  const [record, lease] = [
    await etcd.get(keys.record(of), signal),
    await etcd.get(keys.lease(of.addresses[0] ?? ''), signal),
  ]
  assert.ok(record && lease)
  assert.ok(await etcd.update(record.key, Buffer.from(text), record.modRevision, { lease: record.lease, signal }))
  assert.ok(await etcd.delete(lease.key, lease.modRevision, signal))
}
