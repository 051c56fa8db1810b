import type { EndpointSlice, Endpoints } from '../kube/resources.ts'
import { type EndpointSliceAction, planSlice, slicePortsOf } from './endpoint-slice-plan.ts'
import { KUBERNETES_SERVICE, SERVICE_NAME_LABEL } from './identity.ts'

/** What must be done to the slice of the second family. `reasons` name what was found wrong, in stable words. */
export type SecondSliceAction =
  | EndpointSliceAction
  | { readonly type: 'remove'; readonly current: EndpointSlice; readonly reasons: readonly string[] }

/** The slice of the second family is called after it: `kubernetes-ipv6` beside IPv4 in Endpoints, `kubernetes-ipv4` beside IPv6. */
export function secondSliceName(family: 4 | 6): string {
  return `${KUBERNETES_SERVICE.name}-ipv${family}`
}

/**
 * The slice that lists the second addresses of the masters whose first ones are in these Endpoints, with the ports of those.
 * Undefined without such addresses, or without Endpoints that list anybody.
 *
 * @param addresses - all of one family, sorted, without doubles.
 */
export function secondSliceOf(
  endpoints: Endpoints | undefined,
  addresses: readonly string[],
): EndpointSlice | undefined {
  const [first] = addresses
  if (first === undefined || endpoints?.subsets?.[0] === undefined) return undefined
  const family = first.includes(':') ? 6 : 4
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: secondSliceName(family),
      namespace: KUBERNETES_SERVICE.namespace,
      labels: { [SERVICE_NAME_LABEL]: KUBERNETES_SERVICE.name },
    },
    addressType: `IPv${family}`,
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: slicePortsOf(endpoints),
  }
}

/**
 * Decides what must change so that a second slice is as wanted, or is gone when none is wanted.
 *
 * Pure. While it is wanted its name is ours, and damage is mended as in the first slice. When it is not, only what is evidently ours
 * is removed: nothing but our label, and no owner. Somebody else's slice of that name stays.
 */
export function planSecondSlice(
  wanted: EndpointSlice | undefined,
  current: EndpointSlice | undefined,
): SecondSliceAction {
  if (wanted !== undefined) return planSlice(wanted, current)
  if (current === undefined || !isOurs(current)) return { type: 'none' }
  return { type: 'remove', current, reasons: ['single-stack'] }
}

function isOurs({ metadata }: EndpointSlice): boolean {
  const labels = Object.entries(metadata?.labels ?? {})
  const [label] = labels
  return (
    labels.length === 1 &&
    label?.[0] === SERVICE_NAME_LABEL &&
    label[1] === KUBERNETES_SERVICE.name &&
    (metadata?.ownerReferences ?? []).length === 0
  )
}
