import type { Service } from '../kube/resources.ts'

/** How many families the Service should have. `as-found`: whoever decided that is not known here. */
export type ServiceStack = 'single' | 'dual' | 'as-found'

/**
 * How a second address is asked for.
 * - `configured`: the first usable one of the second Service range.
 * - `any`: one of that family, whichever is free.
 * - `if-possible`: one if the server has any; a server with one family has none, and says so by giving none.
 */
export type SecondClusterIp = 'configured' | 'any' | 'if-possible'

/** What a plan for the families rests on. */
export interface FamiliesWish {
  readonly stack: ServiceStack
  readonly second: SecondClusterIp
  /** The first usable addresses of both Service ranges; with one range a Service never gets a second address. */
  readonly clusterIps: readonly [primary: string, secondary?: string | undefined]
}

/** The fields of a Service's spec that belong together: a server refuses those that contradict each other. */
export interface FamilyFields {
  readonly ipFamilyPolicy: 'SingleStack' | 'PreferDualStack'
  readonly ipFamilies: readonly ('IPv4' | 'IPv6')[]
  readonly clusterIPs: readonly string[]
}

/**
 * Decides which addresses and families a Service that has an address should have instead; undefined when it has them, or has no
 * address.
 *
 * Pure. The first address of a Service never changes, and a second one that it has is kept too: each may have been given out. So the
 * second family is the one that the first address is not of. A server releases a second address only when all three fields say so
 * (pkg/registry/core/service/storage/alloc.go).
 */
export function planFamilies(spec: Service['spec'], wish: FamiliesWish): FamilyFields | undefined {
  const found = spec?.clusterIPs ?? (spec?.clusterIP === undefined ? [] : [spec.clusterIP])
  const [first] = found
  const policy = spec?.ipFamilyPolicy ?? 'SingleStack'
  if (first === undefined || first === '' || first === 'None') return undefined
  const family = familyOf(first)
  switch (wish.stack) {
    case 'as-found':
      return undefined
    case 'single':
      if (policy === 'SingleStack' && found.length === 1) return undefined
      return { ipFamilyPolicy: 'SingleStack', ipFamilies: [family], clusterIPs: [first] }
    case 'dual': {
      const [primary, secondary] = wish.clusterIps
      if (secondary === undefined) return undefined
      const other = familyOf(primary) === family ? secondary : primary
      const complete = found.length === 2
      if (policy === 'PreferDualStack' && (complete || wish.second === 'if-possible')) return undefined
      if (!complete && wish.second === 'if-possible') {
        return { ipFamilyPolicy: 'PreferDualStack', ipFamilies: [family], clusterIPs: [first] }
      }
      const clusterIPs = complete ? found : wish.second === 'configured' ? [first, other] : [first]
      return { ipFamilyPolicy: 'PreferDualStack', ipFamilies: [family, familyOf(other)], clusterIPs }
    }
  }
}

function familyOf(ip: string): 'IPv4' | 'IPv6' {
  return ip.includes(':') ? 'IPv6' : 'IPv4'
}
