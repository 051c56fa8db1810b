import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import type { ApiClient } from '../peers/api-client.ts'
import { type PodMarks, podMarks, type WorkloadShape } from './workload-objects.ts'
import type { ShownState, WorkloadWatch } from './workload-watch.ts'

export interface FlipOptions {
  /** How many Pods become unready, each once. */
  readonly count: number
  readonly perSecond: number
  readonly random: Random
}

/**
 * Makes random Pods unready, one after the other at an even pace, however long the server takes for each. When
 * EndpointSlices show all of them as unready, resolves to how long this took for each in milliseconds: from the answer
 * to the write of its status until the event of the slice.
 */
export async function flipPods(
  api: ApiClient,
  watch: WorkloadWatch,
  shape: WorkloadShape,
  { count, perSecond, random }: FlipOptions,
): Promise<readonly number[]> {
  const startMs = performance.now()
  const flips: Promise<SeenWrite>[] = []
  for (const pod of drawn(shape, count, random)) {
    await sleep(Math.max(0, startMs + (flips.length * 1000) / perSecond - performance.now()))
    const flip = flipPod(api, watch, pod)
    // The first failure is reported below.
    flip.catch(() => {})
    flips.push(flip)
  }
  return latenciesOf(await Promise.all(flips))
}

/** Sets these conditions of a Pod to False: by default those that a kubelet sets. */
export function flipPod(
  api: ApiClient,
  watch: WorkloadWatch,
  pod: PodMarks,
  types: readonly string[] = ['Ready', 'ContainersReady'],
): Promise<SeenWrite> {
  const lastTransitionTime = new Date().toISOString().replace(/\.\d+/, '')
  const conditions = types.map((type) => ({ type, status: 'False', lastTransitionTime }))
  const path = `/api/v1/namespaces/${pod.namespace}/pods/${pod.pod}/status`
  return seenWrite(watch, pod, 'unready', () => patchStatus(api, path, { conditions }))
}

/** Patches the status of an object as kubelets and the node lifecycle controller do. */
export async function patchStatus(api: ApiClient, path: string, status: object): Promise<void> {
  const contentType = 'application/strategic-merge-patch+json'
  const answer = await api.send('PATCH', path, { body: { status }, contentType, timeoutMs: 60_000 })
  if (answer.status !== 200) throw new Error(`PATCH ${path}: ${answer.status}`)
}

/** When a write was answered, and how long after that the event of the slice that shows it arrives, in milliseconds. */
export interface SeenWrite {
  readonly answeredMs: number
  readonly latencyMs: Promise<number>
}

/**
 * Performs a write after which EndpointSlices should show the Pod in this state. Resolves when the write is answered.
 */
export async function seenWrite(
  watch: WorkloadWatch,
  pod: PodMarks,
  state: ShownState | 'gone',
  write: () => Promise<unknown>,
): Promise<SeenWrite> {
  const seen = watch.expect(pod, state)
  await write()
  const answeredMs = performance.now()
  // The event may arrive before the answer.
  return { answeredMs, latencyMs: seen.then((seenMs) => Math.max(0, seenMs - answeredMs)) }
}

/** Resolves once all are seen. */
export function latenciesOf(writes: readonly SeenWrite[]): Promise<readonly number[]> {
  return Promise.all(writes.map(({ latencyMs }) => latencyMs))
}

/** Different Pods, in random order. */
function drawn(shape: WorkloadShape, count: number, random: Random): readonly PodMarks[] {
  const left = Array.from({ length: shape.services * shape.podsPerService }, (_, index) => index)
  return Array.from({ length: Math.min(count, left.length) }, () => {
    const at = randomInteger(random, left.length)
    const index = left[at] as number
    left[at] = left.at(-1) as number
    left.pop()
    return podMarks(index, shape)
  })
}
