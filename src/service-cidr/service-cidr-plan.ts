import type { EventReason } from '../kube/event-object.ts'
import { isBeingDeleted, type ServiceCidr } from '../kube/resources.ts'
import { readyConditionBody, readyConditionOf } from './ready-condition.ts'

/** The name of the ServiceCIDR that has the ranges of the API server's flag. */
export const DEFAULT_SERVICE_CIDR = 'kubernetes'
/** The field manager of the status: upstream's name, so that both controllers own the same field. */
export const SERVICE_CIDR_MANAGER = 'kubernetes-service-cidr-controller'

const ERROR: EventReason = 'KubernetesDefaultServiceCIDRError'
const DELETED_NOTE =
  'The default ServiceCIDR is being deleted, and the API server allocates no ClusterIP from it; create another ServiceCIDR with its ranges, then it goes and is created again'
const INCONSISTENT: EventReason = 'KubernetesDefaultServiceCIDRInconsistent'

/** A report that the controller makes once: a difference that it must not correct, or a refused write. */
export interface ServiceCidrReport {
  readonly reason: string
  readonly note: string
}

export type ServiceCidrAction =
  | { readonly type: 'none' }
  | { readonly type: 'create'; readonly serviceCidr: ServiceCidr }
  /** Adds the second family: the only change of ranges that the controller makes. */
  | { readonly type: 'upgrade'; readonly serviceCidr: ServiceCidr }
  | { readonly type: 'set-ready' }
  /** The ServiceCIDR is not changed, and the report is made once. */
  | { readonly type: 'report'; readonly report: ServiceCidrReport }

/**
 * Decides what must change so that the default ServiceCIDR exists with `cidrs` and is Ready. Pure. Apart from the
 * upgrade, a ServiceCIDR with other ranges, with Ready=False, or under deletion belongs to an administrator and is not
 * changed. Upstream: pkg/controlplane/controller/defaultservicecidr, 1.36.3.
 *
 * @param cidrs - one or two, the first decides the cluster's primary family.
 */
export function planServiceCidr(current: ServiceCidr | undefined, cidrs: readonly string[]): ServiceCidrAction {
  if (current === undefined) return { type: 'create', serviceCidr: newServiceCidr(cidrs) }
  const found = current.spec?.cidrs ?? []
  if (cidrs.length === 2 && found.length === 1 && found[0] === cidrs[0]) {
    return { type: 'upgrade', serviceCidr: { ...current, spec: { ...current.spec, cidrs } } as ServiceCidr }
  }
  if (isBeingDeleted(current)) return { type: 'report', report: { reason: ERROR, note: DELETED_NOTE } }
  if (found.length !== cidrs.length || found.some((cidr, index) => cidr !== cidrs[index])) {
    return { type: 'report', report: { reason: INCONSISTENT, note: inconsistentNote(found, cidrs) } }
  }
  const ready = readyConditionOf(current)
  switch (ready?.status) {
    case 'True':
      return { type: 'none' }
    case 'False':
      return {
        type: 'report',
        report: { reason: ready.reason || ERROR, note: `Configuration matches, but ${ready.message}` },
      }
    default:
      return { type: 'set-ready' }
  }
}

export function readyStatus(now: string): unknown {
  return readyConditionBody(
    DEFAULT_SERVICE_CIDR,
    { status: 'True', message: 'Kubernetes default Service CIDR is ready' },
    now,
  )
}

/** The report of a refused write, in upstream's words. */
export function failureReport(
  action: 'create' | 'upgrade' | 'set-ready',
  cidrs: readonly string[],
  message: string,
): ServiceCidrReport {
  const notes = {
    create: 'The default ServiceCIDR can not be created',
    upgrade: `The default ServiceCIDR can not be upgraded from ${cidrs[0]} to dual stack [${cidrs.join(' ')}] : ${message}`,
    'set-ready': 'The default ServiceCIDR Status can not be set to Ready=True',
  }
  return { reason: ERROR, note: notes[action] }
}

function inconsistentNote(found: readonly string[], cidrs: readonly string[]): string {
  return `The default ServiceCIDR [${found.join(' ')}] does not match the controller flag configurations [${cidrs.join(' ')}]`
}

function newServiceCidr(cidrs: readonly string[]): ServiceCidr {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    metadata: { name: DEFAULT_SERVICE_CIDR },
    spec: { cidrs },
  }
}
