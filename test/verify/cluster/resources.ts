import {
  endpointSlices,
  endpoints,
  ipAddresses,
  type KubeObject,
  leases,
  namespaces,
  nodes,
  pods,
  type Resource as ResourceOf,
  serviceCidrs,
  services,
} from '../../../src/kube/resources.ts'

export type { KubeObject }
export type Resource = ResourceOf<KubeObject>

const all: readonly Resource[] = [
  namespaces,
  services,
  endpoints,
  endpointSlices,
  serviceCidrs,
  ipAddresses,
  leases,
  pods,
  nodes,
]

/** By plural or kind. */
export function resourceNamed(name: string): Resource {
  const found = all.find(({ plural, kind }) => plural === name || kind === name)
  if (found === undefined) throw new Error(`no resource ${name}`)
  return found
}
