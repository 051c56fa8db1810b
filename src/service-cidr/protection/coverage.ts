import { isBeingDeleted, type ServiceCidr } from '../../kube/resources.ts'
import { type Cidr, cidrIncludes } from '../../net/cidr.ts'
import { rangesOf } from '../../repair/ip-address/service-ips.ts'
import { PROTECTION_FINALIZER } from './protection-plan.ts'

/**
 * The ServiceCIDRs in `all` that have addresses in common with `serviceCidr`, which may be one of them. Upstream:
 * `overlappingServiceCIDRs` in pkg/controller/servicecidrs.
 */
export function overlapping(serviceCidr: ServiceCidr, all: readonly ServiceCidr[]): readonly ServiceCidr[] {
  const ranges = rangesOf(serviceCidr)
  return all.filter((other) => rangesOf(other).some((range) => ranges.some((own) => doOverlap(own, range))))
}

/** The ranges that decide whether a ServiceCIDR may be deleted. */
export interface Coverage {
  /** All ranges of the ServiceCIDR; none if each of them is within a range of another ServiceCIDR. */
  readonly needed: readonly Cidr[]
  /** The ranges of other ServiceCIDRs that overlap the needed ones. */
  readonly others: readonly Cidr[]
}

/**
 * Compares a ServiceCIDR with those that remain after its deletion. Pure. Upstream: `canDeleteCIDR` in
 * pkg/controller/servicecidrs. Upstream also counts ServiceCIDRs that are being deleted. So if two with the same
 * addresses are deleted together, both may go, and their addresses are then in no ServiceCIDR. Here, of two that are
 * being deleted, only the one whose deletion began first may rely on the other.
 */
export function coverageOf(serviceCidr: ServiceCidr, all: readonly ServiceCidr[]): Coverage {
  const ranges = rangesOf(serviceCidr)
  const others = all
    .filter((other) => outlasts(other, serviceCidr))
    .flatMap(rangesOf)
    .filter((other) => ranges.some((own) => doOverlap(own, other)))
  const isCovered = ranges.every((own) => others.some((other) => cidrIncludes(other, own)))
  return isCovered ? { needed: [], others: [] } : { needed: ranges, others }
}

function doOverlap(a: Cidr, b: Cidr): boolean {
  return cidrIncludes(a, b) || cidrIncludes(b, a)
}

/** Whether `one` stays at least until the deletion of `serviceCidr` has ended. */
function outlasts(one: ServiceCidr, { metadata: own }: ServiceCidr): boolean {
  const { metadata: other } = one
  if (other?.name === own?.name) return false
  if (!isBeingDeleted(one)) return true
  // Without this finalizer, `one` may be gone at any time.
  if (other?.finalizers?.includes(PROTECTION_FINALIZER) !== true) return false
  const [began = '', ownBegan = ''] = [other.deletionTimestamp, own?.deletionTimestamp]
  return began === ownBegan ? (other.name ?? '') > (own?.name ?? '') : began > ownBegan
}
