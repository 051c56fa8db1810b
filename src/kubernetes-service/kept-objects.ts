import type { KubeObject } from '../kube/json.ts'
import type { EndpointSlice, Endpoints, Service } from '../kube/resources.ts'
import { addressesInSlice, portTexts } from './identity.ts'
import { isReconciler, OWN_MANAGER, TURN_OFF } from './other-reconciler.ts'

/** What a Service, Endpoints or an EndpointSlice says that is kept here, as text: equal for objects that say the same, whatever else differs. Pure. */
export function keptContent(object: KubeObject): string {
  const { subsets } = object as Endpoints
  const { addressType, ports } = object as EndpointSlice
  const { spec } = object as Service
  if (spec !== undefined) return JSON.stringify([spec.type, spec.ipFamilyPolicy, portTexts(spec.ports)])
  if (addressType !== undefined) {
    return JSON.stringify([addressType, addressesInSlice(object as EndpointSlice).toSorted(), portTexts(ports)])
  }
  const listed = (subsets ?? []).map((subset) => [
    (subset.addresses ?? []).map(({ ip }) => ip).sort(),
    portTexts(subset.ports),
  ])
  return JSON.stringify(listed)
}

/** Who keeps undoing what is kept here, and what to do about it: for the event of it. Pure. */
export function describeWriter(
  kind: string,
  writer: string | undefined,
): { readonly who: string; readonly remedy: string } {
  if (writer === undefined) {
    const remedy = "The API server's audit log tells who it is"
    return { who: 'somebody who leaves no trace in managedFields', remedy }
  }
  if (writer === OWN_MANAGER) {
    const remedy = 'Give all masters of the cluster the same options and the same lease store'
    return { who: 'another apiserver-bootstrap', remedy }
  }
  const remedy =
    isReconciler(writer) && kind !== 'Service'
      ? `It is an API server whose own endpoint reconciler is on: ${TURN_OFF}`
      : 'Stop it, or leave kubernetes-service out of --controllers here'
  return { who: `field manager ${writer}`, remedy }
}
