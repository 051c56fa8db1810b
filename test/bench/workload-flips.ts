import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import type { ApiClient } from '../peers/api-client.ts'
import { type PodMarks, podMarks, type WorkloadShape } from './workload-objects.ts'
import type { WorkloadWatch } from './workload-watch.ts'

export interface FlipOptions {
  /** How many Pods become unready, each once. */
  readonly count: number
  readonly perSecond: number
  readonly random: Random
}

/**
 * Has random Pods become unready, one after the other at an even pace, whatever the server takes for each. Resolves, once all have been seen so in
 * EndpointSlices, to how long that took for each in milliseconds: from the answer to the write of its status to the event of the slice.
 */
export async function flipPods(
  api: ApiClient,
  watch: WorkloadWatch,
  shape: WorkloadShape,
  { count, perSecond, random }: FlipOptions,
): Promise<readonly number[]> {
  const startMs = performance.now()
  const flips: Promise<number>[] = []
  for (const pod of drawn(shape, count, random)) {
    await sleep(Math.max(0, startMs + (flips.length * 1000) / perSecond - performance.now()))
    const flip = flipPod(api, watch, pod)
    // Whoever fails first is heard of below.
    flip.catch(() => {})
    flips.push(flip)
  }
  return Promise.all(flips)
}

async function flipPod(api: ApiClient, watch: WorkloadWatch, { namespace, pod }: PodMarks): Promise<number> {
  const seen = new Promise<number>((resolve) => watch.expect(pod, false, resolve))
  const lastTransitionTime = new Date().toISOString().replace(/\.\d+/, '')
  const conditions = ['Ready', 'ContainersReady'].map((type) => ({ type, status: 'False', lastTransitionTime }))
  // As a kubelet does it.
  const answer = await api.send('PATCH', `/api/v1/namespaces/${namespace}/pods/${pod}/status`, {
    body: { status: { conditions } },
    contentType: 'application/strategic-merge-patch+json',
    timeoutMs: 60_000,
  })
  const answeredMs = performance.now()
  if (answer.status !== 200) throw new Error(`the status of ${pod}: ${answer.status}`)
  // The event may be faster than the answer.
  return Math.max(0, (await seen) - answeredMs)
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
