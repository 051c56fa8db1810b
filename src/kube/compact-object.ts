import type { KubeObject } from './resources.ts'

/**
 * The base of small copies, of which there may be a million. A copy is its own `metadata`, so `metadata` takes no
 * memory. It belongs to the class: a spread or JSON of a copy lacks it.
 */
export abstract class CompactObject {
  readonly name: string | undefined
  readonly uid: string | undefined
  /** The resourceVersion: a number if it is one below 2^31, because small numbers take no memory of their own. */
  readonly version: number | string | undefined

  constructor(metadata: KubeObject['metadata']) {
    this.name = metadata?.name
    this.uid = metadata?.uid
    const text = metadata?.resourceVersion
    const number = Number(text)
    this.version = number < 2 ** 31 && String(number) === text ? number : text
  }

  get resourceVersion(): string | undefined {
    return typeof this.version === 'number' ? String(this.version) : this.version
  }

  get metadata(): object {
    return this
  }
}
