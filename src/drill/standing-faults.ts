import type { Primitive } from './target.ts'

/** Whoever did something and may undo it: one performed step. Compared by identity. */
export type Owner = object

interface Fault {
  readonly owner: Owner
  readonly primitive: Primitive
}

/**
 * What is wrong with a fleet at this moment, and who made it so. Several steps may do the same to one master: it is undone when the last
 * of them is over. Of two that differ, such as two delays of one way, the later one counts while it lasts.
 *
 * Pure but for its own memory; what is to be done is returned.
 */
export class StandingFaults {
  readonly #faults = new Map<string, Fault[]>()

  /** Notes what is about to be performed. What has nothing to undo is not kept. */
  add(primitive: Primitive, owner: Owner): void {
    const key = keyOf(primitive)
    if (key === undefined) return
    const faults = this.#faults.get(key) ?? []
    faults.push({ owner, primitive })
    this.#faults.set(key, faults)
  }

  /** Whether somebody else than `owner` has made this master's part end. */
  isDown(master: string, part: 'sidecar' | 'server', owner?: Owner): boolean {
    const faults = this.#faults.get(`down ${master} ${part}`) ?? []
    return faults.some((fault) => fault.owner !== owner)
  }

  /** `owner` is over: what puts right what nobody else keeps wrong. */
  release(owner: Owner): readonly Primitive[] {
    const undone = [...this.#faults].flatMap(([key, faults]) => {
      const left = faults.filter((fault) => fault.owner !== owner)
      return left.length === faults.length ? [] : this.#keep(key, faults, left)
    })
    // Servers first: what is started beside them finds them there.
    const isServer = (one: Primitive): boolean => 'part' in one && one.part === 'server'
    return [...undone.filter(isServer), ...undone.filter((one) => !isServer(one))]
  }

  /** Whoever did them, faults that `chosen` says are undone. */
  clear(chosen: (fault: Primitive) => boolean): readonly Primitive[] {
    return [...this.#faults].flatMap(([key, faults]) => {
      const left = faults.filter(({ primitive }) => !chosen(primitive))
      return left.length === faults.length ? [] : this.#keep(key, faults, left)
    })
  }

  #keep(key: string, before: readonly Fault[], left: Fault[]): readonly Primitive[] {
    if (left.length > 0) this.#faults.set(key, left)
    else this.#faults.delete(key)
    const was = before.at(-1)?.primitive
    const is = left.at(-1)?.primitive
    if (was === undefined) return []
    if (is === undefined) return undoOf(was)
    return isSame(was, is) ? [] : [is]
  }
}

/** What is one thing that can be wrong; undefined for what is over as soon as it is done. */
function keyOf(primitive: Primitive): string | undefined {
  switch (primitive.type) {
    case 'kill':
    case 'terminate':
      return `down ${primitive.master} ${primitive.part}`
    case 'freeze':
      return `frozen ${primitive.master} ${primitive.part}`
    case 'cut':
    case 'slow':
      return `${primitive.type} ${primitive.master} ${primitive.way}`
    case 'fault':
      return `fault ${primitive.master} ${JSON.stringify(primitive.rule)}`
    case 'own-etcd':
      return `own-etcd ${primitive.master}`
    case 'readyz':
      return `readyz ${primitive.master}`
    case 'datastore':
      return 'datastore'
    default:
      return undefined
  }
}

function undoOf(primitive: Primitive): readonly Primitive[] {
  switch (primitive.type) {
    case 'kill':
    case 'terminate':
      return [{ ...primitive, type: 'start' }]
    case 'freeze':
      return [{ ...primitive, type: 'thaw' }]
    case 'cut':
      return [{ ...primitive, type: 'heal' }]
    case 'slow':
      return [{ ...primitive, byMs: 0 }]
    case 'fault':
      return [{ ...primitive, type: 'no-fault' }]
    case 'own-etcd':
      return [{ ...primitive, state: 'ok' }]
    case 'readyz':
      return [{ ...primitive, answer: 'ready' }]
    case 'datastore':
      return [{ ...primitive, state: 'up' }]
    default:
      return []
  }
}

/** Whether the fleet is the same with either. */
function isSame(one: Primitive, other: Primitive): boolean {
  switch (one.type) {
    case 'slow':
      return other.type === 'slow' && one.byMs === other.byMs
    case 'own-etcd':
      return other.type === 'own-etcd' && one.state === other.state
    case 'readyz':
      return other.type === 'readyz' && one.answer === other.answer
    case 'datastore':
      return other.type === 'datastore' && one.state === other.state
    default:
      return true
  }
}
