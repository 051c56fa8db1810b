import assert from 'node:assert/strict'
import { bytes, created, type EtcdContractCase, patient, text } from './contract-case.ts'

const options = { signal: patient }

/** Single keys: create, update, delete and get. */
export const keyCases: readonly EtcdContractCase[] = [
  {
    name: 'get returns undefined for a key that does not exist',
    async run({ etcd, prefix }) {
      assert.equal(await etcd.get(`${prefix}none`, patient), undefined)
    },
  },
  {
    name: 'get returns the value and the revision of a created key, and 0 for its lease',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}a`, 'one')
      const found = await etcd.get(`${prefix}a`, patient)
      assert.deepEqual(
        { ...found, value: text(found?.value) },
        { key: `${prefix}a`, value: 'one', modRevision: revision, lease: 0n },
      )
    },
  },
  {
    name: 'create returns undefined for a key that exists, and does not change the key',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}a`, 'one')
      assert.equal(await etcd.create(`${prefix}a`, bytes('two'), options), undefined)
      const found = await etcd.get(`${prefix}a`, patient)
      assert.deepEqual([text(found?.value), found?.modRevision], ['one', revision])
    },
  },
  {
    name: 'an update with the current revision stores the value and returns a higher revision',
    async run({ etcd, prefix }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      const second = await etcd.update(`${prefix}a`, bytes('two'), first, options)
      assert.ok(second !== undefined && second > first)
      const found = await etcd.get(`${prefix}a`, patient)
      assert.deepEqual([text(found?.value), found?.modRevision], ['two', second])
    },
  },
  {
    name: 'an update with an old revision returns undefined and changes nothing',
    async run({ etcd, prefix }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      const second = await etcd.update(`${prefix}a`, bytes('two'), first, options)
      assert.equal(await etcd.update(`${prefix}a`, bytes('three'), first, options), undefined)
      const found = await etcd.get(`${prefix}a`, patient)
      assert.deepEqual([text(found?.value), found?.modRevision], ['two', second])
    },
  },
  {
    name: 'an update does not create a deleted key again',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}a`, 'one')
      assert.equal(await etcd.delete(`${prefix}a`, revision, patient), true)
      assert.equal(await etcd.update(`${prefix}a`, bytes('two'), revision, options), undefined)
      assert.equal(await etcd.get(`${prefix}a`, patient), undefined)
    },
  },
  {
    name: 'a delete with the current revision returns true, and false when it is repeated',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}a`, 'one')
      assert.equal(await etcd.delete(`${prefix}a`, revision, patient), true)
      assert.equal(await etcd.get(`${prefix}a`, patient), undefined)
      assert.equal(await etcd.delete(`${prefix}a`, revision, patient), false)
    },
  },
  {
    name: 'a delete with an old revision returns false and deletes nothing',
    async run({ etcd, prefix }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      const second = await etcd.update(`${prefix}a`, bytes('two'), first, options)
      assert.equal(await etcd.delete(`${prefix}a`, first, patient), false)
      assert.equal((await etcd.get(`${prefix}a`, patient))?.modRevision, second)
    },
  },
  {
    name: 'a delete returns false for a key that never existed',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}other`, 'one')
      assert.equal(await etcd.delete(`${prefix}never`, revision, patient), false)
    },
  },
  {
    name: 'a deleted key can be created again, with a higher revision',
    async run({ etcd, prefix }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      await etcd.delete(`${prefix}a`, first, patient)
      const second = await created(etcd, `${prefix}a`, 'two')
      assert.ok(second > first)
      assert.equal(await etcd.update(`${prefix}a`, bytes('three'), first, options), undefined)
    },
  },
  {
    name: 'values are read byte for byte as written: empty, all 256 bytes, and 1.3 MB',
    async run({ etcd, prefix }) {
      const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte)
      for (const [name, value] of [
        ['empty', new Uint8Array()],
        ['every-byte', everyByte],
        ['large', new Uint8Array(1_300_000).fill(0xa5)],
      ] as const) {
        const revision = await etcd.create(`${prefix}${name}`, value, options)
        assert.ok(revision !== undefined)
        const found = await etcd.get(`${prefix}${name}`, patient)
        assert.ok(found !== undefined && Buffer.from(value).equals(found.value), `${name} differs`)
      }
    },
  },
  {
    name: 'changes of arrays that were passed in or returned do not change the stored value',
    async run({ etcd, prefix }) {
      const value = bytes('one')
      await etcd.create(`${prefix}a`, value, options)
      value.fill(0)
      const read = await etcd.get(`${prefix}a`, patient)
      read?.value.fill(1)
      assert.equal(text((await etcd.get(`${prefix}a`, patient))?.value), 'one')
    },
  },
  {
    name: 'exactly one of twenty concurrent updates from two clients succeeds',
    async run({ etcd, another, prefix }) {
      const clients = [etcd, another()]
      const first = await created(etcd, `${prefix}a`, 'first')
      const puts = Array.from({ length: 20 }, async (_, index) => {
        const client = clients[index % 2] as typeof etcd
        return client.update(`${prefix}a`, bytes(`${index}`), first, options)
      })
      const revisions = await Promise.all(puts)
      const winners = revisions.flatMap((revision, index) => (revision === undefined ? [] : [{ revision, index }]))
      assert.equal(winners.length, 1)
      const found = await etcd.get(`${prefix}a`, patient)
      assert.deepEqual([text(found?.value), found?.modRevision], [`${winners[0]?.index}`, winners[0]?.revision])
    },
  },
  {
    name: 'exactly one of twenty concurrent creates of one key succeeds',
    async run({ etcd, prefix }) {
      const creates = Array.from({ length: 20 }, (_, index) => etcd.create(`${prefix}a`, bytes(`${index}`), options))
      const winners = (await Promise.all(creates)).filter((revision) => revision !== undefined)
      assert.equal(winners.length, 1)
      assert.equal((await etcd.get(`${prefix}a`, patient))?.modRevision, winners[0])
    },
  },
]
