import type { EndpointSlice, Endpoints } from '../../src/kube/resources.ts'
import type { SeenEvent } from '../peers/api-client.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import type { Owner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'
import { type PodMarks, podMarks, type WorkloadShape } from './workload-objects.ts'

const paths = {
  slices: '/apis/discovery.k8s.io/v1/endpointslices',
  endpoints: '/api/v1/endpoints',
}
/** Endpoints list at most this many addresses. */
const endpointsCapacity = 1000

/** The state in which EndpointSlices show a Pod. Endpoints do not list a terminating Pod. */
export type ShownState = 'ready' | 'unready' | 'terminating'
type PodOfService = Pick<PodMarks, 'service' | 'pod'>
/** What should be shown: by Service, then by Pod. */
type Wanted = ReadonlyMap<string, Map<string, ShownState>>

/**
 * The Endpoints and EndpointSlices of all Services as a watcher of the API server sees them, and what they should be.
 */
export class WorkloadWatch {
  readonly #server: Apiserver
  readonly #stop = new AbortController()
  readonly #wanted = new Map<string, Map<string, ShownState>>()
  readonly #slices = new SliceView(this.#wanted)
  readonly #endpoints = new EndpointsView(this.#wanted)
  #followingEndpoints = new AbortController()
  #begun = 0

  constructor(owner: Owner, server: Apiserver, shape: WorkloadShape) {
    this.#server = server
    for (let index = 0; index < shape.services * shape.podsPerService; index++) {
      const { service, pod } = podMarks(index, shape)
      this.#podsOf(service).set(pod, 'ready')
    }
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

  /** When the last object of each kind came. */
  get lastAtMs(): { readonly slices: number; readonly endpoints: number } {
    return { slices: this.#slices.lastAtMs, endpoints: this.#endpoints.lastAtMs }
  }

  /**
   * Follows Endpoints too, from now on. A watcher that reads 1,000 addresses at each flip would take CPU from the
   * measured process.
   */
  followEndpoints(): void {
    this.#followingEndpoints = new AbortController()
    const signal = AbortSignal.any([this.#stop.signal, this.#followingEndpoints.signal])
    void this.#follow<Endpoints>(paths.endpoints, this.#endpoints, signal)
  }

  leaveEndpoints(): void {
    this.#followingEndpoints.abort()
  }

  /**
   * From now on expects that EndpointSlices show this Pod in this state, or not at all. Resolves to the time at which
   * they show it so, or as a later call expects it.
   */
  expect({ service, pod }: PodOfService, state: ShownState | 'gone'): Promise<number> {
    const pods = this.#podsOf(service)
    if (state === 'gone') pods.delete(pod)
    else pods.set(pod, state)
    this.#endpoints.changed(service)
    return this.#slices.whenShown(service, pod)
  }

  /**
   * From now on expects that this Service has these Pods, all ready. Resolves to the time at which its Endpoints and
   * EndpointSlices show them.
   */
  async expectService(service: string, pods: readonly string[]): Promise<number> {
    for (const pod of pods) this.#podsOf(service).set(pod, 'ready')
    this.#endpoints.changed(service)
    const seen = [...pods.map((pod) => this.#slices.whenShown(service, pod)), this.#endpoints.whenRight(service)]
    return Math.max(...(await Promise.all(seen)))
  }

  /**
   * When all EndpointSlices and all Endpoints are correct, resolves to the moment at which the last one became correct.
   */
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

  #podsOf(service: string): Map<string, ShownState> {
    const pods = this.#wanted.get(service) ?? new Map<string, ShownState>()
    this.#wanted.set(service, pods)
    return pods
  }

  /** A server under load ends watches that it cannot serve in time. The next watch begins with all existing objects. */
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

/** The callbacks that wait for a name. */
class Waiting {
  readonly #callbacks = new Map<string, ((atMs: number) => void)[]>()

  has(name: string): boolean {
    return this.#callbacks.has(name)
  }

  for(name: string): Promise<number> {
    return new Promise((resolve) => this.#callbacks.set(name, [...(this.#callbacks.get(name) ?? []), resolve]))
  }

  resolve(name: string, atMs: number): void {
    for (const callback of this.#callbacks.get(name) ?? []) callback(atMs)
    this.#callbacks.delete(name)
  }
}

/** Which slices of each Service show each Pod, and in which state. */
class SliceView implements View<EndpointSlice> {
  firstAtMs = Number.POSITIVE_INFINITY
  /** When the last event came. */
  lastAtMs = 0
  readonly #wanted: Wanted
  readonly #contents = new Map<string, ReadonlyMap<string, ShownState>>()
  /** By place, then by slice. */
  readonly #shown = new Map<string, Map<string, ShownState>>()
  /** Places. */
  readonly #wrong = new Set<string>()
  readonly #waiting = new Waiting()

  constructor(wanted: Wanted) {
    this.#wanted = wanted
  }

  get wrong(): number {
    return this.#wrong.size
  }

  clear(): void {
    this.#contents.clear()
    this.#shown.clear()
    this.#wrong.clear()
    for (const [service, pods] of this.#wanted) for (const pod of pods.keys()) this.#wrong.add(placeOf(service, pod))
  }

  whenShown(service: string, pod: string): Promise<number> {
    const shown = this.#waiting.for(placeOf(service, pod))
    this.#judge(service, pod, performance.now())
    return shown
  }

  take({ type, object }: SeenEvent<EndpointSlice>): void {
    const atMs = performance.now()
    const name = object.metadata?.name ?? ''
    const service = object.metadata?.labels?.['kubernetes.io/service-name'] ?? ''
    const before = this.#contents.get(name)
    const after = type === 'DELETED' ? new Map<string, ShownState>() : podsIn(object)
    this.#contents.set(name, after)
    this.firstAtMs = Math.min(this.firstAtMs, atMs)
    this.lastAtMs = atMs
    for (const pod of before?.keys() ?? []) {
      if (after.has(pod)) continue
      this.#shown.get(placeOf(service, pod))?.delete(name)
      this.#judge(service, pod, atMs)
    }
    for (const [pod, state] of after) {
      if (before?.get(pod) === state) continue
      const place = placeOf(service, pod)
      const shown = this.#shown.get(place) ?? new Map<string, ShownState>()
      this.#shown.set(place, shown.set(name, state))
      this.#judge(service, pod, atMs)
    }
  }

  /**
   * A Pod is correct if exactly one slice of the Service shows it in its desired state, or no slice if none should show
   * it.
   */
  #judge(service: string, pod: string, atMs: number): void {
    const place = placeOf(service, pod)
    const wanted = this.#wanted.get(service)
    if (wanted === undefined) return
    const state = wanted.get(pod)
    const shown = [...(this.#shown.get(place)?.values() ?? [])]
    if (shown.length !== (state === undefined ? 0 : 1) || shown[0] !== state) {
      this.#wrong.add(place)
      return
    }
    this.#wrong.delete(place)
    this.#waiting.resolve(place, atMs)
  }
}

/** All Pods have different names, and so have all Services. */
function placeOf(service: string, pod: string): string {
  return `${service}/${pod}`
}

function podsIn(slice: EndpointSlice): ReadonlyMap<string, ShownState> {
  return new Map(
    (slice.endpoints ?? []).map(({ targetRef, conditions }) => {
      const state = conditions?.ready === false ? 'unready' : 'ready'
      return [targetRef?.name ?? '', conditions?.terminating === true ? 'terminating' : state]
    }),
  )
}

/** Whether the Endpoints of each Service list its Pods as they should be. */
class EndpointsView implements View<Endpoints> {
  firstAtMs = Number.POSITIVE_INFINITY
  lastAtMs = 0
  readonly #wanted: Wanted
  readonly #seen = new Map<string, Endpoints>()
  /** The Services that were wrong when last judged, and those to be judged again. */
  readonly #wrong = new Set<string>()
  readonly #unjudged = new Set<string>()
  readonly #waiting = new Waiting()

  constructor(wanted: Wanted) {
    this.#wanted = wanted
  }

  get wrong(): number {
    for (const service of [...this.#unjudged]) this.#judge(service, performance.now())
    return this.#wrong.size
  }

  clear(): void {
    this.#seen.clear()
    for (const service of this.#wanted.keys()) this.#unjudged.add(service)
  }

  changed(service: string): void {
    this.#unjudged.add(service)
  }

  whenRight(service: string): Promise<number> {
    const right = this.#waiting.for(service)
    this.#judge(service, performance.now())
    return right
  }

  take({ type, object }: SeenEvent<Endpoints>): void {
    const atMs = performance.now()
    const name = object.metadata?.name ?? ''
    if (type === 'DELETED') this.#seen.delete(name)
    else this.#seen.set(name, object)
    this.firstAtMs = Math.min(this.firstAtMs, atMs)
    this.lastAtMs = atMs
    this.#unjudged.add(name)
    if (this.#waiting.has(name)) this.#judge(name, atMs)
  }

  #judge(service: string, atMs: number): void {
    this.#unjudged.delete(service)
    const wanted = this.#wanted.get(service)
    if (wanted === undefined) return
    if (!isListed(wanted, this.#seen.get(service))) {
      this.#wrong.add(service)
      return
    }
    this.#wrong.delete(service)
    this.#waiting.resolve(service, atMs)
  }
}

function isListed(wanted: ReadonlyMap<string, ShownState>, seen: Endpoints | undefined): boolean {
  if (seen === undefined) return false
  const count = (state: ShownState): number => [...wanted.values()].filter((each) => each === state).length
  const ready = Math.min(count('ready'), endpointsCapacity)
  const rest = Math.min(count('unready'), endpointsCapacity - ready)
  const addresses = (seen.subsets ?? []).flatMap((subset) => subset.addresses ?? [])
  const notReady = (seen.subsets ?? []).flatMap((subset) => subset.notReadyAddresses ?? [])
  return (
    addresses.length === ready &&
    notReady.length === rest &&
    addresses.every(({ targetRef }) => wanted.get(targetRef?.name ?? '') === 'ready') &&
    notReady.every(({ targetRef }) => wanted.get(targetRef?.name ?? '') === 'unready')
  )
}
