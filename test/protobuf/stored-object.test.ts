import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { create, type DescMessage, type Message, toBinary } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { EndpointsSchema, RangeAllocationSchema } from '../../src/protobuf/gen/k8s.io/api/core/v1/generated_pb.ts'
import { UnknownSchema } from '../../src/protobuf/gen/k8s.io/apimachinery/pkg/runtime/generated_pb.ts'
import { asGoWrites } from '../../src/protobuf/go-message.ts'
import { decodeStored, encodeStored, type StoredKind } from '../../src/protobuf/stored-object.ts'
import { randomEndpoints, randomRangeAllocations } from './random-objects.ts'

const endpoints: StoredKind<typeof EndpointsSchema> = { apiVersion: 'v1', kind: 'Endpoints', schema: EndpointsSchema }
const rangeAllocation: StoredKind<typeof RangeAllocationSchema> = {
  apiVersion: 'v1',
  kind: 'RangeAllocation',
  schema: RangeAllocationSchema,
}

/** A value that states this kind, whatever `raw` is. */
function envelope(raw: Uint8Array, typeMeta = { apiVersion: 'v1', kind: 'Endpoints' }): Buffer {
  return Buffer.concat([Buffer.from('k8s\0'), toBinary(UnknownSchema, create(UnknownSchema, { typeMeta, raw }))])
}

/** Why a value cannot be read; undefined if it can. */
function reasonFor(value: Uint8Array): string | undefined {
  const stored = decodeStored(endpoints, value)
  return stored.type === 'unreadable' ? stored.reason : undefined
}

const sample = encodeStored(
  endpoints,
  asGoWrites(EndpointsSchema, create(EndpointsSchema, { subsets: [{ addresses: [{ ip: '192.0.2.1' }] }] })),
)

describe('a decoded value encodes to the same bytes', () => {
  const readsBack = <Desc extends DescMessage>(kind: StoredKind<Desc>, objects: fc.Arbitrary<Message>): void => {
    const property = fc.property(objects, fc.boolean(), (object, whole) => {
      const message = object as Parameters<typeof encodeStored<Desc>>[1]
      const value = encodeStored(kind, whole ? asGoWrites(kind.schema, message) : message)
      const stored = decodeStored(kind, value)
      assert.equal(stored.type, 'protobuf')
      if (stored.type !== 'protobuf') return
      assert.deepEqual(Buffer.from(encodeStored(kind, stored.object, stored.envelope)), Buffer.from(value))
    })
    fc.assert(property, { numRuns: 500 })
  }
  test('Endpoints', () => readsBack(endpoints, randomEndpoints))
  test('RangeAllocation', () => readsBack(rangeAllocation, randomRangeAllocations))

  test('unknown fields in the object and in its envelope', () => {
    const unknown = [0xfa, 0x3e, 3, 1, 2, 3]
    const raw = [...toBinary(EndpointsSchema, create(EndpointsSchema, { subsets: [{}] })), ...unknown]
    const value = Buffer.concat([envelope(Uint8Array.from(raw)), Buffer.from(unknown)])
    const stored = decodeStored(endpoints, value)
    assert.equal(stored.type, 'protobuf')
    if (stored.type === 'protobuf') {
      assert.deepEqual(Buffer.from(encodeStored(endpoints, stored.object, stored.envelope)), value)
    }
  })
})

describe('an unreadable value yields the reason', () => {
  const values: readonly (readonly [string, Uint8Array, string])[] = [
    ['nothing', new Uint8Array(), 'is empty'],
    ['only the magic number', Buffer.from('k8s\0'), 'holds "" "", not v1 Endpoints'],
    ['half the magic number', Buffer.from('k8'), 'is neither protobuf nor JSON'],
    ['another magic', Buffer.from('k9s\0'), 'is neither protobuf nor JSON'],
    ['text', Buffer.from('192.0.2.1'), 'is neither protobuf nor JSON'],
    ['a value encrypted at rest', Buffer.from('k8s:enc:aescbc:v1:key1:\x01\x02'), 'is encrypted (aescbc)'],
    [
      'another kind',
      envelope(Buffer.of(), { apiVersion: 'v1', kind: 'Service' }),
      'holds "v1" "Service", not v1 Endpoints',
    ],
    [
      'a kind that is not a name',
      envelope(Buffer.of(), { apiVersion: 'v1', kind: `\n${'x'.repeat(1000)}` }),
      `holds "v1" "\\n${'x'.repeat(59)}", not v1 Endpoints`,
    ],
    ['an object that ends early', envelope(Buffer.of(0x12, 9, 1)), 'is truncated or damaged protobuf'],
    ['a field of another type', envelope(Buffer.of(0x10, 0)), 'is protobuf, but not a valid Kubernetes object'],
    [
      'an inner length beyond the outer one',
      envelope(Buffer.of(0x12, 2, 0x0a, 3, 0x0a, 1, 0x41)),
      'is protobuf, but not a valid Kubernetes object',
    ],
    [
      'text that is not UTF-8',
      envelope(Buffer.of(0x0a, 3, 0x0a, 1, 0xff)),
      'is protobuf, but not a valid Kubernetes object',
    ],
    ['JSON that ends early', Buffer.from('{"kind":"Endpoints"'), 'begins like JSON but is not valid JSON'],
    ['JSON of another kind', Buffer.from('{"kind":"List"}'), 'holds "" "List", not v1 Endpoints'],
    ['too much', Buffer.alloc(3_000_000, 'k8s\0'), 'has 3000000 bytes, more than 2097152'],
  ]
  for (const [name, value, reason] of values) test(name, () => assert.equal(reasonFor(value), reason))

  test('every truncation before the end of the object', () => {
    const endOfObject = sample.lastIndexOf(0x1a) // contentEncoding comes after it
    for (let length = 0; length < endOfObject; length++) assert.ok(reasonFor(sample.subarray(0, length)), `${length}`)
  })
})

test('JSON is recognised and parsed', () => {
  const object = { kind: 'Endpoints', apiVersion: 'v1', subsets: [{ addresses: [{ ip: '192.0.2.1' }] }] }
  assert.deepEqual(decodeStored(endpoints, Buffer.from(`${JSON.stringify(object)}\n`)), { type: 'json', object })
})

test('10,000 damaged values each encode to the same bytes again, or are refused with a one-line reason', () => {
  const original = fc.oneof(
    randomEndpoints.map((object) => encodeStored(endpoints, object)),
    fc.constant(sample),
    fc.constant(Buffer.from('{"kind":"Endpoints","apiVersion":"v1"}')),
  )
  const edit = fc.record({
    at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    remove: fc.nat(2),
    insert: fc.uint8Array({ maxLength: 2 }),
  })
  const damaged = fc
    .tuple(original, fc.array(edit, { minLength: 1, maxLength: 3 }))
    .map(([value, edits]) => edits.reduce<Uint8Array>(edited, value))
  const outcomes = { protobuf: 0, json: 0, unreadable: 0 }
  const property = fc.property(fc.oneof({ weight: 9, arbitrary: damaged }, fc.uint8Array()), (value) => {
    const stored = decodeStored(endpoints, value)
    outcomes[stored.type]++
    if (stored.type === 'unreadable') assert.match(stored.reason, /^[^\n]{5,200}$/)
    if (stored.type !== 'protobuf') return
    assert.deepEqual(Buffer.from(encodeStored(endpoints, stored.object, stored.envelope)), Buffer.from(value))
  })
  fc.assert(property, { numRuns: 10_000 })
  // Otherwise the values would be damaged too much or too little to test anything.
  for (const count of Object.values(outcomes)) assert.ok(count > 50, JSON.stringify(outcomes))
})

function edited(
  value: Uint8Array,
  { at, remove, insert }: { readonly at: number; readonly remove: number; readonly insert: Uint8Array },
): Uint8Array {
  const position = Math.floor(at * value.length)
  return Buffer.concat([value.subarray(0, position), insert, value.subarray(position + remove)])
}
