import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster } from '../peers/cluster.ts'
import { EtcdFaultProxy } from '../peers/etcd-fault-proxy.ts'
import { FaultProxy } from '../peers/fault-proxy.ts'
import type { Verb } from '../peers/fault-rules.ts'
import { watchState } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'

const minutes = Number(process.env.STEADY_MINUTES ?? 60)
const intervalMs = 10_000
const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
const resources = [
  'endpoints',
  'endpointslices',
  'services',
  'leases',
  'namespaces',
  'servicecidrs',
  'ipaddresses',
  'events',
  'pods',
  'nodes',
] as const
const verbs: readonly Verb[] = ['get', 'list', 'create', 'update', 'patch', 'delete']

describe(`${minutes} quiet minutes with a TTL of 15 s and an interval of 10 s`, { concurrency: true }, () => {
  for (const store of ['kubernetes', 'etcd'] as const) {
    test(`with leases in ${store} a master sends at most four requests an interval besides renewals, and nobody writes the list`, async (t) => {
      const owner = openOwner(t)
      const { etcd, server } = await startCluster(owner, { kind: 'bare' })
      const { history, whenRight } = await watchState(owner, server.api)
      const proxies = await Promise.all(
        addresses.map(async (address) => {
          const api = await FaultProxy.start(owner, server)
          const etcdWay = store === 'etcd' ? await EtcdFaultProxy.start(owner, etcd) : undefined
          const flags = etcdWay === undefined ? ['--lease-store=kubernetes'] : [`--etcd-servers=${etcdWay.url}`]
          await startMaster(owner, { kubeconfig: api.kubeconfig, port: server.port }, { address, host: address, flags })
          return { api, etcdWay }
        }),
      )
      await whenRight({ addresses, port: server.port }, 60_000)
      await sleep(60_000)
      const from = history.length
      // A fault that changes nothing counts the requests.
      const counted = proxies.map(({ api, etcdWay }) => ({
        requests: new Map(
          resources.flatMap((resource) =>
            verbs.map((verb) => [
              `${verb} ${resource}`,
              api.place({ fault: { type: 'delay', ms: 0 }, resources: [resource], verbs: [verb] }),
            ]),
          ),
        ),
        etcd: new Map(
          ['Range', 'Txn', 'LeaseGrant', 'LeaseRevoke'].map((method) => [
            method,
            etcdWay?.place({ fault: { type: 'delay', ms: 0 }, resources: [method] }),
          ]),
        ),
      }))
      await sleep(minutes * 60_000)
      const intervals = (minutes * 60_000) / intervalMs + 1
      for (const [index, { requests, etcd: calls }] of counted.entries()) {
        const made = new Map(
          [...requests].map(([name, { hits }]) => [name, hits]).filter(([, hits]) => hits !== 0) as [string, number][],
        )
        const asked = [...calls].map(([method, placed]) => `${method} ${placed?.hits ?? 0}`)
        t.diagnostic(
          `${addresses[index]}: ${[...made].map((one) => one.join(' ')).join(', ')}; etcd: ${asked.join(', ')}`,
        )
        const renewals = made.get('update leases') ?? 0
        assert.ok(renewals <= intervals, `${renewals} renewals`)
        const others = [...made.values()].reduce((sum, hits) => sum + hits, 0) - renewals
        assert.ok(others >= intervals - 2, 'the requests are counted')
        assert.ok(others <= 4 * intervals, `${others} requests besides the renewals`)
        const writes = [...made.keys()].filter((name) => !/^(get|list) |^update leases$/.test(name))
        assert.deepEqual(writes, [])
        // Each round needs two reads of the leases, and a renewal two grants and two writes. The repair reads two
        // ranges every three minutes.
        const repairs = 2 * Math.ceil(minutes / 3)
        for (const [method, placed] of calls) assert.ok((placed?.hits ?? 0) <= 2 * intervals + repairs, method)
        const steady = [calls.get('Range'), calls.get('Txn')].map((placed) => placed?.hits ?? 0)
        if (store === 'etcd') assert.ok(Math.min(...steady) >= intervals - 2, 'the calls are counted')
      }
      assert.deepEqual(history.slice(from), [])
    })
  }
})
