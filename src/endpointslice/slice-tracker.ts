import { isNewer } from '../kube/resource-version.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import { serviceKeyOf } from './slice-labels.ts'

const deletionExpected = -1

/** Longer than a silent watch is trusted: what the copy has not heard of by then it never will. */
const unheardMs = 100_000

/** A resourceVersion as an object has it. */
interface Versioned {
  readonly metadata: { readonly resourceVersion?: string | undefined }
}

/** What the server answered to a write. */
interface Written extends Versioned {
  readonly generation: number
  readonly atMs: number
}

/**
 * What this process last wrote of the slices of each Service, by the generation that the server gave it: so it is known whether a copy is older
 * than that, and whether a change of a slice was somebody else's. Upstream: `EndpointSliceTracker`.
 *
 * Beyond upstream a slice that is missing is no longer waited for when the copy has come to later changes than its last write, or after a while: it was
 * deleted while the watch was broken, and nobody will tell.
 */
export class SliceTracker {
  /** By the key of the Service that a slice names, then by the uid of the slice. */
  readonly #generations = new Map<string, Map<string, Written>>()
  /** The latest state of any slice that the copy has come to. */
  #newest: Versioned | undefined
  readonly #nowMs: () => number

  /** `nowMs` tells the time of a monotonic clock. @default one that stands still */
  constructor(nowMs = () => 0) {
    this.#nowMs = nowMs
  }

  /** Whether a generation of the slice is known, or its deletion expected. */
  has(slice: EndpointSlice): boolean {
    return this.#of(slice)?.has(uidOf(slice)) ?? false
  }

  /** The generation that is known; undefined where there is none, -1 where the slice is to be deleted. */
  generation(slice: EndpointSlice): number | undefined {
    return this.#of(slice)?.get(uidOf(slice))?.generation
  }

  /** Whether a slice is not of this process's making as it is: nothing is known of it, or its generation is a later one. */
  shouldSync(slice: EndpointSlice): boolean {
    const known = this.generation(slice)
    return known === undefined || generationOf(slice) > known
  }

  /**
   * Whether `slices`, all that the copy has of a Service, is older than what this process wrote: an older generation, one that was deleted, or one that is
   * missing.
   */
  isStale(serviceKey: string, slices: readonly EndpointSlice[]): boolean {
    const known = this.#generations.get(serviceKey)
    if (known === undefined) return false
    let awaited = 0
    for (const written of known.values()) if (this.#isAwaited(written)) awaited++
    for (const slice of slices) {
      const written = known.get(uidOf(slice))
      if (written === undefined) continue
      if (written.generation === deletionExpected || written.generation > generationOf(slice)) return true
      if (this.#isAwaited(written)) awaited--
    }
    return awaited > 0
  }

  /** The copy has come to this state of a slice. */
  saw(slice: EndpointSlice): void {
    if (this.#newest !== undefined && !isNewer(slice, this.#newest)) return
    this.#newest = { metadata: { resourceVersion: slice.metadata?.resourceVersion } }
  }

  /** Takes in a slice as the server answered it. */
  update(slice: EndpointSlice): void {
    this.#set(slice, generationOf(slice))
  }

  /** The slice has been deleted by this process; the copy still may have it. */
  expectDeletion(slice: EndpointSlice): void {
    this.#set(slice, deletionExpected)
  }

  /** The copy has lost the slice. Returns false when that was not expected. */
  handleDeletion(slice: EndpointSlice): boolean {
    const known = this.#of(slice)
    const generation = known?.get(uidOf(slice))?.generation
    known?.delete(uidOf(slice))
    if (known?.size === 0) this.#generations.delete(trackedUnder(slice))
    return generation === undefined || generation === deletionExpected
  }

  /** Forgets the slices of a Service that is gone. */
  deleteService(serviceKey: string): void {
    this.#generations.delete(serviceKey)
  }

  #isAwaited(written: Written): boolean {
    if (written.generation === deletionExpected || isNewer(this.#newest, written)) return false
    return this.#nowMs() - written.atMs < unheardMs
  }

  #of(slice: EndpointSlice): Map<string, Written> | undefined {
    return this.#generations.get(trackedUnder(slice))
  }

  #set(slice: EndpointSlice, generation: number): void {
    const key = trackedUnder(slice)
    let known = this.#generations.get(key)
    if (known === undefined) {
      known = new Map()
      this.#generations.set(key, known)
    }
    const { resourceVersion } = slice.metadata ?? {}
    known.set(uidOf(slice), { generation, atMs: this.#nowMs(), metadata: { resourceVersion } })
  }
}

function trackedUnder(slice: EndpointSlice): string {
  return serviceKeyOf(slice) ?? `${slice.metadata?.namespace ?? ''}/`
}

function uidOf(slice: EndpointSlice): string {
  return slice.metadata?.uid ?? ''
}

function generationOf(slice: EndpointSlice): number {
  return slice.metadata?.generation ?? 0
}
