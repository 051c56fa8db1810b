import type { EndpointSlice } from '../kube/resources.ts'

/**
 * The slices of a group that need no look: when the last plan was made each was found to hold desired endpoints only, none of them twice, and to bear the
 * right labels. They stay so until the slice is another object or one of the endpoints is disturbed.
 */
export class SettledSlices {
  /** By the names of the Pods whose endpoints they hold. */
  readonly #homes = new Map<string, EndpointSlice>()
  readonly #pods = new Map<EndpointSlice, readonly string[]>()

  /** How many endpoints they hold. */
  get endpoints(): number {
    return this.#homes.size
  }

  has(slice: EndpointSlice): boolean {
    return this.#pods.has(slice)
  }

  /** Whether one of them holds the endpoint of a Pod. */
  holds(pod: string): boolean {
    return this.#homes.has(pod)
  }

  /** A slice has been found to be right, with the endpoints of these Pods. */
  settle(slice: EndpointSlice, pods: readonly string[]): void {
    this.#pods.set(slice, pods)
    for (const pod of pods) this.#homes.set(pod, slice)
  }

  /** The endpoint of a Pod is another one now, or none. */
  disturb(pod: string): void {
    const home = this.#homes.get(pod)
    if (home !== undefined) this.#unsettle(home)
  }

  /** Forgets the slices that are not among these. */
  retain(slices: readonly EndpointSlice[]): void {
    const present = new Set(slices)
    for (const slice of this.#pods.keys()) if (!present.has(slice)) this.#unsettle(slice)
  }

  #unsettle(slice: EndpointSlice): void {
    for (const pod of this.#pods.get(slice) ?? []) this.#homes.delete(pod)
    this.#pods.delete(slice)
  }
}
