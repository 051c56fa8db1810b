import { asTable, get, patch, post, put, remove, type Scenario, type Step } from '../scenario.ts'

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const group = 'NS.example.com'
const widgets = `/apis/${group}/v1/namespaces/NS/widgets`
const gadgets = `/apis/${group}/v1/namespaces/NS/gadgets`
const older = `/apis/${group}/v1beta1/namespaces/NS/widgets`

const text = { type: 'string' }
const schema = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        size: { type: 'integer', default: 3 },
        color: text,
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        labels: { type: 'object', additionalProperties: text },
        parts: {
          type: 'array',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['name'],
          items: {
            type: 'object',
            required: ['name'],
            properties: { name: text, count: { type: 'integer', default: 1 } },
          },
        },
        tags: { type: 'array', 'x-kubernetes-list-type': 'set', items: text },
      },
    },
    status: { type: 'object', properties: { ready: { type: 'boolean' } } },
  },
}
const columns = [
  { name: 'Size', type: 'integer', jsonPath: '.spec.size' },
  { name: 'Color', type: 'string', jsonPath: '.spec.color' },
  { name: 'Ready', type: 'boolean', jsonPath: '.status.ready', priority: 1 },
  { name: 'First', type: 'string', jsonPath: '.spec.parts[0].name' },
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
]

function definition(fields: object = {}): object {
  const version = {
    served: true,
    storage: false,
    schema: { openAPIV3Schema: schema },
    subresources: { status: {} },
    additionalPrinterColumns: columns,
    selectableFields: [{ jsonPath: '.spec.color' }],
  }
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `widgets.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural: 'widgets', kind: 'Widget', shortNames: ['wd'], categories: ['all'] },
      versions: [
        { name: 'v1', ...version, storage: true },
        { name: 'v1beta1', ...version },
      ],
      ...fields,
    },
  }
}

function widget(spec: object, name = 'one', version = 'v1'): object {
  return { apiVersion: `${group}/${version}`, kind: 'Widget', metadata: { name }, spec }
}

const own = `${definitions}/widgets.${group}`

/** A patch that sets the versions of a definition, and which of them is stored. */
function versions(stored: Readonly<Record<string, boolean>>): object {
  const all = Object.entries(stored).map(([name, storage]) => {
    return { name, served: true, storage, schema: { openAPIV3Schema: schema } }
  })
  return { spec: { versions: all } }
}

/** A definition is established a little after its creation, and served a little later. */
const served: Step = { ...get(widgets), untilStatus: 200 }

/** A definition whose objects have replicas. */
function scalable(scale: object): object {
  const numbers = { type: 'object', properties: { replicas: { type: 'integer' }, selector: text, size: text } }
  const openAPIV3Schema = { type: 'object', properties: { spec: numbers, status: numbers } }
  const version = { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } }
  return definition({ versions: [{ ...version, subresources: { status: {}, scale } }] })
}

const paths = {
  specReplicasPath: '.spec.replicas',
  statusReplicasPath: '.status.replicas',
  labelSelectorPath: '.status.selector',
}

function scale(replicas: number, metadata: object = {}): object {
  return { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'scaled', ...metadata }, spec: { replicas } }
}

export const customResourceScenarios: readonly Scenario[] = [
  {
    name: 'custom resources',
    steps: [
      post(definitions, definition()),
      served,
      post(
        widgets,
        widget({ color: 'red', unknown: 1, free: { any: [1] }, labels: { a: 'b' }, parts: [{ name: 'p' }] }),
      ),
      get(`${widgets}/one`),
      get(`${older}/one`),
      get(widgets, asTable),
      post(older, widget({ size: 5 }, 'two', 'v1beta1')),
      get(`${widgets}/two`),
      put(`${widgets}/two`, widget({ size: 6 }, 'two')),
      patch('merge', `${widgets}/two`, { spec: { color: 'blue' }, status: { ready: true } }),
      patch('merge', `${widgets}/two`, { metadata: { labels: { a: 'b' } } }),
      patch('merge', `${widgets}/two/status`, { status: { ready: true }, spec: { color: 'green' } }),
      patch('json', `${widgets}/two`, [{ op: 'replace', path: '/spec/size', value: 7 }]),
      patch('strategic', `${widgets}/two`, { spec: { size: 8 } }),
      patch(
        'apply',
        `${widgets}/two?fieldManager=one`,
        widget({ parts: [{ name: 'a' }, { name: 'b', count: 2 }] }, 'two'),
      ),
      patch('apply', `${widgets}/two?fieldManager=two`, widget({ parts: [{ name: 'b', count: 3 }] }, 'two')),
      patch('apply', `${widgets}/two?fieldManager=one`, widget({ parts: [{ name: 'a' }] }, 'two')),
      patch('apply', `${widgets}/two?fieldManager=one`, widget({ parts: [{ name: 'a' }, { name: 'a' }] }, 'two')),
      patch('apply', `${widgets}/two?fieldManager=one`, widget({ parts: [{ count: 2 }] }, 'two')),
      patch('apply', `${widgets}/two?fieldManager=one`, widget({ tags: ['x', 'x'] }, 'two')),
      patch('merge', `${widgets}/two/status`, {
        metadata: { labels: { z: '1' }, finalizers: ['a/b'], managedFields: [{}] },
        status: { ready: false },
      }),
      patch('apply', `${widgets}/two/status?fieldManager=one`, {
        ...widget({}, 'two'),
        status: { ready: false },
      }),
      patch('apply', `${widgets}/two?fieldManager=three`, widget({ labels: { q: '1', r: '2' } }, 'two')),
      patch('apply', `${older}/two?fieldManager=three`, widget({ labels: { q: '1' } }, 'two', 'v1beta1')),
      patch('apply', `${widgets}/two?fieldManager=three`, widget({ labels: { q: '1' } }, 'two')),
      patch('merge', `${widgets}/two`, { metadata: { label: { a: 'b' } } }),
      patch('merge', `${widgets}/two`, { metadata: { finalizers: ['no finalizer'] } }),
      patch('merge', `${widgets}/two`, { metadata: { finalizers: ['cleanup'] } }),
      patch('merge', `${widgets}/two`, { metadata: { finalizers: null } }),
      get(`${widgets}?fieldSelector=spec.color%3Dblue`),
      get(`${widgets}?labelSelector=a%3Db`),
      get(`/apis/${group}`),
      get(`/apis/${group}/v1`),
      remove(`${widgets}/one`),
      remove(`${definitions}/widgets.${group}`),
    ],
  },
  {
    name: 'custom resources without kind or apiVersion',
    steps: [
      post(definitions, definition()),
      served,
      put(`${widgets}/nobody`, widget({}, 'nobody')),
      post(widgets, { metadata: { name: 'one' } }),
      post(widgets, { apiVersion: `${group}/v1`, metadata: { name: 'one' } }),
      post(widgets, { kind: 'Widget', metadata: { name: 'one' } }),
      post(widgets, { ...widget({}), kind: 'Gadget' }),
      post(widgets, { apiVersion: `${group}/v2`, kind: 'Widget', metadata: { name: 'one' } }),
      post(widgets, widget({ free: { a: null, b: [null] }, color: null, size: null, labels: { a: null } })),
      put(`${widgets}/one`, { metadata: { name: 'one' } }),
      patch('merge', `${widgets}/one`, { kind: 'Gadget' }),
      patch('merge', `${widgets}/one`, { apiVersion: 'v2' }),
      patch('json', `${widgets}/one`, [{ op: 'add', path: '/spec/free/d', value: null }]),
      { method: 'HEAD', path: `${widgets}/two` },
      get(`${widgets}/`),
      get(`${widgets}?fieldSelector=spec.size%3D3`),
      remove(`${definitions}/widgets.${group}`),
    ],
  },
  {
    name: 'two definitions of one kind',
    steps: [
      post(definitions, definition()),
      served,
      post(definitions, {
        ...definition({ names: { plural: 'gadgets', kind: 'Widget' } }),
        metadata: { name: `gadgets.${group}` },
      }),
      get(gadgets),
      remove(`${definitions}/widgets.${group}`),
      { ...get(gadgets), untilStatus: 200 },
      post(gadgets, widget({ size: 2 })),
      get(gadgets, asTable),
      remove(`${definitions}/gadgets.${group}`),
    ],
  },
  {
    name: 'the scale of custom resources',
    steps: [
      post(definitions, scalable(paths)),
      served,
      post(widgets, widget({ replicas: 1, size: 'big' }, 'scaled')),
      get(`${widgets}/scaled/scale`),
      get(`${widgets}/scaled/scale`, asTable),
      get(`${widgets}/nobody/scale`),
      put(`${widgets}/scaled/scale`, scale(3)),
      get(`${widgets}/scaled`),
      put(`${widgets}/scaled/scale`, scale(3)),
      put(`${widgets}/scaled/scale`, scale(4, { resourceVersion: '1' })),
      put(`${widgets}/scaled/scale`, scale(4, { uid: '00000000-0000-0000-0000-000000000000' })),
      put(`${widgets}/scaled/scale`, scale(4, { name: 'other' })),
      put(`${widgets}/scaled/scale`, { ...scale(4), metadata: {} }),
      put(`${widgets}/scaled/scale`, { ...scale(4), kind: 'Widget' }),
      put(`${widgets}/scaled/scale`, scale(9_999_999_999)),
      put(`${widgets}/scaled/scale?dryRun=All`, scale(7)),
      put(`${widgets}/scaled/scale?fieldManager=a%0Ab`, scale(7)),
      put(`${widgets}/nobody/scale`, { ...scale(1), metadata: { name: 'nobody' } }),
      patch('merge', `${widgets}/scaled/scale?fieldManager=other`, { spec: { replicas: 5 } }),
      patch('json', `${widgets}/scaled/scale`, [{ op: 'replace', path: '/spec/replicas', value: 6 }]),
      patch('strategic', `${widgets}/scaled/scale`, { spec: { replicas: 7 } }),
      patch('merge', `${widgets}/scaled/scale`, { metadata: { resourceVersion: '1' }, spec: { replicas: 8 } }),
      patch('merge', `${widgets}/scaled/scale`, { spec: { replicas: -1 } }),
      patch('merge', `${widgets}/scaled`, { spec: { replicas: 9_999_999_999 } }),
      patch('merge', `${widgets}/scaled/scale`, { spec: { replicas: 0 } }),
      patch('merge', `${widgets}/scaled/status`, { status: { replicas: 2, selector: 'app=web' } }),
      get(`${widgets}/scaled/scale`),
      get(`${widgets}/scaled`),
      post(`${widgets}/scaled/scale`, scale(1)),
      remove(`${widgets}/scaled/scale`),
      post(widgets, widget({ size: 'none' }, 'bare')),
      get(`${widgets}/bare/scale`),
      patch('merge', `${widgets}/bare/scale`, { metadata: { labels: {} } }),
      patch('merge', `${widgets}/bare/scale`, { spec: { replicas: 2 } }),
      put(`${widgets}/bare/scale`, { ...scale(0), metadata: { name: 'bare' } }),
      get(`${widgets}/bare`),
      get(`/apis/${group}/v1`),
      remove(`${definitions}/widgets.${group}`),
    ],
  },
  {
    name: 'a migration to another stored version',
    steps: [
      post(definitions, definition()),
      served,
      put(own, definition()),
      patch('merge', own, versions({ v1: false, v1beta1: true })),
      patch('merge', own, versions({ v1beta1: true })),
      patch('merge', `${own}/status`, { status: { storedVersions: ['v1beta1', 'v9'] } }),
      patch('merge', own, versions({ v1beta1: true })),
      patch('merge', `${own}/status`, { status: { storedVersions: ['v1'] } }),
      patch('merge', `${own}/status`, { status: { storedVersions: [] } }),
      patch('merge', own, versions({ v1beta1: true })),
      get(own),
      remove(own),
    ],
  },
  {
    name: 'invalid definitions',
    steps: [
      post(definitions, scalable({})),
      post(definitions, scalable({ ...paths, specReplicasPath: 'spec.replicas' })),
      post(definitions, scalable({ ...paths, specReplicasPath: '.status.replicas' })),
      post(definitions, scalable({ ...paths, statusReplicasPath: '.spec.replicas', labelSelectorPath: '.metadata.x' })),
      post(definitions, definition({ group: 'other.example.com' })),
      post(definitions, definition({ scope: 'Everywhere' })),
      post(definitions, definition({ versions: [] })),
    ],
  },
]
