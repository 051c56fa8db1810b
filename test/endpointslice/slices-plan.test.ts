import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planSlices, type SlicesQuestion } from '../../src/endpointslice/slices-plan.ts'
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

function question(topology: TopologyCache): SlicesQuestion {
  const nodeOf = (name: string): Node | undefined => nodes.find(({ metadata }) => metadata?.name === name)
  return { service, pods, nodeOf, slices: [], maxEndpointsPerSlice: 100, triggerTime: undefined, topology }
}

test('the hints of an address type that a Service no longer has are forgotten with its slices', () => {
  const topology = new TopologyCache()
  topology.setNodes(nodes)
  const [plan] = planSlices(question(topology)).addressTypes
  const slices = plan?.actions.map(({ slice }) => ({ ...slice, metadata: { ...slice.metadata, name: 'web-1' } })) ?? []
  topology.setNodes([])
  assert.deepEqual(topology.overloadedServices(), ['n/web'])
  const single = { ...service, spec: { ...service.spec, ipFamilies: ['IPv4'] } } as Service
  const { unsupported } = planSlices({ ...question(topology), service: single, slices: slices as EndpointSlice[] })
  assert.deepEqual(unsupported, slices)
  assert.deepEqual(topology.overloadedServices(), [])
})
