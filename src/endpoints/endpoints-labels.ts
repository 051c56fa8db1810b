import type { Endpoints, Service } from '../kube/resources.ts'
import { hasClusterIp } from '../workloads/pod-rules.ts'
import { type Labels, sameLabels } from '../workloads/selector-index.ts'

/** Of Endpoints: which controller keeps them. */
export const managedBy = 'endpoints.kubernetes.io/managed-by'
/** What kube-controller-manager's controller calls itself there. The same here: whoever asks means "kept for a Service with a selector". */
export const endpointController = 'endpoint-controller'
/** Of Endpoints: the Service has no ClusterIP. */
export const headless = 'service.kubernetes.io/headless'

/** The labels that the Endpoints of a Service shall have: those of the Service, and ours. */
export function wantedLabels(service: Service): Labels {
  const { [headless]: _, ...labels } = service.metadata?.labels ?? {}
  return { ...labels, ...(hasClusterIp(service) ? {} : { [headless]: '' }), [managedBy]: endpointController }
}

/**
 * Whether Endpoints need no other labels (upstream's `labelsCorrectForEndpoints`). That `headless` is as it should be does not count: it is put right with
 * whatever else is. Only a Service that itself has one of our labels is compared exactly; upstream writes the Endpoints of such a one in each sync.
 */
export function labelsAreRight(endpoints: Endpoints, service: Service): boolean {
  const labels = endpoints.metadata?.labels ?? {}
  const own = service.metadata?.labels ?? {}
  if (headless in own || managedBy in own) return sameLabels(labels, wantedLabels(service))
  if (labels[managedBy] !== endpointController) return false
  let copied = 0
  for (const key in labels) {
    if (key === headless || key === managedBy) continue
    if (labels[key] !== own[key]) return false
    copied++
  }
  return Object.keys(own).length === copied
}
