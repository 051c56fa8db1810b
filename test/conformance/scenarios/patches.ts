import { configMap, get, inNamespace, patch, pod, post, remove, type Scenario, service } from '../scenario.ts'

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
      patch('strategic', map, {
        metadata: { '$setElementOrder/finalizers': [], finalizers: ['example.com/three'] },
      }),
      patch('strategic', map, { metadata: { '$deleteFromPrimitiveList/finalizers': ['example.com/one'] } }),
      patch('strategic', map, { data: { $patch: 'replace', z: '26' } }),
      patch('strategic', map, { data: { $retainKeys: ['z'], y: '25' } }),
      patch('strategic', map, { data: { $patch: 'delete' } }),
      patch('strategic', map, { metadata: { annotations: { note: 'present' } } }),
      patch('strategic', map, []),
      patch('strategic', inNamespace('configmaps', 'nobody'), { data: { a: '1' } }),
      get(map),
    ],
  },
  {
    name: 'strategic merge of conditions and containers of a Pod',
    steps: [
      post(
        inNamespace('pods'),
        pod('one', {
          initContainers: [{ name: 'first', image: 'i:1', env: [{ name: 'A', value: '1' }] }],
        }),
      ),
      patch('strategic', inNamespace('pods', 'one'), { spec: { initContainers: [{ name: 'first', image: 'i:2' }] } }),
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
      patch('merge', inNamespace('pods', 'one', 'status'), { status: { podIP: '10.0.0.2' } }),
    ],
  },
  {
    name: 'strategic merge of the addresses of a Node',
    steps: [
      post('/api/v1/nodes', {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'NS' },
        status: {
          addresses: [
            { type: 'InternalIP', address: '192.0.2.1' },
            { type: 'Hostname', address: 'one' },
          ],
        },
      }),
      patch('strategic', '/api/v1/nodes/NS/status', {
        status: { addresses: [{ type: 'ExternalIP', address: '198.51.100.1' }] },
      }),
      patch('strategic', '/api/v1/nodes/NS/status', {
        status: { addresses: [{ type: 'InternalIP', address: '192.0.2.2' }] },
      }),
      remove('/api/v1/nodes/NS'),
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
  {
    name: 'JSON patches at the edges of RFC 6902',
    steps: [
      post(inNamespace('services'), service('web', { ports })),
      post(inNamespace('configmaps'), configMap('map', { a: '1', b: '2' })),
      patch('json', map, [
        { op: 'add', path: '/data/c' },
        { op: 'copy', from: '/data/c', path: '/data/d' },
      ]),
      patch('json', map, [{ op: 'replace', path: '/data/a' }]),
      patch('json', map, [{ op: 'replace', path: '/data/none', value: 'x' }]),
      patch('json', map, [{ op: 'copy', from: '/data/nothing', path: '/data/e' }]),
      patch('json', map, [{ op: 'copy', from: '', path: '/data/e' }]),
      patch('json', map, [{ op: 'move', from: '/data/nothing', path: '/data/e' }]),
      patch('json', map, [{ op: 'test', path: '/data/nothing', value: null }]),
      patch('json', map, [{ op: 'test', path: '/data/nothing' }]),
      patch('json', map, [{ op: 'test', path: '/data/nothing', value: 'x' }]),
      patch('json', map, [{ op: 'test', path: '/data/b' }]),
      patch('json', map, [{ op: 'test', path: '/binaryData/nothing', value: null }]),
      patch('json', map, [{ op: 'add', path: 'ignored/data', value: { z: '26' } }]),
      patch('json', map, [{ op: 'add', path: 'data', value: {} }]),
      patch('json', map, [{ op: 'add', path: '', value: {} }]),
      patch('json', map, [{ op: 'replace', path: '', value: 7 }]),
      patch('json', map, [{ op: 'replace', path: '', value: configMap('map', { whole: '1' }) }]),
      patch('json', map, [{ op: 'jump', path: '/data' }]),
      patch('json', map, [{ path: '/data' }]),
      patch('json', map, [{ op: 'add', value: 1 }]),
      ...['-1', '-3', '-4', '01', '+1', '-0', '1.0', '3', ''].map((index) =>
        patch('json', web, [{ op: 'test', path: `/spec/ports/${index}/port`, value: 443 }]),
      ),
      patch('json', web, [{ op: 'add', path: '/spec/ports/-1', value: { name: 'd', port: 9090 } }]),
      patch('json', web, [{ op: 'add', path: '/spec/ports/-6', value: { name: 'e', port: 9091 } }]),
      patch('json', web, [{ op: 'replace', path: '/spec/ports/-1', value: { name: 'f', port: 9092 } }]),
      patch('json', web, [{ op: 'remove', path: '/spec/ports/-4' }]),
      get(web),
      get(map),
    ],
  },
  {
    name: 'malformed strategic merge patches',
    steps: [
      post(inNamespace('services'), service('web', { ports })),
      post(
        inNamespace('configmaps'),
        configMap('map', { a: '1' }, { finalizers: ['example.com/one', 'example.com/two'] }),
      ),
      patch('strategic', map, { data: { $patch: 'merge' } }),
      patch('strategic', map, { data: { $patch: 'bogus', b: '2' } }),
      patch('strategic', map, { $patch: 'bogus' }),
      patch('strategic', map, { data: { $retainKeys: 'a' } }),
      patch('strategic', map, { data: { $retainKeys: ['a'], '$setElementOrder/x': [] } }),
      patch('strategic', map, { metadata: { '$deleteFromPrimitiveList/finalizers': 'example.com/one' } }),
      patch('strategic', map, { metadata: { '$deleteFromPrimitiveList/finalizers': [1] } }),
      patch('strategic', map, { metadata: { $deleteFromPrimitiveList: ['example.com/one'] } }),
      patch('strategic', map, { metadata: { finalizers: [['example.com/one']] } }),
      patch('strategic', map, { metadata: { finalizers: [1] } }),
      patch('strategic', map, { metadata: { '$setElementOrder/finalizers': 'example.com/one' } }),
      patch('strategic', map, { metadata: { $setElementOrder: ['example.com/one'] } }),
      patch('strategic', map, {
        metadata: { '$setElementOrder/finalizers': ['example.com/one'], finalizers: ['example.com/three'] },
      }),
      patch('strategic', map, {
        metadata: { '$setElementOrder/finalizers': ['example.com/two', 'example.com/one'] },
      }),
      patch('strategic', map, { metadata: { '$setElementOrder/finalizers': { a: 1 } } }),
      patch('strategic', map, { metadata: { '$setElementOrder/finalizers': null } }),
      patch('strategic', map, { metadata: { '$setElementOrder/finalizers': [], finalizers: null } }),
      patch('strategic', map, { metadata: { '$setElementOrder/labels': [] } }),
      patch('strategic', map, { metadata: { labels: { a: null, b: { $patch: 'delete' }, c: '3' } } }),
      patch('strategic', web, { spec: { ports: [{ port: 80, $patch: 'merge' }] } }),
      patch('strategic', web, { spec: { ports: [{ port: 80, $patch: 'bogus' }] } }),
      patch('strategic', web, { spec: { ports: [{ $patch: 'delete' }] } }),
      patch('strategic', web, { spec: { ports: [{ $patch: 'replace' }, { name: 'keyless' }] } }),
      patch('strategic', web, { spec: { ports: ['text'] } }),
      patch('strategic', web, { spec: { ports: 'text' } }),
      patch('strategic', web, { spec: { '$setElementOrder/ports': [{ port: 80 }], ports: [{ port: 443 }] } }),
      patch('strategic', web, {
        spec: {
          '$setElementOrder/ports': [{ port: 443 }, { port: 80 }],
          ports: [{ port: 80 }, { port: 443 }],
        },
      }),
      patch('strategic', web, { spec: { '$setElementOrder/ports': [{ name: 'a' }], ports: [{ port: 443 }] } }),
      patch('strategic', web, { spec: { '$setElementOrder/ports': [80], ports: [{ port: 443 }] } }),
      patch('strategic', web, { spec: { '$setElementOrder/ports': 80 } }),
      patch('strategic', web, { spec: { '$setElementOrder/ports': 8.5 } }),
      patch('strategic', web, { spec: { '$setElementOrder/ports': true } }),
      patch('strategic', web, { spec: { '$setElementOrder/ports': [{ port: 80 }], ports: null } }),
      patch('strategic', web, { spec: { '$setElementOrder/ports': [{ port: 80 }], ports: 'x' } }),
      get(web),
      get(map),
    ],
  },
  {
    name: 'members called __proto__',
    steps: [
      post(inNamespace('configmaps'), configMap('map', { a: '1' })),
      patch('merge', map, JSON.parse('{"data":{"__proto__":"2"}}')),
      patch('strategic', map, JSON.parse('{"data":{"__proto__":"3"}}')),
      patch('json', map, [{ op: 'add', path: '/data/__proto__', value: '4' }]),
      patch('merge', map, JSON.parse('{"data":{"__proto__":null}}')),
      get(map),
    ],
  },
]
