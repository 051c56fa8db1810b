import assert from 'node:assert/strict'
import { bytes, created, type EtcdContractCase, patient, rejectsWith, until, watching } from './contract-case.ts'

const reason = new Error('given up')

/** Aborting calls, and closing clients. */
export const signalCases: readonly EtcdContractCase[] = [
  {
    name: 'a call with an aborted signal rejects with the reason of the signal and changes nothing',
    async run({ etcd, prefix }) {
      const revision = await created(etcd, `${prefix}a`, 'one')
      const signal = AbortSignal.abort(reason)
      const isReason = (error: unknown): boolean => error === reason
      await assert.rejects(etcd.get(`${prefix}a`, signal), isReason)
      await assert.rejects(etcd.list(prefix, { signal }), isReason)
      await assert.rejects(etcd.create(`${prefix}b`, bytes('one'), { signal }), isReason)
      await assert.rejects(etcd.update(`${prefix}a`, bytes('two'), revision, { signal }), isReason)
      await assert.rejects(etcd.delete(`${prefix}a`, revision, signal), isReason)
      await assert.rejects(etcd.grantLease(5, signal), isReason)
      await assert.rejects(etcd.timeToLive(5n, signal), isReason)
      const { items } = await etcd.list(prefix, { signal: patient })
      assert.deepEqual(
        items.map(({ key, modRevision }) => [key, modRevision]),
        [[`${prefix}a`, revision]],
      )
    },
  },
  {
    name: 'an abort during a call makes the call reject with the reason, and the client remains usable',
    async run({ etcd, prefix }) {
      const stop = new AbortController()
      const calls = [
        etcd.get(`${prefix}a`, stop.signal),
        etcd.list(prefix, { signal: stop.signal }),
        etcd.create(`${prefix}a`, bytes('one'), { signal: stop.signal }),
        etcd.grantLease(5, stop.signal),
      ]
      stop.abort(reason)
      for (const result of await Promise.allSettled(calls)) {
        assert.deepEqual(result, { status: 'rejected', reason })
      }
      // The aborted calls may have taken effect. The client remains usable.
      assert.equal(await etcd.get(`${prefix}none`, patient), undefined)
    },
  },
  {
    name: 'an aborted watch resolves and reports nothing more',
    async run(target, t) {
      const { etcd, prefix } = target
      const seen = await watching(target, prefix, t)
      await seen.end()
      await created(etcd, `${prefix}a`, 'one')
      await target.pass(200)
      assert.deepEqual([seen.log, seen.changes], [['established', 'read'], []])
    },
  },
  {
    name: 'a watch with an aborted signal resolves and reports nothing',
    async run({ etcd, prefix }) {
      const never = (): void => assert.fail('the watch reported something')
      await etcd.watch(prefix, { onChange: never, report: never, signal: AbortSignal.abort(reason) })
    },
  },
  {
    name: 'close ends the watches of a client and makes its later calls Unreachable; other clients still work',
    async run(target, t) {
      const { another, prefix } = target
      const closing = another()
      const seen = await watching({ ...target, etcd: closing }, prefix, t)
      await closing.close()
      await seen.done
      assert.deepEqual(seen.errors, [])
      await rejectsWith('Unreachable', closing.get(`${prefix}a`, patient))
      await rejectsWith('Unreachable', closing.create(`${prefix}a`, bytes('one'), { signal: patient }))
      await created(target.etcd, `${prefix}a`, 'one')
      await until(target, 'the other client', async () => (await target.etcd.get(`${prefix}a`, patient)) !== undefined)
      await closing.close()
    },
  },
]
