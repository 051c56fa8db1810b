import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EndpointSlice, Endpoints, Node, Pod, Service } from '../../src/kube/resources.ts'
import type { ClusterState } from './cluster-state.ts'
import { judge } from './judge.ts'

const namespace = 'shop'

const service: Service = {
  metadata: { namespace, name: 'web', uid: 'service-uid', labels: { team: 'one' } },
  spec: {
    selector: { app: 'web' },
    clusterIP: '10.96.0.10',
    ipFamilies: ['IPv4'],
    ports: [
      { name: 'http', port: 80, protocol: 'TCP', targetPort: 'http' },
      { name: 'admin', port: 81, protocol: 'TCP', targetPort: 9000 },
    ],
  },
}

function pod(name: string, of: { readonly ip?: string; readonly ready?: boolean } & Partial<Pod> = {}): Pod {
  const { ip = '10.244.0.1', ready = true, metadata, spec, status } = of
  return {
    metadata: { namespace, name, uid: `${name}-uid`, labels: { app: 'web' }, ...metadata },
    spec: { nodeName: 'node', containers: [{ name: 'main', ports: [{ name: 'http', containerPort: 8080 }] }], ...spec },
    status: {
      phase: 'Running',
      podIP: ip,
      podIPs: [{ ip }],
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
      ...status,
    },
  }
}

const node: Node = { metadata: { name: 'node', labels: { 'topology.kubernetes.io/zone': 'zone-a' } } }

const reference = (name: string) => ({ kind: 'Pod', namespace, name, uid: `${name}-uid` })

const ports = [
  { name: 'admin', port: 9000, protocol: 'TCP' },
  { name: 'http', port: 8080, protocol: 'TCP' },
]

const endpoints: Endpoints = {
  metadata: {
    namespace,
    name: 'web',
    labels: { team: 'one', 'endpoints.kubernetes.io/managed-by': 'endpoint-controller' },
  },
  subsets: [
    {
      addresses: [{ ip: '10.244.0.1', nodeName: 'node', targetRef: reference('a') }],
      notReadyAddresses: [{ ip: '10.244.0.2', nodeName: 'node', targetRef: reference('b') }],
      ports,
    },
  ],
}

const endpointOf = (name: string, ip: string, ready: boolean) => ({
  addresses: [ip],
  conditions: { ready, serving: ready, terminating: false },
  nodeName: 'node',
  zone: 'zone-a',
  targetRef: reference(name),
})

const slice: EndpointSlice = {
  metadata: {
    namespace,
    name: 'web-x2v5l',
    uid: 'slice-uid',
    labels: {
      team: 'one',
      'kubernetes.io/service-name': 'web',
      'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
    },
    ownerReferences: [
      {
        apiVersion: 'v1',
        kind: 'Service',
        name: 'web',
        uid: 'service-uid',
        controller: true,
        blockOwnerDeletion: true,
      },
    ],
  },
  addressType: 'IPv4',
  endpoints: [endpointOf('a', '10.244.0.1', true), endpointOf('b', '10.244.0.2', false)],
  ports,
}

const right: ClusterState = {
  services: [service],
  pods: [
    pod('a'),
    pod('b', { ip: '10.244.0.2', ready: false }),
    pod('ended', {
      ip: '10.244.0.3',
      status: { phase: 'Failed', podIP: '10.244.0.3', podIPs: [{ ip: '10.244.0.3' }] },
    }),
    pod('other', { ip: '10.244.0.4', metadata: { labels: { app: 'mail' } } }),
    pod('new', { status: { phase: 'Pending', podIP: '', podIPs: [] } }),
  ],
  nodes: [node],
  endpoints: [endpoints],
  slices: [slice],
}

const placeholder = { ...slice, endpoints: null, ports: null } as unknown as EndpointSlice

/** States of a cluster, and the beginning of each fault that the judge must find in them. */
const cases: Readonly<Record<string, readonly [state: Partial<ClusterState>, ...faults: readonly RegExp[]]>> = {
  'all objects are correct': [{}],
  'there are no Endpoints': [{ endpoints: [] }, /^shop\/web: no Endpoints/],
  'an address is missing in Endpoints': [
    { endpoints: [{ ...endpoints, subsets: [{ ...endpoints.subsets?.[0], notReadyAddresses: [] }] }] },
    /Endpoints lack 10.244.0.2 http:8080\/TCP not ready/,
    /Endpoints lack 10.244.0.2 admin:9000\/TCP not ready/,
  ],
  'Endpoints list a Pod that has ended': [
    { pods: [pod('a'), pod('b', { ip: '10.244.0.2', ready: false, status: { phase: 'Failed' } })] },
    /Endpoints should not have 10.244.0.2 admin/,
    /Endpoints should not have 10.244.0.2 http/,
    /IPv4 slices should not have 10.244.0.2/,
  ],
  'a port is in two subsets': [
    {
      endpoints: [
        {
          ...endpoints,
          subsets: [
            { addresses: endpoints.subsets?.[0]?.addresses ?? [], ports },
            { notReadyAddresses: endpoints.subsets?.[0]?.notReadyAddresses ?? [], ports },
          ],
        },
      ],
    },
    /a port in two subsets/,
  ],
  'Endpoints have other labels than their Service': [
    { endpoints: [{ ...endpoints, metadata: { ...endpoints.metadata, labels: { team: 'one' } } }] },
    /Endpoints has the labels/,
  ],
  'Endpoints have no Service': [
    { endpoints: [endpoints, { ...endpoints, metadata: { ...endpoints.metadata, name: 'gone' } }] },
    /^shop\/gone: Endpoints without a Service/,
  ],
  'Endpoints of another writer have no Service': [
    { endpoints: [endpoints, { metadata: { namespace, name: 'gone' } }] },
  ],
  'there is no slice': [{ slices: [] }, /lack 10.244.0.1/, /lack 10.244.0.2/, /no IPv4 slice/],
  'an endpoint is in two slices': [
    {
      slices: [
        slice,
        { ...slice, metadata: { ...slice.metadata, name: 'web-2' }, endpoints: [endpointOf('b', '10.244.0.2', false)] },
      ],
    },
    /IPv4 slices have 2 times 10.244.0.2/,
  ],
  'an endpoint has a wrong condition': [
    { slices: [{ ...slice, endpoints: [endpointOf('a', '10.244.0.1', false), endpointOf('b', '10.244.0.2', false)] }] },
    /IPv4 slices lack 10.244.0.1/,
    /IPv4 slices should not have 10.244.0.1/,
  ],
  'a slice has other ports': [
    { slices: [{ ...slice, ports: ports.slice(1) }] },
    /lack/,
    /lack/,
    /should not have/,
    /should not have/,
  ],
  'a slice has another owner': [
    { slices: [{ ...slice, metadata: { ...slice.metadata, ownerReferences: [] } }] },
    /slice web-x2v5l is owned by \[\]/,
  ],
  'a slice has other labels': [
    { services: [{ ...service, metadata: { ...service.metadata, labels: {} } }] },
    /Endpoints has the labels/,
    /slice web-x2v5l has the labels/,
  ],
  'a slice has no Service': [
    { services: [] },
    /Endpoints without a Service/,
    /^shop\/web: slice web-x2v5l without a Service/,
  ],
  'a slice remains of an earlier Service with a selector': [
    { services: [{ ...service, metadata: { ...service.metadata, uid: 'new' }, spec: {} }], endpoints: [] },
    /^shop\/web: slice web-x2v5l of an earlier Service/,
  ],
  'a Service has lost its selector': [{ services: [{ ...service, spec: {} }], endpoints: [] }],
  'a slice has another address family': [
    { slices: [slice, { ...slice, metadata: { ...slice.metadata, name: 'web-6' }, addressType: 'IPv6' }] },
    /slice web-6 of the type IPv6/,
  ],
  'a slice without endpoints remains': [
    { slices: [slice, { ...placeholder, metadata: { ...slice.metadata, name: 'web-2' } }] },
    /1 IPv4 slices without endpoints/,
  ],
  'no Pod is selected, and the placeholder slice exists': [
    { pods: [], endpoints: [{ ...endpoints, subsets: [] }], slices: [placeholder] },
  ],
  'no Pod is selected, and the slice has ports': [
    { pods: [], endpoints: [{ ...endpoints, subsets: [] }], slices: [{ ...slice, endpoints: [] }] },
    /an? IPv4 placeholder with ports/,
  ],
  'a Node is deleted, and its Pods are listed': [{ nodes: [] }],
  'a Node is deleted, and its Pods are not listed': [{ nodes: [], slices: [placeholder] }],
}

for (const [name, [change, ...faults]] of Object.entries(cases)) {
  test(`the judge reports exactly the expected faults when ${name}`, () => {
    const found = judge({ ...right, ...change })
    assert.equal(found.length, faults.length, found.join('\n'))
    for (const [index, fault] of faults.entries()) assert.match(found[index] ?? '', fault)
  })
}

test('the judge reports a slice with more endpoints than maxEndpointsPerSlice', () => {
  assert.match(judge(right, { maxEndpointsPerSlice: 1 }).join(), /slice web-x2v5l has 2 endpoints/)
})

test('the judge reports truncated Endpoints that drop a ready address but retain an unready one', () => {
  const ipOf = (index: number): string => `10.1.${index >> 8}.${index & 255}`
  const pods = Array.from({ length: 1_002 }, (_, index) => pod(`p${index}`, { ip: ipOf(index), ready: index > 0 }))
  const addresses = pods
    .map((_, index) => ({ ip: ipOf(index), nodeName: 'node', targetRef: reference(`p${index}`) }))
    .sort((a, b) => (a.ip < b.ip ? -1 : 1))
  const notReady = addresses.filter(({ ip }) => ip === ipOf(0))
  const ready = addresses.filter(({ ip }) => ip !== ipOf(0))
  const annotations = { 'endpoints.kubernetes.io/over-capacity': 'truncated' }
  const faultsOf = (subset: object): readonly string[] => {
    const truncated = { metadata: { ...endpoints.metadata, annotations }, subsets: [{ ...subset, ports }] } as Endpoints
    return judge({ ...right, pods, endpoints: [truncated] }, { kinds: ['Endpoints'] })
  }
  assert.deepEqual(faultsOf({ addresses: ready.slice(1) }), [])
  const [fault, ...others] = faultsOf({ addresses: ready.slice(2), notReadyAddresses: notReady })
  assert.match(fault ?? '', /^shop\/web: Endpoints leave out 10.1.* ready, .* and keep 10.1.0.0 .* not ready/)
  assert.deepEqual(others, [])
})

test('the judge expects a terminating Pod in slices, and in Endpoints only with publishNotReadyAddresses', () => {
  const state = { ...right, pods: [pod('a', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })] }
  const published = { ...state, services: [{ ...service, spec: { ...service.spec, publishNotReadyAddresses: true } }] }
  assert.ok(judge(state).some((fault) => /Endpoints should not have 10.244.0.1/.test(fault)))
  assert.ok(
    judge(state).some((fault) =>
      /IPv4 slices lack 10.244.0.1 .* ready false, serving true, terminating true/.test(fault),
    ),
  )
  assert.ok(!judge(published).some((fault) => /Endpoints (should not have|lack) 10.244.0.1/.test(fault)))
})

const manual: Service = { metadata: { namespace, name: 'own', uid: 'own-uid' }, spec: { clusterIP: '10.96.0.11' } }
const written: Endpoints = {
  metadata: { namespace, name: 'own', uid: 'endpoints-uid', labels: { team: 'two' }, annotations: { note: 'by hand' } },
  subsets: [
    { addresses: [{ ip: '192.0.2.1' }, { ip: '2001:db8::1' }], ports: [{ name: 'http', port: 80, protocol: 'TCP' }] },
  ],
}

function mirrorOf(addressType: string, ip: string, of: Partial<EndpointSlice> = {}): EndpointSlice {
  return {
    metadata: {
      namespace,
      name: `own-${addressType.toLowerCase()}`,
      labels: {
        team: 'two',
        'kubernetes.io/service-name': 'own',
        'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io',
      },
      annotations: { note: 'by hand' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Endpoints', name: 'own', uid: 'endpoints-uid' }],
    },
    addressType,
    endpoints: [{ addresses: [ip], conditions: { ready: true } }],
    ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
    ...of,
  }
}

const four = mirrorOf('IPv4', '192.0.2.1')
const six = mirrorOf('IPv6', '2001:db8::1')
const mirrorCases: Readonly<Record<string, readonly [state: Partial<ClusterState>, ...faults: readonly RegExp[]]>> = {
  'Endpoints written by hand are mirrored': [{}],
  'a mirror is missing': [{ slices: [four] }, /^shop\/own: mirrors lack 2001:db8::1 http:80\/TCP ready true/],
  'there are two mirrors': [{ slices: [four, six, six] }, /two mirrors of the same ports/, /2 times 2001:db8::1/],
  'a mirror lists an address as not ready': [
    { slices: [mirrorOf('IPv4', '192.0.2.1', { endpoints: [{ addresses: ['192.0.2.1'] }] }), six] },
    /lack 192.0.2.1/,
    /should not have 192.0.2.1/,
  ],
  'the Endpoints of a mirror were recreated': [
    { endpoints: [{ ...written, metadata: { ...written.metadata, uid: 'other-uid' } }] },
    /own-ipv4 is owned by/,
    /own-ipv6 is owned by/,
  ],
  'the Service of a mirror selects Pods': [
    { services: [{ ...manual, spec: { ...manual.spec, selector: { app: 'none' } } }] },
    /own-ipv4 mirrors what is not to be mirrored/,
    /own-ipv6 mirrors what is not to be mirrored/,
  ],
  'the Endpoints of a mirror are deleted': [{ endpoints: [] }, /own-ipv4 mirrors what/, /own-ipv6 mirrors what/],
}

for (const [name, [change, ...faults]] of Object.entries(mirrorCases)) {
  test(`the judge of mirrored slices reports exactly the expected faults when ${name}`, () => {
    const state = { services: [manual], pods: [], nodes: [], endpoints: [written], slices: [four, six] }
    const found = judge({ ...state, ...change }, { kinds: ['mirrors'] })
    assert.equal(found.length, faults.length, found.join('\n'))
    for (const [index, fault] of faults.entries()) assert.match(found[index] ?? '', fault)
  })
}
