import type { Service } from '../../kube/resources.ts'
import { type Change, keyOfObject } from '../../kube/store.ts'
import { clusterIpsOf } from '../service-claims.ts'
import { ipAddressNameOf } from './ip-address-name.ts'

/** What a ClusterIP is looked up by: the name of its IPAddress, or of what is no address the text itself. */
export function lookupNameOf(clusterIp: string): string {
  return ipAddressNameOf(clusterIp) ?? clusterIp
}

/** Whether the Service has the address; `name` is its canonical form. */
export function holdsAddress(service: Service, name: string): boolean {
  const held = clusterIpsOf(service)
  return held.includes(name) || held.some((text) => lookupNameOf(text) === name)
}

/** Which Services hold an address: as a rule one, and then it costs one entry of a map. */
export class ServiceIpIndex {
  readonly #holders = new Map<string, Service | readonly Service[]>()

  /** How many addresses are held. */
  get size(): number {
    return this.#holders.size
  }

  /** The Services that hold the address, the oldest first: the order is the same for all who look. */
  holdersOf(name: string): readonly Service[] {
    const held = this.#holders.get(name)
    if (held === undefined) return []
    return isOne(held) ? [held] : held.toSorted(byAge)
  }

  /** Takes in a change of a Service. Returns the addresses that somebody should look at because of it. */
  apply(change: Change<Service>): readonly string[] {
    const before = change.type === 'added' ? [] : clusterIpsOf(change.old)
    const after = change.type === 'deleted' ? [] : clusterIpsOf(change.object)
    if (change.type !== 'added') for (const text of before) this.#remove(lookupNameOf(text), change.old)
    if (change.type !== 'deleted') for (const text of after) this.#add(lookupNameOf(text), change.object)
    if (change.type === 'updated' && sameClaims(change.old, change.object)) return []
    return [...before, ...after].map(lookupNameOf)
  }

  #add(name: string, service: Service): void {
    const held = this.#holders.get(name)
    if (held === undefined) this.#holders.set(name, service)
    // The same address in two spellings is one.
    else if (held !== service && (isOne(held) || !held.includes(service)))
      this.#holders.set(name, isOne(held) ? [held, service] : [...held, service])
  }

  #remove(name: string, service: Service): void {
    const held = this.#holders.get(name)
    if (held === undefined) return
    const [first, ...rest] = (isOne(held) ? [held] : held).filter((one) => one !== service)
    if (first === undefined) this.#holders.delete(name)
    else this.#holders.set(name, rest.length === 0 ? first : [first, ...rest])
  }
}

function isOne(held: Service | readonly Service[]): held is Service {
  return !Array.isArray(held)
}

function sameClaims(a: Service, b: Service): boolean {
  return (
    a.metadata?.uid === b.metadata?.uid &&
    a.spec?.type === b.spec?.type &&
    clusterIpsOf(a).join() === clusterIpsOf(b).join()
  )
}

function byAge(a: Service, b: Service): number {
  const [left, right] = [a, b].map((one) => `${one.metadata?.creationTimestamp} ${keyOfObject(one)}`)
  return (left ?? '') < (right ?? '') ? -1 : 1
}
