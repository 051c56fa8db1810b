import type { Holder, MasterLeases } from '../../../src/kubernetes-service/leases/master-leases.ts'

const { signal } = new AbortController()

/** A master at this address that is ready, in its first life. */
export function holder(address: string, more: Partial<Holder> = {}): Holder {
  return {
    instanceId: `${address} first`,
    host: 'host',
    startedAt: '2026-01-01T00:00:00Z',
    addresses: [address],
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
    ...more,
  }
}

export async function addressesOf(leases: MasterLeases): Promise<string[]> {
  return (await leases.list(signal)).map(({ address }) => address).sort()
}
