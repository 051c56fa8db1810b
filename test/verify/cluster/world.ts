import assert from 'node:assert/strict'
import { createApiServer, inProcessReadiness, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { createMaster } from '../../../src/bootstrap/master.ts'
import { defineMaster, type MasterSettings } from '../../../src/config/master-options.ts'
import type { EtcdKv } from '../../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../../src/etcd/memory-etcd.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { ifFound } from '../../../src/kube/errors.ts'
import { leases } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { EtcdLeases } from '../../../src/kubernetes-service/leases/etcd/leases.ts'
import { EtcdRangeRegistry } from '../../../src/repair/registries/etcd.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'
import type { Command } from '../../../src/verify/cluster/finding.ts'
import { checkCluster, type VerifyOptions, type VerifyReport } from '../../../src/verify/cluster/verify-cluster.ts'
import { type KubeObject, type Resource, resourceNamed } from './resources.ts'
import { addWorkload } from './workload.ts'

const CONTROLLERS = 'auto,endpoints,endpointslice'

export interface World {
  readonly api: KubeApi
  /** Contains the bitmaps. */
  readonly etcd: { readonly kv: EtcdKv; readonly prefix: string }
  readonly time: VirtualClock
  /** Verifies the cluster while time passes. */
  verify(options?: Partial<VerifyOptions>): Promise<VerifyReport>
  /** Does what a printed command would do. */
  execute(command: Command): Promise<void>
  /** Lets time pass until the promise settles. */
  settle<T>(work: Promise<T>): Promise<T>
}

/**
 * An in-process API server that masters with these settings have bootstrapped. They have stopped, so nobody writes from
 * now on.
 */
export async function bootstrapped(...masters: readonly MasterSettings[]): Promise<World> {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'verify')
  const server = createApiServer({ clock, random })
  const api = restKubeApi({ transport: inProcessTransport(server), clock, random })
  const etcd = { kv: new MemoryEtcd({ clock }).client(), prefix: '/registry' }
  const stores = { kv: etcd.kv, Leases: EtcdLeases, Ranges: EtcdRangeRegistry }
  const given = { etcdServers: 'http://127.0.0.1:2379', leaseStore: 'kubernetes', onShutdown: 'keep' } as const
  const ports = { api, etcd: stores, readiness: inProcessReadiness(server), clock, random, logger: silentLogger }
  const stop = new AbortController()
  const running = masters.map((settings, index) =>
    createMaster(defineMaster({ ...given, controllers: CONTROLLERS, ...settings }, `host-${index + 1}`), {
      ...ports,
      metrics: prometheusMetrics(),
    }).run(stop.signal),
  )
  const settle = async <T>(work: Promise<T>): Promise<T> => {
    let ended = false
    const noted = work.finally(() => {
      ended = true
    })
    noted.catch(() => {})
    await time.runUntil(() => ended, 60_000)
    return noted
  }
  await time.advance(5_000)
  await settle(addWorkload(api))
  await time.advance(10_000)
  stop.abort()
  await settle(Promise.all(running))
  const run = async (args: readonly string[]): Promise<void> => {
    const flags = args.map((word) => word.replace(/^--/, '').split('='))
    const named = Object.fromEntries(
      flags.map(([flag = '', value]) => [flag.replace(/-([a-z])/g, (_, one: string) => one.toUpperCase()), value]),
    )
    const end = new AbortController()
    const master = createMaster(defineMaster({ ...given, advertiseAddress: '192.0.2.9', ...named }, 'host-9'), {
      ...ports,
      metrics: prometheusMetrics(),
    })
    const ended = master.run(end.signal)
    await time.advance(named.repairInterval === undefined ? 5_000 : 200_000)
    end.abort()
    await settle(ended)
  }
  const source = { api, etcd, leaseStore: 'kubernetes' } as const
  return {
    api,
    etcd,
    time,
    settle,
    execute: async (command) =>
      command.tool === 'by-hand'
        ? undefined
        : command.tool === 'apiserver-bootstrap' && command.args[0] === 'run'
          ? run(command.args.slice(1))
          : execute(api, command),
    verify: (options = {}) =>
      settle(checkCluster({ source, clock, confirmAfterMs: 100, signal: new AbortController().signal, ...options })),
  }
}

/** What kubectl would do. */
async function execute(api: KubeApi, { tool, args, input }: Command): Promise<void> {
  if (tool === 'apiserver-bootstrap') return evict(api, args)
  const [verb, plural = '', ...rest] = args
  const flag = (name: string): string | undefined =>
    rest.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3)
  const [name = ''] = rest.filter((word) => !word.startsWith('--'))
  const ref = { namespace: flag('namespace'), name }
  if (input !== undefined) {
    const object = input as KubeObject
    if (verb === 'apply') {
      const { namespace, name: own = '' } = object.metadata ?? {}
      const resource = resourceNamed(object.kind ?? '')
      await api.patch(resource, { namespace, name: own }, { type: 'apply', body: object, force: true })
      return
    }
    assert.equal(verb, 'create')
    await api.create(resourceNamed(object.kind ?? ''), object)
    return
  }
  const resource: Resource = resourceNamed(plural === 'namespace' ? 'namespaces' : plural)
  switch (verb) {
    case 'create':
      await api.create(resource, { apiVersion: 'v1', kind: resource.kind, metadata: { name } })
      return
    case 'delete':
      await (rest.includes('--ignore-not-found') ? ifFound(api.delete(resource, ref)) : api.delete(resource, ref))
      return
    case 'label': {
      const labels = Object.fromEntries(rest.filter((word) => /^[^-].*=/.test(word)).map((word) => word.split('=')))
      await api.patch(resource, ref, { type: 'merge', body: { metadata: { labels } } })
      return
    }
    case 'patch': {
      const subresource = flag('subresource') === 'status' ? ('status' as const) : undefined
      const body: unknown = JSON.parse(flag('patch') ?? '')
      await api.patch(resource, ref, { type: 'merge', body }, { subresource })
      return
    }
    default:
      assert.fail(`unexpected command: ${args.join(' ')}`)
  }
}

/** Removes the Leases of an address. */
async function evict(api: KubeApi, args: readonly string[]): Promise<void> {
  assert.deepEqual(args.slice(0, 2), ['masters', 'evict'])
  const { items } = await api.list(leases, { namespace: 'kube-system' })
  for (const { metadata } of items) {
    if (JSON.stringify(metadata?.annotations ?? {}).includes(`\\"${args[2]}\\"`)) {
      await api.delete(leases, { namespace: 'kube-system', name: metadata?.name ?? '' })
    }
  }
}
