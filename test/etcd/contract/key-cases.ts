import assert from 'node:assert/strict'
import { bytes, created, type EtcdContractCase, patient, text } from './contract-case.ts'

const options = { signal: patient }

/** Single keys: create, update, delete and get. */
export const keyCases: readonly EtcdContractCase[] = [
  {
    name: 'a key that does not exist is undefined',
    async run({ etcd, prefix }) {
      assert.equal(await etcd.get(`${prefix}none`, patient), undefined)
    },
  },
  {
    name: 'a created key is read with its value, its revision and no lease',
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
    name: 'a key that exists is not created again',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}a`, 'one')
      assert.equal(await etcd.create(`${prefix}a`, bytes('two'), options), undefined)
      const found = await etcd.get(`${prefix}a`, patient)
      assert.deepEqual([text(found?.value), found?.modRevision], ['one', revision])
    },
  },
  {
    name: 'an update at the right revision is stored under a later one',
    async run({ etcd, prefix }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      const second = await etcd.update(`${prefix}a`, bytes('two'), first, options)
      assert.ok(second !== undefined && second > first)
      const found = await etcd.get(`${prefix}a`, patient)
      assert.deepEqual([text(found?.value), found?.modRevision], ['two', second])
    },
  },
  {
    name: 'an update at an old revision changes nothing',
    async run({ etcd, prefix }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      const second = await etcd.update(`${prefix}a`, bytes('two'), first, options)
      assert.equal(await etcd.update(`${prefix}a`, bytes('three'), first, options), undefined)
      const found = await etcd.get(`${prefix}a`, patient)
      assert.deepEqual([text(found?.value), found?.modRevision], ['two', second])
    },
  },
  {
    name: 'an update does not bring back a key that is gone',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}a`, 'one')
      assert.equal(await etcd.delete(`${prefix}a`, revision, patient), true)
      assert.equal(await etcd.update(`${prefix}a`, bytes('two'), revision, options), undefined)
      assert.equal(await etcd.get(`${prefix}a`, patient), undefined)
    },
  },
  {
    name: 'a delete at the right revision deletes, once',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}a`, 'one')
      assert.equal(await etcd.delete(`${prefix}a`, revision, patient), true)
      assert.equal(await etcd.get(`${prefix}a`, patient), undefined)
      assert.equal(await etcd.delete(`${prefix}a`, revision, patient), false)
    },
  },
  {
    name: 'a delete at an old revision deletes nothing',
    async run({ etcd, prefix }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      const second = await etcd.update(`${prefix}a`, bytes('two'), first, options)
      assert.equal(await etcd.delete(`${prefix}a`, first, patient), false)
      assert.equal((await etcd.get(`${prefix}a`, patient))?.modRevision, second)
    },
  },
  {
    name: 'a key that never was cannot be deleted',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}other`, 'one')
      assert.equal(await etcd.delete(`${prefix}never`, revision, patient), false)
    },
  },
  {
    name: 'a deleted key can be created again, under a later revision',
    async run({ etcd, prefix }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      await etcd.delete(`${prefix}a`, first, patient)
      const second = await created(etcd, `${prefix}a`, 'two')
      assert.ok(second > first)
      assert.equal(await etcd.update(`${prefix}a`, bytes('three'), first, options), undefined)
    },
  },
  {
    name: 'a value comes back byte for byte, the empty one too',
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
    name: 'a stored value does not change with the array that it was put from',
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
    name: 'of twenty that compare and put at once exactly one wins',
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
    name: 'of twenty that create one key at once exactly one wins',
    async run({ etcd, prefix }) {
      const creates = Array.from({ length: 20 }, (_, index) => etcd.create(`${prefix}a`, bytes(`${index}`), options))
      const winners = (await Promise.all(creates)).filter((revision) => revision !== undefined)
      assert.equal(winners.length, 1)
      assert.equal((await etcd.get(`${prefix}a`, patient))?.modRevision, winners[0])
    },
  },
]
