import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { EtcdError } from '../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import { faultyEtcd } from '../../src/etcd/memory-etcd-faults.ts'
import {
  createRequest,
  deleteRequest,
  GuardedKey,
  getRequest,
  keyBytes,
  listRequest,
  prefixEnd,
  updateRequest,
  watchRequest,
} from '../../src/etcd/requests.ts'
import { RangeRequestSchema, TxnRequestSchema } from '../../src/protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

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

// What etcd's client/v3/kubernetes v3.6.8 sends, taken down as the bytes that its KVClient was given.
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

test('a watch of a prefix begins at a revision and brings what was stored before', () => {
  const { requestUnion } = watchRequest(keyBytes('/a/'), 12n)
  assert.deepEqual(requestUnion, {
    case: 'createRequest',
    value: { key: keyBytes('/a/'), rangeEnd: keyBytes('/a0'), startRevision: 12n, prevKv: true },
  })
})

/** An etcd that carries out every request. Its answers are lost while `losing.answers` is true. */
function etcdThatLosesAnswers(flavour: 'etcd' | 'kine') {
  const clock = new VirtualClock().view()
  const losing = { answers: false }
  const etcd = faultyEtcd(new MemoryEtcd({ clock, flavour }).client(), {
    clock,
    after: () => {
      if (losing.answers) throw new EtcdError('Timeout', 'no answer')
      return undefined
    },
  })
  return { etcd, losing }
}

test('a write whose answer was lost is one’s own until a later one is answered', async () => {
  const { etcd, losing } = etcdThatLosesAnswers('kine')
  losing.answers = true
  const { signal } = new AbortController()
  const key = new GuardedKey(etcd, '/a')
  const value = Buffer.from('lease')
  await assert.rejects(key.put(value, 15n, undefined, signal))
  losing.answers = false
  const stored = await key.read(signal)
  assert.ok(stored !== undefined && key.isUnanswered(stored))
  assert.equal(await key.put(value, 15n, stored, signal), true)
  // On kine another process may write the same bytes with the same TTL.
  assert.equal(key.isUnanswered(stored), false)
})

test('a key that this process has deleted, or may have, is written anew as one that does not exist', async () => {
  const { etcd, losing } = etcdThatLosesAnswers('etcd')
  const { signal } = new AbortController()
  const key = new GuardedKey(etcd, '/a')
  const value = Buffer.from('lease')
  for (const lost of [false, true]) {
    assert.equal(await key.put(value, 0n, undefined, signal), true)
    const { last } = key
    assert.ok(last !== undefined)
    losing.answers = lost
    await key.delete(last, signal).catch(() => {})
    losing.answers = false
    assert.equal(key.last, undefined)
  }
})

test('of writes that fail again and again only the last ones are remembered, which may still happen', async () => {
  const etcd = faultyEtcd(new MemoryEtcd({ clock: new VirtualClock().view() }).client(), {
    clock: new VirtualClock().view(),
    async before() {
      throw new EtcdError('PermissionDenied', 'etcdserver: permission denied')
    },
  })
  const { signal } = new AbortController()
  const key = new GuardedKey(etcd, '/a')
  const value = Buffer.from('record')
  const sent = Array.from({ length: 1_000 }, (_, index) => ({
    key: '/a',
    value,
    lease: BigInt(index),
    modRevision: 1n,
  }))
  for (const { lease } of sent) await assert.rejects(key.put(value, lease, undefined, signal))
  const remembered = sent.filter((one) => key.isUnanswered(one))
  assert.deepEqual(remembered, sent.slice(-256))
})

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
