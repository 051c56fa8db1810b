/**
 * How many objects of each kind there are. The Pods of a Service are spread over all Nodes, the Services over all
 * namespaces.
 */
export interface WorkloadShape {
  readonly namespaces: number
  readonly services: number
  readonly podsPerService: number
  readonly nodes: number
}

/**
 * The values that distinguish an object from others of its kind. Each value has the same length in all objects of the
 * kind.
 */
export interface NodeMarks {
  readonly node: string
  readonly nodeIp: string
  readonly zone: string
  readonly nodeUid: string
}
export interface NamespaceMarks {
  readonly namespace: string
  readonly namespaceUid: string
}
export interface ServiceMarks {
  readonly namespace: string
  readonly service: string
  readonly clusterIp: string
  readonly serviceUid: string
  readonly ipAddressUid: string
}
export interface PodMarks {
  readonly namespace: string
  readonly pod: string
  readonly podIp: string
  readonly podUid: string
  /** The UID of its ReplicaSet. The template hash is that of the same ReplicaSet. */
  readonly ownerUid: string
  readonly templateHash: string
  readonly node: string
  readonly nodeIp: string
  readonly service: string
}

const madeAt = '2026-01-02T03:04:05Z'
const templateHashes = ['7d4b9c6f5', '5c8d7b9f4'] as const
type Generation = 0 | 1

export function nodeMarks(index: number): NodeMarks {
  return {
    node: `node-${digits(index, 6)}`,
    nodeIp: addressIn('172', index),
    zone: `zone-${index % 3}`,
    nodeUid: uid('a', index),
  }
}

export function namespaceMarks(index: number): NamespaceMarks {
  return { namespace: `team-${digits(index, 4)}`, namespaceUid: uid('f', index) }
}

/** Its ClusterIP is in 10.96.0.0/12. */
export function serviceMarks(index: number, { namespaces }: WorkloadShape): ServiceMarks {
  return {
    namespace: namespaceMarks(index % namespaces).namespace,
    service: serviceName(index),
    clusterIp: addressIn('10', index),
    serviceUid: uid('b', index),
    ipAddressUid: uid('c', index),
  }
}

/**
 * The marks of the Pod with this number among all Pods. The Pods of the first Service come first. The second generation
 * replaces the first.
 */
export function podMarks(index: number, shape: WorkloadShape, generation: Generation = 0): PodMarks {
  const owner = Math.floor(index / shape.podsPerService)
  const { namespace, service } = serviceMarks(owner, shape)
  const { node, nodeIp } = nodeMarks(index % shape.nodes)
  return {
    namespace,
    pod: podName(index, shape, generation),
    podIp: addressIn(['198', '199'][generation] as string, index),
    podUid: uid('d', index),
    ownerUid: uid('e', owner),
    templateHash: templateHashes[generation],
    node,
    nodeIp,
    service,
  }
}

/** No two Services have the same name, and no two Pods, even in different namespaces. */
export function serviceName(index: number): string {
  return `app-${digits(index, 6)}`
}

export function podName(index: number, { podsPerService }: WorkloadShape, generation: Generation = 0): string {
  return `${serviceName(Math.floor(index / podsPerService))}-${templateHashes[generation]}-${digits(index, 6)}`
}

export function nodeManifest({ node, nodeIp, zone }: NodeMarks): unknown {
  const labels = {
    'kubernetes.io/hostname': node,
    'kubernetes.io/arch': 'amd64',
    'kubernetes.io/os': 'linux',
    'topology.kubernetes.io/region': 'region-0',
    'topology.kubernetes.io/zone': zone,
  }
  const resources = { cpu: '8', memory: '32Gi', pods: '250' }
  const status = {
    capacity: resources,
    allocatable: resources,
    addresses: [
      { type: 'InternalIP', address: nodeIp },
      { type: 'Hostname', address: node },
    ],
    conditions: [
      ...['MemoryPressure', 'DiskPressure', 'PIDPressure'].map((type) => condition(type, 'False')),
      condition('Ready', 'True'),
    ],
  }
  return { apiVersion: 'v1', kind: 'Node', metadata: { name: node, labels }, status }
}

/** Without `clusterIp` the server allocates one. By default it selects the Pods that have its name. */
export function serviceManifest(
  { service, clusterIp }: Pick<ServiceMarks, 'service'> & Partial<ServiceMarks>,
  selector: Readonly<Record<string, string>> = { 'app.kubernetes.io/name': service },
): unknown {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: service, labels: { 'app.kubernetes.io/name': service } },
    spec: {
      clusterIP: clusterIp,
      selector,
      ports: [{ name: 'http', port: 80, targetPort: 'http' }],
    },
  }
}

/** A Pod as a Deployment and its kubelet leave it: one container with probes, ready. `labels` are added to its own. */
export function podManifest(marks: PodMarks, labels: Readonly<Record<string, string>> = {}): unknown {
  const { pod, podIp, ownerUid, templateHash, node, nodeIp, service } = marks
  const probe = (path: string): unknown => ({ httpGet: { path, port: 'http' }, periodSeconds: 10 })
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: pod,
      labels: { 'app.kubernetes.io/name': service, 'pod-template-hash': templateHash, ...labels },
      ownerReferences: [
        {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          name: `${service}-${templateHash}`,
          uid: ownerUid,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: {
      nodeName: node,
      containers: [
        {
          name: 'server',
          image: 'registry.example/server:1.2.3',
          ports: [{ name: 'http', containerPort: 8080 }],
          env: [{ name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }],
          resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } },
          readinessProbe: probe('/ready'),
          livenessProbe: probe('/live'),
        },
      ],
    },
    status: {
      phase: 'Running',
      podIP: podIp,
      podIPs: [{ ip: podIp }],
      hostIP: nodeIp,
      hostIPs: [{ ip: nodeIp }],
      startTime: madeAt,
      qosClass: 'Burstable',
      conditions: ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map((type) =>
        condition(type, 'True'),
      ),
      containerStatuses: [
        {
          name: 'server',
          image: 'registry.example/server:1.2.3',
          imageID: `registry.example/server@sha256:${'0'.repeat(64)}`,
          containerID: `containerd://${'0'.repeat(64)}`,
          ready: true,
          started: true,
          restartCount: 0,
          state: { running: { startedAt: madeAt } },
        },
      ],
    },
  }
}

function condition(type: string, status: 'True' | 'False'): unknown {
  return { type, status, lastTransitionTime: madeAt }
}

/** Three parts of three digits, so that all addresses have the same length. */
function addressIn(first: string, index: number): string {
  const parts = [Math.floor(index / 10_000), Math.floor(index / 100) % 100, index % 100].map((part) => 100 + part)
  return `${first}.${parts.join('.')}`
}

function uid(kind: string, index: number): string {
  return `${kind.repeat(8)}-0000-4000-8000-${digits(index, 12)}`
}

function digits(number: number, length: number): string {
  return String(number).padStart(length, '0')
}
