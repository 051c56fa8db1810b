import type { EndpointSlice, Service } from '../kube/resources.ts'
import { hasClusterIp } from '../workloads/pod-rules.ts'

export type Labels = Readonly<Record<string, string>>

/** The label that names the Service of a slice. */
export const serviceNameLabel = 'kubernetes.io/service-name'

/** The label that says which controller a slice belongs to. */
export const managedByLabel = 'endpointslice.kubernetes.io/managed-by'

/** The label, without a value, of what belongs to a Service that has no ClusterIP. */
export const headlessLabel = 'service.kubernetes.io/headless'

/** The key (`namespace/name`) of the Service that a slice names; undefined where it names none. */
export function serviceKeyOf(slice: EndpointSlice): string | undefined {
  const name = slice.metadata?.labels?.[serviceNameLabel]
  return name === undefined || name === '' ? undefined : `${slice.metadata?.namespace ?? ''}/${name}`
}

/** The labels of a Service's slices: its own, but for the reserved ones, which say whose they are. */
export function labelsOfSlices(service: Service, managedBy: string): Labels {
  const labels: Record<string, string> = {}
  for (const [key, value] of Object.entries(service.metadata?.labels ?? {})) if (!isReserved(key)) labels[key] = value
  if (!hasClusterIp(service)) labels[headlessLabel] = ''
  labels[serviceNameLabel] = service.metadata?.name ?? ''
  labels[managedByLabel] = managedBy
  return labels
}

/** Whether a slice bears other labels than it shall. What it has of the reserved ones does not count, as upstream. */
export function labelsDiffer(slice: EndpointSlice, wanted: Labels): boolean {
  const labels = slice.metadata?.labels ?? {}
  let own = 0
  for (const key in labels) {
    if (isReserved(key)) continue
    if (!Object.hasOwn(wanted, key) || labels[key] !== wanted[key]) return true
    own++
  }
  for (const key in wanted) if (!isReserved(key)) own--
  return own !== 0
}

function isReserved(key: string): boolean {
  return key === serviceNameLabel || key === managedByLabel || key === headlessLabel
}
