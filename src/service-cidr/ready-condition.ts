import { apiVersionOf, type ServiceCidr, serviceCidrs } from '../kube/resources.ts'

export interface ReadyCondition {
  readonly status: 'True' | 'False'
  /** @default none */
  readonly reason?: string
  readonly message: string
}

type Condition = NonNullable<NonNullable<ServiceCidr['status']>['conditions']>[number]

/** Undefined if the ServiceCIDR has no condition Ready. */
export function readyConditionOf({ status }: ServiceCidr): Condition | undefined {
  return status?.conditions?.find(({ type }) => type === 'Ready')
}

/** The body of the server-side apply that sets the condition Ready. `now` is RFC 3339 in whole seconds. */
export function readyConditionBody(name: string, condition: ReadyCondition, now: string): unknown {
  return {
    apiVersion: apiVersionOf(serviceCidrs),
    kind: serviceCidrs.kind,
    metadata: { name },
    status: { conditions: [{ type: 'Ready', ...condition, lastTransitionTime: now }] },
  }
}
