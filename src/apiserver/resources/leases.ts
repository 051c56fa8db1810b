import { leases } from '../../kube/resources.ts'
import { type Kind, member } from '../kind.ts'
import { dnsSubdomainFault } from '../names.ts'
import { integer, kindSchema, microTime, object, string } from '../schema.ts'

export const leaseKind: Kind = {
  resource: leases,
  singular: 'lease',
  schema: kindSchema({
    spec: object({
      holderIdentity: string,
      leaseDurationSeconds: integer,
      acquireTime: microTime,
      renewTime: microTime,
      leaseTransitions: integer,
      strategy: string,
      preferredHolder: string,
    }),
  }),
  hasStatus: false,
  createOnUpdate: true,
  guardedUpdate: true,
  nameFault: dnsSubdomainFault,
  withDefaults: (draft) => (draft.spec === undefined ? { ...draft, spec: {} } : draft),
  validate(draft, errors) {
    const { leaseDurationSeconds, leaseTransitions } = member(draft, 'spec')
    if (typeof leaseDurationSeconds === 'number' && leaseDurationSeconds <= 0) {
      errors.invalid('spec.leaseDurationSeconds', leaseDurationSeconds, 'must be greater than 0')
    }
    if (typeof leaseTransitions === 'number' && leaseTransitions < 0) {
      errors.invalid('spec.leaseTransitions', leaseTransitions, 'must be greater than or equal to 0')
    }
  },
}
