import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import {
  createRequest,
  deleteRequest,
  getRequest,
  keyBytes,
  listRequest,
  prefixEnd,
  updateRequest,
  watchRequest,
} from '../../src/etcd/requests.ts'
import { RangeRequestSchema, TxnRequestSchema } from '../../src/protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'

test('the end of a prefix is the first key after all those that begin with it', () => {
  const cases: readonly (readonly [prefix: readonly number[], end: readonly number[]])[] = [
    [
      [0x2f, 0x61, 0x2f],
      [0x2f, 0x61, 0x30],
    ],
    [[0x61], [0x62]],
    [[0x61, 0xff], [0x62]],
    [[0x61, 0xff, 0xff], [0x62]],
    [[0x00], [0x01]],
    [[0xfe, 0xff], [0xff]],
  ]
  for (const [prefix, end] of cases) assert.deepEqual([...prefixEnd(Uint8Array.from(prefix))], end)
  for (const prefix of [[], [0xff], [0xff, 0xff]]) {
    assert.throws(() => prefixEnd(Uint8Array.from(prefix)), new RangeError('a prefix must have a byte below 0xff'))
  }
})

// What etcd's client/v3/kubernetes v3.6.8 sends, recorded as the bytes that its KVClient received.
test("requests are byte for byte those of etcd's client for Kubernetes", () => {
  const key = keyBytes('/a')
  const stored = { value: keyBytes('v'), lease: 7n }
  const range = (request: ReturnType<typeof getRequest>): string =>
    hex(toBinary(RangeRequestSchema, create(RangeRequestSchema, request)))
  const txn = (request: ReturnType<typeof createRequest>): string =>
    hex(toBinary(TxnRequestSchema, create(TxnRequestSchema, request)))
  assert.equal(range(getRequest(key)), '0a022f611801')
  assert.equal(range(listRequest(keyBytes('/a/'), 5n)), '0a032f612f12032f61302005')
  assert.equal(txn(createRequest(key, stored)), '0a0810021a022f613000120b12090a022f611201761807')
  assert.equal(txn(updateRequest(key, stored, 9n)), '0a0810021a022f613009120b12090a022f6112017618071a060a040a022f61')
  assert.equal(txn(deleteRequest(key, 9n)), '0a0810021a022f61300912061a040a022f611a060a040a022f61')
})

test('a watch request for a prefix has a start revision and requests previous values and fragments', () => {
  const { requestUnion } = watchRequest(keyBytes('/a/'), 12n)
  assert.deepEqual(requestUnion, {
    case: 'createRequest',
    value: { key: keyBytes('/a/'), rangeEnd: keyBytes('/a0'), startRevision: 12n, prevKv: true, fragment: true },
  })
})

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
