import type { Allocation, HintsByZone } from './allocations.ts'

/** How many endpoints each zone gives to others, and how many it takes from them. */
export interface Redistribution {
  readonly giving: HintsByZone
  readonly receiving: HintsByZone
}

/**
 * How many endpoints of which zones are to be hinted to which others, so that each has about what it should. Halves are not worth it: zones keep their own as
 * long as nobody lacks a whole one. Of zones that have or lack the same the first by name counts, where upstream leaves that to chance.
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
 * To which zones the endpoints of `zones`, in this order, are hinted beyond their own: by their index. A zone gives its first ones, to the zones that take in
 * the order of their names.
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
