import { nodes } from '../../kube/resources.ts'
import { type Kind, member } from '../kind.ts'
import { dnsSubdomainFault } from '../names.ts'
import { any, boolean, kindSchema, list, object, string, strings } from '../schema.ts'

export const nodeKind: Kind = {
  resource: nodes,
  singular: 'node',
  shortNames: ['no'],
  schema: kindSchema({
    spec: object({ podCIDR: string, podCIDRs: strings, providerID: string, unschedulable: boolean, taints: list(any) }),
    status: object({ conditions: list(any, ['type']), addresses: list(any) }),
  }),
  hasStatus: true,
  createOnUpdate: false,
  selectableFields: { 'spec.unschedulable': (node) => String(member(node, 'spec').unschedulable ?? false) },
  nameFault: dnsSubdomainFault,
  // The kubelet creates its Node with a status, which is kept.
  withDefaults: (draft) => (draft.spec === undefined ? { ...draft, spec: {} } : draft),
  validate() {},
}
