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
  readonly #looks = new Set<() => void>()

  async list(): Promise<readonly MasterLease[]> {
    return [...this.#leases.values()]
  }

  async update(holder: Holder): Promise<void> {
    const [address = ''] = holder.addresses
    const known = this.#leases.has(address)
    this.#leases.set(address, { address, holder })
    if (!known) this.#tell()
  }

  async mark(holder: Holder): Promise<void> {
    const [address = ''] = holder.addresses
    if (!this.#leases.has(address)) return
    this.#leases.set(address, { address, holder })
    this.#tell()
  }

  async remove(holder: Holder): Promise<void> {
    const [address = ''] = holder.addresses
    if (this.#leases.delete(address)) this.#tell()
  }

  watch(look: () => void, signal: AbortSignal): Promise<void> {
    this.#looks.add(look)
    return new Promise((resolve) => {
      signal.addEventListener('abort', () => {
        this.#looks.delete(look)
        resolve()
      })
    })
  }

  #tell(): void {
    for (const look of this.#looks) look()
  }
}

export function onOwnLeases(address: string, leases: MasterLeases, ports: MasterPorts) {
  return createMaster(defineMaster({ advertiseAddress: address }, `host of ${address}`), { ...ports, leases })
}
