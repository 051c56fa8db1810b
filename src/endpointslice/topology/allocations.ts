import type { Node } from '../../kube/resources.ts'
import { zoneLabel } from '../endpoint.ts'

/** How many endpoints have a hint for each zone. */
export type HintsByZone = ReadonlyMap<string, number>

/** How many endpoints should have a hint for a zone. */
interface Allocation {
  /** With fewer endpoints, each endpoint of the zone would receive more traffic than the overload threshold allows. */
  readonly minimum: number
  /** With more endpoints, another zone would have fewer than its minimum. */
  readonly maximum: number
  /** The zone's share of the endpoints, by CPU, but at least `minimum`. May be a fraction. */
  readonly desired: number
}

/** The allocation of each zone, in the order of the zones' names. */
type Allocations = ReadonlyMap<string, Allocation>

/** An endpoint may receive this fraction more traffic than it would without hints. */
const OVERLOAD_THRESHOLD = 0.2

/**
 * Decides how many endpoints should have a hint for each zone, by the zone's share of the CPU. Refuses, with the reason
 * for an Event, if that is impossible. `ratios` is undefined while the Nodes do not provide them.
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
    const minimum = Math.ceil(desired * (1 / (1 + OVERLOAD_THRESHOLD)))
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

/**
 * Whether a slice may retain its `hints` in addition to those already `allocated`. Every zone that the hints name must
 * have an allocation, and must not exceed its maximum.
 */
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

/**
 * Whether a Service has too few hints for some zone, so that the endpoints with these hints are overloaded. False for a
 * Service without hints. True for every other Service if `ratios` is undefined.
 */
export function isOverloaded(hints: HintsByZone, ratios: CpuRatios | undefined): boolean {
  if (hints.size === 0) return false
  if (ratios === undefined) return true
  const total = [...hints.values()].reduce((sum, count) => sum + count, 0)
  for (const [zone, ratio] of ratios) {
    const count = hints.get(zone)
    if (count === undefined || count < Math.ceil(total * ratio * (1 / (1 + OVERLOAD_THRESHOLD)))) return true
  }
  return false
}

/** How many endpoints each zone gives to others, and how many it takes from them. */
interface Redistribution {
  readonly giving: HintsByZone
  readonly receiving: HintsByZone
}

/**
 * Decides how many endpoints of each zone get a hint for another zone, so that each zone has about its share. An
 * endpoint moves only if the surplus of one zone and the lack of another are at least a half, and at least one of the
 * two is one or more. Of several zones with the same surplus or lack, the first by name is chosen; upstream chooses at
 * random.
 */
export function planRedistribution(
  allocations: ReadonlyMap<string, Pick<Allocation, 'desired'>>,
  allocated: HintsByZone,
): Redistribution {
  const surplus = new Map<string, number>()
  const lack = new Map<string, number>()
  for (const [zone, { desired }] of allocations) {
    const count = allocated.get(zone) ?? 0
    if (count > desired) surplus.set(zone, count - desired)
    else if (count < desired) lack.set(zone, desired - count)
  }
  const giving = new Map<string, number>()
  const receiving = new Map<string, number>()
  for (;;) {
    const from = most(surplus)
    const to = most(lack)
    if (from === undefined || to === undefined) break
    if ((from.count < 1 && to.count < 1) || from.count < 0.5 || to.count < 0.5) break
    move(giving, surplus, from.zone)
    move(receiving, lack, to.zone)
  }
  return { giving, receiving }
}

/**
 * Chooses the endpoints that get a hint for another zone than their own. `zones` has the zone of each endpoint. Returns
 * the zone of each such hint, by the index of the endpoint in `zones`. The first endpoints of a giving zone get hints
 * for the receiving zones, in the order of these zones' names.
 */
export function redistribute(
  zones: readonly string[],
  { giving, receiving }: Redistribution,
): ReadonlyMap<number, string> {
  const given = new Map<number, string>()
  const toGive = new Map(giving)
  const takers = [...receiving]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([zone, count]) => Array<string>(count).fill(zone))
  for (let index = 0, taken = 0; index < zones.length && taken < takers.length; index++) {
    const zone = zones[index] ?? ''
    const left = toGive.get(zone) ?? 0
    if (left === 0) continue
    toGive.set(zone, left - 1)
    given.set(index, takers[taken++] ?? '')
  }
  return given
}

function most(zones: ReadonlyMap<string, number>): { readonly zone: string; readonly count: number } | undefined {
  let best: { zone: string; count: number } | undefined
  for (const [zone, count] of zones) if (count > (best?.count ?? 0)) best = { zone, count }
  return best
}

function move(to: Map<string, number>, from: Map<string, number>, zone: string): void {
  to.set(zone, (to.get(zone) ?? 0) + 1)
  from.set(zone, (from.get(zone) ?? 0) - 1)
}

/** The share of each zone in the cluster's CPU, in the order of the zones' names. They add up to about 1. */
export type CpuRatios = ReadonlyMap<string, number>

/** Nodes with one of these labels, whatever its value, are ignored, as nodes that run no workload. */
const excludedLabels = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master']

/**
 * The distribution of the ready Nodes' CPU over zones. Undefined if there are fewer than two zones, or if a ready Node
 * has no zone or no allocatable CPU.
 */
export function cpuRatiosOf(nodes: Iterable<Node>): CpuRatios | undefined {
  const nanosByZone = new Map<string, bigint>()
  let total = 0n
  for (const node of nodes) {
    const labels = node.metadata?.labels ?? {}
    if (excludedLabels.some((label) => Object.hasOwn(labels, label)) || !isReadyNode(node)) continue
    const zone = labels[zoneLabel] ?? ''
    const nanos = nanosOf(String(node.status?.allocatable?.cpu ?? '')) ?? 0n
    if (zone === '' || nanos === 0n) return undefined
    nanosByZone.set(zone, (nanosByZone.get(zone) ?? 0n) + nanos)
    total += nanos
  }
  if (total === 0n || nanosByZone.size < 2) return undefined
  const totalMillis = millisOf(total)
  const zones = [...nanosByZone].sort(([a], [b]) => (a < b ? -1 : 1))
  return new Map(zones.map(([zone, nanos]) => [zone, millisOf(nanos) / totalMillis]))
}

export function isReadyNode(node: Node): boolean {
  return node.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
}

const decimal: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 }
const binary: Readonly<Record<string, number>> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 }

const form = /^([+-]?)(\d*)(?:\.(\d*))?(?:([eE])([+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE])?)$/

/** A quantity with a million digits would take seconds. */
const LONGEST_QUANTITY = 64

/**
 * The amount of a quantity of the API, in billionths: `2`, `1500m`, `0.5`, `1Ki`, `1e3`. Fractions of a billionth are
 * rounded away from zero, as `resource.Quantity` does. Undefined for a malformed quantity, and for one of more than
 * {@link LONGEST_QUANTITY} characters.
 */
export function nanosOf(text: string): bigint | undefined {
  if (text.length > LONGEST_QUANTITY) return undefined
  const match = form.exec(text)
  if (match === null) return undefined
  const [, sign, whole = '', fraction = '', exponentSign, exponent = '', suffix = ''] = match
  if (whole === '' && fraction === '') return undefined
  const tens = exponentSign === undefined ? (decimal[suffix] ?? 0) : Number(exponent)
  const digits = BigInt(whole + fraction) << BigInt(binary[suffix] ?? 0)
  const power = tens + 9 - fraction.length
  const nanos = power >= 0 ? digits * 10n ** BigInt(power) : divideUp(digits, 10n ** BigInt(-power))
  return sign === '-' ? -nanos : nanos
}

/** Converts billionths to thousandths, rounded up, as `Quantity.MilliValue` does. */
export function millisOf(nanos: bigint): number {
  return Number(divideUp(nanos, 1_000_000n))
}

function divideUp(dividend: bigint, divisor: bigint): bigint {
  const quotient = dividend / divisor
  return dividend > 0n && quotient * divisor !== dividend ? quotient + 1n : quotient
}
