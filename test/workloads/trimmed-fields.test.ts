import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EndpointSlice, Endpoints, Node, Pod, Service } from '../../src/kube/resources.ts'
import { findPort } from '../../src/workloads/pod-rules.ts'
import { trimEndpointSlice, trimEndpoints, trimNode, trimPod, trimService } from '../../src/workloads/trimmed.ts'
import { heapBytes } from '../support/heap.ts'

/** The object after a round trip through JSON, which drops undefined fields. */
const asJson = (object: object): unknown => JSON.parse(JSON.stringify(object))

const managedFields = [{ manager: 'kubelet', operation: 'Update', fieldsV1: { 'f:status': {} } }]

/** A Pod as a kubelet leaves it. It shares no string with another object. */
function wholePod(index: number): Pod {
  const ip = `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`
  const set = Math.floor(index / 50)
  const conditions = ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled']
  return JSON.parse(
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: `web-frontend-${set}-6f8d9c7b54-${index.toString(36).padStart(5, 'x')}`,
        generateName: `web-frontend-${set}-6f8d9c7b54-`,
        namespace: 'production-shop',
        uid: `${index.toString(16).padStart(8, '0')}-1d2c-4b3a-9f8e-0a1b2c3d4e5f`,
        resourceVersion: `${1_000_000 + index}`,
        creationTimestamp: '2026-01-01T00:00:00Z',
        labels: {
          app: `web-frontend-${set}`,
          'app.kubernetes.io/managed-by': 'Helm',
          'pod-template-hash': '6f8d9c7b54',
        },
        annotations: { 'example.com/checksum': 'd'.repeat(64) },
        ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: `web-${set}`, uid: `${set}` }],
        managedFields,
      },
      spec: {
        nodeName: `worker-${index % 100}.example.com`,
        containers: [
          {
            name: 'web',
            image: 'registry.example.com/web:1',
            ports: [
              { name: 'http', containerPort: 8080, protocol: 'TCP' },
              { containerPort: 9090, protocol: 'TCP' },
            ],
          },
        ],
      },
      status: {
        phase: 'Running',
        podIP: ip,
        podIPs: [{ ip }],
        conditions: conditions.map((type) => ({
          type,
          status: 'True',
          lastTransitionTime: `2026-01-01T00:00:${String(set % 60).padStart(2, '0')}Z`,
        })),
      },
    }),
  )
}

test('a trimmed Pod has only the fields that endpoints depend on', () => {
  const pod = wholePod(7)
  const { name, namespace, uid, resourceVersion, labels } = pod.metadata ?? {}
  assert.deepEqual(asJson(trimPod(pod)), {
    metadata: { name, namespace, uid, resourceVersion, labels },
    spec: {
      nodeName: 'worker-7.example.com',
      containers: [{ name: '', ports: [{ name: 'http', protocol: 'TCP', containerPort: 8080 }] }],
      initContainers: [],
    },
    status: {
      phase: 'Running',
      podIP: '10.0.0.7',
      podIPs: [{ ip: '10.0.0.7' }],
      conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }],
    },
  })
})

test('a trimmed Pod retains deletionTimestamp, hostname and subdomain', () => {
  const pod: Pod = {
    metadata: { name: 'db-0', deletionTimestamp: '2026-01-01T00:00:00Z' },
    spec: { containers: [], hostname: 'db-0', subdomain: 'db' },
  }
  const { metadata, spec } = trimPod(pod)
  assert.equal(metadata?.deletionTimestamp, '2026-01-01T00:00:00Z')
  assert.deepEqual([spec?.hostname, spec?.subdomain], ['db-0', 'db'])
})

test('a trimmed Pod resolves named ports in order: containers, then sidecars, but no other init containers', () => {
  const port = (name: string, containerPort: number, protocol = 'TCP') => ({ name, containerPort, protocol })
  const pod: Pod = {
    spec: {
      initContainers: [
        { name: 'first', ports: [port('setup', 1)] },
        { name: 'proxy', restartPolicy: 'Always', ports: [port('web', 2), port('proxy', 3)] },
      ],
      containers: [
        { name: 'a', ports: [port('web', 4)] },
        { name: 'b', ports: [port('web', 5), port('dns', 6, 'UDP')] },
        { name: 'c' },
      ],
    },
  }
  const numbers = ['web', 'proxy', 'dns', 'setup'].map((targetPort) =>
    ['TCP', 'UDP'].map((protocol) => findPort(trimPod(pod), { port: 80, protocol, targetPort })),
  )
  assert.deepEqual(numbers, [
    [4, undefined],
    [3, undefined],
    [undefined, 6],
    [undefined, undefined],
  ])
})

test('the same ports of containers and of init containers are not confused', () => {
  const ports = [{ name: 'web', containerPort: 80, protocol: 'TCP' }]
  const { spec } = trimPod({
    spec: {
      containers: [{ name: 'a', ports }],
      initContainers: [{ name: 'b', restartPolicy: 'Always', ports }],
    },
  })
  assert.deepEqual(spec?.containers, [{ name: '', ports }])
  assert.deepEqual(spec?.initContainers, [{ name: '', restartPolicy: 'Always', ports }])
  assert.deepEqual(
    trimPod({ spec: { containers: [], initContainers: [{ name: 'b', ports }] } }).spec?.initContainers,
    [],
  )
})

test('a trimmed Pod retains all addresses in order', () => {
  const status = { podIP: '192.0.2.1', podIPs: [{ ip: '192.0.2.1' }, { ip: '2001:db8::1' }] }
  assert.deepEqual(asJson(trimPod({ status })), {
    metadata: {},
    spec: { containers: [], initContainers: [] },
    status: { ...status, conditions: [] },
  })
})

test('trimming a trimmed Pod changes nothing', () => {
  const pod = trimPod(wholePod(7))
  assert.deepEqual(trimPod(pod), pod)
  assert.deepEqual(asJson(trimPod({})), {
    metadata: {},
    spec: { containers: [], initContainers: [] },
    status: { conditions: [] },
  })
})

test('trimmed Pods share equal labels, ports and conditions', () => {
  const [a, b] = [trimPod(wholePod(100)), trimPod(wholePod(101))]
  assert.notEqual(a.metadata?.name, b.metadata?.name)
  assert.equal(a.metadata?.labels, b.metadata?.labels)
  assert.equal(a.spec?.containers, b.spec?.containers)
  assert.equal(a.status?.conditions, b.status?.conditions)
  const other = wholePod(100)
  const labels = { ...other.metadata?.labels, app: 'other' }
  assert.deepEqual(trimPod({ ...other, metadata: { ...other.metadata, labels } }).metadata?.labels, labels)
})

test('a trimmed Pod takes less than 700 bytes', () => {
  const count = 10_000
  const held: Pod[] = new Array(count)
  for (let index = 0; index < 1000; index++) held[index] = trimPod(wholePod(index))
  held.fill({})
  const before = heapBytes()
  for (let index = 0; index < count; index++) held[index] = trimPod(wholePod(index))
  const each = (heapBytes() - before) / count
  assert.equal(held.length, count)
  assert.ok(each < 700, `${each.toFixed(0)} bytes`)
})

test('a trimmed Node retains its zone, role labels, Ready condition and CPU', () => {
  const node: Node = {
    metadata: {
      name: 'node-1',
      uid: 'u',
      resourceVersion: '7',
      labels: {
        'kubernetes.io/arch': 'amd64',
        'node-role.kubernetes.io/control-plane': '',
        'topology.kubernetes.io/zone': 'zone-a',
      },
      annotations: { a: 'b' },
    },
    spec: { podCIDR: '10.0.0.0/24' },
    status: {
      conditions: [
        { type: 'MemoryPressure', status: 'False' },
        { type: 'Ready', status: 'True', lastHeartbeatTime: '2026-01-01T00:00:00Z', message: 'ready' },
      ],
      allocatable: { cpu: '3920m', memory: '4Gi' },
      capacity: { cpu: '4' },
    },
  }
  assert.deepEqual(trimNode(node), {
    metadata: {
      name: 'node-1',
      uid: 'u',
      resourceVersion: '7',
      labels: { 'node-role.kubernetes.io/control-plane': '', 'topology.kubernetes.io/zone': 'zone-a' },
    },
    status: { conditions: [{ type: 'Ready', status: 'True' }], allocatable: { cpu: '3920m' } },
  })
  assert.deepEqual(trimNode({ metadata: { name: 'bare' } }), { metadata: { name: 'bare' }, status: {} })
})

test('a trimmed Service has only the fields that endpoints depend on', () => {
  const metadata = {
    name: 'web',
    namespace: 'ns',
    uid: 'u',
    resourceVersion: '7',
    labels: { a: 'b' },
    creationTimestamp: '2026-01-01T00:00:00Z',
    deletionTimestamp: '2026-01-02T00:00:00Z',
  }
  const annotations = {
    'service.kubernetes.io/topology-aware-hints': 'Auto',
    'service.kubernetes.io/topology-mode': 'Auto',
  }
  const port = { name: 'http', protocol: 'TCP', port: 80, targetPort: 'web', appProtocol: 'http' }
  const spec = {
    type: 'LoadBalancer',
    selector: { app: 'web' },
    clusterIP: '192.0.2.1',
    clusterIPs: ['192.0.2.1'],
    ipFamilies: ['IPv4'],
    ipFamilyPolicy: 'SingleStack',
    publishNotReadyAddresses: true,
    trafficDistribution: 'PreferSameZone',
  }
  const service: Service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      ...metadata,
      annotations: { ...annotations, 'kubectl.kubernetes.io/last-applied-configuration': '{}' },
      finalizers: ['f'],
      managedFields,
    },
    spec: {
      ...spec,
      ports: [{ ...port, nodePort: 30_000 }],
      sessionAffinity: 'None',
      allocateLoadBalancerNodePorts: true,
    },
    status: { loadBalancer: { ingress: [{ ip: '198.51.100.1' }] } },
  }
  assert.deepEqual(trimService(service), { metadata: { ...metadata, annotations }, spec: { ...spec, ports: [port] } })
})

test('trimming preserves the difference between an empty and an absent selector', () => {
  const selectorOf = (spec: object): unknown => trimService({ metadata: { name: 'a' }, spec } as Service).spec?.selector
  assert.deepEqual([{ selector: {} }, {}, { selector: null }].map(selectorOf), [{}, undefined, undefined])
})

test('trimmed Endpoints and EndpointSlices lose only managedFields', () => {
  const metadata = { name: 'web', resourceVersion: '7', annotations: { a: 'b' }, unknown: [1] }
  const endpoints = {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { ...metadata, managedFields },
    subsets: [{ unknown: 1 }],
  }
  assert.deepEqual(trimEndpoints(endpoints as Endpoints), { ...endpoints, metadata })
  const slice = {
    metadata: { managedFields, ...metadata },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['192.0.2.1'] }],
  }
  assert.deepEqual(trimEndpointSlice(slice as EndpointSlice), { ...slice, metadata })
  const bare = { addressType: 'IPv4', endpoints: [] }
  assert.equal(trimEndpointSlice(bare), bare)
})
