import type { EndpointSlice, Endpoints, Node, Pod, Service } from '../kube/resources.ts'
import { picked, SharedValues, sharedLabels, sharedString } from '../kube/shared-values.ts'
import { type FieldTree, trimmedReader } from '../protobuf/trimmed-objects.ts'
import { readyCondition } from './pod-rules.ts'

type PodStatus = NonNullable<Pod['status']>
type Conditions = NonNullable<PodStatus['conditions']>
type Containers = NonNullable<NonNullable<Pod['spec']>['containers']>
type ContainerPort = NonNullable<Containers[number]['ports']>[number]

/**
 * The fields of a Pod that Endpoints and EndpointSlices need. The result references nothing else of the Pod. The named
 * ports of all containers are merged into one container, and those of all sidecars (initContainers that are always
 * restarted) into another.
 *
 * Every trimmed Pod has all fields, some of them undefined, so that all Pods have one shape in memory. Most equal
 * labels, ports, conditions and node names are shared by Pods: {@link SharedValues} has limits.
 */
export function trimPod(pod: Pod): Pod {
  const { metadata, spec, status } = pod
  const podIP = status?.podIP
  return {
    metadata: {
      name: metadata?.name,
      namespace: sharedString(metadata?.namespace),
      uid: metadata?.uid,
      resourceVersion: metadata?.resourceVersion,
      labels: sharedLabels(metadata?.labels),
      deletionTimestamp: metadata?.deletionTimestamp,
    },
    spec: {
      nodeName: sharedString(spec?.nodeName),
      hostname: spec?.hostname,
      subdomain: sharedString(spec?.subdomain),
      containers: containersWithNamedPorts(spec?.containers, false),
      initContainers: containersWithNamedPorts(spec?.initContainers, true),
    },
    status: {
      phase: sharedString(status?.phase),
      podIP,
      podIPs: status?.podIPs?.map(({ ip }) => ({ ip: ip === podIP ? podIP : ip })),
      conditions: readyConditions(pod),
    },
  } as Pod
}

const ports = { name: true, protocol: true, containerPort: true } as const
trimPod.protobuf = trimmedReader('core/v1.Pod', {
  metadata: { name: true, namespace: true, uid: true, resourceVersion: true, labels: true, deletionTimestamp: true },
  spec: {
    nodeName: true,
    hostname: true,
    subdomain: true,
    containers: { ports },
    initContainers: { restartPolicy: true, ports },
  },
  status: {
    phase: true,
    podIP: true,
    podIPs: { ip: true },
    conditions: { type: true, status: true, lastTransitionTime: true },
  },
})

const noContainers: Containers = []
const containerLists = new SharedValues<Containers>(1024)

function containersWithNamedPorts(containers: Containers | undefined, sidecars: boolean): Containers {
  const named: ContainerPort[] = []
  let key = sidecars ? 'sidecars ' : ''
  for (const { restartPolicy, ports } of containers ?? []) {
    if (sidecars && restartPolicy !== 'Always') continue
    for (const { name, protocol, containerPort } of ports ?? []) {
      if (!name) continue
      named.push({ name, protocol, containerPort } as ContainerPort)
      key += JSON.stringify([name, protocol, containerPort])
    }
  }
  if (named.length === 0) return noContainers
  const container = { name: '', ...(sidecars ? { restartPolicy: 'Always' } : {}), ports: named }
  return containerLists.get(key, () => [container])
}

const noConditions: Conditions = []
const conditionLists = new SharedValues<Conditions>(1024)

function readyConditions(pod: Pod): Conditions {
  const ready = readyCondition(pod)
  if (ready === undefined) return noConditions
  const { status, lastTransitionTime } = ready
  return conditionLists.get(JSON.stringify([status, lastTransitionTime]), () => [
    { type: 'Ready', status, lastTransitionTime } as Conditions[number],
  ])
}

const nodeLabels = [
  'topology.kubernetes.io/zone',
  'node-role.kubernetes.io/control-plane',
  'node-role.kubernetes.io/master',
] as const

export function trimNode(node: Node): Node {
  const { metadata, status } = node
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')
  const cpu = status?.allocatable?.cpu
  return {
    metadata: {
      ...picked(metadata ?? {}, ['name', 'uid', 'resourceVersion']),
      ...(metadata?.labels ? { labels: sharedLabels(picked(metadata.labels, nodeLabels)) } : {}),
    },
    status: {
      ...(ready === undefined ? {} : { conditions: [picked(ready, ['type', 'status'])] }),
      ...(cpu === undefined ? {} : { allocatable: { cpu } }),
    },
  } as Node
}

trimNode.protobuf = trimmedReader('core/v1.Node', {
  metadata: { name: true, uid: true, resourceVersion: true, labels: true },
  status: { conditions: { type: true, status: true }, allocatable: true },
})

const serviceMetadata = [
  'name',
  'namespace',
  'uid',
  'resourceVersion',
  'labels',
  'creationTimestamp',
  'deletionTimestamp',
] as const
const serviceSpec = [
  'type',
  'selector',
  'clusterIP',
  'clusterIPs',
  'ipFamilies',
  'ipFamilyPolicy',
  'publishNotReadyAddresses',
  'trafficDistribution',
] as const
const servicePort = ['name', 'protocol', 'port', 'targetPort', 'appProtocol'] as const
const hintAnnotations = ['service.kubernetes.io/topology-aware-hints', 'service.kubernetes.io/topology-mode'] as const

export function trimService(service: Service): Service {
  const { metadata, spec } = service
  const annotations = picked(metadata?.annotations ?? {}, hintAnnotations)
  return {
    metadata: {
      ...picked(metadata ?? {}, serviceMetadata),
      ...(Object.keys(annotations).length > 0 ? { annotations } : {}),
    },
    spec: {
      ...picked(spec ?? {}, serviceSpec),
      ...(spec?.ports ? { ports: spec.ports.map((port) => picked(port, servicePort)) } : {}),
    },
  } as Service
}

trimService.protobuf = trimmedReader('core/v1.Service', {
  metadata: { ...scalars(serviceMetadata), annotations: true },
  spec: { ...scalars(serviceSpec), ports: scalars(servicePort) },
})

function scalars(names: readonly string[]): FieldTree {
  return Object.fromEntries(names.map((name) => [name, true]))
}

/** Retains everything except managedFields. If an update has none, the server preserves the stored ones. */
export const trimEndpoints: (endpoints: Endpoints) => Endpoints = withoutManagedFields
export const trimEndpointSlice: (slice: EndpointSlice) => EndpointSlice = withoutManagedFields

function withoutManagedFields<T extends Endpoints | EndpointSlice>(object: T): T {
  const { metadata } = object
  if (metadata === undefined || !('managedFields' in metadata)) return object
  const { managedFields: _, ...retained } = metadata
  return { ...object, metadata: retained }
}
