import assert from 'node:assert/strict'
import { test } from 'node:test'
import { placeOfLeases, searchedPlace } from '../../../src/kubernetes-service/leases/kubernetes.ts'

test('who finds no lease is told the prefix or the namespace and label, and the flags that look elsewhere', () => {
  const etcd = { leaseStore: 'etcd', leaseNamespace: 'kube-system', etcdPrefix: '/other' } as const
  assert.equal(
    searchedPlace(etcd),
    'under /other/masterleases/ in etcd (set --etcd-prefix for another prefix; omit --etcd-servers to use Lease objects)',
  )
  assert.equal(placeOfLeases(etcd), 'under /other/masterleases/ in etcd')
  assert.match(
    searchedPlace({ ...etcd, leaseStore: 'kubernetes', leaseNamespace: 'masters' }),
    /^among the Leases in masters with the label apiserver-bootstrap\/lease=master \(set --lease-namespace /,
  )
})
