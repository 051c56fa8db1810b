import type { Endpoints } from '../../kube/resources.ts'

export type EndpointSubset = NonNullable<Endpoints['subsets']>[number]
export type EndpointAddress = NonNullable<EndpointSubset['addresses']>[number]
export type SubsetPort = NonNullable<EndpointSubset['ports']>[number]

/** Addresses that have the same ports, and those ports. */
export interface RepackedSubset {
  readonly ports: readonly SubsetPort[]
  /** By address, then by the uid of the target. */
  readonly ready: readonly EndpointAddress[]
  readonly notReady: readonly EndpointAddress[]
}

/** Whether an address is ready, by the number of the address. */
type Members = Map<number, boolean>

interface Group {
  readonly ports: Map<string, SubsetPort>
  readonly members: Members
}

/**
 * Brings subsets into the one form in which each port list and each address of it occurs once: upstream's `RepackSubsets` (pkg/api/v1/endpoints), but for the
 * order of subsets and ports. Of an address that is ready and not ready for a port, not ready holds; of what is said twice of one address and target, the first.
 */
export function repackSubsets(subsets: readonly EndpointSubset[]): readonly RepackedSubset[] {
  const addresses: EndpointAddress[] = []
  const numbers = new Map<string, number>()
  const numberOf = (address: EndpointAddress): number => {
    const key = `${address.ip} ${address.targetRef?.uid ?? ''}`
    let number = numbers.get(key)
    if (number === undefined) {
      number = addresses.push(address) - 1
      numbers.set(key, number)
    }
    return number
  }

  const byPort = new Map<string, { readonly port: SubsetPort | undefined; readonly members: Members }>()
  subsets.forEach((subset, index) => {
    const own = membersOf(subset, numberOf)
    const ports = subset.ports?.length ? subset.ports : [undefined]
    ports.forEach((port, portIndex) => {
      // Upstream takes ports with an appProtocol for different ones wherever they are written twice.
      const key = port?.appProtocol === undefined ? textOf(port) : `${index} ${portIndex}`
      const known = byPort.get(key)
      if (known === undefined) byPort.set(key, { port, members: subsets.length === 1 ? own : new Map(own) })
      else for (const [number, ready] of own) known.members.set(number, ready && known.members.get(number) !== false)
    })
  })

  const groups = new Map<string | Members, Group>()
  for (const { port, members } of byPort.values()) {
    // All ports of a single subset have the same addresses.
    const key = subsets.length === 1 ? 'all' : identityOf(members)
    let group = groups.get(key)
    if (group === undefined) {
      group = { ports: new Map(), members }
      groups.set(key, group)
    }
    if (port !== undefined && port.port > 0) group.ports.set(textOf(port), port)
  }
  return [...groups.values()].map(({ ports, members }) => ({
    ports: [...ports.values()],
    ready: inOrder(members, true, addresses),
    notReady: inOrder(members, false, addresses),
  }))
}

function membersOf(subset: EndpointSubset, numberOf: (address: EndpointAddress) => number): Members {
  const members: Members = new Map()
  for (const address of subset.addresses ?? []) members.set(numberOf(address), true)
  for (const address of subset.notReadyAddresses ?? []) members.set(numberOf(address), false)
  return members
}

function textOf(port: SubsetPort | undefined): string {
  if (port === undefined) return 'none'
  return `${port.port}/${port.protocol ?? ''} ${port.name ?? ''} ${port.appProtocol ?? ''}`
}

function identityOf(members: Members): string {
  return [...members]
    .sort(([a], [b]) => a - b)
    .map(([number, ready]) => (ready ? `${number}` : `${number}-`))
    .join()
}

function inOrder(members: Members, ready: boolean, addresses: readonly EndpointAddress[]): readonly EndpointAddress[] {
  const chosen: EndpointAddress[] = []
  for (const [number, isReady] of members) {
    const address = addresses[number]
    if (isReady === ready && address !== undefined) chosen.push(address)
  }
  return chosen.sort(byAddressAndTarget)
}

function byAddressAndTarget(a: EndpointAddress, b: EndpointAddress): number {
  if (a.ip !== b.ip) return a.ip < b.ip ? -1 : 1
  // One without a target comes before one whose target has no uid.
  const left = a.targetRef === undefined ? '' : ` ${a.targetRef.uid ?? ''}`
  const right = b.targetRef === undefined ? '' : ` ${b.targetRef.uid ?? ''}`
  return left < right ? -1 : left > right ? 1 : 0
}
