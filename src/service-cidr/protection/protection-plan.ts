import { isBeingDeleted, type ServiceCidr } from '../../kube/resources.ts'
import { parseTime } from '../../runtime/time-format.ts'
import { type ReadyCondition, readyConditionOf } from '../ready-condition.ts'

/** The finalizer that delays the deletion of a ServiceCIDR until nothing needs its addresses. */
export const PROTECTION_FINALIZER = 'networking.k8s.io/service-cidr-finalizer'

/**
 * A deletion takes at least this long, in milliseconds. In this time an API server that does not know of the deletion
 * yet may still allocate an address from the ServiceCIDR. Upstream's `deletionGracePeriod`.
 */
export const DELETION_GRACE_MS = 10_000

const ready: ReadyCondition = { status: 'True', reason: '', message: 'Kubernetes Service CIDR is ready' }

const terminating: ReadyCondition = {
  status: 'False',
  reason: 'Terminating',
  message: 'There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR',
}

export type ProtectionAction =
  /** `finalizers` is the complete new list, in the order of upstream's strategic merge patch. */
  | { readonly type: 'add-finalizer'; readonly finalizers: readonly string[] }
  | { readonly type: 'remove-finalizer'; readonly finalizers: readonly string[] }
  | { readonly type: 'set-condition'; readonly condition: ReadyCondition }
  /** Plan again after `forMs` milliseconds. */
  | { readonly type: 'wait'; readonly forMs: number }

export interface ProtectionObservation {
  readonly serviceCidr: ServiceCidr
  /** Whether an IPAddress is in this ServiceCIDR and in no other. Used only if this ServiceCIDR is being deleted. */
  readonly isBlocked: boolean
  /** Wall time, because the deletionTimestamp is the wall time of an API server. */
  readonly nowMs: number
}

/**
 * Decides which actions a ServiceCIDR needs, in their order. Pure. The finalizer is removed only if the ServiceCIDR has
 * been under deletion for {@link DELETION_GRACE_MS} and is not blocked. Upstream: `sync` in
 * pkg/controller/servicecidrs, 1.36.3. @throws RangeError for a malformed deletionTimestamp.
 */
export function planProtection(observed: ProtectionObservation): readonly ProtectionAction[] {
  const { serviceCidr } = observed
  const { metadata } = serviceCidr
  const finalizers = metadata?.finalizers ?? []
  const isProtected = finalizers.includes(PROTECTION_FINALIZER)
  if (!isBeingDeleted(serviceCidr)) {
    const added = isProtected
      ? []
      : [{ type: 'add-finalizer', finalizers: [PROTECTION_FINALIZER, ...finalizers] } as const]
    return [...added, ...planCondition(serviceCidr, ready)]
  }
  if (observed.isBlocked) return planCondition(serviceCidr, terminating)
  if (!isProtected) return []
  const waitMs = parseTime(metadata?.deletionTimestamp ?? '') + DELETION_GRACE_MS - observed.nowMs
  // The wall clock may be set during the wait, so the rest is computed again after at most one grace period.
  if (waitMs > 0) return [{ type: 'wait', forMs: Math.min(waitMs, DELETION_GRACE_MS) }]
  return [{ type: 'remove-finalizer', finalizers: finalizers.filter((name) => name !== PROTECTION_FINALIZER) }]
}

function planCondition(serviceCidr: ServiceCidr, wanted: ReadyCondition): readonly ProtectionAction[] {
  const found = readyConditionOf(serviceCidr)
  const isSame =
    found?.status === wanted.status && (found.reason ?? '') === wanted.reason && found.message === wanted.message
  return isSame ? [] : [{ type: 'set-condition', condition: wanted }]
}
