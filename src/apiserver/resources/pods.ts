import { nodes, pods } from '../../kube/resources.ts'
import { equalJson } from '../../runtime/equal-json.ts'
import { ageColumn, nameColumn } from '../columns.ts'
import { type Kind, listMember, type Members, member } from '../kind.ts'
import * as s from '../schema.ts'
import { fieldsAt } from '../selectors.ts'
import type { StoredObject } from '../store.ts'
import { withFirstGeneration, withGeneration } from './generations.ts'
import { validatePodSpec, validatePodUpdate } from './pod-rules.ts'

export const nodeKind: Kind = {
  resource: nodes,
  shortNames: ['no'],
  schema: s.kindSchema({
    spec: s.object({
      podCIDR: s.string,
      podCIDRs: s.strings,
      providerID: s.string,
      unschedulable: s.boolean,
      taints: s.list(s.any),
    }),
    status: s.object({ conditions: s.list(s.any, ['type']), addresses: s.list(s.any, ['type']) }),
  }),
  hasStatus: true,
  selectableFields: { 'spec.unschedulable': (node) => String(member(node, 'spec').unschedulable ?? false) },
  columns: [
    nameColumn,
    { name: 'Status', cell: nodeStatus },
    { name: 'Roles', cell: nodeRoles },
    ageColumn,
    { name: 'Version', cell: (node) => nodeInfo(node, 'kubeletVersion', '') },
    { name: 'Internal-IP', priority: 1, cell: (node) => nodeAddress(node, 'InternalIP') },
    { name: 'External-IP', priority: 1, cell: (node) => nodeAddress(node, 'ExternalIP') },
    { name: 'OS-Image', priority: 1, cell: (node) => nodeInfo(node, 'osImage', '<unknown>') },
    { name: 'Kernel-Version', priority: 1, cell: (node) => nodeInfo(node, 'kernelVersion', '<unknown>') },
    { name: 'Container-Runtime', priority: 1, cell: (node) => nodeInfo(node, 'containerRuntimeVersion', '<unknown>') },
  ],
  // There is no `forCreate`, because the kubelet creates its Node with a status.
  withDefaults: (draft) => (draft.spec === undefined ? { ...draft, spec: {} } : draft),
}

function nodeStatus(node: StoredObject): string {
  const ready = listMember(member(node, 'status'), 'conditions').find(({ type }) => type === 'Ready')
  const status = ready === undefined ? 'Unknown' : ready.status === 'True' ? 'Ready' : 'NotReady'
  return member(node, 'spec').unschedulable === true ? `${status},SchedulingDisabled` : status
}

function nodeRoles({ metadata }: StoredObject): string {
  const roles = Object.entries(metadata.labels ?? {}).flatMap(([key, value]) => {
    if (key.startsWith('node-role.kubernetes.io/')) return [key.slice('node-role.kubernetes.io/'.length)]
    return key === 'kubernetes.io/role' && value !== '' ? [value] : []
  })
  const named = new Set(roles.filter((role) => role !== ''))
  return [...named].sort().join() || '<none>'
}

function nodeInfo(node: StoredObject, field: string, unknown: string): string {
  const info = member(node, 'status').nodeInfo as Members | undefined
  return String(info?.[field] ?? '') || unknown
}

function nodeAddress(node: StoredObject, type: string): string {
  const found = listMember(member(node, 'status'), 'addresses').find((address) => address.type === type)
  return String(found?.address ?? '<none>')
}

const DEFAULT_GRACE_SECONDS = 30
/** A longer period could put the time of deletion after the year 9999. Such a time has no valid format. */
const MAX_GRACE_SECONDS = 200_000_000_000

/** A list whose items are identified by their names, in patches and in managedFields. */
const named = s.list(s.object({ name: s.string }), ['name'])

const containers = s.list(
  s.object({
    name: s.string,
    ports: s.list(s.object({ containerPort: s.integer, protocol: { type: 'string', default: 'TCP' } }), [
      'containerPort',
      'protocol',
    ]),
    env: named,
    volumeMounts: s.list(s.object({ mountPath: s.string }), ['mountPath']),
    volumeDevices: s.list(s.object({ devicePath: s.string }), ['devicePath']),
  }),
  ['name'],
)

/** Pods as far as Services need them: fields that only a scheduler or a kubelet would read are hardly checked. */
export const podKind: Kind = {
  resource: pods,
  shortNames: ['po'],
  categories: ['all'],
  schema: s.kindSchema({
    spec: s.object({
      nodeName: s.string,
      hostname: s.string,
      subdomain: s.string,
      restartPolicy: s.string,
      terminationGracePeriodSeconds: s.integer,
      containers,
      initContainers: containers,
      ephemeralContainers: containers,
      volumes: named,
      imagePullSecrets: named,
      schedulingGates: named,
      resourceClaims: named,
      hostAliases: s.list(s.object({ ip: s.string }), ['ip']),
      topologySpreadConstraints: s.list(s.object({}), ['topologyKey', 'whenUnsatisfiable']),
      nodeSelector: s.atomicMap,
    }),
    status: s.object({
      phase: s.string,
      podIP: s.string,
      podIPs: s.list(s.object({ ip: s.string }), ['ip']),
      conditions: s.list(s.any, ['type']),
    }),
  }),
  hasStatus: true,
  answersDeleted: true,
  selectableFields: fieldsAt('spec.nodeName', 'status.phase', 'status.podIP'),
  columns: [
    nameColumn,
    { name: 'Ready', cell: readyContainers },
    { name: 'Status', cell: podStatus },
    { name: 'Restarts', cell: restarts },
    ageColumn,
    { name: 'IP', priority: 1, cell: podIp },
    { name: 'Node', priority: 1, cell: (pod) => String(member(pod, 'spec').nodeName ?? '<none>') },
    {
      name: 'Nominated Node',
      priority: 1,
      cell: (pod) => String(member(pod, 'status').nominatedNodeName ?? '<none>'),
    },
    { name: 'Readiness Gates', priority: 1, cell: readinessGates },
  ],
  withDefaults: (draft) => ({
    ...draft,
    spec: withGracePeriod({ restartPolicy: 'Always', ...member(draft, 'spec') }),
    ...(draft.status === undefined ? {} : { status: withBothAddresses(member(draft, 'status')) }),
  }),
  forCreate: (draft) => ({ ...withFirstGeneration(draft), status: { phase: 'Pending' } }),
  forUpdate: (draft, live) => withGeneration(draft, live, equalJson(draft.spec, live.spec)),
  validate(draft, errors, live) {
    validatePodSpec(member(draft, 'spec'), errors)
    if (live !== undefined) validatePodUpdate(draft, live, errors)
  },
  graceSeconds,
}

/** The spec with a grace period. Like upstream's conversion, replaces a negative period by one second. */
function withGracePeriod(spec: Members): Members {
  const { terminationGracePeriodSeconds: seconds = DEFAULT_GRACE_SECONDS } = spec
  return { ...spec, terminationGracePeriodSeconds: typeof seconds === 'number' && seconds < 0 ? 1 : seconds }
}

/**
 * The status with the same first address in `podIP` and `podIPs`. If they differ, `podIP` wins, as in upstream's
 * conversion.
 */
function withBothAddresses(status: Members): Members {
  const { podIP } = status
  const first = listMember(status, 'podIPs')[0]?.ip
  if (podIP === first || (!podIP && !first)) return status
  return podIP ? { ...status, podIPs: [{ ip: podIP }] } : { ...status, podIP: first }
}

/**
 * The grace period of a deletion, in seconds. With a period above 0 the Pod stays until somebody, usually the kubelet,
 * deletes it with the period 0. A Pod without a Node, or one that has ended, always gets the period 0.
 */
function graceSeconds(pod: StoredObject, asked: number | undefined): number {
  const { nodeName, terminationGracePeriodSeconds } = member(pod, 'spec')
  const { phase } = member(pod, 'status')
  if (!nodeName || phase === 'Failed' || phase === 'Succeeded') return 0
  const grace = asked ?? Number(terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS)
  return Math.min(grace, MAX_GRACE_SECONDS)
}

function containerStatuses(pod: StoredObject): readonly Members[] {
  return listMember(member(pod, 'status'), 'containerStatuses')
}

function readyContainers(pod: StoredObject): string {
  const all = listMember(member(pod, 'spec'), 'containers')
  const ready = containerStatuses(pod).filter((status) => status.ready === true)
  return `${ready.length}/${all.length}`
}

/**
 * `Terminating` (on a lost Node, `Unknown`) while the Pod is being deleted. Otherwise the reason of the first container
 * that waits with a reason or has ended; if it has ended without a reason, the signal or exit code. Without such a
 * container, the reason or phase of the Pod.
 */
function podStatus(pod: StoredObject): string {
  const { phase, reason } = member(pod, 'status')
  const whole = String(reason || phase || '')
  if (pod.metadata.deletionTimestamp !== undefined) return reason === 'NodeLost' ? 'Unknown' : 'Terminating'
  const reasons = containerStatuses(pod).flatMap((status) => {
    const { waiting, terminated } = member(status, 'state') as { waiting?: Members; terminated?: Members }
    if (waiting?.reason) return [String(waiting.reason)]
    if (terminated === undefined) return []
    if (terminated.reason) return [String(terminated.reason)]
    return [terminated.signal ? `Signal:${terminated.signal}` : `ExitCode:${terminated.exitCode ?? 0}`]
  })
  return reasons[0] ?? whole
}

function restarts(pod: StoredObject): string {
  return String(containerStatuses(pod).reduce((sum, status) => sum + Number(status.restartCount ?? 0), 0))
}

function podIp(pod: StoredObject): string {
  const { podIP, podIPs } = member(pod, 'status') as { podIP?: string; podIPs?: readonly { ip?: string }[] }
  return podIPs?.[0]?.ip || podIP || '<none>'
}

function readinessGates(pod: StoredObject): string {
  const gates = listMember(member(pod, 'spec'), 'readinessGates')
  if (gates.length === 0) return '<none>'
  const conditions = listMember(member(pod, 'status'), 'conditions')
  const met = new Set(conditions.filter(({ status }) => status === 'True').map(({ type }) => type))
  const passed = gates.filter((gate) => met.has(gate.conditionType))
  return `${passed.length}/${gates.length}`
}
