import { type Random, randomInteger } from '../../../src/runtime/random.ts'
import type { ContentList } from './endpoints-moves.ts'
import type { Plural, Step } from './steps.ts'

type Labels = Readonly<Record<string, string>>

export interface ServiceOfHistory {
  readonly namespace: number
  readonly name: string
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName'
  readonly headless: boolean
  /** Undefined for one whose Endpoints are made by hand. */
  readonly selector: Labels | undefined
  readonly labels: Labels
  /** Hints by the annotation. */
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

/** What the history has made so far, as far as the choice of the next step needs it. */
export class World {
  readonly random: Random
  readonly steps: Step[] = []
  readonly services = new Map<string, ServiceOfHistory>()
  readonly pods = new Map<string, PodOfHistory>()
  readonly nodes = new Set<string>()
  /** Endpoints that were made by hand, or left to hands, by `namespace/name`. */
  readonly endpoints = new Set<string>()
  /** Which contents the Endpoints of a name may have, from the first that were made by hand. */
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

  /** One of those that fit, or undefined. */
  find<T>(items: Iterable<T>, fits: (item: T) => boolean = () => true): T | undefined {
    const fitting = [...items].filter(fits)
    return fitting.length === 0 ? undefined : this.pick(fitting)
  }

  /** A name in a namespace that nothing of the kind has, or undefined. */
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

  /** An IPv4 address and an IPv6 address that belong together; now and then one that was given out before. */
  addresses(): readonly [string, string] {
    if (this.#ips < 250 && !(this.#ips > 0 && this.chance(0.05))) this.#ips++
    const number = this.chance(0.05) ? 1 + this.below(this.#ips) : this.#ips
    return [`10.0.${this.below(2)}.${number}`, `fd00::${number.toString(16)}`]
  }

  /**
   * What controllers do not look at when it happens. Whether they have seen it in the end depends on what else happens; so that it does
   * not, the Services are looked at once more when all has been seen, at the next `settle`.
   */
  markStale(concerns: (service: ServiceOfHistory) => boolean): void {
    for (const service of this.services.values())
      if (service.selector !== undefined && concerns(service)) this.#stale.add(keyOf(service))
  }

  /** The same for Endpoints that are mirrored. */
  markStaleMirror(key: string): void {
    this.#staleMirrors.add(key)
  }

  /** Gives the controllers time to see what they do not wait for, and then has them look. */
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

  /** A change that means nothing but an event. */
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
