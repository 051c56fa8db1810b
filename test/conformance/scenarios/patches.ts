import { configMap, get, inNamespace, patch, pod, post, type Scenario, service } from '../scenario.ts'

const web = inNamespace('services', 'web')
const map = inNamespace('configmaps', 'map')
const ports = [
  { name: 'a', port: 80 },
  { name: 'b', port: 443 },
  { name: 'c', port: 8080 },
]

export const patchScenarios: readonly Scenario[] = [
  {
    name: 'strategic merge of the ports of a Service',
    steps: [
      post(inNamespace('services'), service('web', { ports })),
      patch('strategic', web, { spec: { ports: [{ port: 443, targetPort: 8443 }] } }),
      patch('strategic', web, { spec: { ports: [{ port: 9090, name: 'd' }] } }),
      patch('strategic', web, { spec: { ports: [{ port: 443, $patch: 'delete' }] } }),
      patch('strategic', web, { spec: { ports: [{ port: 443, $patch: 'delete' }] } }),
      patch('strategic', web, {
        spec: {
          '$setElementOrder/ports': [{ port: 8080 }, { port: 80 }],
          ports: [
            { port: 8080, name: 'e' },
            { port: 80, name: 'f' },
          ],
        },
      }),
      patch('strategic', web, {
        spec: {
          ports: [{ $patch: 'replace' }, { port: 1000, name: 'only' }],
        },
      }),
      patch('strategic', web, { spec: { ports: [{ name: 'keyless' }] } }),
      patch('strategic', web, { spec: { ports: null } }),
      patch('strategic', web, { spec: { $patch: 'sideways' } }),
      get(web),
    ],
  },
  {
    name: 'strategic merge of maps, sets and lists without keys',
    steps: [
      post(
        inNamespace('configmaps'),
        configMap('map', { a: '1', b: '2' }, { labels: { x: '1' }, finalizers: ['example.com/one'] }),
      ),
      patch('strategic', map, { data: { a: null, c: '3' }, metadata: { labels: { y: '2' } } }),
      patch('strategic', map, { metadata: { finalizers: ['example.com/two'] } }),
      patch('strategic', map, { metadata: { '$deleteFromPrimitiveList/finalizers': ['example.com/one'] } }),
      patch('strategic', map, { data: { $patch: 'replace', z: '26' } }),
      patch('strategic', map, { data: { $retainKeys: ['z'], y: '25' } }),
      patch('strategic', map, { data: { $patch: 'delete' } }),
      patch('strategic', map, { metadata: { annotations: { note: 'kept' } } }),
      patch('strategic', map, []),
      patch('strategic', inNamespace('configmaps', 'nobody'), { data: { a: '1' } }),
      get(map),
    ],
  },
  {
    name: 'strategic merge of conditions and containers of a Pod',
    steps: [
      post(inNamespace('pods'), pod('one')),
      patch('strategic', inNamespace('pods', 'one', 'status'), {
        status: { conditions: [{ type: 'Ready', status: 'False' }] },
      }),
      patch('strategic', inNamespace('pods', 'one', 'status'), {
        status: {
          conditions: [
            { type: 'Ready', status: 'True' },
            { type: 'Initialized', status: 'True' },
          ],
        },
      }),
      patch('strategic', inNamespace('pods', 'one'), {
        spec: { containers: [{ name: 'main', image: 'registry.example/main:2' }] },
      }),
      patch('strategic', inNamespace('pods', 'one', 'status'), {
        status: { podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }] },
      }),
    ],
  },
  {
    name: 'merge patches',
    steps: [
      post(inNamespace('configmaps'), configMap('map', { a: '1', b: '2' })),
      patch('merge', map, { data: { a: null, c: '3' } }),
      patch('merge', map, { metadata: { resourceVersion: '1' }, data: { d: '4' } }),
      patch('merge', map, { metadata: { name: 'other' } }),
      patch('merge', map, { data: { e: 5 } }),
      patch('merge', map, 'text'),
      patch('merge', inNamespace('configmaps', 'nobody'), {}),
      get(map),
    ],
  },
  {
    name: 'JSON patches',
    steps: [
      post(inNamespace('services'), service('web', { ports })),
      patch('json', web, [{ op: 'add', path: '/metadata/labels', value: { a: 'b' } }]),
      patch('json', web, [{ op: 'replace', path: '/spec/ports/0/port', value: 81 }]),
      patch('json', web, [{ op: 'test', path: '/spec/ports/0/port', value: 80 }]),
      patch('json', web, [{ op: 'remove', path: '/spec/ports/2' }]),
      patch('json', web, [{ op: 'move', from: '/metadata/labels/a', path: '/metadata/labels/c' }]),
      patch('json', web, [{ op: 'copy', from: '/metadata/labels/c', path: '/metadata/labels/d' }]),
      patch('json', web, [{ op: 'remove', path: '/spec/none' }]),
      patch('json', web, { op: 'add' }),
      get(web),
    ],
  },
]
