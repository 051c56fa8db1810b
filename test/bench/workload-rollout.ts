import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiClient } from '../peers/api-client.ts'
import { latenciesOf, type SeenWrite, seenWrite } from './workload-flips.ts'
import { type PodMarks, podManifest, podMarks, type WorkloadShape } from './workload-objects.ts'
import type { ShownState, WorkloadWatch } from './workload-watch.ts'

/** How fast all Pods are replaced. A Pod that ends and one that begins are two changes. */
export const pace = { servicesAtOnce: 10, waves: 4, changesPerSecond: 60, terminationMs: 1000 } as const

/** The label that divides the Pods of a Service into shards of equal size. */
export const shardLabel = 'shard'
export const podsPerShard = 5

export interface Rollout {
  /** Of each write after which a Pod is ready, terminating or gone. */
  readonly latenciesMs: readonly number[]
  readonly lastAnswerMs: number
}

/**
 * Replaces all Pods with those of the second generation, as Deployments, kubelets and the scheduler do: a few Services
 * at the same time, and in each Service one wave after the other. A wave begins when the previous one is written. Each
 * old Pod is asked to terminate, and is gone a while later. Each new Pod is created, then becomes ready. The pace does
 * not depend on whether EndpointSlices follow.
 */
export async function rollOut(api: ApiClient, watch: WorkloadWatch, shape: WorkloadShape): Promise<Rollout> {
  const startMs = performance.now()
  const writes: SeenWrite[] = []
  let changes = 0
  const turn = (): Promise<void> =>
    sleep(Math.max(0, startMs + (changes++ * 1000) / pace.changesPerSecond - performance.now()))
  const write = async (pod: PodMarks, state: ShownState | 'gone', send: () => Promise<unknown>): Promise<void> => {
    writes.push(await seenWrite(watch, pod, state, send))
  }
  const end = async (pod: PodMarks): Promise<void> => {
    await turn()
    await write(pod, 'terminating', () => api.delete(pathOf(pod)))
    await sleep(pace.terminationMs)
    await write(pod, 'gone', () => api.delete(`${pathOf(pod)}?gracePeriodSeconds=0`))
  }
  const begin = async (pod: PodMarks, shard: number): Promise<void> => {
    await turn()
    const manifest = podManifest(pod, { [shardLabel]: String(shard) })
    await api.create(`/api/v1/namespaces/${pod.namespace}/pods`, manifest)
    await write(pod, 'ready', () => api.update(`${pathOf(pod)}/status`, manifest))
  }
  const replace = async (service: number): Promise<void> => {
    const perWave = Math.ceil(shape.podsPerService / pace.waves)
    const pods = Array.from({ length: shape.podsPerService }, (_, index) => index)
    for (let at = 0; at < pods.length; at += perWave) {
      const wave = pods.slice(at, at + perWave)
      const numbered = (index: number): number => service * shape.podsPerService + index
      await Promise.all([
        ...wave.map((index) => end(podMarks(numbered(index), shape))),
        ...wave.map((index) => begin(podMarks(numbered(index), shape, 1), Math.floor(index / podsPerShard))),
      ])
    }
  }
  const services = Array.from({ length: shape.services }, (_, index) => index).values()
  const work = async (): Promise<void> => {
    for (const service of services) await replace(service)
  }
  await Promise.all(Array.from({ length: pace.servicesAtOnce }, work))
  const lastAnswerMs = Math.max(...writes.map(({ answeredMs }) => answeredMs))
  return { latenciesMs: await latenciesOf(writes), lastAnswerMs }
}

function pathOf({ namespace, pod }: PodMarks): string {
  return `/api/v1/namespaces/${namespace}/pods/${pod}`
}
