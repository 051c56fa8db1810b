import { ipAddresses } from '../../kube/resources.ts'
import { canonicalIpFault } from '../ip-text.ts'
import { type Kind, member } from '../kind.ts'
import { equalJson } from '../plain-json.ts'
import { kindSchema, object, optionalString } from '../schema.ts'

export const ipAddressKind: Kind = {
  resource: ipAddresses,
  singular: 'ipaddress',
  shortNames: ['ip'],
  schema: kindSchema({
    spec: object({
      parentRef: object({
        group: optionalString,
        resource: optionalString,
        namespace: optionalString,
        name: optionalString,
      }),
    }),
  }),
  hasStatus: false,
  createOnUpdate: false,
  selectableFields: {
    'spec.parentRef.group': (object) => parentField(object, 'group'),
    'spec.parentRef.resource': (object) => parentField(object, 'resource'),
    'spec.parentRef.namespace': (object) => parentField(object, 'namespace'),
    'spec.parentRef.name': (object) => parentField(object, 'name'),
  },
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

function parentField(object: Readonly<Record<string, unknown>>, field: string): string {
  const parent = member(object, 'spec').parentRef as Readonly<Record<string, string>> | undefined
  return parent?.[field] ?? ''
}
