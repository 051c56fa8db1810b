import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import {
  EndpointAddressSchema,
  EndpointSubsetSchema,
  EndpointsSchema,
} from '../../src/protobuf/gen/k8s.io/api/core/v1/generated_pb.ts'
import { ObjectMetaSchema } from '../../src/protobuf/gen/k8s.io/apimachinery/pkg/apis/meta/v1/generated_pb.ts'
import { TypeMetaSchema, UnknownSchema } from '../../src/protobuf/gen/k8s.io/apimachinery/pkg/runtime/generated_pb.ts'
import { decodeMasterLease, encodeMasterLease, type ProtobufMasterLease } from '../../src/protobuf/master-lease.ts'
import { withOddField } from './odd-lease.ts'

/** What kube-apiserver 1.36.3 stored for `--advertise-address=192.0.2.7` when it had started. */
const written =
  '6b3873000a0f0a0276311209456e64706f696e747312230a100a0012001a0022002a00320038014200120f0a0d0a093139322e302e322e371a001a002200'

function hex(value: Uint8Array): string {
  return Buffer.from(value).toString('hex')
}

function read(value: Uint8Array): ProtobufMasterLease {
  const lease = decodeMasterLease(value)
  assert.equal(lease.type, 'protobuf', lease.type === 'unreadable' ? lease.reason : lease.type)
  return lease as ProtobufMasterLease
}

test('a new lease has the bytes that kube-apiserver writes', () => {
  assert.equal(hex(encodeMasterLease('192.0.2.7')), written)
})

test('a lease of kube-apiserver is read, and its renewal changes only the generation', () => {
  const lease = read(Buffer.from(written, 'hex'))
  assert.equal(lease.address, '192.0.2.7')
  assert.equal(lease.generation, 1n)
  // Field 7, the generation, is the only thing that changes.
  assert.equal(hex(encodeMasterLease('192.0.2.7', lease)), written.replace('3801', '3802'))
})

test('a renewed lease has a single subset with the given address alone, whatever the lease had before', () => {
  const before = value({ subsets: [{ addresses: [{ ip: '192.0.2.8' }, { ip: '192.0.2.7' }] }, {}] })
  const renewed = read(encodeMasterLease('192.0.2.7', read(before)))
  assert.equal(renewed.address, '192.0.2.7')
  assert.deepEqual(
    renewed.stored.object.subsets.map(({ addresses }) => addresses.map(({ ip }) => ip)),
    [['192.0.2.7']],
  )
})

test('the generation overflows as in Go', () => {
  const before = value({ metadata: { generation: 2n ** 63n - 1n } })
  assert.equal(read(encodeMasterLease('192.0.2.7', read(before))).generation, -(2n ** 63n))
})

test('a lease without subsets or without addresses is read as a lease without an address', () => {
  assert.equal(read(value({})).address, undefined)
  assert.equal(read(value({ subsets: [{}] })).address, undefined)
})

test('unknown fields survive a renewal on every level', () => {
  const unknown = (name: string) => [{ no: 1000, wireType: 2 as const, data: Buffer.from(`\x07${name.padEnd(7)}`) }]
  const object = create(EndpointsSchema)
  object.$unknown = unknown('object')
  object.metadata = create(ObjectMetaSchema)
  object.metadata.$unknown = unknown('meta')
  const address = create(EndpointAddressSchema, { ip: '192.0.2.7' })
  address.$unknown = unknown('address')
  const subset = create(EndpointSubsetSchema, { addresses: [address] })
  subset.$unknown = unknown('subset')
  object.subsets = [subset]
  const envelope = create(UnknownSchema, { raw: toBinary(EndpointsSchema, object) })
  envelope.$unknown = unknown('envelop')
  envelope.typeMeta = create(TypeMetaSchema, { apiVersion: 'v1', kind: 'Endpoints' })
  envelope.typeMeta.$unknown = unknown('type')

  const before = Buffer.concat([Buffer.from('k8s\0'), toBinary(UnknownSchema, envelope)])
  const renewed = Buffer.from(encodeMasterLease('192.0.2.7', read(before)))
  for (const name of ['object', 'meta', 'address', 'subset', 'envelop', 'type']) {
    assert.equal(count(renewed, name), 1, name)
  }
})

test('neither reading nor renewing modifies the lease that was read', () => {
  const bytes = Buffer.from(written, 'hex')
  const lease = read(bytes)
  const first = hex(encodeMasterLease('192.0.2.9', lease))
  assert.equal(hex(encodeMasterLease('192.0.2.9', lease)), first)
  assert.equal(lease.address, '192.0.2.7')
  assert.equal(hex(bytes), written)
})

describe('values that are not protobuf leases', () => {
  test('JSON is recognised', () => {
    const json = '{"kind":"Endpoints","apiVersion":"v1","subsets":[{"addresses":[{"ip":"192.0.2.1"}]}]}'
    assert.deepEqual(decodeMasterLease(Buffer.from(json)), { type: 'json' })
  })
  test('any other value is unreadable', () => {
    const reason = 'is neither protobuf nor JSON'
    assert.deepEqual(decodeMasterLease(Buffer.from('192.0.2.1')), { type: 'unreadable', reason, address: undefined })
  })
})

test('the address is read even from a value that cannot be encoded to the same bytes', () => {
  assert.deepEqual(decodeMasterLease(withOddField('192.0.2.7')), {
    type: 'unreadable',
    reason: 'is protobuf, but not a valid Kubernetes object',
    address: '192.0.2.7',
  })
})

/** A value with just these fields. */
function value(init: Parameters<typeof create<typeof EndpointsSchema>>[1]): Uint8Array {
  const raw = toBinary(EndpointsSchema, create(EndpointsSchema, init))
  const envelope = create(UnknownSchema, { typeMeta: { apiVersion: 'v1', kind: 'Endpoints' }, raw })
  return Buffer.concat([Buffer.from('k8s\0'), toBinary(UnknownSchema, envelope)])
}

function count(bytes: Buffer, text: string): number {
  return bytes.toString('latin1').split(text.padEnd(7)).length - 1
}
