import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeApi } from '../../src/kube/api.ts'
import { Availability } from '../../src/kube/availability.ts'
import { loadKubeConfig } from '../../src/kube/kube-config.ts'
import { fromKubeConfig } from '../../src/kube/kube-config-transport.ts'
import { leases } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { KubernetesLeases, LABEL_SELECTOR } from '../../src/kubernetes-service/leases/kubernetes.ts'
import { systemClock, systemRandom } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { masterLeasesContract } from '../../src/verify/master-leases-contract.ts'
import { addressesOf, holder } from '../kubernetes-service/leases/holders.ts'
import { spoilLease } from '../kubernetes-service/leases/spoil.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'
import { untilPasses } from '../peers/until.ts'
import type { Cleanup } from '../support/cleanup.ts'

const { signal } = new AbortController()
const self = holder('192.0.2.1')
const rbac = '/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system'

/** A copy of the kubeconfig `base` that has another server, or that acts as another user. */
function kubeconfigLike(
  base: string,
  name: string,
  change: { readonly server?: string; readonly as?: string },
): string {
  const content = JSON.parse(readFileSync(base, 'utf8')) as {
    clusters: { cluster: { server: string } }[]
    users: { user: { as?: string } }[]
  }
  for (const { cluster } of content.clusters) cluster.server = change.server ?? cluster.server
  for (const { user } of content.users) if (change.as !== undefined) user.as = change.as
  writeFileSync(`${base}-${name}`, JSON.stringify(content), { mode: 0o600 })
  return `${base}-${name}`
}

async function apiOf(t: Cleanup, kubeconfig: string): Promise<KubeApi> {
  const { config, access } = await loadKubeConfig({ kubeconfig })
  const transport = fromKubeConfig(config, { access, clock: systemClock, logger: silentLogger })
  t.after(() => transport.close())
  return restKubeApi({ transport, clock: systemClock, random: systemRandom() })
}

function openLeases(api: KubeApi, ttlMs: number): KubernetesLeases {
  const [clock, random, logger] = [systemClock, systemRandom(), silentLogger]
  const availability = new Availability({ clock, logger })
  return new KubernetesLeases({ api, clock, random, logger, availability, ttlMs, intervalMs: (ttlMs * 2) / 3 })
}

describe('leases in a real kube-apiserver', () => {
  const owner = openOwner({ after })
  let cluster: Cluster
  let api: KubeApi
  /** A client that may do everything with Leases except delete them. */
  let restricted: KubeApi

  before(async () => {
    const flags = ['--endpoint-reconciler-type=none']
    cluster = await startCluster(owner, { kind: 'stock', authorization: 'RBAC', flags })
    const { server } = cluster
    api = await apiOf(owner, server.kubeconfig)
    restricted = await apiOf(owner, kubeconfigLike(server.kubeconfig, 'restricted', { as: 'no-deletes' }))
    const verbs = ['get', 'list', 'watch', 'create', 'update']
    await server.api.create(`${rbac}/roles`, {
      metadata: { name: 'no-deletes' },
      rules: [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs }],
    })
    await server.api.create(`${rbac}/rolebindings`, {
      metadata: { name: 'no-deletes' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'no-deletes' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'no-deletes' }],
    })
    await untilPasses('the role', () => restricted.list(leases, { namespace: 'kube-system' }), { withinMs: 30_000 })
  })

  const cases = masterLeasesContract((lifetime) => {
    const ttlMs = lifetime === 'lasting' ? 60_000 : 6_000
    let refused = false
    const view: KubeApi = {
      ...{ get: api.get.bind(api), list: api.list.bind(api), create: api.create.bind(api) },
      ...{ update: api.update.bind(api), patch: api.patch.bind(api), watch: api.watch.bind(api) },
      delete: (...args) => (refused ? restricted : api).delete(...args),
    }
    return {
      ttlMs,
      open: () => openLeases(view, ttlMs),
      pass: (ms) => sleep(ms),
      refuseDeletes() {
        refused = true
      },
      spoil: (of, text) => spoilLease(api, of, text),
      async close() {
        const { items } = await api.list(leases, { namespace: 'kube-system', labelSelector: LABEL_SELECTOR })
        for (const { metadata } of items) {
          await api.delete(leases, { namespace: 'kube-system', name: metadata?.name ?? '' })
        }
      },
    }
  })
  for (const { name, run } of cases) test(name, run)

  test('abandoned renewals on a dead connection do not delay the next one', async (t) => {
    const proxy = await TcpProxy.start(openOwner(t), { target: cluster.server.port })
    const server = `https://127.0.0.1:${proxy.port}`
    const byProxy = await apiOf(t, kubeconfigLike(cluster.server.kubeconfig, 'proxied', { server }))
    const [a, b] = [openLeases(byProxy, 60_000), openLeases(api, 60_000)]
    await a.update(self, signal)
    for (let round = 0; round < 3; round++) {
      // Several idle connections, all of which die.
      await Promise.all([a.list(signal), a.list(signal), a.list(signal), a.list(signal)])
      proxy.lose()
      await assert.rejects(a.update(self, AbortSignal.timeout(500)), { name: 'TimeoutError' })
      await a.update(self, AbortSignal.timeout(5_000))
    }
    assert.deepEqual(await addressesOf(b), ['192.0.2.1'])
    await a.remove(self, signal)
    assert.deepEqual(await addressesOf(b), [])
  })
})
