import type { EndpointSlice } from '../../src/kube/resources.ts'

type Endpoint = NonNullable<EndpointSlice['endpoints']>[number]

/** The parts of a slice on which the number of writes depends. */
interface Held {
  readonly endpoints: string[]
  readonly slice?: EndpointSlice
}

/**
 * How many slices of one address type upstream's algorithm writes, calculated step by step and without optimization.
 * `desired` has the endpoints by the group of their slices. `groupOf` returns the group of a slice, `isOwned` whether
 * the Service owns it, and `isLabelled` whether it has the Service's labels.
 */
export function naiveWrites(options: {
  readonly slices: readonly EndpointSlice[]
  readonly desired: ReadonlyMap<string, readonly Endpoint[]>
  readonly max: number
  readonly groupOf: (slice: EndpointSlice) => string
  readonly isOwned: (slice: EndpointSlice) => boolean
  readonly isLabelled: (slice: EndpointSlice) => boolean
  readonly isPlaceholder: (slice: EndpointSlice) => boolean
}): number {
  const { slices, desired, max, groupOf, isOwned, isLabelled, isPlaceholder } = options
  const deleted = slices.filter((slice) => !isOwned(slice))
  const owned = slices.filter(isOwned)
  deleted.push(...owned.filter((slice) => !desired.has(groupOf(slice))))
  let created = 0
  let updated = 0
  for (const [group, endpoints] of desired) {
    const missing = new Map(endpoints.map((endpoint) => [identityOf(endpoint), contentOf(endpoint)]))
    const changed: Held[] = []
    const same: Held[] = []
    for (const slice of owned.filter((slice) => groupOf(slice) === group)) {
      const present: string[] = []
      let differs = false
      for (const endpoint of slice.endpoints ?? []) {
        const wanted = missing.get(identityOf(endpoint))
        if (wanted === undefined) differs = true
        else {
          missing.delete(identityOf(endpoint))
          present.push(identityOf(endpoint))
          if (wanted !== contentOf(endpoint)) differs = true
        }
      }
      if (differs && present.length === 0) deleted.push(slice)
      else if (differs || !isLabelled(slice)) changed.push({ endpoints: present, slice })
      else same.push({ endpoints: present, slice })
    }
    let left = missing.size
    for (const held of changed.sort((a, b) => b.endpoints.length - a.endpoints.length)) {
      const taken = Math.max(0, Math.min(left, max - held.endpoints.length))
      left -= taken
    }
    updated += changed.length
    while (left > 0) {
      const rooms = same.map((held) => max - held.endpoints.length - left)
      if (left < max && rooms.some((room) => room >= 0 && room < max)) {
        updated++
        left = 0
      } else {
        created++
        left -= Math.min(left, max)
      }
    }
  }
  if (deleted.length === slices.length && created === 0) {
    if (deleted.length === 1 && deleted.every(isPlaceholder)) deleted.pop()
    else created++
  }
  const recycled = Math.min(created, deleted.filter(isOwned).length)
  return created + updated + deleted.length - recycled
}

function identityOf({ addresses, hostname = '', targetRef }: Endpoint): string {
  return JSON.stringify([[...addresses].sort(), hostname, targetRef?.namespace ?? '', targetRef?.name ?? ''])
}

function contentOf({ conditions, nodeName, zone, targetRef }: Endpoint): string {
  const { ready, serving, terminating } = conditions ?? {}
  return JSON.stringify([ready, serving, terminating, nodeName, zone, targetRef?.kind, targetRef?.uid])
}
