import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ProtobufError } from '../../src/protobuf/go-json.ts'
import { trimmedReader } from '../../src/protobuf/trimmed-objects.ts'
import { enveloped, message, type Part, unknownParts } from './message.ts'

// Random Pods, Nodes and Services, made by Go: test/real/stored-bytes.test.ts.

const reader = trimmedReader('core/v1.Service', {
  metadata: { name: true, resourceVersion: true, labels: true, creationTimestamp: true },
  spec: { type: true, clusterIPs: true, ports: { port: true, targetPort: true } },
})

/** A Service with fields that are read, fields that are not read, and unknown fields. */
const service: readonly Part[] = [
  [
    1,
    [
      [1, 'a'],
      [3, 'default'],
      [6, '7'],
      [8, [[1, 1_700_000_000]]],
      [
        11,
        [
          [1, '__proto__'],
          [2, 'x'],
        ],
      ],
      [11, [[1, 'empty']]],
    ],
  ],
  [
    2,
    [
      [
        1,
        [
          [2, 'TCP'],
          [3, 80],
          [
            4,
            [
              [1, 1],
              [3, 'web'],
            ],
          ],
        ],
      ],
      [4, 'ClusterIP'],
      [18, '192.0.2.1'],
      [18, '2001:db8::1'],
      [999, 'of a newer server'],
      [998, 5],
    ],
  ],
]
function labelsWith(more: object): object {
  return Object.defineProperty({ empty: '', ...more }, '__proto__', { value: 'x', enumerable: true })
}

const labels = labelsWith({})
const shown = {
  metadata: { name: 'a', resourceVersion: '7', labels, creationTimestamp: '2023-11-14T22:13:20Z' },
  spec: { type: 'ClusterIP', clusterIPs: ['192.0.2.1', '2001:db8::1'], ports: [{ port: 80, targetPort: 'web' }] },
}

function event(type: string, object: Buffer): Buffer {
  return message([1, type], [2, [[1, object]]])
}

test('a list has only the requested fields, in the form of JSON', () => {
  const list = message(
    [
      1,
      [
        [2, '100'],
        [3, 'token'],
        [4, 17],
      ],
    ],
    [2, service],
    [2, []],
  )
  assert.deepEqual(reader.answer(enveloped('v1', 'ServiceList', list)), {
    metadata: { resourceVersion: '100', continue: 'token' },
    items: [shown, {}],
  })
})

test('unknown fields of each wire type are skipped, also around the object and in entries of maps', () => {
  const [metadata, spec] = service as readonly (readonly [number, readonly Part[]])[]
  const entry: readonly Part[] = [[1, 'app'], [2, 'web'], ...unknownParts]
  const object: readonly Part[] = [
    [1, [...(metadata?.[1] ?? []), [11, entry], [8, [...unknownParts, [1, 1_700_000_000]]], ...unknownParts]],
    [2, [...unknownParts, ...(spec?.[1] ?? [])]],
    ...unknownParts,
  ]
  const inEnvelope = (kind: string, raw: Buffer): Buffer => {
    const type: readonly Part[] = [...unknownParts, [1, 'v1'], [2, kind]]
    return Buffer.concat([Buffer.from('k8s\0'), message([1, type], ...unknownParts, [2, raw])])
  }
  const expected = { ...shown, metadata: { ...shown.metadata, labels: labelsWith({ app: 'web' }) } }
  assert.deepEqual(reader.answer(inEnvelope('ServiceList', message(...unknownParts, [2, object]))), {
    metadata: {},
    items: [expected],
  })
  const sent: readonly Part[] = [...unknownParts, [1, inEnvelope('Service', message(...object))]]
  assert.deepEqual(reader.event(message([1, 'ADDED'], ...unknownParts, [2, sent])), {
    type: 'ADDED',
    object: { apiVersion: 'v1', kind: 'Service', ...expected },
  })
})

test('a watch event has the kind of its object, a bookmark has its annotations, an error is a Status', () => {
  const type = { apiVersion: 'v1', kind: 'Service' }
  const sent = enveloped('v1', 'Service', message(...service))
  assert.deepEqual(reader.event(event('MODIFIED', sent)), { type: 'MODIFIED', object: { ...type, ...shown } })
  const metadata: readonly Part[] = [
    [6, '9'],
    [
      12,
      [
        [1, 'k8s.io/initial-events-end'],
        [2, 'true'],
      ],
    ],
  ]
  assert.deepEqual(reader.event(event('BOOKMARK', enveloped('v1', 'Service', message([1, metadata])))), {
    type: 'BOOKMARK',
    object: {
      ...type,
      metadata: { resourceVersion: '9', annotations: { 'k8s.io/initial-events-end': 'true' } },
    },
  })
  const status = message([3, 'too old resource version'], [4, 'Expired'], [6, 410])
  const gone = { apiVersion: 'v1', kind: 'Status', message: 'too old resource version', reason: 'Expired', code: 410 }
  assert.deepEqual(reader.event(event('ERROR', enveloped('v1', 'Status', status))), {
    type: 'ERROR',
    object: gone,
  })
  assert.deepEqual(reader.answer(enveloped('v1', 'Status', status)), gone)
})

test('truncated lists, except an empty one, and other kinds are refused; damaged bytes cause only ProtobufErrors', () => {
  const answer = (bytes: Uint8Array) => () => reader.answer(bytes)
  assert.throws(answer(Buffer.from('{}')), ProtobufError)
  assert.throws(answer(enveloped('v1', 'Service', message(...service))), /kind "Service", not a list/)
  const whole = enveloped('v1', 'ServiceList', message([2, service]))
  // The contents come last. Without them, a list is empty and has no resourceVersion.
  const noContents = enveloped('v1', 'ServiceList', Buffer.alloc(0)).length - 2
  for (let length = 0; length < whole.length; length++) {
    if (length === noContents) assert.deepEqual(answer(whole.subarray(0, length))(), { metadata: {}, items: [] })
    else assert.throws(answer(whole.subarray(0, length)), ProtobufError, String(length))
  }
  // A name that is a number, labels that are a number, and a group.
  for (const metadata of [message([1, 5]), message([11, 5]), Buffer.from([0x0b, 0x0c])]) {
    assert.throws(answer(enveloped('v1', 'ServiceList', message([2, [[1, metadata]]]))), ProtobufError)
  }
  const list = enveloped('v1', 'ServiceList', message([2, service], [2, service]))
  fc.assert(
    fc.property(fc.nat(list.length - 1), fc.nat(255), (at, byte) => {
      const spoiled = Buffer.from(list)
      spoiled[at] = byte
      try {
        reader.answer(spoiled)
      } catch (error) {
        assert.ok(error instanceof ProtobufError)
      }
    }),
    { numRuns: 2000 },
  )
})

test('a message with too many empty values is refused', () => {
  const empty = (count: number, item: readonly number[]): Buffer =>
    Buffer.concat(Array.from({ length: count }, () => Buffer.from(item)))
  const manyItems = enveloped('v1', 'ServiceList', empty(100_000, [0x12, 0]))
  assert.throws(() => reader.answer(manyItems), /^ProtobufError: the protobuf message has too many values/)
  // Labels, and ports of the spec.
  for (const fields of [message([1, empty(100_000, [0x5a, 0])]), message([2, empty(100_000, [0x0a, 0])])]) {
    assert.throws(() => reader.event(event('ADDED', enveloped('v1', 'Service', fields))), /too many values/)
  }
})

test('decoded objects share no memory with the input bytes', () => {
  const bytes = enveloped('v1', 'ServiceList', message([2, service]))
  const list = reader.answer(bytes) as { readonly items: readonly object[] }
  bytes.fill(0)
  assert.deepEqual(list.items, [shown])
})

test('a requested field that the message lacks, or that cannot be read whole or in parts, is a TypeError', () => {
  const made = (fields: Parameters<typeof trimmedReader>[1]) => () => trimmedReader('core/v1.Service', fields)
  assert.throws(made({ metadata: { nam: true } }), /^TypeError: meta\/v1.ObjectMeta has no field nam$/)
  assert.throws(made({ metadata: true }), /the field metadata of core\/v1.Service cannot be read whole/)
  assert.throws(made({ spec: { type: { name: true } } }), /the field type of .* cannot be read in parts/)
})
