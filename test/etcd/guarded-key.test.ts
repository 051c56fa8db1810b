import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GuardedKey } from '../../src/etcd/guarded-key.ts'
import { EtcdError } from '../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import { faultyEtcd } from '../../src/etcd/memory-etcd-faults.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

test('a stored write whose response was lost counts as unanswered until a later write is answered', async () => {
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

test('after a delete, even one without an answer, the key is created as one that does not exist', async () => {
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

test('of repeatedly failed writes only the last 256 are remembered as unanswered', async () => {
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
