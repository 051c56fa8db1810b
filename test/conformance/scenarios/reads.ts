import {
  asMetadata,
  asTable,
  configMap,
  get,
  inNamespace,
  patch,
  pod,
  post,
  remove,
  type Scenario,
  service,
} from '../scenario.ts'

const slice = {
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
  addressType: 'IPv4',
  endpoints: [
    { addresses: ['10.0.0.1'], conditions: { ready: true } },
    { addresses: ['10.0.0.2'], conditions: { ready: false } },
    { addresses: ['10.0.0.3'] },
    { addresses: ['10.0.0.4'] },
  ],
  ports: [
    { name: 'a', port: 80, protocol: 'TCP' },
    { name: 'b', port: 443, protocol: 'TCP' },
  ],
}

const endpoints = {
  apiVersion: 'v1',
  kind: 'Endpoints',
  metadata: { name: 'web' },
  subsets: [
    {
      addresses: [{ ip: '10.0.0.1' }, { ip: '10.0.0.2' }],
      notReadyAddresses: [{ ip: '10.0.0.9' }],
      ports: [
        { name: 'a', port: 80, protocol: 'TCP' },
        { name: 'b', port: 443, protocol: 'TCP' },
      ],
    },
  ],
}

const event = {
  apiVersion: 'events.k8s.io/v1',
  kind: 'Event',
  metadata: { name: 'happened.1' },
  eventTime: '2026-01-01T00:00:00.000000Z',
  reportingController: 'example.com/reporter',
  reportingInstance: 'reporter-1',
  action: 'Reporting',
  reason: 'Reported',
  regarding: { kind: 'Service', namespace: 'NS', name: 'web', apiVersion: 'v1' },
  note: 'something happened',
  type: 'Warning',
}

const lease = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: 'leader' },
  spec: { holderIdentity: 'one', leaseDurationSeconds: 15 },
}

const tables = [
  ...['services', 'endpoints', 'endpointslices', 'configmaps', 'pods', 'leases'].map((plural) => inNamespace(plural)),
  // A busy kube-apiserver may add an Event of its own, if its repair has seen a Service before its IPAddress.
  `${inNamespace('events')}?fieldSelector=reason%3DReported`,
]

export const readScenarios: readonly Scenario[] = [
  {
    name: 'tables',
    steps: [
      post(inNamespace('services'), service('web')),
      post(inNamespace('services'), service('headless', { clusterIP: 'None' })),
      post(inNamespace('services'), {
        ...service('named'),
        spec: { type: 'ExternalName', externalName: 'example.com' },
      }),
      post(inNamespace('services'), service('open', { externalIPs: ['198.51.100.1', '198.51.100.2'], selector: null })),
      post(inNamespace('endpoints'), endpoints),
      post(inNamespace('endpoints'), { ...endpoints, metadata: { name: 'none' }, subsets: [] }),
      post(inNamespace('endpointslices'), slice),
      post(inNamespace('endpointslices'), { ...slice, metadata: { name: 'bare' }, endpoints: [], ports: [] }),
      post(inNamespace('configmaps'), configMap('map', { a: '1', b: '2' })),
      post(inNamespace('pods'), pod('one')),
      post(
        inNamespace('pods'),
        pod('two', { nodeName: 'node-1', readinessGates: [{ conditionType: 'example.com/gate' }] }),
      ),
      post(inNamespace('leases'), lease),
      post(inNamespace('events'), event),
      ...tables.map((path) => get(path, asTable)),
      get(inNamespace('services', 'web'), asTable),
      get(inNamespace('services', 'nobody'), asTable),
      get(`${inNamespace('services')}?includeObject=None`, asTable),
      get(`${inNamespace('services')}?includeObject=Object`, asTable),
      get('/api/v1/namespaces/NS', asTable),
      get('/api/v1/nodes', asTable),
      get('/apis/networking.k8s.io/v1/servicecidrs', asTable),
      get('/apis/networking.k8s.io/v1/ipaddresses/10.96.0.1', asTable),
    ],
  },
  {
    name: 'metadata alone',
    steps: [
      get(inNamespace('leases'), asMetadata('PartialObjectMetadataList')),
      post(inNamespace('configmaps'), configMap('a', {}, { labels: { app: 'web' }, annotations: { note: 'x' } })),
      post(inNamespace('configmaps'), configMap('b')),
      get(inNamespace('configmaps', 'a'), asMetadata('PartialObjectMetadata')),
      get(inNamespace('configmaps', 'a'), asMetadata('PartialObjectMetadata', 'v1beta1')),
      get(inNamespace('configmaps', 'a'), asMetadata('PartialObjectMetadata', 'v2')),
      get(inNamespace('configmaps', 'a'), asMetadata('PartialObjectMetadataList')),
      get(inNamespace('configmaps', 'nobody'), asMetadata('PartialObjectMetadata')),
      get(inNamespace('configmaps'), asMetadata('PartialObjectMetadata')),
      get(`${inNamespace('configmaps')}?fieldSelector=metadata.name%3Da`, asMetadata('PartialObjectMetadataList')),
      get(`${inNamespace('configmaps')}?limit=1`, asMetadata('PartialObjectMetadataList')),
      get(`${inNamespace('configmaps')}?limit=1&continue=CONTINUE`, asMetadata('PartialObjectMetadataList', 'v1beta1')),
      {
        ...patch('merge', inNamespace('configmaps', 'a'), { metadata: { labels: { app: 'blue' } } }),
        accept: asMetadata('PartialObjectMetadata'),
      },
      { ...remove(inNamespace('configmaps', 'a')), accept: asMetadata('PartialObjectMetadata') },
    ],
  },
  {
    name: 'lists and selectors',
    steps: [
      post(inNamespace('configmaps'), configMap('a', {}, { labels: { app: 'web', tier: 'front' } })),
      post(inNamespace('configmaps'), configMap('b', {}, { labels: { app: 'web' } })),
      post(inNamespace('configmaps'), configMap('c')),
      get(`${inNamespace('configmaps')}?labelSelector=app%3Dweb`),
      get(`${inNamespace('configmaps')}?labelSelector=app%3Dweb,tier`),
      get(`${inNamespace('configmaps')}?labelSelector=app%20notin%20(web)`),
      get(`${inNamespace('configmaps')}?labelSelector=!app`),
      get(`${inNamespace('configmaps')}?labelSelector=app%20in%20(`),
      get(`${inNamespace('configmaps')}?fieldSelector=metadata.name%3Db`),
      get(`${inNamespace('configmaps')}?fieldSelector=data.a%3Db`),
      get(`${inNamespace('configmaps')}?limit=abc`),
      get(`${inNamespace('configmaps')}?continue=nonsense`),
      get(`${inNamespace('configmaps')}?resourceVersion=abc`),
      get(`${inNamespace('configmaps')}?resourceVersionMatch=Exact`),
      get(`${inNamespace('configmaps')}?sendInitialEvents=true`),
      get(inNamespace('configmaps', 'nobody')),
      get(inNamespace('unicorns')),
      get('/api/v1/namespaces/nowhere/configmaps'),
      get('/apis/example.com/v1/things'),
    ],
  },
]
