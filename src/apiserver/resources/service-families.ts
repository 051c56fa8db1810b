import type { FieldErrors } from '../field-errors.ts'
import { familyOf } from './cluster-ips.ts'
import { isHeadless, type ServiceSpec } from './service-spec.ts'

/**
 * The spec with its IP families and their policy decided (upstream's Allocators.initIPFamilyFields). `configured` are the families
 * that the cluster has, the default one first.
 */
export function withFamilies(
  spec: ServiceSpec,
  live: ServiceSpec | undefined,
  configured: readonly string[],
  errors: FieldErrors,
): ServiceSpec {
  if (spec.type === 'ExternalName' || prefersAsBefore(spec, live)) return spec
  const selectorless = isHeadless(spec) && Object.keys(spec.selector ?? {}).length === 0
  const ipFamilyPolicy =
    spec.ipFamilyPolicy ?? live?.ipFamilyPolicy ?? (selectorless ? 'RequireDualStack' : 'SingleStack')
  const single = ipFamilyPolicy === 'SingleStack'
  const released = live !== undefined && single
  const clusterIPs =
    released && isSame(spec.clusterIPs, live.clusterIPs) ? spec.clusterIPs?.slice(0, 1) : spec.clusterIPs
  const asked = released && isSame(spec.ipFamilies, live.ipFamilies) ? spec.ipFamilies?.slice(0, 1) : spec.ipFamilies
  const decided = { ...spec, ipFamilyPolicy, ...(clusterIPs === undefined ? {} : { clusterIPs }) }
  checkPolicy(decided, asked, live, errors)

  const families = inferred(asked, clusterIPs, configured, errors)
  if (families.length === 0) families.push(configured[0] ?? 'IPv4')
  const everyFamily = selectorless ? ['IPv4', 'IPv6'] : configured
  if (!single && families.length === 1) {
    const other = everyFamily.find((family) => family !== families[0])
    if (other !== undefined) families.push(other)
  }
  if (!selectorless) checkConfigured(decided, families, configured, errors)
  return { ...decided, ipFamilies: families }
}

/** A Service that merely prefers two families gets or loses none with the cluster's, only when its own fields change. */
function prefersAsBefore(spec: ServiceSpec, live: ServiceSpec | undefined): boolean {
  return (
    live?.ipFamilyPolicy === 'PreferDualStack' &&
    spec.ipFamilyPolicy === 'PreferDualStack' &&
    spec.type === live.type &&
    isSame(spec.clusterIPs, live.clusterIPs) &&
    isSame(spec.ipFamilies, live.ipFamilies)
  )
}

/** The families that were asked for, then those of the addresses that were. */
function inferred(
  asked: readonly string[] | undefined,
  clusterIPs: readonly string[] | undefined,
  configured: readonly string[],
  errors: FieldErrors,
): string[] {
  const families = [...(asked ?? [])]
  for (const [index, ip] of (clusterIPs ?? []).entries()) {
    const family = familyOf(ip)
    if (family === undefined || index < families.length) continue
    if (configured.includes(family)) families.push(family)
    else errors.invalid(`spec.clusterIPs[${index}]`, clusterIPs, `${family} is not configured on this cluster`)
  }
  return families
}

function checkPolicy(
  spec: ServiceSpec,
  asked: readonly string[] | undefined,
  live: ServiceSpec | undefined,
  errors: FieldErrors,
): void {
  const path = 'spec.ipFamilyPolicy'
  const policy = spec.ipFamilyPolicy
  if (policy === 'SingleStack') {
    const why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
    if (spec.clusterIPs?.length === 2) errors.invalid(path, policy, `${why} cluster IPs are specified`)
    if (asked?.length === 2) errors.invalid(path, policy, `${why} IP families are specified`)
  } else if (live !== undefined) {
    const reduced = (before: readonly string[] | undefined, after: readonly string[] | undefined): boolean =>
      (before?.length ?? 0) > 1 && after?.length === 1
    if (reduced(live.clusterIPs, spec.clusterIPs)) {
      errors.invalid(path, policy, "must be 'SingleStack' to release the secondary cluster IP")
    }
    if (reduced(live.ipFamilies, asked)) {
      errors.invalid(path, policy, "must be 'SingleStack' to release the secondary IP family")
    }
  }
}

function checkConfigured(
  spec: ServiceSpec,
  families: readonly string[],
  configured: readonly string[],
  errors: FieldErrors,
): void {
  if (spec.ipFamilyPolicy === 'RequireDualStack' && configured.length < 2) {
    errors.invalid('spec.ipFamilyPolicy', spec.ipFamilyPolicy, 'this cluster is not configured for dual-stack services')
  }
  for (const [index, family] of families.entries()) {
    if (!configured.includes(family))
      errors.invalid(`spec.ipFamilies[${index}]`, family, 'not configured on this cluster')
  }
}

function isSame(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  return (a ?? []).join() === (b ?? []).join()
}
