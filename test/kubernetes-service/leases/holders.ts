import type { Holder } from '../../../src/kubernetes-service/leases/master-leases.ts'
import type { MemoryLeaseRegistry } from '../../../src/kubernetes-service/leases/memory.ts'
import { masterKey } from '../../../src/kubernetes-service/members.ts'

export { addressesIn as addressesOf, holder } from '../../../src/verify/watched-leases.ts'

/** Replaces a record in the registry by what a careless store would make of `text`: anything that it parses to. */
export function spoilIn(registry: MemoryLeaseRegistry, of: Holder, text: string): void {
  const lease = { address: of.addresses[0] ?? '', holder: carelesslyParsed(text) as Holder }
  registry.put(masterKey(of), lease, undefined)
}

function carelesslyParsed(text: string): unknown {
  try {
    return JSON.parse(text) ?? text
  } catch {
    return text
  }
}
