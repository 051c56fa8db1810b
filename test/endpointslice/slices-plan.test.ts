import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Endpoint } from '../../src/endpointslice/endpoint.ts'
import { type PortGroup, planPortGroup, planSlices, type SlicesInput } from '../../src/endpointslice/slices-plan.ts'
import { TopologyCache } from '../../src/endpointslice/topology/topology-cache.ts'
import type { EndpointSlice, Node, Pod, Service } from '../../src/kube/resources.ts'

const zones = ['zone-a', 'zone-b']
const nodes = zones.map((zone) => ({
  metadata: { name: zone, labels: { 'topology.kubernetes.io/zone': zone } },
  status: { conditions: [{ type: 'Ready', status: 'True' }], allocatable: { cpu: '1' } },
})) as unknown as readonly Node[]

const service = {
  metadata: {
    name: 'web',
    namespace: 'n',
    uid: 'service',
    annotations: { 'service.kubernetes.io/topology-mode': 'Auto' },
  },
  spec: { ipFamilies: ['IPv6'], selector: {}, ports: [{ port: 80, protocol: 'TCP', targetPort: 80 }] },
} as unknown as Service

const pods = ['a', 'b', 'c', 'd'].map((name, index) => ({
  metadata: { name, namespace: 'n', uid: name },
  spec: { nodeName: zones[index % 2] },
  status: { podIPs: [{ ip: `2001:db8::${name}` }], conditions: [{ type: 'Ready', status: 'True' }] },
})) as unknown as readonly Pod[]

function input(topology: TopologyCache): SlicesInput {
  const nodeOf = (name: string): Node | undefined => nodes.find(({ metadata }) => metadata?.name === name)
  return { service, pods, nodeOf, slices: [], maxEndpointsPerSlice: 100, triggerTime: undefined, topology }
}

test('the hints of an address type that a Service no longer has are forgotten with its slices', () => {
  const topology = new TopologyCache()
  topology.setNodes(nodes)
  const [plan] = planSlices(input(topology)).addressTypes
  const slices = plan?.actions.map(({ slice }) => ({ ...slice, metadata: { ...slice.metadata, name: 'web-1' } })) ?? []
  topology.setNodes([])
  assert.deepEqual(topology.overloadedServices(), ['n/web'])
  const single = { ...service, spec: { ...service.spec, ipFamilies: ['IPv4'] } } as Service
  const { unsupported } = planSlices({ ...input(topology), service: single, slices: slices as EndpointSlice[] })
  assert.deepEqual(unsupported, slices)
  assert.deepEqual(topology.overloadedServices(), [])
})

test('a Service is refused if its Pods have too many different numbers for too many ports', () => {
  const ports = Array.from({ length: 1_000 }, (_, index) => ({ name: `p${index}`, port: index, protocol: 'TCP' }))
  const named = { ...service.spec, ports: [{ name: 'web', port: 1_000, protocol: 'TCP', targetPort: 'web' }, ...ports] }
  const different = Array.from({ length: 51 }, (_, index) => {
    const [pod] = pods
    const container = { name: 'c', ports: [{ name: 'web', protocol: 'TCP', containerPort: index + 1 }] }
    return { ...pod, spec: { ...pod?.spec, containers: [container] } }
  })
  const of = { ...input(new TopologyCache()), service: { ...service, spec: named } as unknown as Service }
  assert.throws(() => planSlices({ ...of, pods: different }), /^Error: Service n\/web has 1001 ports, for which /)
})

function endpointsOf(...names: readonly string[]): readonly Endpoint[] {
  return names.map((name) => ({ addresses: [`192.0.2.${name}`], targetRef: { kind: 'Pod', namespace: 'n', name } }))
}

function sliceOf(name: string, ...pods: readonly string[]): EndpointSlice {
  return { metadata: { name }, addressType: 'IPv4', endpoints: [...endpointsOf(...pods)] }
}

/** The planned actions in words: `update a: 1 2`. */
function planned(existing: readonly EndpointSlice[], desired: readonly string[], more: Partial<PortGroup> = {}) {
  const { create, update, remove } = planPortGroup({
    existing,
    desired: new Map(endpointsOf(...desired).map((endpoint) => [endpoint.targetRef?.name ?? '', endpoint])),
    maxEndpointsPerSlice: 3,
    labels: {},
    make: (endpoints) => ({ metadata: {}, addressType: 'IPv4', endpoints: [...endpoints] }),
    ...more,
  })
  const pods = ({ endpoints }: EndpointSlice): string => {
    const names = (endpoints ?? []).map(({ targetRef }) => targetRef?.name)
    return names.sort().join(' ')
  }
  return [
    ...create.map((slice) => `create: ${pods(slice)}`),
    ...update.map((slice) => `update ${slice.metadata?.name}: ${pods(slice)}`),
    ...remove.map((slice) => `remove ${slice.metadata?.name}`),
  ]
}

test('new endpoints go first into slices that need an update anyway, the fullest first', () => {
  const existing = [sliceOf('a', '1', '9'), sliceOf('b', '2', '3', '9'), sliceOf('c', '4')]
  assert.deepEqual(planned(existing, ['1', '2', '3', '4', '5']), ['update a: 1', 'update b: 2 3 5'])
})

test('remaining endpoints go together into the slice that they fill best, or else into a new one', () => {
  assert.deepEqual(planned([sliceOf('a', '1'), sliceOf('b', '2', '3')], ['1', '2', '3', '4']), ['update b: 2 3 4'])
  assert.deepEqual(planned([sliceOf('a', '1'), sliceOf('b', '2')], ['1', '2', '3', '4']), ['update a: 1 3 4'])
  assert.deepEqual(planned([sliceOf('a', '1', '2'), sliceOf('b', '3', '4')], ['1', '2', '3', '4', '5', '6']), [
    'create: 5 6',
  ])
})

test('endpoints that fill a whole slice get a new one, even if an empty slice exists', () => {
  assert.deepEqual(planned([sliceOf('a')], ['1', '2', '3']), ['create: 1 2 3'])
  assert.deepEqual(planned([sliceOf('a')], ['1', '2']), ['update a: 1 2'])
})

test('a slice above a lowered endpoint limit retains its desired endpoints', () => {
  const more = { maxEndpointsPerSlice: 1 }
  assert.deepEqual(planned([sliceOf('a', '1', '2')], ['1', '2'], more), [])
  assert.deepEqual(planned([sliceOf('a', '1', '2', '9')], ['1', '2', '3'], more), ['create: 3', 'update a: 1 2'])
})

test('a slice with only wrong labels retains its endpoints and their hints', () => {
  const hinted = {
    ...sliceOf('a'),
    endpoints: endpointsOf('1').map((endpoint) => ({ ...endpoint, hints: { forZones: [{ name: 'z' }] } })),
  }
  const desired = new Map(endpointsOf('1').map((endpoint) => ['1', endpoint]))
  const make = () => assert.fail()
  const plan = planPortGroup({ existing: [hinted], desired, maxEndpointsPerSlice: 3, labels: { tier: 'front' }, make })
  assert.deepEqual(plan.update, [{ ...hinted, metadata: { name: 'a', labels: { tier: 'front' } } }])
})
