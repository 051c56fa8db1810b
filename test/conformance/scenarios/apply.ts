import { configMap, get, inNamespace, patch, post, put, remove, type Scenario, type Step } from '../scenario.ts'

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const group = 'applied.NS.example.com'
const things = `/apis/${group}/v1/namespaces/NS/things`
const maps = inNamespace('configmaps')
const web = inNamespace('services', 'web')

const text = { type: 'string' }
const free = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
const pairs = { type: 'object', properties: { name: text, proto: { ...text, default: 'TCP' } }, required: ['name'] }
const condition = { type: 'object', properties: { type: text, status: text }, required: ['type'] }

const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `things.${group}` },
  spec: {
    group,
    scope: 'Namespaced',
    names: { plural: 'things', kind: 'Thing' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                properties: {
                  list: keyedList(pairs, ['name', 'proto']),
                  additional: { type: 'object', additionalProperties: text },
                  deep: { type: 'object', additionalProperties: { type: 'object', additionalProperties: text } },
                  free,
                  usages: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
                  dnsNames: { type: 'array', items: text },
                  duration: text,
                  inner: { type: 'object', properties: { a: text, b: text } },
                  nullable: { type: 'object', nullable: true, properties: { a: text } },
                },
              },
              status: { type: 'object', properties: { conditions: keyedList(condition, ['type']) } },
            },
          },
        },
      },
    ],
  },
}

function keyedList(items: object, keys: readonly string[]): object {
  return { type: 'array', items, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys }
}

function thing(spec: object, metadata: object = {}): object {
  return { apiVersion: `${group}/v1`, kind: 'Thing', metadata: { name: 'one', ...metadata }, spec }
}

function apply(manager: string, path: string, body: object, query = ''): Step {
  return patch('apply', `${path}?fieldManager=${manager}${query}`, body)
}

function applyThing(manager: string, spec: object, query = ''): Step {
  return apply(manager, `${things}/one`, thing(spec), query)
}

function applyConditions(manager: string, ...conditions: readonly object[]): Step {
  const { spec: _spec, ...head } = thing({}) as { readonly spec: object }
  return apply(manager, `${things}/one/status`, { ...head, status: { conditions } })
}

function owner(name: string, uid: string): object {
  return { apiVersion: 'v1', kind: 'ConfigMap', name, uid }
}

const owners = [owner('a', '00000000-0000-0000-0000-00000000000a'), owner('b', '00000000-0000-0000-0000-00000000000b')]

function applyMap(manager: string, fields: object, metadata: object = {}, query = ''): Step {
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map', ...metadata }, ...fields }
  return apply(manager, `${maps}/map`, object, query)
}

function applyService(manager: string, spec: object): Step {
  return apply(manager, web, { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec })
}

function headless(spec: object): object {
  const ports = [{ port: 80 }]
  return { apiVersion: 'v1', kind: 'Service', metadata: { name: 'weber' }, spec: { clusterIP: 'None', ports, ...spec } }
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/** A ConfigMap as `kubectl apply` leaves it. */
function clientApplied(data: object, last: string): object {
  return configMap('map', data, { annotations: { [lastApplied]: last } })
}

const all = { additional: { a: '1' }, usages: ['signing'], dnsNames: ['x'], duration: '1h' }

export const applyScenarios: readonly Scenario[] = [
  {
    name: 'apply of custom resources',
    steps: [
      post(definitions, definition),
      { ...get(things), untilStatus: 200 },
      applyThing('one', { list: [{ name: 'y' }] }),
      applyThing('one', { list: [{ name: 'y' }] }),
      applyThing('one', { list: [{ name: 'y' }, { name: 'y', proto: 'UDP' }] }),
      applyThing('one', { list: [{ name: 'y', proto: 'TCP' }] }),
      applyThing('one', { list: [] }),
      applyThing('two', all),
      applyThing('three', { additional: { b: '2' } }),
      applyThing('two', {}),
      applyThing('three', {}),
      applyThing('two', all),
      applyThing('two', { additional: {}, usages: [], dnsNames: [], inner: {} }),
      applyThing('two', { inner: { a: '1' } }),
      applyThing('two', { inner: {} }),
      applyThing('two', { deep: { x: { a: '1' }, y: {} }, free: { m: { n: { o: 1 } }, l: [{ a: 1 }] } }),
      applyThing('three', { deep: { x: { b: '2' } }, free: { m: { n: { p: 2 } } } }),
      applyThing('two', { deep: { y: { a: '1' } } }),
      applyThing('two', {}),
      patch('merge', `${things}/one?fieldManager=four`, { spec: { deep: { z: { a: '1' } }, free: { q: { r: 1 } } } }),
      patch('merge', `${things}/one?fieldManager=four`, {
        spec: { deep: { z: { a: '2' } }, free: { q: { r: null } } },
      }),
      patch('merge', `${things}/one?fieldManager=four`, { spec: { free: { q: null }, duration: '2h' } }),
      applyThing('three', { duration: '3h' }),
      applyThing('three', { duration: '3h' }, '&force=true'),
      applyConditions('b', { type: 'B', status: 'True' }),
      applyConditions('a', { type: 'A', status: 'True' }),
      applyConditions('b'),
      applyConditions('a'),
      get(`${things}/one`),
      remove(`${things}/one`),
      remove(`${definitions}/things.${group}`),
    ],
  },
  {
    name: 'apply of null in custom resources',
    steps: [
      post(definitions, definition),
      { ...get(things), untilStatus: 200 },
      applyThing('one', { inner: null }),
      applyThing('one', { list: [{ name: 'y' }], nullable: { a: '1' }, inner: { a: '1' }, free: { x: { y: '1' } } }),
      applyThing('one', { list: null, nullable: { a: '1' } }),
      applyThing('two', { nullable: null }),
      applyThing('two', { nullable: null }, '&force=true'),
      applyThing('one', { inner: {}, nullable: { a: '2' } }),
      patch('merge', `${things}/one?fieldManager=three`, { spec: { free: { x: 'text' } } }),
      patch('merge', `${things}/one?fieldManager=four`, { spec: { free: { x: { y: { z: '2' } } } } }),
      remove(`${definitions}/things.${group}`),
    ],
  },
  {
    name: 'apply of empty, null and current values',
    steps: [
      applyService('one', { ports: [{ port: 80 }], selector: { a: 'b' }, externalIPs: ['192.0.2.1'] }),
      applyService('two', { selector: {} }),
      applyService('one', { ports: [{ port: 80 }], selector: {}, externalIPs: [], sessionAffinity: 'ClientIP' }),
      applyService('one', { ports: [{ port: 80 }], selector: { a: 'b' }, sessionAffinity: null }),
      applyService('one', { ports: null, selector: null }),
      applyMap('one', { data: { a: '1' } }, { labels: { a: 'b' } }),
      applyMap('two', { data: { a: '1' } }),
      applyMap('two', { data: { a: '1', b: '2' } }),
      applyMap('one', { data: null }, { labels: null }),
      apply('kubectl', `${maps}/new`, configMap('new', { c: '1' }, { annotations: { [lastApplied]: 'old' } })),
    ],
  },
  {
    name: 'apply by several managers',
    steps: [
      post(maps, configMap('map', { a: '1', b: '2' })),
      applyMap('one', { data: { a: '1', c: '3' } }, { labels: { x: '1' }, ownerReferences: owners }),
      applyMap('two', { data: { b: '2', c: '3' } }, { labels: { x: '1', y: '2' }, ownerReferences: [owners[0]] }),
      applyMap('one', {}),
      applyMap('one', {}),
      applyMap('two', { data: { a: '5' } }),
      applyMap('two', { data: { a: '5' } }, {}, '&force=true'),
      applyMap('two', {}),
      put(`${maps}/map`, configMap('map', { a: '1' }, { ownerReferences: owners })),
      patch('merge', `${maps}/map`, { metadata: { managedFields: [{}] } }),
      applyMap('three', { data: { z: '1' } }),
    ],
  },
  {
    name: 'objects without managedFields',
    steps: [
      post(maps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'map' } }),
      put(`${maps}/map`, configMap('map', { a: '1' })),
      applyMap('one', { data: { b: '1' } }),
      patch('merge', `${maps}/map`, { metadata: { managedFields: null } }),
      patch('merge', `${maps}/map`, { metadata: { managedFields: [] } }),
      patch('merge', `${maps}/map`, { data: { c: '1' } }),
      applyMap('one', { data: { b: '1' } }, { managedFields: [] }),
      applyMap('kubectl', {}, { annotations: {} }),
      patch('merge', `${maps}/map`, { metadata: { managedFields: [{}] } }),
      patch('merge', `${maps}/map`, { data: { c: '2' } }),
    ],
  },
  {
    name: 'apply after a client-side apply of kubectl',
    steps: [
      post(
        `${maps}?fieldManager=kubectl-client-side-apply`,
        clientApplied(
          { a: '1', b: '2', c: '3' },
          JSON.stringify({
            apiVersion: 'v1',
            kind: 'ConfigMap',
            metadata: { name: 'map', namespace: 'NS' },
            data: { a: '1', b: '2' },
          }),
        ),
      ),
      applyMap('kubectl', { data: { a: '5', c: '4' } }),
      applyMap('other', { data: { a: '5' } }),
      applyMap('kubectl', { data: { b: '<&>', a: '5' } }),
      patch('merge', `${maps}/map`, { metadata: { annotations: { [lastApplied]: 'nonsense' } } }),
      patch('merge', `${maps}/map`, { data: { a: '6' } }),
      applyMap('kubectl', { data: { a: '7' } }),
      applyMap('kubectl', { data: { a: '7' } }, { annotations: {} }, '&force=true'),
      patch('merge', `${maps}/map`, { metadata: { annotations: { [lastApplied]: null } } }),
      applyMap('kubectl', { data: { a: '8' } }),
    ],
  },
  {
    name: 'apply of Services',
    steps: [
      applyService('one', { clusterIP: 'None', ports: [{ port: 80 }] }),
      applyService('one', { ports: [{ port: 80 }] }),
      patch('strategic', web, { spec: { $retainKeys: ['ports'] } }),
      patch('merge', web, { spec: { clusterIP: '10.96.7.7' } }),
      patch('merge', web, { spec: { clusterIP: '10.96.7.7', clusterIPs: ['10.96.7.7'] } }),
      patch('merge', web, { spec: { clusterIPs: ['None', 'None'] } }),
      patch('merge', web, { spec: { clusterIPs: ['nonsense'] } }),
      patch('merge', web, { spec: { clusterIP: null } }),
      patch('merge', web, { spec: { clusterIPs: null } }),
      patch('merge', web, { spec: { clusterIP: null, clusterIPs: null } }),
      applyService('one', {}),
      get(web),
      remove(web),
      applyService('one', { ports: [{ port: 80 }] }),
      applyService('one', { ports: [{ port: 80, name: 'x' }] }),
      applyService('one', { ports: [{ port: 81 }] }),
      applyService('one', {}),
      patch('strategic', web, { spec: { $retainKeys: ['ports'] } }),
      patch('merge', web, { spec: { clusterIP: '10.96.7.7' } }),
      patch('merge', web, { spec: { clusterIP: 'None' } }),
      patch('merge', web, { spec: { clusterIPs: ['10.96.7.7'] } }),
      patch('merge', web, { spec: { clusterIP: 'None', clusterIPs: ['None'] } }),
      patch('merge', web, { spec: { clusterIP: null } }),
      patch('merge', web, { spec: { type: 'NodePort', clusterIP: 'None', clusterIPs: ['None'] } }),
      patch('merge', web, { spec: { ipFamilies: ['IPv4', 'IPv4'] } }),
      patch('merge', web, { spec: { ipFamilies: ['IPv6'] } }),
      apply('one', `${web}er`, headless({ type: 'NodePort' })),
      apply('one', `${web}er`, headless({ type: 'ExternalName', externalName: 'a.example.com' })),
      patch('merge', web, { spec: { type: 'ExternalName', externalName: 'a.example.com' } }),
      patch('merge', web, { spec: { type: 'ClusterIP', clusterIP: 'None' } }),
    ],
  },
  {
    name: 'apply with another name or uid',
    steps: [
      applyMap('one', {}, { name: 'other' }),
      apply('one', `${maps}/map`, { apiVersion: 'v1', kind: 'ConfigMap', data: { a: '1' } }),
      applyMap('one', {}, { name: '' }),
      applyMap('one', {}, { uid: '00000000-0000-0000-0000-000000000000' }),
      applyMap('one', {}, { namespace: 'default' }),
      applyMap('one', {}, { name: 'other', uid: '00000000-0000-0000-0000-000000000000' }),
      applyMap('one', { data: { a: '1' } }, { resourceVersion: '1' }),
      applyMap('one', { data: { a: '1' } }),
      applyMap('one', {}, { name: 'other' }),
      apply('one', `${maps}/map`, { apiVersion: 'v1', kind: 'ConfigMap', data: { a: '1' } }),
      applyMap('one', {}, { uid: '00000000-0000-0000-0000-000000000000' }),
      applyMap('one', {}, { namespace: 'default' }),
      applyMap('one', {}, { resourceVersion: '1' }),
      get(`${maps}/map`),
    ],
  },
]
