import type { KubeApi, ObjectRef } from '../kube/api.ts'
import type { Followed } from '../kube/informer.ts'
import type { Service } from '../kube/resources.ts'
import type { Bitmap } from '../net/bitmap.ts'
import type { Finding } from './finding.ts'
import { listServices, readServices } from './live-services.ts'
import type { RangeClaims } from './range-claims.ts'
import { claimantsOf, surveyServices } from './range-survey.ts'

/** The holders of so many numbers are read at a time when there is no time for more. */
const fewNumbers = 8

/** Numbers that Services were just seen to hold. */
export interface LiveHoldings {
  readonly numbers: Bitmap
  /** That these of them are not allocated. */
  findings(numbers: Bitmap): readonly Finding[]
}

export interface RangeLiveOptions {
  readonly api: KubeApi
  readonly services: Followed<Service>
  readonly claims: RangeClaims
  readonly index: number
}

/** Asks the API server what Services hold of one range. */
export class RangeLive {
  readonly #options: RangeLiveOptions

  constructor(options: RangeLiveOptions) {
    this.#options = options
  }

  /** What all Services hold. */
  async all(signal: AbortSignal): Promise<{ readonly held: LiveHoldings; readonly looked: undefined }> {
    return { held: this.#heldBy(await listServices(this.#options.api, signal)), looked: undefined }
  }

  /**
   * What those Services hold that are known to hold these numbers. Unless `many`, those that hold a few of the numbers: `looked` says which, and is
   * undefined when it was all of them.
   */
  async holders(
    numbers: Bitmap,
    many: boolean,
    signal: AbortSignal,
  ): Promise<{ readonly held: LiveHoldings; readonly looked: readonly number[] | undefined }> {
    const { api, services } = this.#options
    const known = [...this.#claimants(services.store.list(), numbers)]
    const chosen = many ? known : known.slice(0, fewNumbers)
    const refs = refsOf(chosen.flatMap(([, holders]) => holders))
    const live = await readServices(api, refs, signal)
    return {
      held: this.#heldBy([...live.values()]),
      looked: chosen.length < known.length ? chosen.map(([offset]) => offset) : undefined,
    }
  }

  /** That these numbers are not allocated, as far as the copies of the Services tell who holds them. */
  notAllocated(numbers: Bitmap): readonly Finding[] {
    return this.#notAllocated(this.#options.services.store.list(), numbers, false)
  }

  #heldBy(live: readonly Service[]): LiveHoldings {
    const { claims, index } = this.#options
    return {
      numbers: surveyServices(live, claims).held[index] as Bitmap,
      findings: (numbers) => this.#notAllocated(live, numbers, true),
    }
  }

  #notAllocated(services: readonly Service[], numbers: Bitmap, repairing: boolean): readonly Finding[] {
    const { claims, index } = this.#options
    return [...this.#claimants(services, numbers)].flatMap(([offset, [first]]) =>
      first === undefined ? [] : [claims.notAllocated(first, index, offset, repairing)],
    )
  }

  #claimants(services: readonly Service[], numbers: Bitmap): ReadonlyMap<number, readonly Service[]> {
    const { claims, index } = this.#options
    const wanted = claims.ranges.map((_, range) => (range === index ? numbers : undefined))
    return claimantsOf(services, claims, wanted)[index] ?? new Map()
  }
}

/** Each Service once. */
function refsOf(services: readonly Service[]): readonly ObjectRef[] {
  return [...new Set(services)].map(({ metadata }) => ({ namespace: metadata?.namespace, name: metadata?.name ?? '' }))
}
