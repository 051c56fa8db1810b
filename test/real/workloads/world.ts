import { type Random, randomInteger } from '../../../src/runtime/random.ts'
import type { ContentList } from './endpoints-moves.ts'
import type { Plural, Step } from './steps.ts'

type Labels = Readonly<Record<string, string>>

export interface ServiceOfHistory {
  readonly namespace: number
  readonly name: string
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName'
  readonly headless: boolean
  /** Undefined if the Endpoints of the Service are made by hand. */
  readonly selector: Labels | undefined
  readonly labels: Labels
  /** Whether the annotation asks for hints. */
  readonly auto: boolean
  readonly families: 'IPv4' | 'IPv6' | 'IPv4,IPv6' | 'IPv6,IPv4'
}

export interface PodOfHistory {
  readonly namespace: number
  readonly name: string
  readonly labels: Labels
  readonly node: string | undefined
  readonly ready: boolean
  readonly ips: readonly string[]
  readonly state: 'alive' | 'finished' | 'terminating'
  readonly finalizer: boolean
}

/** The objects that the history has made so far, as far as the choice of the next step needs them. */
export class World {
  readonly random: Random
  readonly steps: Step[] = []
  readonly services = new Map<string, ServiceOfHistory>()
  readonly pods = new Map<string, PodOfHistory>()
  readonly nodes = new Set<string>()
  /** Endpoints that were made by hand, or that the controllers no longer manage, by `namespace/name`. */
  readonly endpoints = new Set<string>()
  /** The contents that the Endpoints of a name may have, fixed by the first that were made by hand. */
  readonly contentLists = new Map<string, ContentList>()
  /** Names that may not be used again until the controllers have seen that they are free. */
  readonly buried = new Set<string>()
  /** Slices that were taken from their manager or Service and come back later. */
  readonly borrowed: Step[] = []
  readonly #stale = new Set<string>()
  readonly #staleMirrors = new Set<string>()
  #touches = 0
  #ips = 0

  constructor(random: Random) {
    this.random = random
  }

  add(...steps: readonly Step[]): void {
    this.steps.push(...steps)
  }

  chance(probability: number): boolean {
    return this.random.next() < probability
  }

  below(limit: number): number {
    return randomInteger(this.random, limit)
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T
  }

  /** A random item that fits, or undefined. */
  find<T>(items: Iterable<T>, fits: (item: T) => boolean = () => true): T | undefined {
    const fitting = [...items].filter(fits)
    return fitting.length === 0 ? undefined : this.pick(fitting)
  }

  /** A namespace and a name that is not taken there, or undefined. */
  freeName(
    prefix: string,
    limit: number,
    isTaken: (key: string) => boolean,
  ): { namespace: number; name: string } | undefined {
    const namespace = this.below(2)
    const names = Array.from({ length: limit }, (_, index) => `${prefix}${index}`)
    const name = this.find(names, (candidate) => !isTaken(keyOf({ namespace, name: candidate })))
    return name === undefined ? undefined : { namespace, name }
  }

  /** An IPv4 address and an IPv6 address that belong together; sometimes a pair that was used before. */
  addresses(): readonly [string, string] {
    if (this.#ips < 250 && !(this.#ips > 0 && this.chance(0.05))) this.#ips++
    const number = this.chance(0.05) ? 1 + this.below(this.#ips) : this.#ips
    return [`10.0.${this.below(2)}.${number}`, `fd00::${number.toString(16)}`]
  }

  /**
   * Marks Services for a change that triggers no sync. Whether the controllers have processed it at the end depends on
   * other events. To avoid that, the next `settle` triggers a sync of these Services once more, after the controllers
   * have seen all changes.
   */
  markStale(concerns: (service: ServiceOfHistory) => boolean): void {
    for (const service of this.services.values())
      if (service.selector !== undefined && concerns(service)) this.#stale.add(keyOf(service))
  }

  /** The same for mirrored Endpoints. */
  markStaleMirror(key: string): void {
    this.#staleMirrors.add(key)
  }

  /** Gives the controllers time to see the changes that trigger no sync, and then triggers one. */
  settle(): void {
    this.add(...this.borrowed.splice(0), { type: 'pause', ms: 700 })
    for (const key of this.#stale) {
      const service = this.services.get(key)
      if (service !== undefined) this.touch('services', service)
    }
    for (const key of this.#staleMirrors) {
      const [namespace, name] = key.split('/') as [string, string]
      if (this.endpoints.has(key)) this.touch('endpoints', { namespace: Number(namespace), name })
    }
    this.#stale.clear()
    this.#staleMirrors.clear()
    this.buried.clear()
  }

  /** A change whose only effect is an event. */
  touch(plural: Plural, { namespace, name }: { readonly namespace: number; readonly name: string }): void {
    this.#touches++
    const patch = { metadata: { annotations: { 'example.com/touched': String(this.#touches) } } }
    this.add({ type: 'patch', plural, namespace, name, patch, mayMiss: plural === 'endpoints' })
  }
}

export function keyOf({ namespace, name }: { readonly namespace: number; readonly name: string }): string {
  return `${namespace}/${name}`
}

export function selects(service: ServiceOfHistory, pod: PodOfHistory): boolean {
  const { selector } = service
  if (selector === undefined || service.namespace !== pod.namespace) return false
  return Object.entries(selector).every(([key, value]) => pod.labels[key] === value)
}
