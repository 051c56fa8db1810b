import {
  configMap,
  get,
  inNamespace,
  patch,
  patchTypes,
  pod,
  post,
  put,
  remove,
  type Scenario,
  type Step,
  service,
} from '../scenario.ts'

const maps = inNamespace('configmaps')
const map = inNamespace('configmaps', 'map')
const web = inNamespace('services', 'web')
const services = inNamespace('services')
/** A ConfigMap with two mistakes. */
const unknown = { ...configMap('unknown', { a: '1' }), dta: { b: '2' }, metadata: { name: 'unknown', anotations: {} } }

const pods = inNamespace('pods')
const one = inNamespace('pods', 'one')
const main = { name: 'main', image: 'registry.example/main:1' }

function toleration(key: string): object {
  return { key, operator: 'Exists' }
}

function apply(text: string): Step {
  const path = `${inNamespace('configmaps', 'flow')}?fieldManager=one`
  return { method: 'PATCH', path, text, contentType: patchTypes.apply }
}

export const writeScenarios: readonly Scenario[] = [
  {
    name: 'create',
    steps: [
      post(maps, configMap('map')),
      post(maps, configMap('map')),
      post(maps, configMap('Not a name')),
      post(maps, { ...configMap('x'), data: { 'a b': '1' } }),
      post(maps, { ...configMap('x'), data: { a: 1 } }),
      post(maps, { ...configMap('x'), kind: 'Secret' }),
      post(maps, { ...configMap('x'), apiVersion: 'v2' }),
      post(maps, configMap('x', {}, { labels: { 'bad key!': 'x' } })),
      post(maps, configMap('x', {}, { namespace: 'other' })),
      post(maps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: {} }),
      post('/api/v1/namespaces/nowhere/configmaps', configMap('x')),
      post(`${maps}?dryRun=All`, configMap('dry')),
      get(inNamespace('configmaps', 'dry')),
      post('/api/v1/configmaps', configMap('x')),
      { method: 'POST', path: maps, body: configMap('x'), contentType: 'text/plain' },
      { method: 'POST', path: `${maps}/`, body: configMap('untyped'), contentType: '' },
      apply('{apiVersion: v1, kind: ConfigMap, metadata: {name: flow}, data: {b: c}}'),
      apply('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flow",}, "data": {"a": "1",},}'),
      { method: 'HEAD', path: maps },
    ],
  },
  {
    name: 'update',
    steps: [
      post(maps, configMap('map')),
      put(map, configMap('map', { a: '2' })),
      put(map, configMap('map', { a: '3' }, { resourceVersion: '1' })),
      put(map, configMap('other', { a: '3' })),
      put(map, configMap('map', { a: '3' }, { uid: '00000000-0000-0000-0000-000000000000' })),
      put(inNamespace('configmaps', 'nobody'), configMap('nobody')),
      put(`${map}?dryRun=All`, configMap('map', { a: '4' })),
      get(map),
      post(inNamespace('pods'), pod('one')),
      put(inNamespace('pods', 'one', 'status'), { ...pod('one'), status: { phase: 'Running' } }),
      post(inNamespace('services'), service('web')),
      put(web, service('web', { ports: [{ name: 'web', port: 81 }] })),
    ],
  },
  {
    name: 'delete',
    steps: [
      post(maps, configMap('map', {}, { finalizers: ['example.com/hold'] })),
      remove(map, { preconditions: { uid: '00000000-0000-0000-0000-000000000000' } }),
      remove(map),
      remove(map),
      patch('merge', map, { metadata: { finalizers: null } }),
      remove(map),
      get(map),
      post(maps, configMap('a', {}, { labels: { x: '1' } })),
      post(maps, configMap('b')),
      remove(`${maps}?labelSelector=x%3D1`),
      get(`${maps}?fieldSelector=metadata.name%3Da`),
      remove(`${inNamespace('configmaps', 'b')}?dryRun=All`),
      remove(inNamespace('configmaps', 'b')),
      remove('/api/v1/namespaces/default'),
    ],
  },
  {
    name: 'options of a deletion',
    steps: [
      post(maps, configMap('map')),
      remove(map, { propagationPolicy: 'Junk' }),
      remove(map, { dryRun: ['Junk'] }),
      remove(map, { dryRun: ['All', 'Junk'], propagationPolicy: '' }),
      remove(map, { orphanDependents: true, propagationPolicy: 'Orphan' }),
      remove(`${map}?propagationPolicy=Junk`),
      remove(`${map}?dryRun=Junk`),
      remove(`${map}?dryRun=`),
      remove(`${map}?dryRun=All&dryRun=Junk`),
      remove(`${map}?gracePeriodSeconds=abc`),
      remove(`${maps}?dryRun=Junk&labelSelector=none%3Dhere`),
      remove(map, { kind: 'Pod', apiVersion: 'v1' }),
      remove(map, { kind: 'DeleteOptions', apiVersion: 'meta.k8s.io/v1', dryRun: ['All'] }),
      remove(map, { gracePeriodSeconds: 'x' }),
      remove(map, []),
      get(map),
      // A body replaces the parameters.
      remove(`${map}?dryRun=All`, { gracePeriodSeconds: -1 }),
      get(map),
      post(inNamespace('pods'), pod('one', { nodeName: 'none' })),
      remove(inNamespace('pods', 'one'), { gracePeriodSeconds: -1 }),
      remove(inNamespace('pods', 'one'), { gracePeriodSeconds: 0 }),
      post(maps, configMap('orphan')),
      remove(inNamespace('configmaps', 'orphan'), { orphanDependents: true }),
    ],
  },
  {
    name: 'policies and grace periods of several deletions',
    steps: [
      post(maps, configMap('map', {}, { finalizers: ['example.com/mine', 'orphan'] })),
      remove(map),
      remove(map, { propagationPolicy: 'Foreground' }),
      remove(map, { propagationPolicy: 'Orphan', dryRun: ['All'] }),
      remove(map, { propagationPolicy: 'Background' }),
      patch('merge', map, { metadata: { finalizers: null } }),
      post(maps, configMap('map', {}, { finalizers: ['orphan'] })),
      remove(map, { propagationPolicy: 'Background' }),
      get(map),
      post(inNamespace('pods'), pod('one', { nodeName: 'none' })),
      remove(inNamespace('pods', 'one'), { gracePeriodSeconds: 60 }),
      remove(inNamespace('pods', 'one')),
      remove(inNamespace('pods', 'one'), { gracePeriodSeconds: 90, propagationPolicy: 'Orphan' }),
      remove(inNamespace('pods', 'one'), { gracePeriodSeconds: 20 }),
      remove(inNamespace('pods', 'one'), { gracePeriodSeconds: 0 }),
    ],
  },
  {
    name: 'options of a write',
    steps: [
      post(maps, configMap('map')),
      ...['a%0Ab', 'a%07%7F', 'caf%C3%A9%C2%A0x', 'na%20me', '%E2%80%8B', 'a'.repeat(129)].flatMap((manager) => [
        post(`${maps}?fieldManager=${manager}&dryRun=All`, configMap('other')),
        patch('merge', `${map}?fieldManager=${manager}`, { data: { a: '2' } }),
      ]),
      put(`${map}?fieldManager=a%0Ab`, configMap('map')),
      patch('apply', `${map}?fieldManager=a%0Ab`, configMap('map')),
      patch('apply', `${map}?fieldManager=`, configMap('map')),
      patch('apply', `${map}?dryRun=Junk`, configMap('map')),
      patch('merge', `${map}?force=true`, { data: { a: '3' } }),
      post(`${maps}?dryRun=Junk`, configMap('other')),
      post(`${maps}?dryRun=Junk&fieldValidation=Junk`, { kind: 'Junk' }),
      put(`${map}?fieldValidation=Junk`, configMap('map')),
      get(map),
    ],
  },
  {
    name: 'server-side apply',
    steps: [
      patch('apply', `${map}?fieldManager=one`, configMap('map', { a: '1', b: '1' })),
      patch('apply', `${map}?fieldManager=two`, configMap('map', { b: '2' })),
      patch('apply', `${map}?fieldManager=two&force=true`, configMap('map', { b: '2' })),
      patch('apply', `${map}?fieldManager=one`, configMap('map', {})),
      patch('apply', map, configMap('map', {})),
      get(map),
      patch('apply', `${web}?fieldManager=one`, service('web', { ports: [{ name: 'a', port: 80, protocol: 'TCP' }] })),
      patch('apply', `${web}?fieldManager=two`, {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'web' },
        spec: { ports: [{ name: 'b', port: 443, protocol: 'TCP' }] },
      }),
    ],
  },
  {
    name: 'server-side apply of duplicate items',
    steps: [
      ...[
        [{ port: 80, protocol: 'TCP' }, { port: 81, protocol: 'TCP' }, { port: 80 }],
        [{ port: 80 }, { port: 80, protocol: 'UDP' }, { port: 80, protocol: 'UDP' }, { port: 80 }],
      ].map((ports) =>
        patch('apply', `${web}?fieldManager=one`, {
          apiVersion: 'v1',
          kind: 'Service',
          metadata: { name: 'web' },
          spec: { ports },
        }),
      ),
      patch(
        'apply',
        `${map}?fieldManager=one`,
        configMap('map', {}, { finalizers: ['example.com/a', 'example.com/a'] }),
      ),
      patch(
        'apply',
        `${map}?fieldManager=one`,
        configMap('map', {}, { finalizers: ['example.com/a', 'example.com/b'] }),
      ),
    ],
  },
  {
    name: 'unknown fields',
    steps: [
      post(maps, unknown),
      post(`${maps}?fieldValidation=Strict`, { ...unknown, metadata: { name: 'strict', lables: {} } }),
      post(`${maps}?fieldValidation=Ignore`, { ...unknown, metadata: { name: 'ignored' } }),
      post(`${services}?fieldValidation=Strict`, service('web', { ports: [{ port: 80, prot: 'TCP' }], selectr: {} })),
      post(`${services}?fieldValidation=Warn`, service('web', { ports: [{ port: 80, prot: 'TCP' }], selectr: {} })),
      put(`${maps}/unknown`, { ...unknown, data: { a: '2' } }),
      patch('merge', `${maps}/unknown?fieldValidation=Strict`, { extra: 1, data: { a: '3' } }),
      patch('merge', `${maps}/unknown`, { extra: 1, data: { a: '3' } }),
      patch('json', `${maps}/unknown?fieldValidation=Strict`, [{ op: 'add', path: '/extra', value: 1 }]),
      patch('strategic', `${services}/web?fieldValidation=Strict`, { spec: { ports: [{ port: 80, prot: 'x' }] } }),
      patch('apply', `${maps}/unknown?fieldManager=one`, { ...configMap('unknown'), dta: { b: '2' } }),
      get(`${maps}/unknown`),
      get(`${maps}/ignored`),
    ],
  },
  {
    name: 'invalid Pods',
    steps: [
      post(pods, pod('bad', { containers: [] })),
      post(pods, pod('bad', { containers: [main, main] })),
      post(pods, pod('bad', { initContainers: [main], restartPolicy: 'Sometimes' })),
      post(pods, pod('bad', { containers: [{ name: 'Main' }, { image: 'i' }] })),
      post(pods, pod('bad', { containers: [{ ...main, ports: [{ containerPort: 70000 }, { hostPort: -1 }] }] })),
      post(pods, pod('bad', { containers: [{ ...main, ports: [{ containerPort: 80, protocol: 'QUIC' }] }] })),
      post(pods, pod('bad', { containers: [{ ...main, env: [{ value: 'x' }], imagePullPolicy: 'Soon' }] })),
      post(pods, pod('bad', { containers: [{ ...main, volumeMounts: [{ name: 'data' }] }] })),
    ],
  },
  {
    name: 'the fields of a Pod that an update may change',
    steps: [
      post(pods, pod('one', { initContainers: [{ name: 'init', image: 'i' }], tolerations: [toleration('a')] })),
      patch('strategic', one, { spec: { nodeName: 'node' } }),
      patch('strategic', one, { spec: { restartPolicy: 'Never' } }),
      patch('strategic', one, { spec: { terminationGracePeriodSeconds: 1 } }),
      patch('strategic', one, { spec: { nodeSelector: { a: 'b' } } }),
      patch('strategic', one, { spec: { containers: [{ name: 'other', image: 'i' }] } }),
      patch('strategic', one, { spec: { containers: [{ name: 'main', env: [{ name: 'X', value: 'Y' }] }] } }),
      patch('strategic', one, { spec: { containers: [{ name: 'main', image: '' }] } }),
      patch('strategic', one, { spec: { containers: [{ name: 'main', image: 'other' }] } }),
      patch('merge', one, { spec: { initContainers: null } }),
      patch('merge', one, { spec: { activeDeadlineSeconds: 10 } }),
      patch('merge', one, { spec: { activeDeadlineSeconds: 20 } }),
      patch('merge', one, { spec: { activeDeadlineSeconds: null } }),
      patch('merge', one, { spec: { tolerations: null } }),
      patch('merge', one, { spec: { schedulingGates: [{ name: 'example.com/gate' }] } }),
      patch('merge', one, { metadata: { labels: { a: 'b' } } }),
    ],
  },
]
