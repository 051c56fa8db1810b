import { serviceCidrs } from '../../kube/resources.ts'
import type { FieldErrors } from '../field-errors.ts'
import { cidrFault } from '../ip-text.ts'
import { type Draft, type Kind, member } from '../kind.ts'
import { dnsSubdomainFault } from '../names.ts'
import { conditions, kindSchema, object, strings } from '../schema.ts'

export const serviceCidrKind: Kind = {
  resource: serviceCidrs,
  singular: 'servicecidr',
  schema: kindSchema({ spec: object({ cidrs: strings }), status: object({ conditions }) }),
  hasStatus: true,
  createOnUpdate: false,
  nameFault: dnsSubdomainFault,
  forCreate: (draft) => ({ ...draft, status: {} }),
  validate(draft, errors, live) {
    const cidrs = cidrsOf(draft)
    const old = live === undefined ? [] : cidrsOf(live)
    // The one change that is allowed adds the second family.
    if (old.length > 0) checkUnchanged(cidrs, old, errors)
    if (cidrs.length === 0) errors.required('spec.cidrs', 'at least one CIDR required')
    else if (cidrs.length > 2) errors.invalid('spec.cidrs', { CIDRs: cidrs }, 'may only hold up to 2 values')
    else checkCidrs(cidrs, errors)
  },
}

/** The ranges of a ServiceCIDR. */
export function cidrsOf(object: Draft): readonly string[] {
  return (member(object, 'spec').cidrs ?? []) as readonly string[]
}

/** Whether Services get addresses from it: also while nobody has said that they do not, as upstream's allocator does. */
export function isReady(object: Draft): boolean {
  if (object.metadata?.deletionTimestamp !== undefined) return false
  const list = (member(object, 'status').conditions ?? []) as readonly {
    readonly type?: string
    readonly status?: string
  }[]
  return list.every((condition) => condition.type !== 'Ready' || condition.status === 'True')
}

function checkUnchanged(cidrs: readonly string[], old: readonly string[], errors: FieldErrors): void {
  for (const [index, cidr] of old.entries()) {
    if (cidrs[index] !== cidr) errors.invalid(`spec.cidrs[${index}]`, cidrs[index] ?? '', 'field is immutable')
  }
}

function checkCidrs(cidrs: readonly string[], errors: FieldErrors): void {
  let faults = 0
  for (const [index, cidr] of cidrs.entries()) {
    const fault = cidrFault(cidr)
    if (fault === undefined) continue
    errors.invalid(`spec.cidrs[${index}]`, cidr, fault)
    faults++
  }
  const [first = '', second] = cidrs
  if (faults === 0 && second !== undefined && first.includes(':') === second.includes(':')) {
    errors.invalid(
      'spec.cidrs',
      cidrs,
      'may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64',
    )
  }
}
