import type { Pod, Service } from '../kube/resources.ts'
import { DesiredEndpoints, type DesiredEndpointsOptions } from './desired-endpoints.ts'
import { SettledSlices } from './settled-slices.ts'
import type { AddressType } from './slice-info.ts'

export interface MemoryQuestion extends DesiredEndpointsOptions {
  readonly pods: readonly Pod[]
  /** Another number whenever a Node has come, gone or moved to another zone. */
  readonly nodesVersion: number
}

/** What is known of an address type. */
export interface Remembered {
  readonly desired: DesiredEndpoints
  /** Those that have the ports with this key. */
  settled(portsKey: string): SettledSlices
}

interface Known extends Remembered {
  readonly service: Service
  readonly nodesVersion: number
  readonly settledByPorts: Map<string, SettledSlices>
  pods: readonly Pod[]
}

/**
 * What the last plan found out about a Service: with it the next one need only look at what has changed since. A plan with it writes no more and no less than
 * one without.
 */
export class SlicesMemory {
  readonly #known = new Map<AddressType, Known>()

  /** What is known of an address type, brought up to date with the Pods. */
  recall(question: MemoryQuestion): Remembered {
    const known = this.#known.get(question.addressType)
    if (known !== undefined && update(known, question)) return known
    const fresh = remembered(question)
    this.#known.set(question.addressType, fresh)
    return fresh
  }
}

function remembered(question: MemoryQuestion): Known {
  const { service, nodesVersion, pods } = question
  const desired = new DesiredEndpoints(question)
  for (const pod of pods) desired.add(pod)
  const settledByPorts = new Map<string, SettledSlices>()
  return {
    service,
    nodesVersion,
    pods,
    desired,
    settledByPorts,
    settled(portsKey) {
      let settled = settledByPorts.get(portsKey)
      if (settled === undefined) {
        settled = new SettledSlices()
        settledByPorts.set(portsKey, settled)
      }
      return settled
    },
  }
}

/** Returns false when it is better to begin anew. */
function update(known: Known, { service, nodesVersion, pods }: MemoryQuestion): boolean {
  const { desired, settledByPorts } = known
  if (known.service !== service || known.nodesVersion !== nodesVersion || desired.leftOut.length > 0) return false
  const changes = changedPods(known.pods, pods)
  if (changes === undefined) return false
  const disturb = (pod: Pod): void => {
    for (const settled of settledByPorts.values()) settled.disturb(pod.metadata?.name ?? '')
  }
  for (const pod of changes.removed) {
    desired.remove(pod)
    disturb(pod)
  }
  for (const pod of changes.added) desired.add(pod)
  for (const key of settledByPorts.keys()) if (!desired.groups.has(key)) settledByPorts.delete(key)
  known.pods = pods
  return true
}

/** Which Pods are not the same objects, in lists of about the same order; undefined when that is most of them. */
function changedPods(
  before: readonly Pod[],
  after: readonly Pod[],
): { readonly removed: readonly Pod[]; readonly added: readonly Pod[] } | undefined {
  const removed: Pod[] = []
  const added: Pod[] = []
  let next = 0
  for (const pod of before) {
    const other = after[next]
    if (other === pod) next++
    else {
      removed.push(pod)
      if (other !== undefined && other.metadata?.name === pod.metadata?.name) {
        added.push(other)
        next++
      }
      if (removed.length * 4 > before.length) return undefined
    }
  }
  for (; next < after.length; next++) added.push(after[next] as Pod)
  return { removed, added }
}
