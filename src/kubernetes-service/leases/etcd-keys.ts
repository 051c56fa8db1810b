import { isListable } from '../advertised-address.ts'
import { addressOf, type Holder } from './master-leases.ts'

/**
 * Where the leases of a fleet are in etcd. The first prefix is kube-apiserver's own (`masterleases` in
 * pkg/controlplane/instance.go), so that a fleet may have some of both.
 */
export class EtcdLeaseKeys {
  /** Leases, by address in Go's form. */
  readonly leases: string
  /** Holder records, by address and host. */
  readonly records: string

  /** `prefix` is what the API servers' own keys begin with, without a slash at the end. */
  constructor(prefix: string) {
    this.leases = `${prefix}/masterleases/`
    this.records = `${prefix}/apiserver-bootstrap/holders/`
  }

  lease(address: string): string {
    return `${this.leases}${address}`
  }

  /** What the keys of all holder records of one address begin with. */
  recordsOf(address: string): string {
    return `${this.records}${address}/`
  }

  record(holder: Holder): string {
    return `${this.recordsOf(addressOf(holder))}${encodeURIComponent(holder.host)}`
  }

  /** The address that a lease's key names; undefined when it is none that could be listed. */
  addressOfLease(key: string): string | undefined {
    const text = key.slice(this.leases.length)
    return isListable(text) ? text : undefined
  }
}
