import assert from 'node:assert/strict'
import { bytes, created, type EtcdContractCase, patient, rejectsWith, until, watching } from './contract-case.ts'

/** Etcd leases: keys that expire. */
export const leaseCases: readonly EtcdContractCase[] = [
  {
    name: 'a key with a lease is deleted when the lease expires and not before, and a watch reports the deletion',
    async run(target, t) {
      const { etcd, prefix } = target
      const seen = await watching(target, prefix, t)
      const lease = (await etcd.grantLease(3, patient)).id
      await created(etcd, `${prefix}a`, 'one', lease)
      assert.equal((await etcd.get(`${prefix}a`, patient))?.lease, lease)
      await target.pass(2_000)
      assert.ok(await etcd.get(`${prefix}a`, patient), 'the key was deleted before its lease expired')
      await until(target, 'the expiry', async () => (await etcd.get(`${prefix}a`, patient)) === undefined)
      await until(target, 'the expiry in the watch', () => seen.changes.some(({ type }) => type === 'deleted'))
    },
  },
  {
    name: 'a key that is updated with a new lease exists until the new lease expires',
    async run(target) {
      const { etcd, prefix } = target
      let revision = await created(etcd, `${prefix}a`, 'one', (await etcd.grantLease(3, patient)).id)
      for (let renewal = 0; renewal < 3; renewal++) {
        await target.pass(1_500)
        const lease = (await etcd.grantLease(3, patient)).id
        const renewed = await etcd.update(`${prefix}a`, bytes('one'), revision, { lease, signal: patient })
        assert.ok(renewed !== undefined, 'the key was deleted before the renewal')
        revision = renewed
      }
      await until(target, 'the expiry', async () => (await etcd.get(`${prefix}a`, patient)) === undefined)
    },
  },
  {
    name: 'a key that is updated without a lease is not deleted when its former lease expires',
    async run(target) {
      const { etcd, prefix } = target
      const revision = await created(etcd, `${prefix}a`, 'one', (await etcd.grantLease(2, patient)).id)
      await etcd.update(`${prefix}a`, bytes('two'), revision, { signal: patient })
      assert.equal((await etcd.get(`${prefix}a`, patient))?.lease, 0n)
      const other = (await etcd.grantLease(2, patient)).id
      await created(etcd, `${prefix}b`, 'one', other)
      await until(target, 'the expiry of another', async () => (await etcd.get(`${prefix}b`, patient)) === undefined)
      await target.pass(1_000)
      assert.ok(await etcd.get(`${prefix}a`, patient))
    },
  },
  {
    name: 'a key that was deleted and created again is not deleted when its former lease expires',
    async run(target) {
      const { etcd, prefix } = target
      const revision = await created(etcd, `${prefix}a`, 'one', (await etcd.grantLease(2, patient)).id)
      await etcd.delete(`${prefix}a`, revision, patient)
      await created(etcd, `${prefix}a`, 'two')
      await created(etcd, `${prefix}b`, 'one', (await etcd.grantLease(2, patient)).id)
      await until(target, 'the expiry of another', async () => (await etcd.get(`${prefix}b`, patient)) === undefined)
      await target.pass(1_000)
      assert.ok(await etcd.get(`${prefix}a`, patient))
    },
  },
  {
    name: 'etcd returns the time to live of a lease, and undefined for an unknown lease; kine returns Unsupported',
    async run({ etcd, flavour }) {
      const { id: lease, grantedSeconds } = await etcd.grantLease(20, patient)
      assert.equal(grantedSeconds, 20n)
      if (flavour === 'kine') {
        await rejectsWith('Unsupported', etcd.timeToLive(lease, patient))
        return
      }
      const times = await etcd.timeToLive(lease, patient)
      assert.equal(times?.grantedSeconds, 20n)
      assert.ok(times.leftSeconds >= 10n && times.leftSeconds <= 20n, `${times.leftSeconds} s left`)
      assert.equal(await etcd.timeToLive(lease + 1n, patient), undefined)
    },
  },
  {
    name: 'etcd refuses to create a key with an unknown lease',
    async run({ etcd, flavour, prefix }) {
      if (flavour === 'kine') return
      const unknown = (await etcd.grantLease(20, patient)).id + 1n
      const refused = etcd.create(`${prefix}a`, bytes('one'), { lease: unknown, signal: patient })
      await rejectsWith('LeaseNotFound', refused)
      assert.equal(await etcd.get(`${prefix}a`, patient), undefined)
    },
  },
]
