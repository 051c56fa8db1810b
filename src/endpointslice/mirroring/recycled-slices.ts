import type { EndpointSlice } from '../../kube/resources.ts'

export interface SliceWrites {
  readonly create: readonly EndpointSlice[]
  readonly update: readonly EndpointSlice[]
  readonly remove: readonly EndpointSlice[]
}

/** Makes slices that would be deleted those of their address type that would be created: one write instead of two, and no moment without either. */
export function recycleSlices({ create, update, remove }: SliceWrites): SliceWrites {
  const removable = Map.groupBy(remove, ({ addressType }) => addressType)
  const recycled = new Set<EndpointSlice>()
  const created: EndpointSlice[] = []
  const updated = [...update]
  for (const slice of create) {
    const former = removable.get(slice.addressType)?.shift()
    if (former === undefined) {
      created.push(slice)
      continue
    }
    recycled.add(former)
    const { name, resourceVersion } = former.metadata ?? {}
    updated.push({ ...slice, metadata: { ...slice.metadata, name, resourceVersion } } as EndpointSlice)
  }
  return { create: created, update: updated, remove: remove.filter((slice) => !recycled.has(slice)) }
}
