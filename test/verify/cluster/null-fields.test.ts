import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeObject } from '../../../src/kube/resources.ts'
import { findingsOf } from '../../../src/verify/cluster/verify-cluster.ts'
import { passedOn } from '../../kube/passed-on.ts'
import { bootstrapped } from './world.ts'

test('objects whose deletionTimestamp is null are not being deleted', async () => {
  const { api, etcd, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const isAlive = <T extends KubeObject>(object: T): T => ({
    ...object,
    metadata: { ...object.metadata, deletionTimestamp: null as never },
  })
  const writingNull = passedOn(api, {
    async list(resource, query) {
      const { metadata, items } = await api.list(resource, query)
      return { metadata, items: items.map(isAlive) }
    },
  })
  const source = { api: writingNull, etcd, leaseStore: 'kubernetes' } as const
  assert.deepEqual(findingsOf(await verify({ source })), [])
})
