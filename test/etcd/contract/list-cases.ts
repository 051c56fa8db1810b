import assert from 'node:assert/strict'
import type { PrefixSnapshot } from '../../../src/etcd/kv.ts'
import { bytes, created, type EtcdContractCase, patient, rejectsWith, text } from './contract-case.ts'

/** Prefixes, and revisions of the whole store. */
export const listCases: readonly EtcdContractCase[] = [
  {
    name: 'a list of a prefix without keys is empty and has a revision',
    async run({ etcd, prefix }) {
      const { revision, items } = await etcd.list(prefix, { signal: patient })
      assert.deepEqual(items, [])
      assert.ok(revision > 0n)
    },
  },
  {
    name: 'a list has all keys of the prefix, sorted, and the newest revision',
    async run({ etcd, prefix }) {
      const names = ['b', 'a', '192.0.2.10', '2001:db8::1', 'c/deeper', 'a0']
      let last = 0n
      for (const name of names) last = await created(etcd, `${prefix}${name}`, name)
      const { revision, items } = await etcd.list(prefix, { signal: patient })
      assert.ok(revision >= last)
      assert.deepEqual(
        items.map(({ key, value }) => [key, text(value)]),
        names.sort().map((name) => [`${prefix}${name}`, name]),
      )
      const found = await etcd.get(`${prefix}a0`, patient)
      assert.deepEqual(
        items.find(({ key }) => key === `${prefix}a0`),
        found,
      )
    },
  },
  {
    name: 'a list has no keys of similar prefixes',
    async run({ etcd, prefix }) {
      for (const name of [
        'x/1',
        'x/10',
        'x/1/deeper',
        'x',
        'x0',
        'x-',
        'y/1',
        'a_b/1',
        'axb/1',
        'p%/1',
        'pq/1',
        'X/1',
      ]) {
        await created(etcd, `${prefix}${name}`, name)
      }
      const under = async (name: string): Promise<readonly (string | undefined)[]> =>
        (await etcd.list(`${prefix}${name}`, { signal: patient })).items.map(({ value }) => text(value))
      assert.deepEqual(await under('x/'), ['x/1', 'x/1/deeper', 'x/10'])
      assert.deepEqual(await under('x/1/'), ['x/1/deeper'])
      assert.deepEqual(await under('a_b/'), ['a_b/1'])
      assert.deepEqual(await under('p%/'), ['p%/1'])
      assert.deepEqual(await under('X/'), ['X/1'])
      assert.equal(text((await etcd.get(`${prefix}x/1`, patient))?.value), 'x/1')
    },
  },
  {
    name: 'a list at an earlier revision shows the keys and values of that revision',
    async run({ etcd, prefix }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      const second = (await etcd.update(`${prefix}a`, bytes('two'), first, { signal: patient })) as bigint
      const third = await created(etcd, `${prefix}b`, 'one')
      await etcd.delete(`${prefix}a`, second, patient)
      const at = async (revision: bigint): Promise<unknown> => {
        const snapshot = await etcd.list(prefix, { revision, signal: patient })
        assert.equal(snapshot.revision, revision)
        return snapshot.items.map(({ key, value, modRevision }) => [key.slice(prefix.length), text(value), modRevision])
      }
      assert.deepEqual(await at(first), [['a', 'one', first]])
      assert.deepEqual(await at(second), [['a', 'two', second]])
      assert.deepEqual(await at(third), [
        ['a', 'two', second],
        ['b', 'one', third],
      ])
    },
  },
  {
    name: 'two prefixes read at one revision are one snapshot, also while another client writes',
    async run({ etcd, another, prefix }) {
      const writer = another()
      let writing = true
      const written = (async () => {
        let left = await created(writer, `${prefix}left/n`, '0')
        let right = await created(writer, `${prefix}right/n`, '0')
        for (let count = 1; writing; count++) {
          left = (await writer.update(`${prefix}left/n`, bytes(`${count}`), left, { signal: patient })) as bigint
          right = (await writer.update(`${prefix}right/n`, bytes(`${count}`), right, { signal: patient })) as bigint
        }
      })()
      const countIn = ({ items }: PrefixSnapshot): number => Number(text(items[0]?.value) ?? -1)
      const seen = new Set<number>()
      for (let round = 0; round < 100; round++) {
        const left = await etcd.list(`${prefix}left/`, { signal: patient })
        const right = await etcd.list(`${prefix}right/`, { revision: left.revision, signal: patient })
        // The left one is always written first.
        assert.ok([0, 1].includes(countIn(left) - countIn(right)), `${countIn(left)} beside ${countIn(right)}`)
        seen.add(countIn(left))
      }
      writing = false
      await written
      assert.ok(seen.size > 2, 'the other client wrote nothing during the reads')
    },
  },
  {
    name: 'a list has all of 300 keys',
    async run({ etcd, prefix }) {
      const names = Array.from({ length: 300 }, (_, index) => `${index}`.padStart(4, '0'))
      // Not all at once: kine writes one key after another, and each write must end within the time limit of a request.
      for (let from = 0; from < names.length; from += 20) {
        const some = names.slice(from, from + 20)
        await Promise.all(some.map((name) => created(etcd, `${prefix}${name}`, name.repeat(250))))
      }
      const { items } = await etcd.list(prefix, { signal: patient })
      assert.deepEqual(
        items.map(({ key }) => key.slice(prefix.length)),
        names,
      )
    },
  },
  {
    name: 'a list at a compacted or a future revision is refused with Compacted',
    async run({ etcd, prefix, compact }) {
      const first = await created(etcd, `${prefix}a`, 'one')
      const second = (await etcd.update(`${prefix}a`, bytes('two'), first, { signal: patient })) as bigint
      await rejectsWith('Compacted', etcd.list(prefix, { revision: second + 1_000_000n, signal: patient }))
      if (compact === undefined) return
      await compact(second)
      await rejectsWith('Compacted', etcd.list(prefix, { revision: first, signal: patient }))
      assert.equal((await etcd.list(prefix, { revision: second, signal: patient })).items.length, 1)
    },
  },
]
