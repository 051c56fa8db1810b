import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import {
  Compare_CompareResult,
  Compare_CompareTarget,
  TxnRequestSchema,
} from '../../src/protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import { EndpointsSchema } from '../../src/protobuf/gen/k8s.io/api/core/v1/generated_pb.ts'
import { UnknownSchema } from '../../src/protobuf/gen/k8s.io/apimachinery/pkg/runtime/generated_pb.ts'

test('Endpoints in an Unknown envelope encode to the expected bytes', () => {
  const unknown = create(UnknownSchema, {
    typeMeta: { apiVersion: 'v1', kind: 'Endpoints' },
    raw: toBinary(EndpointsSchema, create(EndpointsSchema, { subsets: [{ addresses: [{ ip: '192.0.2.1' }] }] })),
  })
  // Field numbers and wire types by hand: typeMeta 1 { apiVersion 1, kind 2 },
  // raw 2 { subsets 2 { addresses 1 { ip 1 } } }.
  const expected = Buffer.concat([
    Buffer.from([0x0a, 15, 0x0a, 2]),
    Buffer.from('v1'),
    Buffer.from([0x12, 9]),
    Buffer.from('Endpoints'),
    Buffer.from([0x12, 15, 0x12, 13, 0x0a, 11, 0x0a, 9]),
    Buffer.from('192.0.2.1'),
  ])
  assert.deepEqual(Buffer.from(toBinary(UnknownSchema, unknown)), expected)
})

test('a field that the vendored definition does not have survives a round trip', () => {
  const unknownField = [0xfa, 0x3e, 3, 1, 2, 3]
  const bytes = Uint8Array.from([
    ...toBinary(EndpointsSchema, create(EndpointsSchema, { metadata: { name: 'kubernetes' } })),
    ...unknownField,
  ])
  assert.deepEqual(toBinary(EndpointsSchema, fromBinary(EndpointsSchema, bytes)), bytes)
})

test('64-bit numbers of etcd survive a round trip with every digit', () => {
  const revision = 2n ** 62n + 1n
  const compare = {
    result: Compare_CompareResult.EQUAL,
    target: Compare_CompareTarget.MOD,
    targetUnion: { case: 'modRevision', value: revision },
  } as const
  const bytes = toBinary(TxnRequestSchema, create(TxnRequestSchema, { compare: [compare] }))
  assert.equal(fromBinary(TxnRequestSchema, bytes).compare[0]?.targetUnion.value, revision)
})
