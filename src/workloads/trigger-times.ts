import type { Pod, Service } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import { formatMicroTime, parseTime, tryParseTime } from '../runtime/time-format.ts'
import { readyCondition } from './pod-rules.ts'

/** The annotation that says which change an object was written for: kube-proxy and others measure from it. */
export const lastChangeTriggerTime = 'endpoints.kubernetes.io/last-change-trigger-time'

interface ServiceState {
  service: string | undefined
  /** By the names of the Pods. */
  readonly pods: Map<string, string>
}

/**
 * When the oldest change happened that the next write of a Service's Endpoints or EndpointSlices is for (upstream's `TriggerTimeTracker`). Each
 * controller has one of its own.
 *
 * A change is a Pod's becoming ready or unready, or the making of the Service. Of an object that changed twice between two calls only the later
 * change is known, as upstream.
 */
export class TriggerTimes {
  readonly #states = new Map<string, ServiceState>()

  /**
   * Takes in the present state and returns the time for {@link lastChangeTriggerTime}, in Go's RFC3339Nano, UTC; undefined when there is none that is
   * sure. Called in each sync, whether it writes or not.
   */
  compute(service: Service, pods: readonly Pod[]): string | undefined {
    const key = keyOfObject(service)
    const known = this.#states.get(key)
    const state: ServiceState = known ?? { service: undefined, pods: new Map() }
    if (known === undefined) this.#states.set(key, state)
    let earliest: string | undefined
    let seen = 0
    for (const pod of pods) {
      const time = timeOf(readyCondition(pod)?.lastTransitionTime)
      if (time === undefined) continue
      seen++
      const name = pod.metadata?.name ?? ''
      const last = state.pods.get(name)
      if (last === time) continue
      state.pods.set(name, time)
      if ((last === undefined || isBefore(last, time)) && (earliest === undefined || isBefore(time, earliest)))
        earliest = time
    }
    if (state.pods.size > seen) forgetOthers(state.pods, pods)
    const created = timeOf(service.metadata?.creationTimestamp)
    if (created !== undefined && (state.service === undefined || isBefore(state.service, created))) {
      if (earliest === undefined || isBefore(created, earliest)) earliest = created
    }
    state.service = created
    return known === undefined ? created : earliest
  }

  /** Forgets a Service that is gone. */
  delete(key: string): void {
    this.#states.delete(key)
  }
}

function forgetOthers(times: Map<string, string>, pods: readonly Pod[]): void {
  const present = new Set<string>()
  for (const pod of pods) {
    if (timeOf(readyCondition(pod)?.lastTransitionTime) !== undefined) present.add(pod.metadata?.name ?? '')
  }
  for (const name of times.keys()) if (!present.has(name)) times.delete(name)
}

/** The zero value of Go's time.Time stands for no time. */
const zeroTime = '0001-01-01T00:00:00Z'

/** A time in the form in which Kubernetes writes it, whole seconds in UTC; only other programs' servers write another. */
function timeOf(text: string | null | undefined): string | undefined {
  if (text === undefined || text === null || text === zeroTime) return undefined
  if (text.length === zeroTime.length) return text
  const ms = tryParseTime(text)
  return ms === undefined ? undefined : formatMicroTime(ms).replace(/\.?0+Z$/, 'Z')
}

function isBefore(a: string, b: string): boolean {
  if (a.length === b.length) return a < b
  return parseTime(a) < parseTime(b)
}
