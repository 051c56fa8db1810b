import { setTimeout as sleep } from 'node:timers/promises'
import { seededRandom } from '../../src/runtime/random.ts'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { startControllerManager } from '../peers/controller-manager.ts'
import { startEtcd } from '../peers/etcd.ts'
import { peakResidentMib, residentMib } from '../peers/footprint.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import type { RunningProcess } from '../peers/process.ts'
import { startMaster } from '../peers/program.ts'
import { busyBetween, cpuMs, machineTicks, type RequestCounts, requestsByResource } from './server-cost.ts'
import { flipPods } from './workload-flips.ts'
import type { WorkloadShape } from './workload-objects.ts'
import { fillWorkload, type WorkloadTemplate } from './workload-store.ts'
import { WorkloadWatch } from './workload-watch.ts'

export type ManagerName = 'kube-controller-manager' | 'program'

/** What one manager needed for one store full of workloads. */
export interface WorkloadRun {
  /** From its exec, and from the first object that it wrote, until all Endpoints and EndpointSlices are correct. */
  readonly convergedMs: number
  readonly wroteMs: number
  /** Of each flip. */
  readonly latenciesMs: readonly number[]
  readonly convergeCpuMs: number
  readonly flipsCpuMs: number
  readonly residentMib: number
  readonly peakResidentMib: number
  readonly convergeRequests: Requests
  readonly flipsRequests: Requests
  /** The share of all CPU that was in use from the first flip to the last event. */
  readonly busy: number
}

/** Without requests for Leases and for resources that do not contribute to endpoints. */
export interface Requests {
  readonly endpoints: number
  readonly slices: number
  /** Of Endpoints and EndpointSlices. */
  readonly writes: number
  readonly all: number
  /** Probes of whether the server is ready or alive; not in `all`. */
  readonly probes: number
}

/** Starts a manager; resolves when it runs. */
export type ManagerStart = (owner: Owner, server: Apiserver) => Promise<RunningProcess>

export const managers: Readonly<Record<ManagerName, ManagerStart>> = {
  'kube-controller-manager': (owner, server) =>
    startControllerManager(owner, server, ['endpoints-controller', 'endpointslice-controller']),
  program: async (owner, server) => {
    const flags = ['--controllers=endpoints,endpointslice', '--endpoint-reconciler-type=none', '--leader-elect=false']
    return (await startMaster(owner, server, { address: '192.0.2.1', flags })).process
  },
}

export const flipsPerSecond = 100
/** By then a manager has finished reacting to its own writes. */
export const settleMs = 3000
/** All resources that managers request for Endpoints and EndpointSlices. */
const counted = ['endpoints', 'endpointslices', 'services', 'nodes', 'pods', 'events']

/** How long a manager may take until everything is correct. */
export const withinMs = 120_000

/** A server whose store contains workloads but no Endpoints. */
export async function startWorkload(
  owner: Owner,
  template: WorkloadTemplate,
  shape: WorkloadShape,
): Promise<{ readonly server: Apiserver; readonly watch: WorkloadWatch }> {
  const etcd = await startEtcd(owner)
  await fillWorkload(etcd, template, shape)
  const server = await startApiserver(owner, { kind: 'stock', etcd, flags: ['--endpoint-reconciler-type=none'] })
  const watch = new WorkloadWatch(owner, server, shape)
  watch.followEndpoints()
  return { server, watch }
}

/** Runs a manager on its own server, then flips the readiness of Pods. */
export async function runWorkload(
  start: ManagerStart,
  template: WorkloadTemplate,
  { shape, flips, seed }: { readonly shape: WorkloadShape; readonly flips: number; readonly seed: number },
): Promise<WorkloadRun> {
  const owner = openOwner()
  try {
    const { server, watch } = await startWorkload(owner, template, shape)
    await sleep(settleMs)
    const before = await requestsOf(server, watch)

    const startedMs = performance.now()
    const manager = await start(owner, server)
    const rightMs = await watch.whenRight(withinMs)
    await sleep(settleMs)
    const converged = { cpuMs: cpuMs(manager.pid), requests: await requestsOf(server, watch) }

    watch.leaveEndpoints()
    const quiet = machineTicks()
    const random = seededRandom(seed, 'flips')
    const latenciesMs = await flipPods(server.api, watch, shape, { count: flips, perSecond: flipsPerSecond, random })
    const busy = busyBetween(quiet, machineTicks())
    watch.followEndpoints()
    await watch.whenRight(withinMs)
    await sleep(settleMs)
    const flipped = { cpuMs: cpuMs(manager.pid), requests: await requestsOf(server, watch) }
    if (manager.exit !== undefined) throw new Error(`${manager.name} has ended\n${manager.tail()}`)
    return {
      convergedMs: rightMs - startedMs,
      wroteMs: rightMs - watch.firstAtMs,
      latenciesMs,
      convergeCpuMs: converged.cpuMs,
      flipsCpuMs: flipped.cpuMs - converged.cpuMs,
      residentMib: residentMib(manager.pid),
      peakResidentMib: peakResidentMib(manager.pid),
      convergeRequests: between(before, converged.requests),
      flipsRequests: between(converged.requests, flipped.requests),
      busy,
    }
  } finally {
    await owner.close()
  }
}

/**
 * The requests since the start of the server, including the server's own. Those of the bench are not included: its
 * watches, and `own` others.
 */
export async function requestsOf(server: Apiserver, watch: WorkloadWatch, own = 0): Promise<Requests> {
  const found = await requestsByResource(server.api)
  const countsOf = (resource: string): RequestCounts => found.get(resource) ?? { list: 0, watch: 0, other: 0 }
  // Only the bench writes Pods.
  const of = (resource: string): number => {
    const { list, watch, other } = countsOf(resource)
    return list + watch + (resource === 'pods' ? 0 : other)
  }
  return {
    endpoints: of('endpoints'),
    slices: of('endpointslices'),
    writes: countsOf('endpoints').other + countsOf('endpointslices').other,
    all: sum(counted.map(of)) - watch.begun - own,
    probes: sum(['/readyz', '/livez', '/healthz'].map(of)),
  }
}

export function between(before: Requests, after: Requests): Requests {
  return {
    endpoints: after.endpoints - before.endpoints,
    slices: after.slices - before.slices,
    writes: after.writes - before.writes,
    all: after.all - before.all,
    probes: after.probes - before.probes,
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0)
}
