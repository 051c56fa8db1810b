import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EtcdKv } from '../../../src/etcd/kv.ts'
import { shellLine } from '../../../src/verify/cluster/finding.ts'
import { failedIn } from '../../../src/verify/cluster/verify-cluster.ts'
import { findingsOf } from './findings.ts'
import { bootstrapped } from './world.ts'

const signal = new AbortController().signal
const lease = '/registry/masterleases/192.0.2.2'
const records = '/registry/apiserver-bootstrap/holders/192.0.2.2/'

/** Verifies two masters whose leases are in etcd, after `change`. */
async function verifiedAfter(change: (kv: EtcdKv) => Promise<unknown>) {
  const masters = ['192.0.2.1', '192.0.2.2'].map((advertiseAddress) => ({ advertiseAddress, leaseStore: 'etcd' }))
  const { api, etcd, verify } = await bootstrapped(...masters)
  await change(etcd.kv)
  const report = await verify({ source: { api, etcd } })
  const flags = { kubectl: [], 'apiserver-bootstrap': [] }
  const findings = findingsOf(report).map(({ object, found, remedy }) => [object, found, shellLine(remedy, flags)])
  return { failed: failedIn(report), findings, ids: report.results.map(({ id }) => id) }
}

async function stored(kv: EtcdKv, prefix: string) {
  const [first] = (await kv.list(prefix, { signal })).items
  assert.ok(first !== undefined, prefix)
  return first
}

test('unexpired leases in etcd hold; clock-skew is not checked, because they contain no time', async () => {
  const { failed, ids } = await verifiedAfter(async () => {})
  assert.deepEqual(failed, [])
  assert.ok(ids.includes('master-leases') && ids.includes('range-allocations') && !ids.includes('clock-skew'))
})

test('a listed master without a lease in etcd is reported', async () => {
  const { failed, findings } = await verifiedAfter(async (kv) =>
    kv.delete(lease, (await stored(kv, lease)).modRevision, signal),
  )
  assert.deepEqual(failed, ['master-leases'])
  const [[object, found, repair] = []] = findings
  assert.deepEqual([object, found], ['master 192.0.2.2', 'no lease'])
  assert.match(repair ?? '', /^kubectl patch endpoints kubernetes .*192\.0\.2\.1/)
})

test('a lease that never expires is reported with a command to evict it', async () => {
  const { failed, findings } = await verifiedAfter(async (kv) => {
    const { value, modRevision } = await stored(kv, lease)
    await kv.update(lease, value, modRevision, { signal })
  })
  assert.deepEqual(failed, ['master-leases'])
  const [[, found, repair] = []] = findings
  assert.equal(found, 'this lease never expires')
  assert.match(repair ?? '', /^apiserver-bootstrap masters evict 192\.0\.2\.2 --yes && kubectl patch endpoints /)
})

test('a lease key that names no address must be deleted by hand', async () => {
  const { findings } = await verifiedAfter(async (kv) => {
    const { value, lease: own } = await stored(kv, lease)
    await kv.create('/registry/masterleases/nobody', value, { lease: own, signal })
  })
  assert.deepEqual(findings.at(0)?.at(2), '# delete the key /registry/masterleases/nobody in etcd')
})

test('two hosts that hold one address in etcd are reported', async () => {
  const { failed, findings } = await verifiedAfter(async (kv) => {
    const { value, lease: own } = await stored(kv, records)
    const holder = JSON.parse(Buffer.from(value).toString()) as object
    const other = JSON.stringify({ ...holder, host: 'another', instanceId: 'another' })
    await kv.create(`${records}another`, Buffer.from(other), { lease: own, signal })
  })
  assert.deepEqual(failed, ['shared-addresses'])
  const [[object, found, repair] = []] = findings
  assert.deepEqual([object, found], ['master 192.0.2.2', 'held by another, host-2'])
  assert.match(repair ?? '', /^# give one of them another --advertise-address; /)
})

const withoutLeases = [
  'leases of masters',
  'none in etcd',
  '# check --etcd-prefix, --lease-store, and whether the sidecars run; leave out master-leases if no API server has --endpoint-reconciler-type=lease',
]

test('a list without any lease fails the check, because every sidecar may be down', async () => {
  const { failed, findings } = await verifiedAfter(async (kv) => {
    for (const prefix of ['/registry/masterleases/', '/registry/apiserver-bootstrap/holders/']) {
      const { items } = await kv.list(prefix, { signal })
      assert.equal(items.length, 2)
      for (const { key, modRevision } of items) await kv.delete(key, modRevision, signal)
    }
  })
  assert.deepEqual(failed, ['master-leases'])
  assert.deepEqual(findings, [withoutLeases])
})

test('if no lease exists under the prefix, no single master is blamed, because the prefix may be wrong', async () => {
  const { api, etcd, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1', leaseStore: 'etcd' })
  const source = { api, etcd: { ...etcd, prefix: '/other' } }
  const [finding, ...others] = findingsOf(await verify({ source, only: ['master-leases'] }))
  const [object, found, instruction = ''] = withoutLeases
  assert.deepEqual([finding?.object, finding?.found, others.length], [object, found, 0])
  assert.deepEqual(finding?.remedy, [{ tool: 'by-hand', args: [instruction.slice('# '.length)] }])
})
