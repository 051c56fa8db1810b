import { asTable, get, inNamespace, patch, pod, post, put, remove, type Scenario, service } from '../scenario.ts'

const services = inNamespace('services')
const slices = inNamespace('endpointslices')
const leases = inNamespace('leases')
const secrets = inNamespace('secrets')
const accounts = inNamespace('serviceaccounts')
const maps = inNamespace('configmaps')
const coreEvents = '/api/v1/namespaces/NS/events'
const reviews = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map' } }

function endpoints(subsets: readonly object[]): object {
  return { apiVersion: 'v1', kind: 'Endpoints', metadata: { name: 'web' }, subsets }
}

function slice(fields: object): object {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1' },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.0.0.1'] }],
    ports: [],
    ...fields,
  }
}

function lease(spec: object, metadata: object = {}): object {
  return { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'one', ...metadata }, spec }
}

function secret(fields: object, name = 'one'): object {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name }, ...fields }
}

function coreEvent(fields: object, name = 'web.1'): object {
  const involvedObject = { apiVersion: 'v1', kind: 'Pod', name: 'web', namespace: 'NS' }
  return { apiVersion: 'v1', kind: 'Event', metadata: { name }, involvedObject, ...fields }
}

function accessReview(spec: object): object {
  return { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec }
}

const eleven = Array.from({ length: 11 }, (_, index) => ({ name: `p${index}`, port: index + 1 }))

export const kindScenarios: readonly Scenario[] = [
  {
    name: 'invalid Services',
    steps: [
      post(services, service('web', { ports: [] })),
      post(services, service('web', { ports: [{ port: 0 }] })),
      post(services, service('web', { ports: [{ port: 70000 }] })),
      post(services, service('web', { ports: [{ port: 80 }, { port: 81 }] })),
      post(services, service('web', { ports: [{ port: 80, protocol: 'QUIC' }] })),
      post(services, service('web', { ports: [{ port: 80, targetPort: 'Not a name' }] })),
      post(services, service('web', { type: 'Gateway' })),
      post(services, service('web', { sessionAffinity: 'Sticky' })),
      post(services, service('web', { clusterIP: 'nonsense' })),
      post(services, service('web', { clusterIP: '192.0.2.1' })),
      post(services, service('web', { ipFamilies: ['IPv5'] })),
      post(services, service('web', { type: 'ExternalName' })),
      post(services, service('web', { externalIPs: ['nonsense'] })),
      post(services, service('1web')),
      get(services),
    ],
  },
  {
    name: 'a Service through its types',
    steps: [
      post(services, service('web')),
      patch('merge', `${services}/web`, {
        spec: { type: 'ExternalName', externalName: 'example.com', clusterIP: '', clusterIPs: null },
      }),
      patch('merge', `${services}/web`, { spec: { type: 'ClusterIP', externalName: null } }),
      patch('merge', `${services}/web`, { spec: { clusterIP: '10.96.0.77' } }),
      patch('merge', `${services}/web`, { spec: { sessionAffinity: 'ClientIP' } }),
      patch('merge', `${services}/web`, { spec: { publishNotReadyAddresses: true } }),
      patch('merge', `${services}/web/status`, { status: { loadBalancer: { ingress: [{ ip: '192.0.2.9' }] } } }),
      get(`${services}/web/status`),
      remove(`${services}/web`),
      get(`${services}/web`),
    ],
  },
  {
    name: 'updates of objects that do not exist',
    steps: [
      put(`${services}/web`, service('web')),
      put(`${inNamespace('endpoints')}/web`, endpoints([])),
      put(`${slices}/web-1`, slice({})),
      put(`${leases}/one`, lease({ holderIdentity: 'a' })),
      put(`${secrets}/one`, secret({})),
      put(`${maps}/map`, map),
      put(`${accounts}/one`, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'one' } }),
      put(`${coreEvents}/web.1`, coreEvent({})),
      put(`${inNamespace('pods')}/one`, pod('one')),
      put('/api/v1/nodes/NS-nobody', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'NS-nobody' } }),
      put('/api/v1/namespaces/NS-none', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'NS-none' } }),
    ],
  },
  {
    name: 'a Lease with the fields of coordinated leader election',
    steps: [
      post(leases, lease({ holderIdentity: 'h', strategy: 'OldestEmulationVersion', preferredHolder: 'x' })),
      get(`${leases}?fieldSelector=spec.holderIdentity%3Dh`),
      get(`${services}?fieldSelector=spec.foo%3Dh`),
    ],
  },
  {
    name: 'Endpoints',
    steps: [
      post(inNamespace('endpoints'), endpoints([{ addresses: [{ ip: '127.0.0.1' }], ports: [{ port: 80 }] }])),
      post(inNamespace('endpoints'), endpoints([{ addresses: [{ ip: '10.0.0.1' }], ports: [{ port: 0 }] }])),
      post(inNamespace('endpoints'), endpoints([{ ports: [{ port: 80 }] }])),
      post(inNamespace('endpoints'), endpoints([{ addresses: [{ ip: 'nonsense' }] }])),
      post(
        inNamespace('endpoints'),
        endpoints([{ addresses: [{ ip: '10.0.0.1' }], ports: [{ port: 80 }, { port: 81 }] }]),
      ),
      post(inNamespace('endpoints'), endpoints([{ addresses: [{ ip: '10.0.0.1' }], ports: [{ port: 80 }] }])),
      put(inNamespace('endpoints', 'web'), endpoints([])),
      put(inNamespace('endpoints', 'other'), { ...endpoints([]), metadata: { name: 'other' } }),
      get(inNamespace('endpoints')),
    ],
  },
  {
    name: 'EndpointSlices',
    steps: [
      post(slices, slice({ addressType: 'IPv9' })),
      post(slices, slice({ addressType: undefined })),
      post(slices, slice({ endpoints: [{ addresses: [] }] })),
      post(slices, slice({ endpoints: [{ addresses: ['2001:db8::1'] }] })),
      post(slices, slice({ endpoints: [{ addresses: ['127.0.0.1'] }] })),
      post(slices, slice({ ports: [{ name: 'a' }, { name: 'a' }] })),
      post(slices, slice({ ports: [{ name: 'A!', port: 80 }] })),
      post(slices, slice({ ports: [{ port: 80, protocol: 'QUIC' }] })),
      post(slices, slice({ ports: eleven })),
      patch('merge', `${slices}/web-1`, { addressType: 'IPv6' }),
      patch('merge', `${slices}/web-1`, { endpoints: [{ addresses: ['10.0.0.2'] }] }),
      patch('strategic', `${slices}/web-1`, { endpoints: [{ addresses: ['10.0.0.3'] }] }),
      patch('merge', `${slices}/web-1`, { metadata: { labels: { a: 'b' } } }),
      put(`${slices}/web-2`, slice({ metadata: { name: 'web-2' } })),
      get(slices),
    ],
  },
  {
    name: 'Leases',
    steps: [
      post(leases, lease({ holderIdentity: 'one', leaseDurationSeconds: 0 })),
      post(leases, lease({ holderIdentity: 'one', leaseTransitions: -1 })),
      post(leases, lease({ renewTime: '2026-01-01T00:00:00Z' })),
      post(leases, lease({ renewTime: '2026-01-01T00:00:00.123Z' })),
      post(leases, lease({ holderIdentity: 'one', renewTime: '2026-01-01T00:00:00.123456Z' })),
      put(`${leases}/one`, lease({ holderIdentity: 'two' })),
      put(`${leases}/one`, lease({ holderIdentity: 'two' }, { resourceVersion: '1' })),
      put(`${leases}/two`, lease({ holderIdentity: 'two' }, { name: 'two' })),
      patch('merge', `${leases}/one`, { spec: { holderIdentity: 'three' } }),
      get(leases),
      remove(`${leases}/one`, { preconditions: { resourceVersion: '1' } }),
      remove(leases),
      get(leases),
    ],
  },
  {
    name: 'addresses and ranges of Services',
    steps: [
      post('/apis/networking.k8s.io/v1/servicecidrs', { metadata: { name: 'bad' }, spec: { cidrs: ['nonsense'] } }),
      post('/apis/networking.k8s.io/v1/servicecidrs', { metadata: { name: 'bad' }, spec: { cidrs: ['10.1.0.1/16'] } }),
      post('/apis/networking.k8s.io/v1/servicecidrs', { metadata: { name: 'bad' }, spec: {} }),
      post('/apis/networking.k8s.io/v1/ipaddresses', { metadata: { name: 'nonsense' }, spec: {} }),
      post('/apis/networking.k8s.io/v1/ipaddresses', { metadata: { name: '192.0.2.77' }, spec: {} }),
      post('/apis/networking.k8s.io/v1/ipaddresses', {
        metadata: { name: '192.0.2.77' },
        spec: { parentRef: { resource: 'services', namespace: 'NS', name: 'web' } },
      }),
      get('/apis/networking.k8s.io/v1/ipaddresses/192.0.2.77'),
      patch('merge', '/apis/networking.k8s.io/v1/ipaddresses/192.0.2.77', {
        spec: { parentRef: { resource: 'services', namespace: 'NS', name: 'other' } },
      }),
      get('/apis/networking.k8s.io/v1/ipaddresses?fieldSelector=spec.parentRef.name%3Dweb'),
      remove('/apis/networking.k8s.io/v1/ipaddresses/192.0.2.77'),
    ],
  },
  {
    name: 'namespaces',
    steps: [
      post('/api/v1/namespaces', { metadata: { name: 'kube_system' } }),
      post('/api/v1/namespaces', { metadata: { name: 'NS' } }),
      patch('merge', '/api/v1/namespaces/NS', { metadata: { labels: { a: 'b' } } }),
      patch('merge', '/api/v1/namespaces/NS', { metadata: { labels: { 'kubernetes.io/metadata.name': 'other' } } }),
      patch('merge', '/api/v1/namespaces/NS', { spec: { finalizers: [] } }),
      get('/api/v1/namespaces/NS'),
      post(inNamespace('configmaps'), { metadata: { name: 'one' } }),
      // The embedded server empties the namespace at once. For a real server only kube-controller-manager does that.
      remove('/api/v1/namespaces/NS'),
    ],
  },
  {
    name: 'a second deletion of a Namespace with another policy',
    steps: [
      post('/api/v1/namespaces', { metadata: { name: 'NS-left' } }),
      post('/api/v1/namespaces/NS-left/configmaps', { metadata: { name: 'a', finalizers: ['example.com/f'] } }),
      remove('/api/v1/namespaces/NS-left', { propagationPolicy: 'Foreground' }),
      remove('/api/v1/namespaces/NS-left', { propagationPolicy: 'Orphan' }),
      remove('/api/v1/namespaces/NS-left', { propagationPolicy: 'Background' }),
      remove('/api/v1/namespaces/NS-left'),
      get('/api/v1/namespaces/NS-left'),
    ],
  },
  {
    name: 'Secrets and ServiceAccounts',
    steps: [
      post(secrets, secret({ stringData: { a: 'text' }, data: { b: 'Yg==' } })),
      post(secrets, secret({ data: { a: 'not base64' } }, 'two')),
      post(secrets, secret({ data: { 'a b': 'Yg==' } }, 'two')),
      post(secrets, secret({ type: 'kubernetes.io/tls', data: { 'tls.crt': '' } }, 'two')),
      post(secrets, secret({ type: 'kubernetes.io/basic-auth' }, 'two')),
      post(secrets, secret({ type: 'kubernetes.io/service-account-token' }, 'two')),
      patch('merge', `${secrets}/one`, { type: 'other' }),
      patch('merge', `${secrets}/one`, { data: { b: null }, stringData: { c: '3' } }),
      patch('merge', `${secrets}/one`, { immutable: true }),
      patch('merge', `${secrets}/one`, { data: { c: null } }),
      patch('merge', `${secrets}/one`, { immutable: null }),
      get(`${secrets}?fieldSelector=type%3DOpaque`, asTable),
      patch('apply', `${secrets}/applied?fieldManager=one`, secret({ data: { a: 'YQ==' } }, 'applied')),
      remove(`${secrets}/one`),
      post(accounts, {
        apiVersion: 'v1',
        kind: 'ServiceAccount',
        metadata: { name: 'builder' },
        secrets: [{ name: 'one' }],
      }),
      patch('strategic', `${accounts}/builder`, {
        imagePullSecrets: [{ name: 'registry' }],
        secrets: [{ name: 'two' }],
      }),
      get(accounts, asTable),
      remove(`${accounts}/builder`),
    ],
  },
  {
    name: 'immutable ConfigMaps, and ConfigMaps with invalid keys',
    steps: [
      post(maps, { ...map, data: { a: '1' }, binaryData: { a: 'MQ==' } }),
      post(maps, { ...map, binaryData: { 'a/b': 'MQ==' } }),
      post(maps, { ...map, data: { a: '1' }, immutable: true }),
      patch('merge', `${maps}/map`, { data: { a: '2' } }),
      patch('merge', `${maps}/map`, { immutable: false, binaryData: { b: 'MQ==' } }),
      patch('merge', `${maps}/map`, { metadata: { labels: { a: 'b' } } }),
    ],
  },
  {
    name: 'Events of both API groups are the same ones',
    steps: [
      post(
        coreEvents,
        coreEvent({
          reason: 'Started',
          message: 'it runs',
          type: 'Normal',
          count: 2,
          source: { component: 'kubelet', host: 'n1' },
        }),
      ),
      post(coreEvents, coreEvent({ involvedObject: { kind: 'Pod', name: 'web' } }, 'web.2')),
      post(coreEvents, coreEvent({ involvedObject: { kind: 'Pod', name: 'web', namespace: 'elsewhere' } }, 'web.2')),
      post(coreEvents, coreEvent({ eventTime: '2026-01-01T00:00:00.000000Z' }, 'web.2')),
      get(`${inNamespace('events')}/web.1`),
      patch('merge', `${coreEvents}/web.1`, { count: 3, lastTimestamp: '2026-01-01T00:00:00Z' }),
      get(`${inNamespace('events')}`),
      get(`${coreEvents}?fieldSelector=involvedObject.name%3Dweb%2Csource%3Dkubelet`),
      get(`${coreEvents}?fieldSelector=involvedObject.kind%3DNode`),
      get(`${coreEvents}?fieldSelector=type%3DNormal%2Creason%3DStarted`, asTable),
      patch('merge', `${inNamespace('events')}/web.1`, { note: 'changed' }),
      remove(`${coreEvents}/web.1`),
      get(coreEvents),
    ],
  },
  {
    name: 'SelfSubjectAccessReviews',
    steps: [
      post(reviews, accessReview({ resourceAttributes: { verb: 'list', resource: 'pods', namespace: 'NS' } })),
      post(reviews, accessReview({ nonResourceAttributes: { verb: 'get', path: '/version' } })),
      post(reviews, accessReview({})),
      get(reviews),
    ],
  },
]
