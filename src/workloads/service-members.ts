import type { Informer } from '../kube/informer.ts'
import type { Pod, Service } from '../kube/resources.ts'

export interface ServiceMembersOptions {
  readonly services: Informer<Service>
  readonly pods: Informer<Pod>
}

/**
 * Which Pods which Services select, exact after every change of either. It must subscribe before any controller does: then what a handler or a
 * sync asks is answered from the same state as the informers' stores.
 */
export class ServiceMembers {
  constructor(_options: ServiceMembersOptions) {
    throw new Error('not yet')
  }

  /** The Pods that a Service of the store selects, in the order in which they came; none for one without a selector. */
  podsOf(_service: Service): readonly Pod[] {
    throw new Error('not yet')
  }

  /**
   * Calls `handler` with the key (`namespace/name`) of each Service whose endpoints a change of a Pod may change: upstream's `GetPodUpdateProjectionKey`
   * and `GetServicesToUpdate` say which. Changes of Services themselves are not told. Returns what ends that.
   */
  subscribe(_handler: (key: string) => void): () => void {
    throw new Error('not yet')
  }
}
