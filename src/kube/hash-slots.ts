/**
 * Finds small integers (`ids`) by a 32-bit hash; several ids may have the same hash. An id takes 16 bytes on average; a
 * `Map` would need twice as much, and a string for each key.
 *
 * There are sixteen tables, because a table that grows moves all its entries at once. With a million entries that would
 * take 40 ms.
 */
export class HashSlots {
  readonly #tables: (Table | undefined)[] = []

  /**
   * The first id with this hash that passes the test; -1 if there is none. A test that always returns false receives
   * every id with this hash.
   */
  find(hash: number, test: (id: number) => boolean): number {
    return this.#tables[tableOf(hash)]?.find(hash, test) ?? -1
  }

  add(hash: number, id: number): void {
    const at = tableOf(hash)
    this.#tables[at] ??= new Table()
    this.#tables[at].add(hash, id)
  }

  delete(hash: number, id: number): void {
    this.#tables[tableOf(hash)]?.delete(hash, id)
  }

  /** Replaces each id by `newIds[id]`. */
  renumber(newIds: Int32Array): void {
    for (const table of this.#tables) table?.renumber(newIds)
  }
}

/** The highest four bits of a hash; the lowest bits choose a slot in the table. */
function tableOf(hash: number): number {
  return hash >>> 28
}

/** An id that lies more slots than this from where its search began is one of many with similar hashes. */
const FAR = 64

/** Open addressing with linear probing. A deletion moves later ids back, so no marks of deleted slots remain. */
class Table {
  #hashes = new Int32Array(16)
  /** The id plus one; zero in a free slot. */
  #ids = new Int32Array(16)
  #size = 0

  find(hash: number, test: (id: number) => boolean): number {
    const hashes = this.#hashes
    const ids = this.#ids
    const mask = ids.length - 1
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const id = (ids[slot] as number) - 1
      if (id < 0) return -1
      if (hashes[slot] === hash && test(id)) return id
    }
  }

  add(hash: number, id: number): void {
    if (++this.#size > 0.7 * this.#ids.length) this.#grow()
    this.#insert(hash, id)
  }

  delete(hash: number, id: number): void {
    const hashes = this.#hashes
    const ids = this.#ids
    const mask = ids.length - 1
    let free = hash & mask
    for (; hashes[free] !== hash || ids[free] !== id + 1; free = (free + 1) & mask) if (ids[free] === 0) return
    this.#size--
    for (let slot = (free + 1) & mask; ids[slot] !== 0; slot = (slot + 1) & mask) {
      // An id may move back as far as the slot where its search begins.
      const distance = (slot - (hashes[slot] as number)) & mask
      if (distance < ((slot - free) & mask)) continue
      hashes[free] = hashes[slot] as number
      ids[free] = ids[slot] as number
      free = slot
    }
    ids[free] = 0
  }

  renumber(newIds: Int32Array): void {
    const ids = this.#ids
    for (let slot = 0; slot < ids.length; slot++) {
      const id = (ids[slot] as number) - 1
      if (id >= 0) ids[slot] = (newIds[id] as number) + 1
    }
  }

  #grow(): void {
    const [hashes, ids] = [this.#hashes, this.#ids]
    this.#hashes = new Int32Array(2 * ids.length)
    this.#ids = new Int32Array(2 * ids.length)
    // By hash, the slot of the last inserted id, if that is far. The search for the next slot begins there. Otherwise
    // thousands of ids with one hash would take seconds.
    const far = new Map<number, number>()
    const mask = this.#ids.length - 1
    for (let slot = 0; slot < ids.length; slot++) {
      const id = (ids[slot] as number) - 1
      if (id < 0) continue
      const hash = hashes[slot] as number
      const from = far.get(hash) ?? hash
      const inserted = this.#insert(hash, id, from)
      if (((inserted - from) & mask) > FAR) far.set(hash, inserted)
    }
  }

  /** Returns the slot. `from`: where the search for a free slot begins; only its lowest bits count. */
  #insert(hash: number, id: number, from = hash): number {
    const mask = this.#ids.length - 1
    let slot = from & mask
    while (this.#ids[slot] !== 0) slot = (slot + 1) & mask
    this.#hashes[slot] = hash
    this.#ids[slot] = id + 1
    return slot
  }
}

/** A 32-bit hash of a text. Whoever knows `seed` can find texts with the same hash. */
export function hashOf(text: string, seed: number): number {
  let hash = seed
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x5bd1e995)
    hash ^= hash >>> 15
  }
  hash = Math.imul(hash ^ (hash >>> 13), 0x2c1b3c6d)
  return (hash ^ (hash >>> 16)) | 0
}
