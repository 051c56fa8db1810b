import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Cluster } from '../../../src/drill/live/cluster.ts'
import { followCluster } from '../../../src/drill/live/followers.ts'
import { namespaces, services } from '../../../src/kube/resources.ts'
import { setUp } from '../../bootstrap/masters-world.ts'

test('a Namespace change before the damage to the Service is observed is not attributed to that damage', async () => {
  const { time, api } = setUp()
  await api.create(namespaces, { metadata: { name: 'default' } })
  const service = {
    metadata: { namespace: 'default', name: 'kubernetes' },
    spec: { clusterIP: 'None', ports: [{ port: 443 }] },
  }
  await api.create(services, service)
  let isDamaged = false
  const seen: string[] = []
  const stop = new AbortController()
  const following = followCluster({
    cluster: { api, etcd: undefined, leaseStore: 'kubernetes' } as unknown as Cluster,
    clock: time.view(),
    observer: {
      leases() {},
      objects: ({ service: found, namespaces: names, byDamage }) =>
        seen.push(`${found === undefined ? 'gone' : 'there'} ${names.length} ${byDamage}`),
    },
    listed() {},
    takeDamage(object) {
      if (object !== 'service' || !isDamaged) return false
      isDamaged = false
      return true
    },
    signal: stop.signal,
  })
  await time.advance(1_000)
  const before = (await api.list(namespaces)).items.length
  seen.length = 0
  isDamaged = true
  await api.create(namespaces, { metadata: { name: 'other' } })
  await time.advance(1_000)
  await api.delete(services, { namespace: 'default', name: 'kubernetes' }, {})
  await time.advance(1_000)
  stop.abort()
  await following
  assert.deepEqual(seen, [`there ${before + 1} false`, `gone ${before + 1} true`])
})
