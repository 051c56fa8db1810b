import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiClient } from '../peers/api-client.ts'
import { peakResidentMib, resetPeakResident, residentMib } from '../peers/footprint.ts'
import { openOwner } from '../peers/owner.ts'
import { busyBetween, cpuMs, machineTicks } from './server-cost.ts'
import { flipPod, latenciesOf, patchStatus } from './workload-flips.ts'
import { nodeMarks, podMarks, podName, serviceManifest, serviceMarks, type WorkloadShape } from './workload-objects.ts'
import { podsPerShard, rollOut, shardLabel } from './workload-rollout.ts'
import {
  between,
  type ManagerStart,
  type Requests,
  requestsOf,
  settleMs,
  startWorkload,
  withinMs,
} from './workload-run.ts'
import type { WorkloadTemplate } from './workload-store.ts'
import type { WorkloadWatch } from './workload-watch.ts'

/** What a manager used from the beginning of a change until {@link settleMs} after the change was shown. */
export interface Cost {
  readonly cpuMs: number
  readonly requests: Requests
  /** At the end, and the peak in between. */
  readonly residentMib: number
  readonly peakResidentMib: number
  /** The share of all CPU of the machine that was in use until the change was shown. */
  readonly busy: number
}

/** For each write: from its answer until it is shown. */
export interface Latencies {
  readonly latenciesMs: readonly number[]
}

/** What one manager needed for each change. */
export interface ChangesRun {
  readonly 'settled start': Cost & { readonly rightMs: number }
  readonly idle: Cost
  /** From the last answer until the last slice and the last Endpoints show it. */
  readonly 'Node lost': Cost & Latencies & { readonly slicesMs: number; readonly endpointsMs: number }
  /** From the last answer until all is right. */
  readonly 'rolling update': Cost & Latencies & { readonly rightMs: number }
  /** From the first request, and from the last answer, until all is right. */
  readonly 'new Services': Cost & Latencies & { readonly allMs: number; readonly rightMs: number }
}

export interface ChangesOptions {
  readonly shape: WorkloadShape
  readonly idleMs: number
  /** How many Services are created at once, each for {@link podsPerShard} Pods. */
  readonly newServices: number
}

type Shown<Change extends keyof ChangesRun> = Omit<ChangesRun[Change], keyof Cost>

/** Runs a manager on its own server through one change after the other. */
export async function runChanges(
  start: ManagerStart,
  template: WorkloadTemplate,
  { shape, idleMs, newServices }: ChangesOptions,
): Promise<ChangesRun> {
  const owner = openOwner()
  try {
    const { server, watch } = await startWorkload(owner, template, shape)
    const { api } = server
    let manager = await start(owner, server)
    let ownRequests = 0
    const requestsSoFar = async (): Promise<Requests> => {
      ownRequests += 1
      return requestsOf(server, watch, ownRequests + (await eventsOfServer(api)))
    }

    const costOf = async <T extends object>(change: () => Promise<T>): Promise<T & Cost> => {
      const usedMs = manager.exit === undefined ? cpuMs(manager.pid) : 0
      if (manager.exit === undefined) resetPeakResident(manager.pid)
      const before = await requestsSoFar()
      const quiet = machineTicks()
      const found = await change()
      const busy = busyBetween(quiet, machineTicks())
      await sleep(settleMs)
      if (manager.exit !== undefined) throw new Error(`${manager.name} has ended\n${manager.tail()}`)
      const { pid } = manager
      return {
        ...found,
        cpuMs: cpuMs(pid) - usedMs,
        requests: between(before, await requestsSoFar()),
        residentMib: residentMib(pid),
        peakResidentMib: peakResidentMib(pid),
        busy,
      }
    }

    await watch.whenRight(withinMs)
    await sleep(settleMs)
    await manager.stop()
    await flipPod(api, watch, podMarks((shape.services * shape.podsPerService) / 2, shape))
    await sleep(settleMs)
    return {
      'settled start': await costOf(async () => {
        const startedMs = performance.now()
        manager = await start(owner, server)
        return { rightMs: (await watch.whenRight(withinMs)) - startedMs }
      }),
      idle: await costOf(async () => {
        await sleep(idleMs)
        return {}
      }),
      'Node lost': await costOf(async () => {
        ownRequests += 1
        return loseNode(api, watch, shape)
      }),
      'rolling update': await costOf(async () => {
        const { latenciesMs, lastAnswerMs } = await rollOut(api, watch, shape)
        return { latenciesMs, rightMs: (await watch.whenRight(withinMs)) - lastAnswerMs }
      }),
      'new Services': await costOf(async () => {
        ownRequests += newServices
        return createServices(api, watch, shape, newServices)
      }),
    }
  } finally {
    await owner.close()
  }
}

/** kube-apiserver reports a new Service whose IPAddress its own repair has not seen yet. */
async function eventsOfServer(api: ApiClient): Promise<number> {
  const { items } = await api.get<{ readonly items: readonly { readonly reportingController?: string }[] }>(
    '/apis/events.k8s.io/v1/events',
  )
  return items.filter(({ reportingController }) => reportingController === 'ipallocator-repair-controller').length
}

/** Makes one Node and all its Pods unready at once, as the node lifecycle controller does. */
async function loseNode(api: ApiClient, watch: WorkloadWatch, shape: WorkloadShape): Promise<Shown<'Node lost'>> {
  const { node } = nodeMarks(1)
  await patchStatus(api, `/api/v1/nodes/${node}/status`, { conditions: [{ type: 'Ready', status: 'Unknown' }] })
  const pods = Array.from({ length: shape.services * shape.podsPerService }, (_, index) => podMarks(index, shape))
  const lost = pods.filter((pod) => pod.node === node)
  const writes = await Promise.all(lost.map((pod) => flipPod(api, watch, pod, ['Ready'])))
  const lastAnswerMs = Math.max(...writes.map(({ answeredMs }) => answeredMs))
  const latenciesMs = await latenciesOf(writes)
  await watch.whenRight(withinMs)
  const sinceMs = (atMs: number): number => Math.max(0, atMs - lastAnswerMs)
  const { slices, endpoints } = watch.lastAtMs
  return { latenciesMs, slicesMs: sinceMs(slices), endpointsMs: sinceMs(endpoints) }
}

/** Creates Services at once. Each selects one shard of a workload's Pods of the second generation. */
async function createServices(
  api: ApiClient,
  watch: WorkloadWatch,
  shape: WorkloadShape,
  count: number,
): Promise<Shown<'new Services'>> {
  const startMs = performance.now()
  const create = async (index: number): Promise<{ readonly answeredMs: number; readonly latencyMs: number }> => {
    const of = index % shape.services
    const shard = Math.floor(index / shape.services)
    const { namespace, service } = serviceMarks(of, shape)
    const first = of * shape.podsPerService + shard * podsPerShard
    const pods = Array.from({ length: podsPerShard }, (_, at) => podName(first + at, shape, 1))
    const name = `${service}-${shard}`
    const manifest = serviceManifest(
      { service: name },
      { 'app.kubernetes.io/name': service, [shardLabel]: String(shard) },
    )
    const seen = watch.expectService(name, pods)
    await api.create(`/api/v1/namespaces/${namespace}/services`, manifest)
    const answeredMs = performance.now()
    return { answeredMs, latencyMs: Math.max(0, (await seen) - answeredMs) }
  }
  const created = await Promise.all(Array.from({ length: count }, (_, index) => create(index)))
  const rightMs = await watch.whenRight(withinMs)
  return {
    latenciesMs: created.map(({ latencyMs }) => latencyMs),
    allMs: rightMs - startMs,
    rightMs: rightMs - Math.max(...created.map(({ answeredMs }) => answeredMs)),
  }
}
