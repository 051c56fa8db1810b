import { isEtcdError } from '../etcd/kv.ts'
import type { Availability, AvailabilityReporter } from '../kube/availability.ts'

/** Who hears how requests fare, and can say what is refused for good. */
export type ServersAvailability = AvailabilityReporter &
  Pick<Availability, 'refusalOf'> & {
    /** Of the API server. */
    readonly subscribe: Availability['subscribe']
    /** False while etcd is lost. */
    readonly etcdAvailable: boolean
  }

/** Sorts what is reported by the server that it is about: the API server and etcd have outages of their own. */
export function availabilityByServer(api: Availability, etcd: Availability): ServersAvailability {
  return {
    failed(source, error) {
      if (isEtcdError(error)) etcd.failed(source, error)
      else api.failed(source, error)
    },
    succeeded(source) {
      api.succeeded(source)
      etcd.succeeded(source)
    },
    forget(source) {
      api.forget(source)
      etcd.forget(source)
    },
    get etcdAvailable() {
      return etcd.available
    },
    subscribe: (handler) => api.subscribe(handler),
    refusalOf: (...names) => api.refusalOf(...names) ?? etcd.refusalOf(...names),
  }
}
