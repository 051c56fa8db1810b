import { pods } from '../../kube/resources.ts'
import { type Draft, type Kind, listMember, member } from '../kind.ts'
import { dnsLabelFault, dnsSubdomainFault } from '../names.ts'
import { equalJson } from '../plain-json.ts'
import { any, integer, kindSchema, list, object, string } from '../schema.ts'
import type { StoredObject } from '../store.ts'
import { checkName } from './endpoints.ts'

const defaultGraceSeconds = 30

/** Pods as far as Services see them: no scheduler, no kubelet, and what only those look at is not checked. */
export const podKind: Kind = {
  resource: pods,
  singular: 'pod',
  shortNames: ['po'],
  schema: kindSchema({
    spec: object({
      nodeName: string,
      hostname: string,
      subdomain: string,
      restartPolicy: string,
      terminationGracePeriodSeconds: integer,
      containers: list(any, ['name']),
    }),
    status: object({
      phase: string,
      podIP: string,
      podIPs: list(object({ ip: string }), ['ip']),
      conditions: list(any, ['type']),
    }),
  }),
  hasStatus: true,
  createOnUpdate: false,
  answersDeleted: true,
  selectableFields: {
    'spec.nodeName': (pod) => String(member(pod, 'spec').nodeName ?? ''),
    'status.phase': (pod) => String(member(pod, 'status').phase ?? ''),
    'status.podIP': (pod) => String(member(pod, 'status').podIP ?? ''),
  },
  nameFault: dnsSubdomainFault,
  withDefaults: (draft) => ({
    ...draft,
    spec: { restartPolicy: 'Always', terminationGracePeriodSeconds: defaultGraceSeconds, ...member(draft, 'spec') },
  }),
  forCreate: (draft) => ({ ...draft, metadata: { ...draft.metadata, generation: 1 }, status: { phase: 'Pending' } }),
  forUpdate(draft, live) {
    if (equalJson(draft.spec, live.spec)) return draft
    return { ...draft, metadata: { ...draft.metadata, generation: (live.metadata.generation ?? 0) + 1 } }
  },
  validate(draft, errors, live) {
    const containers = listMember(member(draft, 'spec'), 'containers')
    if (containers.length === 0) errors.required('spec.containers')
    for (const [index, container] of containers.entries()) {
      if (!container.name) errors.required(`spec.containers[${index}].name`)
      checkName(container.name, `spec.containers[${index}].name`, dnsLabelFault, errors)
      if (live === undefined && !container.image) errors.required(`spec.containers[${index}].image`)
    }
  },
  graceSeconds,
}

/** A Pod on a Node stays until its kubelet deletes it with a grace period of 0; others go at once. */
function graceSeconds(pod: StoredObject, asked: number | undefined): number {
  const { nodeName, terminationGracePeriodSeconds } = member(pod as Draft, 'spec')
  const { phase } = member(pod as Draft, 'status')
  if (!nodeName || phase === 'Failed' || phase === 'Succeeded') return 0
  return asked ?? Number(terminationGracePeriodSeconds ?? defaultGraceSeconds)
}
