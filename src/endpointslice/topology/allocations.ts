import type { CpuRatios } from './zone-capacity.ts'

/** How many endpoints carry a hint for each zone. */
export type HintsByZone = ReadonlyMap<string, number>

/** How many endpoints a zone is to be hinted. */
export interface Allocation {
  /** With fewer, each would bear more than the overload threshold allows. */
  readonly minimum: number
  /** With more, another zone would have fewer than its minimum. */
  readonly maximum: number
  readonly desired: number
}

/** By zone, in the order of their names. */
export type Allocations = ReadonlyMap<string, Allocation>

/** An endpoint may bear this much more traffic than it would without hints. */
const overloadThreshold = 0.2

/**
 * How many endpoints each zone is to be hinted, by its part of the CPU; or why that cannot be said. `ratios` are undefined while the Nodes do not tell.
 */
export function planAllocations(
  ratios: CpuRatios | undefined,
  endpoints: number,
):
  | { readonly type: 'allocated'; readonly allocations: Allocations }
  | { readonly type: 'refused'; readonly message: string } {
  if (ratios === undefined) {
    const message = 'Insufficient Node information: allocatable CPU or zone not specified on one or more nodes'
    return { type: 'refused', message }
  }
  const counts = `(${endpoints} endpoints, ${ratios.size} zones)`
  if (ratios.size > endpoints) return { type: 'refused', message: `Insufficient number of endpoints ${counts}` }
  const wanted = [...ratios].map(([zone, ratio]) => {
    const desired = ratio * endpoints
    const minimum = Math.ceil(desired * (1 / (1 + overloadThreshold)))
    return { zone, minimum, desired: Math.max(desired, minimum) }
  })
  const spare = endpoints - wanted.reduce((sum, { minimum }) => sum + minimum, 0)
  if (spare < 0) {
    const message = 'Unable to allocate minimum required endpoints to each zone without exceeding overload threshold'
    return { type: 'refused', message: `${message} ${counts}` }
  }
  const allocations = wanted.map(
    ({ zone, minimum, desired }) => [zone, { minimum, desired, maximum: minimum + spare }] as const,
  )
  return { type: 'allocated', allocations: new Map(allocations) }
}

/** Whether a slice may keep the hints that it has, beside those that are allocated already: for zones that are to have some, and not too many. */
export function fits(
  hints: HintsByZone,
  allocated: HintsByZone,
  allocations: ReadonlyMap<string, Pick<Allocation, 'maximum'>>,
): boolean {
  for (const [zone, count] of hints) {
    const allocation = allocations.get(zone)
    if (allocation === undefined || count + (allocated.get(zone) ?? 0) > allocation.maximum) return false
  }
  return true
}

/** Whether a zone has so few of a Service's hints that its endpoints bear more than the threshold allows. */
export function isOverloaded(hints: HintsByZone, ratios: CpuRatios | undefined): boolean {
  if (hints.size === 0) return false
  if (ratios === undefined) return true
  let total = 0
  for (const count of hints.values()) total += count
  for (const [zone, ratio] of ratios) {
    const count = hints.get(zone)
    if (count === undefined || count < Math.ceil(total * ratio * (1 / (1 + overloadThreshold)))) return true
  }
  return false
}
