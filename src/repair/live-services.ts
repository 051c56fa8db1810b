import type { KubeApi, ObjectRef } from '../kube/api.ts'
import { listPages } from '../kube/api-wrappers.ts'
import { ifFound } from '../kube/errors.ts'
import type { Followed } from '../kube/informer.ts'
import { type Service, services } from '../kube/resources.ts'
import { keyOf, keyOfObject, refOfObject } from '../kube/store.ts'
import type { Bitmap } from '../net/bitmap.ts'
import type { Clock } from '../runtime/clock.ts'
import { inSlices } from '../runtime/steps.ts'
import type { RangeClaims } from './bitmap/claims.ts'
import { claimantsOf, surveyServices } from './bitmap/holdings.ts'
import type { Finding } from './reporter.ts'
import { trimService } from './service-claims.ts'

/** Up to this many Services are read with one request each, in parallel. For more, one list is cheaper. */
const FEW_SERVICES = 8

/**
 * Reads Services from the API server, reduced by {@link trimService}. The keys of the result are `namespace/name`.
 * Missing Services are omitted. Each Service is as it was at some moment after the call. Rejects with a KubeError, or
 * with the TypeError of {@link trimService}.
 */
export async function readServices(
  api: KubeApi,
  refs: readonly ObjectRef[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Service>> {
  const found =
    refs.length <= FEW_SERVICES
      ? await Promise.all(refs.map((ref) => readService(api, ref, signal)))
      : await listServices(api, signal)
  const wanted = new Set(refs.map(keyOf))
  return new Map(
    found
      .filter((service) => service !== undefined)
      .map((service): [string, Service] => [keyOfObject(service), service])
      .filter(([key]) => wanted.has(key)),
  )
}

async function readService(api: KubeApi, ref: ObjectRef, signal: AbortSignal): Promise<Service | undefined> {
  const found = await ifFound(api.get(services, ref, { signal }))
  return found && trimService(found)
}

/**
 * All Services as they were at one moment after the call. Reduced by {@link trimService}, because the whole Services of
 * a large cluster may not fit in memory. Rejects like {@link readServices}.
 */
export async function listServices(api: KubeApi, signal: AbortSignal): Promise<readonly Service[]> {
  const found: Service[] = []
  const query = { signal, dropsManagedFields: true, protobuf: trimService.protobuf }
  for await (const page of listPages(api, services, query)) for (const service of page) found.push(trimService(service))
  return found
}

/** If {@link RangeReader.holders} is called without `many`, it reads the holders of at most this many numbers. */
const FEW_NUMBERS = 8

/**
 * The numbers of one range that Services hold. The Services have just been read from the API server. `findings` returns
 * a finding for each of the given numbers that one of these Services holds: the number is about to be allocated.
 */
interface LiveNumbers {
  readonly numbers: Bitmap
  findings(numbers: Bitmap): Promise<readonly Finding[]>
}

interface RangeReaderOptions {
  readonly api: KubeApi
  readonly services: Followed<Service>
  readonly claims: RangeClaims
  /** The index of the range in `claims.ranges`. */
  readonly index: number
  readonly clock: Clock
}

/** Reads from the API server who holds the numbers of one range. */
export class RangeReader {
  readonly #options: RangeReaderOptions

  constructor(options: RangeReaderOptions) {
    this.#options = options
  }

  /**
   * Reads all Services. `held` has the numbers that they hold. `checked` is undefined, as if all numbers were checked.
   */
  async all(signal: AbortSignal): Promise<{ readonly held: LiveNumbers; readonly checked: undefined }> {
    return { held: await this.#heldBy(await listServices(this.#options.api, signal)), checked: undefined }
  }

  /**
   * Reads the Services that hold some of `numbers` according to the informer; without `many`, only the holders of the
   * first few of these numbers. `held` has all numbers of the Services that were read. `checked` has the numbers whose
   * holders were read; undefined if these are all of `numbers`.
   */
  async holders(
    numbers: Bitmap,
    many: boolean,
    signal: AbortSignal,
  ): Promise<{ readonly held: LiveNumbers; readonly checked: readonly number[] | undefined }> {
    const { api, services } = this.#options
    const known = [...(await this.#claimants(services.store, numbers))]
    const chosen = many ? known : known.slice(0, FEW_NUMBERS)
    const holders = new Set(chosen.flatMap(([, services]) => services))
    const live = await readServices(api, [...holders].map(refOfObject), signal)
    return {
      held: await this.#heldBy([...live.values()]),
      checked: chosen.length < known.length ? chosen.map(([offset]) => offset) : undefined,
    }
  }

  /** A finding for each of `numbers` that a Service holds according to the informer: the number is not allocated. */
  notAllocated(numbers: Bitmap): Promise<readonly Finding[]> {
    return this.#notAllocated(this.#options.services.store, numbers, false)
  }

  async #heldBy(live: readonly Service[]): Promise<LiveNumbers> {
    const { claims, index, clock } = this.#options
    const { held } = await inSlices(clock, surveyServices(live, claims))
    return {
      numbers: held[index] as Bitmap,
      findings: (numbers) => this.#notAllocated(live, numbers, true),
    }
  }

  async #notAllocated(services: Iterable<Service>, numbers: Bitmap, repairing: boolean): Promise<readonly Finding[]> {
    const { claims, index } = this.#options
    return [...(await this.#claimants(services, numbers))].flatMap(([offset, [first]]) =>
      first === undefined ? [] : [claims.notAllocated(first, index, offset, repairing)],
    )
  }

  async #claimants(services: Iterable<Service>, numbers: Bitmap): Promise<ReadonlyMap<number, readonly Service[]>> {
    const { claims, index, clock } = this.#options
    const wanted = claims.ranges.map((_, range) => (range === index ? numbers : undefined))
    return (await inSlices(clock, claimantsOf(services, claims, wanted)))[index] ?? new Map()
  }
}
