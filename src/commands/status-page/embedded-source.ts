import type { KubeApi } from '../../kube/api.ts'
import { KubernetesLeaseInspector } from '../../kubernetes-service/masters/inspection.ts'
import { systemClock as clock, systemRandom } from '../../runtime/system-clock.ts'
import { MastersSource } from '../masters-source.ts'
import { StatusSource } from './status-source.ts'

/** The source of the page of an embedded API server, in which the leases are Lease objects. */
export function embeddedSource(api: KubeApi, namespace = 'kube-system'): StatusSource {
  const inspector = new KubernetesLeaseInspector({ api, clock, namespace })
  const masters = new MastersSource({ clock, leaseStore: 'kubernetes', place: `in ${namespace}`, inspector, api })
  return new StatusSource(masters, systemRandom())
}
