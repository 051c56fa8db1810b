import type { EndpointSlice, Endpoints } from '../../src/kube/resources.ts'
import type { SeenEvent } from '../peers/api-client.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import type { Owner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'
import { podName, serviceName, type WorkloadShape } from './workload-objects.ts'

const paths = {
  slices: '/apis/discovery.k8s.io/v1/endpointslices',
  endpoints: '/api/v1/endpoints',
}
/** Endpoints of more are cut at so many. */
const endpointsCapacity = 1000

/** The Endpoints and EndpointSlices of all Services, as somebody sees them who watches the API server, beside what they should be. */
export class WorkloadWatch {
  readonly #server: Apiserver
  readonly #stop = new AbortController()
  readonly #slices: SliceView
  readonly #endpoints: EndpointsView
  #followingEndpoints = new AbortController()
  #begun = 0

  constructor(owner: Owner, server: Apiserver, shape: WorkloadShape) {
    this.#server = server
    this.#slices = new SliceView(shape)
    this.#endpoints = new EndpointsView(shape)
    owner.after(() => this.#stop.abort())
    void this.#follow<EndpointSlice>(paths.slices, this.#slices, this.#stop.signal)
  }

  /** How many watches it has begun so far. */
  get begun(): number {
    return this.#begun
  }

  /** When the first object came, on the clock of `performance.now()`. */
  get firstAtMs(): number {
    return Math.min(this.#slices.firstAtMs, this.#endpoints.firstAtMs)
  }

  /** Follows Endpoints too, from now on. A watcher of 1,000 addresses at each flip would take the CPU from who is measured. */
  followEndpoints(): void {
    this.#followingEndpoints = new AbortController()
    const signal = AbortSignal.any([this.#stop.signal, this.#followingEndpoints.signal])
    void this.#follow<Endpoints>(paths.endpoints, this.#endpoints, signal)
  }

  leaveEndpoints(): void {
    this.#followingEndpoints.abort()
  }

  /** From now on this Pod is to be shown as ready, or as not ready; calls back when it is seen so. */
  expect(pod: string, ready: boolean, onSeen: (atMs: number) => void): void {
    this.#endpoints.ready.set(pod, ready)
    this.#slices.expect(pod, ready, onSeen)
  }

  /** Resolves when all EndpointSlices are right, and all Endpoints, to the moment at which the last one became so. */
  async whenRight(withinMs: number): Promise<number> {
    return untilPasses(
      'Endpoints and EndpointSlices to be right',
      () => {
        const wrong = { slices: this.#slices.wrong, endpoints: this.#endpoints.wrong }
        if (wrong.slices > 0) throw new Error(`${wrong.slices} Pods are not in EndpointSlices as they should be`)
        if (wrong.endpoints > 0) throw new Error(`${wrong.endpoints} Endpoints are wrong`)
        return Math.max(this.#slices.lastAtMs, this.#endpoints.lastAtMs)
      },
      { withinMs, everyMs: 20 },
    )
  }

  /** A server under load ends watches that it cannot serve in time; the next one begins with all that there is. */
  async #follow<T>(path: string, view: View<T>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#begun += 1
      view.clear()
      await this.#server.api.watch<T>(path, (event) => view.take(event), signal).catch(() => {})
    }
  }
}

interface View<T> {
  clear(): void
  take(event: SeenEvent<T>): void
}

/** In which slices each Pod is, and whether it is ready there. */
class SliceView implements View<EndpointSlice> {
  firstAtMs = Number.POSITIVE_INFINITY
  /** When the last event came. */
  lastAtMs = 0
  readonly #contents = new Map<string, ReadonlyMap<string, boolean>>()
  readonly #shown = new Map<string, Map<string, boolean>>()
  readonly #wanted = new Map<string, boolean>()
  readonly #wrong = new Set<string>()
  readonly #waiting = new Map<string, (atMs: number) => void>()

  constructor(shape: WorkloadShape) {
    const pods = shape.services * shape.podsPerService
    for (let index = 0; index < pods; index++) this.#wanted.set(podName(index, shape), true)
    this.clear()
  }

  get wrong(): number {
    return this.#wrong.size
  }

  clear(): void {
    this.#contents.clear()
    this.#shown.clear()
    for (const pod of this.#wanted.keys()) this.#wrong.add(pod)
  }

  expect(pod: string, ready: boolean, onSeen: (atMs: number) => void): void {
    this.#wanted.set(pod, ready)
    this.#waiting.set(pod, onSeen)
    this.#judge(pod, performance.now())
  }

  take({ type, object }: SeenEvent<EndpointSlice>): void {
    const atMs = performance.now()
    const name = object.metadata?.name ?? ''
    const before = this.#contents.get(name)
    const after = type === 'DELETED' ? new Map<string, boolean>() : podsIn(object)
    this.#contents.set(name, after)
    this.firstAtMs = Math.min(this.firstAtMs, atMs)
    this.lastAtMs = atMs
    for (const pod of before?.keys() ?? []) {
      if (after.has(pod)) continue
      this.#shown.get(pod)?.delete(name)
      this.#judge(pod, atMs)
    }
    for (const [pod, ready] of after) {
      if (before?.get(pod) === ready) continue
      const shown = this.#shown.get(pod) ?? new Map<string, boolean>()
      this.#shown.set(pod, shown.set(name, ready))
      this.#judge(pod, atMs)
    }
  }

  /** Right is a Pod that is in exactly one slice as it should be. */
  #judge(pod: string, atMs: number): void {
    const wanted = this.#wanted.get(pod)
    if (wanted === undefined) return
    const shown = [...(this.#shown.get(pod)?.values() ?? [])]
    if (shown.length !== 1 || shown[0] !== wanted) {
      this.#wrong.add(pod)
      return
    }
    this.#wrong.delete(pod)
    this.#waiting.get(pod)?.(atMs)
    this.#waiting.delete(pod)
  }
}

function podsIn(slice: EndpointSlice): ReadonlyMap<string, boolean> {
  return new Map((slice.endpoints ?? []).map((each) => [each.targetRef?.name ?? '', each.conditions?.ready !== false]))
}

/** Whether the Endpoints of each Service list its Pods as they should be. */
class EndpointsView implements View<Endpoints> {
  firstAtMs = Number.POSITIVE_INFINITY
  lastAtMs = 0
  /** The Pods that should be otherwise than ready. */
  readonly ready = new Map<string, boolean>()
  readonly #shape: WorkloadShape
  readonly #seen = new Map<string, Endpoints>()

  constructor(shape: WorkloadShape) {
    this.#shape = shape
  }

  get wrong(): number {
    let wrong = 0
    for (let index = 0; index < this.#shape.services; index++) if (!this.#isRight(index)) wrong += 1
    return wrong
  }

  clear(): void {
    this.#seen.clear()
  }

  take({ type, object }: SeenEvent<Endpoints>): void {
    const atMs = performance.now()
    const name = object.metadata?.name ?? ''
    if (type === 'DELETED') this.#seen.delete(name)
    else this.#seen.set(name, object)
    this.firstAtMs = Math.min(this.firstAtMs, atMs)
    this.lastAtMs = atMs
  }

  #isRight(service: number): boolean {
    const { podsPerService } = this.#shape
    const seen = this.#seen.get(serviceName(service))
    if (seen === undefined) return false
    let ready = 0
    for (let index = 0; index < podsPerService; index++) {
      if (this.ready.get(podName(service * podsPerService + index, this.#shape)) !== false) ready += 1
    }
    const wanted = Math.min(ready, endpointsCapacity)
    const rest = Math.min(podsPerService - ready, endpointsCapacity - wanted)
    const addresses = (seen.subsets ?? []).flatMap((subset) => subset.addresses ?? [])
    const notReady = (seen.subsets ?? []).flatMap((subset) => subset.notReadyAddresses ?? [])
    return (
      addresses.length === wanted &&
      notReady.length === rest &&
      addresses.every(({ targetRef }) => this.ready.get(targetRef?.name ?? '') !== false) &&
      notReady.every(({ targetRef }) => this.ready.get(targetRef?.name ?? '') === false)
    )
  }
}
