import { hashSeed } from '../runtime/system-seed.ts'
import type { ObjectRef } from './api.ts'
import { HashSlots, hashOf } from './hash-slots.ts'
import type { ObjectMap } from './object-map.ts'
import type { KubeObject } from './resources.ts'

/** How objects are stored if there may be a million of them. `join` of what `split` returns equals the object. */
export interface Packing<T> {
  /**
   * `texts`: the parts that few other objects have. `shared`: the part that many objects have in common; it is stored
   * as JSON. Neither needs to contain the namespace and name.
   */
  split(object: T): { readonly texts: readonly (string | undefined)[]; readonly shared: object }
  join(ref: ObjectRef, texts: readonly (string | undefined)[], shared: object): T
  /** The keys by which {@link ObjectMap.by} finds an object; client-go calls this an index. @default none */
  keysOf?(object: T): readonly string[]
}

interface Shared {
  readonly namespace: string
  readonly shared: object
}

/**
 * At most this many values of {@link Shared} are stored once, for all objects that have them. An object with any
 * further value stores a copy of its own.
 */
const MOST_SHARED = 65_535
/**
 * A value whose JSON text has more characters is not shared, because a shared value stays even when no object has it
 * any more, until the reflector's next list replaces the whole map.
 */
const LONGEST_SHARED = 512

/**
 * Each object is one string: two characters for what it shares with others, then its name and the other texts, each
 * preceded by its length. The garbage collector has only this string to visit, and a map needs no strings as keys.
 */
export class PackedObjects<T extends KubeObject> implements ObjectMap<T> {
  readonly #packing: Packing<T>
  /**
   * In the order in which the objects arrived; undefined where an object was deleted. The id of an object is its
   * position.
   */
  #records: (string | undefined)[] = []
  readonly #names = new HashSlots()
  readonly #keys = new HashSlots()
  readonly #shared: Shared[] = []
  /** The positions in `#shared`, by the JSON. */
  readonly #known = new Map<string, number>()
  #size = 0

  constructor(packing: Packing<T>) {
    this.#packing = packing
  }

  get size(): number {
    return this.#size
  }

  get(ref: ObjectRef): T | undefined {
    const id = this.#find(ref, this.#hashOf(ref))
    return id < 0 ? undefined : this.#unpack(this.#records[id] as string)
  }

  set(ref: ObjectRef, object: T): void {
    const hash = this.#hashOf(ref)
    const record = this.#pack(ref, object)
    let id = this.#find(ref, hash)
    if (id >= 0) {
      for (const key of this.#keyHashes(this.#unpack(this.#records[id] as string))) this.#keys.delete(key, id)
      this.#records[id] = record
    } else {
      id = this.#records.push(record) - 1
      this.#names.add(hash, id)
      this.#size++
    }
    for (const key of this.#keyHashes(object)) this.#keys.add(key, id)
  }

  delete(ref: ObjectRef): void {
    const hash = this.#hashOf(ref)
    const id = this.#find(ref, hash)
    if (id < 0) return
    for (const key of this.#keyHashes(this.#unpack(this.#records[id] as string))) this.#keys.delete(key, id)
    this.#names.delete(hash, id)
    this.#records[id] = undefined
    this.#size--
    if (this.#records.length > 2 * this.#size + 64) this.#compact()
  }

  *[Symbol.iterator](): Generator<T> {
    // Compacting makes another array, so that this iteration leaves no object out.
    yield* this.#unpackAll(this.#records)
  }

  snapshot(): Iterable<T> {
    return this.#unpackAll(this.#records.slice())
  }

  by(key: string): readonly T[] {
    const found: T[] = []
    this.#keys.find(hashOf(key, hashSeed), (id) => {
      const object = this.#unpack(this.#records[id] as string)
      if (this.#packing.keysOf?.(object).includes(key)) found.push(object)
      return false
    })
    return found
  }

  *#unpackAll(records: readonly (string | undefined)[]): Generator<T> {
    for (const record of records) if (record !== undefined) yield this.#unpack(record)
  }

  #find({ namespace = '', name }: ObjectRef, hash: number): number {
    return this.#names.find(hash, (id) => {
      const record = this.#records[id] as string
      return hasFirstText(record, name) && this.#sharedOf(record).namespace === namespace
    })
  }

  #pack({ namespace = '', name }: ObjectRef, object: T): string {
    const { texts, shared } = this.#packing.split(object)
    const json = JSON.stringify({ namespace, shared })
    let position = this.#known.get(json)
    if (position === undefined && this.#shared.length < MOST_SHARED && json.length <= LONGEST_SHARED) {
      position = this.#shared.push(JSON.parse(json)) - 1
      this.#known.set(json, position)
    }
    return position === undefined
      ? packTexts(MOST_SHARED, [name, ...texts, json])
      : packTexts(position, [name, ...texts])
  }

  #unpack(record: string): T {
    const [name, ...texts] = textsOf(record)
    const { namespace, shared } = this.#sharedOf(record)
    const ref = { namespace: namespace === '' ? undefined : namespace, name: name as string }
    return this.#packing.join(ref, positionOf(record) === MOST_SHARED ? texts.slice(0, -1) : texts, shared)
  }

  #sharedOf(record: string): Shared {
    const position = positionOf(record)
    return position === MOST_SHARED ? JSON.parse(textsOf(record).at(-1) as string) : (this.#shared[position] as Shared)
  }

  #hashOf({ namespace = '', name }: ObjectRef): number {
    return hashOf(name, hashOf(namespace, hashSeed))
  }

  /** Each hash once, because otherwise {@link HashSlots} would hold the id twice. */
  #keyHashes(object: T): Iterable<number> {
    const keys = this.#packing.keysOf?.(object) ?? []
    return new Set(keys.map((key) => hashOf(key, hashSeed)))
  }

  #compact(): void {
    const newIds = new Int32Array(this.#records.length)
    const records: string[] = []
    for (const [id, record] of this.#records.entries()) {
      if (record !== undefined) newIds[id] = records.push(record) - 1
    }
    this.#records = records
    this.#names.renumber(newIds)
    this.#keys.renumber(newIds)
  }
}

/** A text of up to 253 characters, as all names are, has its length in one character. */
const [LONG, ABSENT] = [254, 255]
/** The digits of a longer length, hexadecimal: strings are shorter than 2^32 characters. */
const LENGTH_DIGITS = 8

/** All characters are Latin-1 unless a text has others, so that V8 needs one byte for each. */
function packTexts(position: number, texts: readonly (string | undefined)[]): string {
  const parts = [String.fromCharCode(position & 0xff), String.fromCharCode(position >> 8)]
  for (const text of texts) {
    if (text === undefined) parts.push(String.fromCharCode(ABSENT))
    else if (text.length < LONG) parts.push(String.fromCharCode(text.length), text)
    else parts.push(String.fromCharCode(LONG), text.length.toString(16).padStart(LENGTH_DIGITS, '0'), text)
  }
  // V8 would store the result of `+` as a tree of all its parts.
  return parts.join('')
}

function positionOf(record: string): number {
  return record.charCodeAt(0) | (record.charCodeAt(1) << 8)
}

function textsOf(record: string): (string | undefined)[] {
  const texts: (string | undefined)[] = []
  for (let at = 2; at < record.length; ) {
    let length = record.charCodeAt(at++)
    if (length === ABSENT) {
      texts.push(undefined)
      continue
    }
    if (length === LONG) {
      length = Number.parseInt(record.slice(at, at + LENGTH_DIGITS), 16)
      at += LENGTH_DIGITS
    }
    texts.push(record.slice(at, at + length))
    at += length
  }
  return texts
}

function hasFirstText(record: string, text: string): boolean {
  return text.length < LONG
    ? record.charCodeAt(2) === text.length && record.startsWith(text, 3)
    : textsOf(record)[0] === text
}
