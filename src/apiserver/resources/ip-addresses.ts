import { ipAddresses, serviceCidrs } from '../../kube/resources.ts'
import { equalJson } from '../../runtime/equal-json.ts'
import { ageColumn, nameColumn } from '../columns.ts'
import { type Draft, type Kind, listMember, member } from '../kind.ts'
import { canonicalIpFault, cidrFault } from '../names.ts'
import type { FieldErrors } from '../refusal.ts'
import * as s from '../schema.ts'

export const ipAddressKind: Kind = {
  resource: ipAddresses,
  shortNames: ['ip'],
  schema: s.kindSchema({
    spec: s.object({
      parentRef: s.pointer({
        group: s.optionalString,
        resource: s.optionalString,
        namespace: s.optionalString,
        name: s.optionalString,
      }),
    }),
  }),
  columns: [
    nameColumn,
    {
      name: 'ParentRef',
      cell: (address) =>
        ['group', 'resource', 'namespace', 'name']
          .flatMap((field) => member(member(address, 'spec'), 'parentRef')[field] || [])
          .join('/'),
    },
    ageColumn,
  ],
  nameFault: canonicalIpFault,
  validate(draft, errors, live) {
    const parent = member(draft, 'spec').parentRef as Readonly<Record<string, string>> | undefined
    if (live !== undefined && !equalJson(parent, member(live, 'spec').parentRef)) {
      errors.invalid('spec.parentRef', parent ?? null, 'field is immutable')
    }
    if (parent === undefined) {
      errors.required('spec.parentRef')
      return
    }
    if (parent.resource === undefined) errors.required('spec.parentRef.resource')
    if (parent.name === undefined) errors.required('spec.parentRef.name')
  },
}

export const serviceCidrKind: Kind = {
  resource: serviceCidrs,
  schema: s.kindSchema({ spec: s.object({ cidrs: s.strings }), status: s.object({ conditions: s.conditions }) }),
  columns: [nameColumn, { name: 'CIDRs', cell: (cidr) => cidrsOf(cidr).join() }, ageColumn],
  hasStatus: true,
  forCreate: (draft) => ({ ...draft, status: {} }),
  validate(draft, errors, live) {
    const cidrs = cidrsOf(draft)
    const old = live === undefined ? [] : cidrsOf(live)
    // The only change that is allowed is to add the second family.
    for (const [index, cidr] of old.entries()) {
      if (cidrs[index] !== cidr) errors.invalid(`spec.cidrs[${index}]`, cidrs[index] ?? '', 'field is immutable')
    }
    if (cidrs.length === 0) errors.required('spec.cidrs', 'at least one CIDR required')
    else if (cidrs.length > 2) errors.invalid('spec.cidrs', { CIDRs: cidrs }, 'may only hold up to 2 values')
    else checkCidrs(cidrs, errors)
  },
}

export function cidrsOf(object: Draft): readonly string[] {
  return (member(object, 'spec').cidrs ?? []) as readonly string[]
}

/**
 * Whether Services get addresses from a ServiceCIDR. Like upstream, counts a missing Ready condition as ready. A
 * ServiceCIDR that is being deleted is not ready.
 */
export function isReady(object: Draft): boolean {
  if (object.metadata?.deletionTimestamp !== undefined) return false
  const list = listMember(member(object, 'status'), 'conditions')
  return list.every(({ type, status }) => type !== 'Ready' || status === 'True')
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
