import { getOrMake } from '../runtime/memo.ts'

export type Labels = Readonly<Record<string, string>>

/** The selectors and the labelled objects of one label: a key with one value. */
interface Bucket<Selecting, Labelled> {
  readonly selecting: Set<Selecting>
  readonly labelled: Set<Labelled>
}

interface KeyIndex<Selecting, Labelled> {
  /** How many selectors are indexed by this key. When none is left, the index of the key is deleted. */
  selectors: number
  readonly buckets: Map<string, Bucket<Selecting, Labelled>>
}

/**
 * Finds the selectors that match given labels, and the objects whose labels match a given selector, without a search
 * through all selectors or all objects.
 *
 * A selector is indexed under one of its labels: the label under which the fewest other selectors are indexed. An
 * object is indexed under those of its labels whose keys index a selector. Its other labels cost nothing.
 */
export class SelectorIndex<
  Selecting extends { readonly selector: Labels },
  Labelled extends { readonly labels: Labels | undefined },
> {
  readonly #keys = new Map<string, KeyIndex<Selecting, Labelled>>()
  /** The label key by which each selector is indexed; undefined for a selector that matches everything. */
  readonly #indexKeys = new Map<Selecting, string | undefined>()
  readonly #matchAll = new Set<Selecting>()
  readonly #labelled: () => Iterable<Labelled>

  /** @param labelled - returns all indexed objects. */
  constructor(labelled: () => Iterable<Labelled>) {
    this.#labelled = labelled
  }

  /** How many selectors there are. */
  get size(): number {
    return this.#indexKeys.size
  }

  /** Adds a selector, which must not change afterwards. */
  addSelector(selecting: Selecting): void {
    const key = this.#keyFor(selecting.selector)
    this.#indexKeys.set(selecting, key)
    if (key === undefined) {
      this.#matchAll.add(selecting)
      return
    }
    const index = this.#keys.get(key) ?? this.#newKey(key)
    index.selectors++
    bucketOf(index, selecting.selector[key] as string).selecting.add(selecting)
  }

  deleteSelector(selecting: Selecting): void {
    const key = this.#indexKeys.get(selecting)
    this.#indexKeys.delete(selecting)
    this.#matchAll.delete(selecting)
    const index = key === undefined ? undefined : this.#keys.get(key)
    if (key === undefined || index === undefined) return
    index.selectors--
    if (index.selectors === 0) this.#keys.delete(key)
    const value = selecting.selector[key] as string
    index.buckets.get(value)?.selecting.delete(selecting)
    dropIfEmpty(index, value)
  }

  /** Adds an object, whose labels must not change afterwards. */
  add(labelled: Labelled): void {
    const { labels } = labelled
    for (const key in labels) {
      const index = this.#keys.get(key)
      if (index !== undefined) bucketOf(index, labels[key] as string).labelled.add(labelled)
    }
  }

  delete(labelled: Labelled): void {
    const { labels } = labelled
    for (const key in labels) {
      const index = this.#keys.get(key)
      if (index === undefined) continue
      const value = labels[key] as string
      index.buckets.get(value)?.labelled.delete(labelled)
      dropIfEmpty(index, value)
    }
  }

  /** The selectors that match these labels. */
  selecting(labels: Labels | undefined): readonly Selecting[] {
    const found = [...this.#matchAll]
    for (const key in labels) {
      const bucket = this.#keys.get(key)?.buckets.get(labels[key] as string)
      if (bucket === undefined) continue
      for (const each of bucket.selecting) if (matches(each.selector, labels)) found.push(each)
    }
    return found
  }

  /** The objects that match a selector, which must have been added. */
  matching(selecting: Selecting): readonly Labelled[] {
    const key = this.#indexKeys.get(selecting)
    if (key === undefined) return this.#indexKeys.has(selecting) ? [...this.#labelled()] : []
    const bucket = this.#keys.get(key)?.buckets.get(selecting.selector[key] as string)
    return [...(bucket?.labelled ?? [])].filter(({ labels }) => matches(selecting.selector, labels))
  }

  /**
   * The key of the selector's label under which the fewest other selectors are indexed; undefined for an empty
   * selector.
   */
  #keyFor(selector: Labels): string | undefined {
    let best: string | undefined
    let fewest = Number.POSITIVE_INFINITY
    for (const key in selector) {
      const others = this.#keys.get(key)?.buckets.get(selector[key] as string)?.selecting.size ?? 0
      if (others >= fewest) continue
      best = key
      fewest = others
    }
    return best
  }

  #newKey(key: string): KeyIndex<Selecting, Labelled> {
    const index: KeyIndex<Selecting, Labelled> = { selectors: 0, buckets: new Map() }
    this.#keys.set(key, index)
    for (const each of this.#labelled()) {
      const { labels = {} } = each
      const value = Object.hasOwn(labels, key) ? labels[key] : undefined
      if (value !== undefined) bucketOf(index, value).labelled.add(each)
    }
    return index
  }
}

/** Whether labels match a selector, which is a list of equalities. An empty selector matches all labels. */
export function matches(selector: Labels, labels: Labels | undefined): boolean {
  for (const key in selector) if (labels?.[key] !== selector[key]) return false
  return true
}

/** Whether labels are the same, in any order; undefined is the same as no labels. */
export function sameLabels(a: Labels | undefined, b: Labels | undefined): boolean {
  if (a === b) return true
  let more = 0
  for (const key in a) {
    if (b?.[key] !== a[key]) return false
    more++
  }
  for (const _ in b) more--
  return more === 0
}

function bucketOf<S, L>(index: KeyIndex<S, L>, value: string): Bucket<S, L> {
  return getOrMake(index.buckets, value, () => ({ selecting: new Set(), labelled: new Set() }))
}

function dropIfEmpty<S, L>(index: KeyIndex<S, L>, value: string): void {
  const bucket = index.buckets.get(value)
  if (bucket?.selecting.size === 0 && bucket.labelled.size === 0) index.buckets.delete(value)
}
