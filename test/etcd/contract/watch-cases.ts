import assert from 'node:assert/strict'
import {
  bytes,
  created,
  type EtcdContractCase,
  patient,
  startWatching,
  summaryOf,
  text,
  until,
  watching,
} from './contract-case.ts'

/** Watches of a prefix. */
export const watchCases: readonly EtcdContractCase[] = [
  {
    name: 'a watch reports once that it is established and once that its keys must be read',
    async run(target, t) {
      await created(target.etcd, `${target.prefix}before`, 'one')
      const { log, changes, errors } = await watching(target, target.prefix, t)
      await target.pass(300)
      assert.deepEqual([log, changes, errors], [['established', 'read'], [], []])
    },
  },
  {
    name: 'a watch reports changes in the order of the writes, with previous values and revisions',
    async run(target, t) {
      const { etcd, prefix } = target
      const seen = await watching(target, prefix, t)
      const first = await created(etcd, `${prefix}a`, 'one')
      const second = (await etcd.update(`${prefix}a`, bytes('two'), first, { signal: patient })) as bigint
      const third = await created(etcd, `${prefix}b`, '')
      await etcd.delete(`${prefix}a`, second, patient)
      const last = await created(etcd, `${prefix}a`, 'three')
      await until(target, 'five changes', () => seen.changes.length >= 5)
      assert.deepEqual(seen.changes.map(summaryOf), [
        'created a one',
        'modified a one -> two',
        'created b',
        'deleted a two ->',
        'created a three',
      ])
      assert.ok(seen.changes.every(({ key }) => key.startsWith(prefix)))
      const revisions = seen.changes.map(({ modRevision }) => modRevision)
      const [deletion = 0n] = revisions.splice(3, 1)
      assert.deepEqual(revisions, [first, second, third, last])
      assert.ok(third < deletion && deletion < last, `${third} < ${deletion} < ${last}`)
    },
  },
  {
    name: 'a watch reports no writes that were refused',
    async run(target, t) {
      const { etcd, prefix } = target
      const revision = await created(etcd, `${prefix}a`, 'one')
      const seen = await watching(target, prefix, t)
      await etcd.create(`${prefix}a`, bytes('two'), { signal: patient })
      await etcd.update(`${prefix}a`, bytes('two'), revision - 1n, { signal: patient })
      await etcd.delete(`${prefix}a`, revision - 1n, patient)
      await created(etcd, `${prefix}end`, '')
      await until(target, 'the last change', () => seen.changes.length >= 1)
      assert.deepEqual(seen.changes.map(summaryOf), ['created end'])
    },
  },
  {
    name: 'a watch reports no changes of similar prefixes',
    async run(target, t) {
      const { etcd, prefix } = target
      const seen = await watching(target, `${prefix}x/`, t)
      for (const name of ['x', 'x0/1', 'y/1', 'x-/1', 'X/1', 'x/1']) await created(etcd, `${prefix}${name}`, name)
      await until(target, 'the change', () => seen.changes.length >= 1)
      await target.pass(200)
      assert.deepEqual(
        seen.changes.map(({ value }) => text(value)),
        ['x/1'],
      )
    },
  },
  {
    name: 'a list after the watch is established, together with the watch, has every key that was written meanwhile',
    async run(target, t) {
      const { another, etcd, prefix } = target
      const writer = another()
      for (let round = 0; round < 10; round++) {
        const here = `${prefix}${round}/`
        const seen = startWatching(target, here, t)
        const listed = new Set<string>()
        let count = 0
        for (; !seen.log.includes('read'); count++) {
          await created(writer, `${here}${count}`, '')
          assert.ok(count < 10_000, 'the watch does not open')
          await target.pass(1)
        }
        for (const { key } of (await etcd.list(here, { signal: patient })).items) listed.add(key)
        await created(writer, `${here}end`, '')
        await until(target, 'the last change', () => seen.changes.some(({ key }) => key.endsWith('/end')))
        for (const { key } of seen.changes) listed.add(key)
        assert.equal(listed.size, count + 1)
        await seen.end()
      }
    },
  },
  {
    name: 'a watch that ends does not affect another watch of the same client',
    async run(target, t) {
      const { etcd, prefix } = target
      const left = await watching(target, `${prefix}left/`, t)
      const right = await watching(target, `${prefix}right/`, t)
      await left.end()
      await created(etcd, `${prefix}left/a`, '')
      await created(etcd, `${prefix}right/a`, '')
      await until(target, 'the change', () => right.changes.length >= 1)
      assert.deepEqual([left.changes.map(summaryOf), right.changes.map(summaryOf)], [[], ['created a']])
    },
  },
  {
    name: 'a watch reports each of 200 concurrent creates exactly once',
    async run(target, t) {
      const { etcd, prefix } = target
      const seen = await watching(target, prefix, t)
      const names = Array.from({ length: 200 }, (_, index) => `${index}`)
      await Promise.all(names.map((name) => created(etcd, `${prefix}${name}`, name)))
      await until(target, 'all changes', () => seen.changes.length >= names.length)
      assert.deepEqual(new Set(seen.changes.map(({ value }) => text(value))), new Set(names))
      assert.equal(seen.changes.length, names.length)
    },
  },
  ...(['established', 'read', 'change'] as const).map(
    (what): EtcdContractCase => ({
      name: `a watch rejects with the error that its watcher throws at ${what}, and reports nothing more`,
      async run(target, t) {
        const { etcd, prefix } = target
        const stop = new AbortController()
        t.after(() => stop.abort())
        const log: string[] = []
        const note = (word: string): void => {
          log.push(word)
          if (word === what) throw new Error('a mistake')
        }
        let isOver = false
        const watched = etcd.watch(prefix, {
          signal: stop.signal,
          onChange: (batch) => note(batch === undefined ? 'read' : 'change'),
          report: (error) => note(error === undefined ? 'established' : 'failed'),
        })
        const ended = assert.rejects(watched, /^Error: a mistake$/).finally(() => {
          isOver = true
        })
        const all = ['established', 'read', 'change']
        await until(target, 'the start', () => isOver || log.includes('read'))
        await created(etcd, `${prefix}first`, '')
        await until(target, 'the end', () => isOver)
        await ended
        await created(etcd, `${prefix}end`, '')
        await target.pass(200)
        assert.deepEqual(log, all.slice(0, all.indexOf(what) + 1))
      },
    }),
  ),
]
