import type { ServiceCidr } from '../../kube/resources.ts'
import { parseTime } from '../../runtime/time-format.ts'
import { type ReadyCondition, readyConditionOf } from '../ready-condition.ts'

/** A ServiceCIDR with this finalizer stays, while it is being deleted, until nothing needs its addresses. */
export const PROTECTION_FINALIZER = 'networking.k8s.io/service-cidr-finalizer'

/**
 * A ServiceCIDR stays at least this long after its deletion has begun, in milliseconds: until every API server has
 * received the deletion, it may still allocate an address from it. Upstream's `deletionGracePeriod`.
 */
export const DELETION_GRACE_MS = 10_000

const ready: ReadyCondition = { status: 'True', reason: '', message: 'Kubernetes Service CIDR is ready' }

const terminating: ReadyCondition = {
  status: 'False',
  reason: 'Terminating',
  message: 'There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR',
}

/** One thing to do about a ServiceCIDR. */
export type ProtectionAction =
  /** `finalizers` are all that it has then, in the order of upstream's strategic merge patch. */
  | { readonly type: 'add-finalizer'; readonly finalizers: readonly string[] }
  | { readonly type: 'remove-finalizer'; readonly finalizers: readonly string[] }
  | { readonly type: 'set-condition'; readonly condition: ReadyCondition }
  /** Plan again after this time. */
  | { readonly type: 'wait'; readonly forMs: number }

export interface ProtectionObservation {
  readonly serviceCidr: ServiceCidr
  /** Whether there are IPAddresses that no other ServiceCIDR has; only asked about one that is being deleted. */
  readonly isBlocked: boolean
  /** The time of day: the deletion has begun at the time of day of an API server. */
  readonly nowMs: number
}

/**
 * Decides what is to be done about a ServiceCIDR, in this order. Pure. The finalizer is removed only from one that is
 * being deleted, is not blocked, and has been so for {@link DELETION_GRACE_MS}. Upstream: `sync` in
 * pkg/controller/servicecidrs, 1.36.3.
 * @throws RangeError for a malformed deletionTimestamp.
 */
export function planProtection(observed: ProtectionObservation): readonly ProtectionAction[] {
  const { metadata } = observed.serviceCidr
  const finalizers = metadata?.finalizers ?? []
  const isProtected = finalizers.includes(PROTECTION_FINALIZER)
  if (metadata?.deletionTimestamp === undefined) {
    const added = isProtected
      ? []
      : [{ type: 'add-finalizer', finalizers: [PROTECTION_FINALIZER, ...finalizers] } as const]
    return [...added, ...planCondition(observed.serviceCidr, ready)]
  }
  if (observed.isBlocked) return planCondition(observed.serviceCidr, terminating)
  if (!isProtected) return []
  const waitMs = parseTime(metadata.deletionTimestamp) + DELETION_GRACE_MS - observed.nowMs
  if (waitMs > 0) return [{ type: 'wait', forMs: waitMs }]
  return [{ type: 'remove-finalizer', finalizers: finalizers.filter((name) => name !== PROTECTION_FINALIZER) }]
}

/** Another time of transition alone is no difference. */
function planCondition(serviceCidr: ServiceCidr, wanted: ReadyCondition): readonly ProtectionAction[] {
  const found = readyConditionOf(serviceCidr)
  const isSame =
    found?.status === wanted.status && (found.reason ?? '') === wanted.reason && found.message === wanted.message
  return isSame ? [] : [{ type: 'set-condition', condition: wanted }]
}
