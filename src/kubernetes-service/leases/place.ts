import { LABEL_SELECTOR } from './kubernetes.ts'

/** What says where the leases are. */
export interface LeasePlace {
  readonly leaseStore: 'etcd' | 'kubernetes' | 'memory'
  readonly leaseNamespace: string
  /** Without a slash at the end. */
  readonly etcdPrefix: string
}

/** Where the leases are, for a person: `among the Leases in kube-system`. */
export function placeOfLeases({ leaseStore, leaseNamespace, etcdPrefix }: LeasePlace): string {
  return leaseStore === 'etcd' ? `under ${etcdPrefix}/masterleases/ in etcd` : `among the Leases in ${leaseNamespace}`
}

/** The same for somebody who found none there: what exactly was looked for, and which flags look elsewhere. */
export function searchedPlace(place: LeasePlace): string {
  return place.leaseStore === 'etcd'
    ? `${placeOfLeases(place)} (--etcd-prefix names another prefix; for Leases of the API server leave out --etcd-servers)`
    : `${placeOfLeases(place)} with the label ${LABEL_SELECTOR} (--lease-namespace names another namespace; for leases in etcd give --etcd-servers)`
}
