import {
  createMaster,
  defineMaster,
  type Holder,
  type MasterLease,
  type MasterLeases,
  type MasterPorts,
} from '../../src/index.ts'

/**
 * Leases that never end, in a list of your own, only for tests. redis-leases.ts is a store that fulfils the contract.
 */
export class StaticLeases implements MasterLeases {
  readonly #leases = new Map<string, MasterLease>()
  readonly #watchers = new Set<() => void>()

  async list(): Promise<readonly MasterLease[]> {
    return [...this.#leases.values()]
  }

  async update(holder: Holder): Promise<void> {
    const [address = ''] = holder.addresses
    const known = this.#leases.has(address)
    this.#leases.set(address, { address, holder })
    if (!known) this.#notify()
  }

  async mark(holder: Holder): Promise<void> {
    const [address = ''] = holder.addresses
    if (!this.#leases.has(address)) return
    this.#leases.set(address, { address, holder })
    this.#notify()
  }

  async remove(holder: Holder): Promise<void> {
    const [address = ''] = holder.addresses
    if (this.#leases.delete(address)) this.#notify()
  }

  watch(onChange: () => void, signal: AbortSignal): Promise<void> {
    this.#watchers.add(onChange)
    return new Promise((resolve) => {
      signal.addEventListener('abort', () => {
        this.#watchers.delete(onChange)
        resolve()
      })
    })
  }

  #notify(): void {
    for (const onChange of this.#watchers) onChange()
  }
}

export function onOwnLeases(address: string, leases: MasterLeases, ports: MasterPorts) {
  return createMaster(defineMaster({ advertiseAddress: address }, `host of ${address}`), { ...ports, leases })
}
