import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startEtcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { revisionOf } from '../peers/stored-history.ts'
import { removeValue, storeValue } from '../peers/stored-values.ts'
import { followKeys } from '../peers/stored-versions.ts'

test('followKeys records every version of a key through kills of etcd and a compaction', async (t) => {
  const owner = openOwner(t)
  const etcd = await startEtcd(owner)
  await storeValue(etcd, '/a', Buffer.from('before'))
  const followed = await followKeys(owner, [etcd], ['/a', '/b'])
  const seen = (): readonly string[] => followed.versions.map(({ key, value }) => `${key} ${value ?? 'deleted'}`)
  await storeValue(etcd, '/b', Buffer.from('1'))
  await storeValue(etcd, '/a', Buffer.from('1'))
  await followed.caughtUp()

  await etcd.kill()
  await etcd.start()
  await storeValue(etcd, '/a', Buffer.from('2'))
  await followed.caughtUp()
  assert.deepEqual(seen().toSorted(), ['/a 1', '/a 2', '/b 1'])

  // When the watches start again, their last versions are older than the revisions that etcd still has.
  for (let index = 0; index < 5; index++) await storeValue(etcd, '/other', Buffer.from(String(index)))
  await etcd.compact(BigInt(await revisionOf(etcd)))
  await etcd.kill()
  await etcd.start()
  await storeValue(etcd, '/a', Buffer.from('3'))
  await removeValue(etcd, '/a')
  await storeValue(etcd, '/a', Buffer.from('4'))
  await followed.caughtUp()
  assert.deepEqual(seen().slice(-3), ['/a 3', '/a deleted', '/a 4'])
})
