import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServerProbe } from '../../../src/kube/http-probe.ts'
import type { Endpoints, KubeObject } from '../../../src/kube/resources.ts'
import { passedOn } from '../../kube/passed-on.ts'
import { findingsOf } from './findings.ts'
import { bootstrapped } from './world.ts'

test('objects with a null deletionTimestamp do not count as being deleted', async () => {
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

test('an Endpoints subset whose addresses are null lists no address', async () => {
  const { api, etcd, verify } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const unready = { addresses: null, notReadyAddresses: [{ ip: '192.0.2.2' }], ports: [{ port: 6443 }] }
  const writingNull = passedOn(api, {
    async list(resource, query) {
      const { metadata, items } = await api.list(resource, query)
      const isListed = ({ metadata }: KubeObject) => resource.plural === 'endpoints' && metadata?.name === 'kubernetes'
      const withUnready = <T extends KubeObject>(object: T): T =>
        isListed(object) ? { ...object, subsets: [...((object as Endpoints).subsets ?? []), unready] } : object
      return { metadata, items: items.map(withUnready) }
    },
  })
  const asked: string[] = []
  const ask: ServerProbe = async ({ host }) => {
    asked.push(host)
    return { type: 'none', reason: 'no' }
  }
  const source = { api: writingNull, etcd, leaseStore: 'kubernetes', probe: { ask, targets: new Map() } } as const
  const found = findingsOf(await verify({ source, only: ['kubernetes-endpoints'] })).map((one) => one.found)
  assert.deepEqual(found, ['2 subsets', 'not ready: 192.0.2.2', 'port  6443/TCP'])
  await verify({ source, only: ['server-answers'] })
  assert.deepEqual(new Set(asked), new Set(['192.0.2.1']))
})
