import { configMaps, events, leases, namespaces, nodes, pods } from '../../kube/resources.ts'
import { equalJson } from '../decode.ts'
import {
  any,
  boolean,
  conditions,
  type Draft,
  integer,
  type Kind,
  kindSchema,
  list,
  listMember,
  map,
  member,
  microTime,
  object,
  string,
  strings,
  time,
} from '../kind.ts'
import { dnsLabelFault, dnsSubdomainFault } from '../names.ts'
import { forbidden } from '../refusal.ts'
import type { StoredObject } from '../store.ts'
import { checkName } from './endpoints.ts'

/** What upstream's NamespaceLifecycle admission protects. kube-node-lease is not among them. */
const immortal = ['default', 'kube-public', 'kube-system']

/** The finalizer in a Namespace's spec that is removed once it is empty. */
const contentsFinalizer = 'kubernetes'

export const namespaceKind: Kind = {
  resource: namespaces,
  singular: 'namespace',
  shortNames: ['ns'],
  schema: kindSchema({ spec: object({ finalizers: strings }), status: object({ phase: string, conditions }) }),
  hasStatus: true,
  createOnUpdate: false,
  answersDeleted: true,
  selectableFields: { 'status.phase': (namespace) => String(member(namespace, 'status').phase ?? '') },
  nameFault: dnsLabelFault,
  withDefaults: (draft) => withNameLabel(draft),
  forCreate: (draft) => ({
    ...withNameLabel(draft),
    spec: { ...member(draft, 'spec'), finalizers: [contentsFinalizer] },
    status: { phase: 'Active' },
  }),
  // Only the namespace controller removes this finalizer.
  forUpdate: (draft, live) => ({ ...draft, spec: live.spec }),
  validate() {},
  refuseDelete(live) {
    const { name } = live.metadata
    if (immortal.includes(name)) throw forbidden(namespaces, name, 'this namespace may not be deleted')
  },
  forDelete(marked) {
    const { deletionGracePeriodSeconds: _grace, ...metadata } = marked.metadata
    return { ...marked, metadata, status: { ...member(marked, 'status'), phase: 'Terminating' } }
  },
  isRetained: (namespace) => ((member(namespace, 'spec').finalizers ?? []) as readonly string[]).length > 0,
}

function withNameLabel<T extends Parameters<NonNullable<Kind['withDefaults']>>[0]>(draft: T): T {
  const name = draft.metadata?.name
  if (name === undefined || draft.metadata?.labels?.['kubernetes.io/metadata.name'] === name) return draft
  const labels = { ...draft.metadata?.labels, 'kubernetes.io/metadata.name': name }
  return { ...draft, metadata: { ...draft.metadata, labels } }
}

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
  // The kubelet creates its Node with a status, which is preserved.
  withDefaults: (draft) => (draft.spec === undefined ? { ...draft, spec: {} } : draft),
  validate() {},
}

const DEFAULT_GRACE_SECONDS = 30

/** Pods as far as Services need them: no scheduler, no kubelet, and no checks of the fields that only those read. */
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
    spec: { restartPolicy: 'Always', terminationGracePeriodSeconds: DEFAULT_GRACE_SECONDS, ...member(draft, 'spec') },
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
  return asked ?? Number(terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS)
}

export const configMapKind: Kind = {
  resource: configMaps,
  singular: 'configmap',
  shortNames: ['cm'],
  schema: kindSchema({ data: map, binaryData: map, immutable: boolean }),
  hasStatus: false,
  createOnUpdate: false,
  nameFault: dnsSubdomainFault,
  validate(draft, errors) {
    for (const key of Object.keys({ ...(draft.data as object | undefined) })) {
      if (!/^[-._a-zA-Z0-9]{1,253}$/.test(key)) {
        errors.invalid(
          `data[${key}]`,
          key,
          "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        )
      }
    }
  },
}

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

const required = ['reportingController', 'reportingInstance', 'action', 'reason'] as const
const immutable = [...required, 'regarding', 'related', 'note', 'type', 'eventTime'] as const
const MAX_NOTE_LENGTH = 1024

/** Where events about cluster-scoped objects are written. */
const clusterScopedPlaces = ['default', 'kube-system']

export const eventKind: Kind = {
  resource: events,
  singular: 'event',
  shortNames: ['ev'],
  schema: kindSchema({
    eventTime: microTime,
    series: object({ count: integer, lastObservedTime: microTime }),
    reportingController: string,
    reportingInstance: string,
    action: string,
    reason: string,
    regarding: any,
    related: any,
    note: string,
    type: string,
    deprecatedSource: any,
    deprecatedFirstTimestamp: time,
    deprecatedLastTimestamp: time,
    deprecatedCount: integer,
  }),
  hasStatus: false,
  createOnUpdate: true,
  nameFault: dnsSubdomainFault,
  validate(draft, errors, live) {
    const regarding = draft.regarding as { readonly namespace?: string } | undefined
    const namespace = draft.metadata?.namespace ?? ''
    if (!regarding?.namespace && !clusterScopedPlaces.includes(namespace)) {
      errors.invalid('involvedObject.namespace', '', 'does not match event.namespace')
    }
    for (const field of required) if (!draft[field]) errors.required(field)
    if (String(draft.note ?? '').length > MAX_NOTE_LENGTH) {
      errors.invalid('message', '', `can have at most ${MAX_NOTE_LENGTH} characters`)
    }
    if (live !== undefined) {
      for (const field of immutable) {
        if (!equalJson(draft[field], live[field])) errors.invalid(field, draft[field] ?? null, 'field is immutable')
      }
      return
    }
    if (draft.eventTime === undefined) errors.required('eventTime')
    if (draft.type !== 'Normal' && draft.type !== 'Warning') {
      errors.invalid('type', '', `has invalid value: ${draft.type ?? ''}`)
    }
  },
}
