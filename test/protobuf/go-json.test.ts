import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { decodedByGoType, GoTypeError } from '../../src/protobuf/go-decode.ts'
import { kindMessages, messageFields } from '../../src/protobuf/go-fields.ts'
import { jsonOfMessage, jsonOfProtobuf, ProtobufError } from '../../src/protobuf/go-json.ts'
import { enveloped, message, type Part } from './message.ts'

// Random objects of every kind, made by Go: test/real/stored-bytes.test.ts.

test('a protobuf ConfigMap converts to the JSON that Go writes', () => {
  const metadata: readonly Part[] = [
    [1, 'map'],
    [2, ''],
    [8, []],
    [
      11,
      [
        [1, '__proto__'],
        [2, 'x'],
      ],
    ],
    [
      11,
      [
        [1, 'empty'],
        [2, ''],
      ],
    ],
  ]
  const raw = message(
    [1, metadata],
    [
      2,
      [
        [1, 'a'],
        [2, '1'],
      ],
    ],
    [
      3,
      [
        [1, 'b'],
        [2, Buffer.from('xyz')],
      ],
    ],
    [4, 0],
  )
  assert.deepEqual(
    JSON.stringify(jsonOfProtobuf(enveloped('v1', 'ConfigMap', raw))),
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"map","labels":{"__proto__":"x","empty":""}},' +
      '"data":{"a":"1"},"binaryData":{"b":"eHl6"},"immutable":false}',
  )
})

test('empty fields are omitted where Go omits them; empty pointer fields are written', () => {
  // The port has an empty name and no nodePort. The Service has `allocateLoadBalancerNodePorts: false`.
  const targetPort = message([1, 1], [3, 'web'])
  const port = message([1, ''], [3, 80], [4, targetPort], [5, 0])
  assert.deepEqual(jsonOfMessage('core/v1.Service', message([2, message([1, port], [3, ''], [20, 0])])), {
    spec: { ports: [{ port: 80, targetPort: 'web' }], allocateLoadBalancerNodePorts: false },
  })
  const publishing = message([2, message([13, 1])])
  assert.deepEqual(jsonOfMessage('core/v1.Service', publishing), { spec: { publishNotReadyAddresses: true } })
  assert.deepEqual(jsonOfMessage('core/v1.Service', message([2, message([13, 0])])), { spec: {} })
})

test('a Time has whole seconds, a MicroTime has six digits, and a zero time is omitted', () => {
  const seconds = Date.parse('2026-11-21T03:00:00Z') / 1000
  const spec = message(
    [
      3,
      [
        [1, seconds],
        [2, 123_456_789],
      ],
    ],
    [4, []],
  )
  assert.deepEqual(jsonOfMessage('coordination/v1.LeaseSpec', spec), { acquireTime: '2026-11-21T03:00:00.123456Z' })
  const metadata = message([
    8,
    [
      [1, seconds],
      [2, 0],
    ],
  ])
  assert.deepEqual(jsonOfMessage('meta/v1.ObjectMeta', metadata), { creationTimestamp: '2026-11-21T03:00:00Z' })
})

test('DeleteOptions are read for every API group', () => {
  const raw = message([1, 0], [2, [[1, 'the-uid']]])
  for (const apiVersion of ['v1', 'apps/v1']) {
    assert.deepEqual(jsonOfProtobuf(enveloped(apiVersion, 'DeleteOptions', raw)), {
      apiVersion,
      kind: 'DeleteOptions',
      gracePeriodSeconds: 0,
      preconditions: { uid: 'the-uid' },
    })
  }
})

test('of an unknown kind only the envelope is read', () => {
  const body = enveloped('apps/v1', 'Deployment', message([1, [[1, 'web']]]))
  assert.deepEqual(jsonOfProtobuf(body), { apiVersion: 'apps/v1', kind: 'Deployment' })
})

describe('bytes that are not protobuf of the kind are refused', () => {
  const cases: readonly (readonly [string, Buffer, RegExp])[] = [
    [
      'JSON',
      Buffer.from('{"kind":"Pod"}'),
      /^provided data does not appear to be a protobuf message, expected prefix \[107 56 115 0\]$/,
    ],
    [
      'a field of another type',
      enveloped('v1', 'Pod', message([1, 5])),
      /^proto: wrong wireType for field 1 of core\/v1\.Pod$/,
    ],
    [
      'a map entry that is not a message',
      enveloped('v1', 'ConfigMap', message([2, [[1, 5]]])),
      /wrong wireType for field 2/,
    ],
    [
      'a message that ends early',
      enveloped('v1', 'Pod', message([1, 'x'.repeat(9)]).subarray(0, 5)),
      /is truncated or damaged/,
    ],
    ['an envelope that ends early', enveloped('v1', 'Pod', Buffer.alloc(9)).subarray(0, 9), /is truncated or damaged/],
    ['a group', enveloped('v1', 'Pod', Buffer.alloc(100_000, 0x0b)), /wrong wireType for field 1/],
  ]
  for (const [what, bytes, expected] of cases) {
    test(what, () => {
      assert.throws(
        () => jsonOfProtobuf(bytes),
        (error) => error instanceof ProtobufError && expected.test(error.message),
      )
    })
  }

  test('managedFields that are not JSON', () => {
    const entry = message([17, [[7, [[1, Buffer.from('{')]]]]])
    assert.throws(() => jsonOfMessage('meta/v1.ObjectMeta', entry), /contains invalid JSON/)
  })

  test('random bytes cause no error other than a ProtobufError', () => {
    const kinds = fc.constantFrom(...Object.keys(kindMessages))
    fc.assert(
      fc.property(kinds, fc.uint8Array({ maxLength: 60 }), (key, raw) => {
        const [apiVersion = '', kind = ''] = key.split(' ')
        try {
          jsonOfProtobuf(enveloped(apiVersion, kind, Buffer.from(raw)))
        } catch (error) {
          assert.ok(error instanceof ProtobufError, String(error))
        }
      }),
      { numRuns: 2000 },
    )
  })
})

test('every message type that a field refers to is described', () => {
  const named = Object.values(messageFields).flatMap((fields) => fields.match(/[a-z]+\/v1\.\w+/g) ?? [])
  assert.deepEqual(
    [...new Set([...named, ...Object.values(kindMessages)])].filter((name) => !messageFields[name]),
    [],
  )
})

test('fields that the Go type of a kind lacks are found, also in lists and in inlined structs', () => {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { labels: { any: 'thing' }, managedFields: [{ fieldsV1: { 'f:x': {} } }], own: 1 },
    spec: {
      containers: [
        { name: 'a', resources: { limits: { cpu: '1' } } },
        { name: 'b', livenessProbe: { httpGet: { port: 'web', prt: 1 }, periodSeconds: 1 }, img: 'x' },
      ],
      volumes: [{ name: 'v', configMap: { name: 'm', nme: 'x' } }],
    },
  }
  const { known, unknown } = decodedByGoType('v1', 'Pod', pod)
  assert.deepEqual(unknown, [
    'metadata.own',
    'spec.containers[1].livenessProbe.httpGet.prt',
    'spec.containers[1].img',
    'spec.volumes[0].configMap.nme',
  ])
  assert.deepEqual(decodedByGoType('v1', 'Pod', known), { known, unknown: [] })
  assert.equal(decodedByGoType('v1', 'Pod', known).known, known)
  assert.deepEqual(decodedByGoType('example.com/v1', 'Widget', pod), { known: pod, unknown: [] })
})

test('a value that the Go type of a kind cannot hold is refused; null in a list becomes an empty value', () => {
  const wrong: readonly (readonly [object, string])[] = [
    [{ status: { containerStatuses: 'x' } }, 'string into field status.containerStatuses of type list'],
    [{ status: { conditions: [1] } }, 'number into field status.conditions[0] of type object'],
    [{ spec: { nodeName: {} } }, 'object into field spec.nodeName of type string'],
    [{ spec: { hostNetwork: 'yes' } }, 'string into field spec.hostNetwork of type bool'],
    [{ spec: { priority: 1.5 } }, 'number into field spec.priority of type integer'],
    [{ spec: { nodeSelector: { a: 1 } } }, 'number into field spec.nodeSelector[a] of type string'],
    [{ spec: { nodeSelector: [] } }, 'array into field spec.nodeSelector of type map'],
    [{ spec: [[]] }, 'array into field spec of type object'],
    [{ metadata: { creationTimestamp: 1 } }, 'number into field metadata.creationTimestamp of type time'],
  ]
  for (const [pod, message] of wrong) {
    assert.throws(() => decodedByGoType('v1', 'Pod', { ...pod }), new GoTypeError(`json: cannot unmarshal ${message}`))
  }
  const time = { status: { startTime: 'x' } }
  assert.throws(() => decodedByGoType('v1', 'Pod', time), /^GoTypeError: parsing time "x"/)
  const nulls = { spec: { containers: [null], nodeName: null }, status: { hostIPs: [{ ip: 'i' }, null] } }
  assert.deepEqual(decodedByGoType('v1', 'Pod', nulls).known, {
    spec: { containers: [{}], nodeName: null },
    status: { hostIPs: [{ ip: 'i' }, {}] },
  })
})
