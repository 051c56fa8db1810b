import { type Clock, sleep } from '../../src/runtime/clock.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import type { ServiceRequest } from './repair-allocators.ts'
import { isAddress, type RepairComposition } from './repair-composition.ts'
import type { Ledger } from './repair-ledger.ts'
import type { ServiceStorage } from './repair-service-storage.ts'
import type { Vandal } from './repair-vandal.ts'

/** Only a few names, so that they are reused. */
const names = ['default/a', 'default/b', 'default/c', 'default/d', 'default/e', 'shop/a', 'shop/b']

export interface UsersOptions {
  readonly composition: RepairComposition
  readonly ledger: Ledger
  readonly servers: readonly ServiceStorage[]
  readonly vandal: Vandal
  readonly clock: Clock
  readonly random: Random
  /** Receives a description of each step. */
  readonly note: (text: string) => void
  /** Called when something is damaged. */
  readonly damaged: () => void
}

/** Users that create, change and delete Services, and a vandal that damages what is stored. */
export class Users {
  readonly #options: UsersOptions

  constructor(options: UsersOptions) {
    this.#options = options
  }

  /** Works for `ms` milliseconds, in bursts. The last requests may still run afterwards. */
  async work(ms: number): Promise<void> {
    const { clock, random, composition, vandal, note, damaged } = this.#options
    const endMs = clock.monotonicMs() + ms
    while (clock.monotonicMs() < endMs) {
      const burst = 1 + randomInteger(random, 6)
      for (let i = 0; i < burst; i++) {
        if (composition.vandal && random.next() < 0.25) {
          damaged()
          note(await vandal.strike().catch(() => 'the vandal gives up'))
          if (random.next() < 0.2) await this.#retake()
          if (random.next() < 0.2) await this.#ambush()
        } else this.#ask()
        await sleep(clock, random.next() < 0.5 ? random.next() * 20 : random.next() * 700)
      }
      await sleep(clock, random.next() * (random.next() < 0.2 ? 30_000 : 5_000))
    }
  }

  /** The vandal releases a leaked item by hand, and a user requests it at once, mostly from a very slow server. */
  async #retake(): Promise<void> {
    const { random, servers, ledger, vandal, note } = this.#options
    const item = await vandal.cleanUp().catch(() => undefined)
    const key = names.find((one) => !ledger.services.has(one))
    if (item === undefined || key === undefined) return
    const [namespace = '', name = ''] = key.split('/')
    const wanted = isAddress(item) ? { clusterIp: item } : { nodePort: item }
    const patience = random.next() < 0.7 ? 'very slow' : 'quick'
    note(`make NodePort ${key} ${item}, which had leaked`)
    await sleep(this.#options.clock, random.next() * 40)
    void this.#pick(servers).create({ namespace, name, type: 'NodePort', families: 1, ports: 1, patience, ...wanted })
  }

  /**
   * A Service is deleted while a repair restores the item that was taken from it, and another Service requests that
   * item.
   */
  async #ambush(): Promise<void> {
    const { clock, random, servers, ledger, vandal, note, damaged } = this.#options
    const victim = this.#pick([...ledger.services.values()].filter(({ items }) => items.size > 0))
    const key = names.find((one) => !ledger.services.has(one))
    if (victim === undefined || key === undefined) return
    const item = this.#pick([...victim.items])
    note(`take ${item} from ${victim.key}, delete it, and make ${key} with it`)
    damaged()
    await vandal.rob(item).catch(() => {})
    await sleep(clock, 15 + random.next() * 30)
    const [namespace = '', name = ''] = victim.key.split('/')
    void this.#pick(servers).remove({ namespace, name, patience: 'quick' })
    await sleep(clock, random.next() * 20)
    const [otherNamespace = '', other = ''] = key.split('/')
    const wanted = isAddress(item) ? { clusterIp: item } : { nodePort: item }
    const request = { namespace: otherNamespace, name: other, families: 1, ports: 1, patience: 'quick' } as const
    void this.#pick(servers).create({ ...request, type: 'NodePort', ...wanted })
  }

  #ask(): void {
    const { random, servers, ledger, note } = this.#options
    const server = this.#pick(servers)
    const key = this.#pick(names)
    const [namespace = '', name = ''] = key.split('/')
    const live = ledger.services.get(key)
    const chance = random.next()
    if (random.next() < 0.03) {
      note('a kube-apiserver ends')
      server.crash()
    }
    if (live === undefined || chance < 0.1) {
      const request = this.#request({ namespace, name })
      note(`make ${request.type} ${key} ${request.clusterIp ?? ''} ${request.nodePort ?? ''}`)
      void server.create(request)
    } else if (chance < 0.45) {
      const type =
        live.type === 'ExternalName' || random.next() < 0.5
          ? 'NodePort'
          : this.#pick(['ExternalName', 'ClusterIP'] as const)
      note(`change ${key} to ${type}`)
      void server.update({ namespace, name }, type)
    } else {
      note(`delete ${key}`)
      void server.remove({ namespace, name })
      // Sometimes the name is used again at once.
      if (random.next() < 0.3) {
        const request = this.#request({ namespace, name })
        void this.#later(() => void this.#pick(servers).create(request))
      }
    }
  }

  #request(ref: { readonly namespace: string; readonly name: string }): ServiceRequest {
    const { random, ledger, composition } = this.#options
    const { addresses, nodePorts } = ledger.ranges
    const type = this.#pick(['ClusterIP', 'ClusterIP', 'NodePort', 'NodePort', 'LoadBalancer', 'ExternalName'] as const)
    return {
      ...ref,
      type,
      families: composition.cidrs.length > 1 && random.next() < 0.5 ? 2 : 1,
      clusterIp: random.next() < 0.3 ? this.#pick(addresses.flatMap(({ items }) => items)) : undefined,
      nodePort: random.next() < 0.3 ? this.#pick(nodePorts.items) : undefined,
      ports: 1 + randomInteger(random, 2),
    }
  }

  async #later(work: () => void): Promise<void> {
    const { clock, random } = this.#options
    await sleep(clock, random.next() * 30)
    work()
  }

  #pick<T>(items: readonly T[]): T {
    return items[randomInteger(this.#options.random, items.length)] as T
  }
}
