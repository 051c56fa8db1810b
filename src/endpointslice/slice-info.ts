import type { EndpointSlice } from '../kube/resources.ts'

export type AddressType = 'IPv4' | 'IPv6'

/**
 * The slices of one address type of a Service as they shall be, before hints are decided. None of the objects may be changed: whoever gives an endpoint
 * other hints makes a new endpoint and a new slice. Those to be deleted are not in it.
 */
export interface SliceInfo {
  /** `namespace/name` of the Service. */
  readonly serviceKey: string
  readonly addressType: AddressType
  /** Without a name yet. */
  readonly toCreate: readonly EndpointSlice[]
  /** With the name and the resourceVersion of the slices that they replace. Their endpoints have no hints yet but where nothing else of the slice's endpoints changed. */
  readonly toUpdate: readonly EndpointSlice[]
  /** As the informer holds them, hints included. */
  readonly unchanged: readonly EndpointSlice[]
}

/** What there is to tell of the hints of a Service. */
export interface HintsEvent {
  readonly reason: 'TopologyAwareHintsEnabled' | 'TopologyAwareHintsDisabled'
  readonly note: string
}

/** What becomes of a {@link SliceInfo} when hints are decided: slices that were unchanged may have come to `update`, none ever leaves it. */
export interface HintedSlices {
  readonly create: readonly EndpointSlice[]
  readonly update: readonly EndpointSlice[]
  readonly events: readonly HintsEvent[]
}
