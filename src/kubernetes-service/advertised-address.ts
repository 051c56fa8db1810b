import { type Address, isLinkLocal, isLoopback, isMulticast, isUnspecified } from '../net/address.ts'

/**
 * Why an address cannot be listed in Endpoints, in a few words; undefined when it can.
 * Upstream: endpoint address validation in pkg/apis/core/validation, and the check of --advertise-address that 1.36 has.
 */
export function unlistableReason(address: Address): string | undefined {
  if (isUnspecified(address)) return 'is the unspecified address'
  if (isLoopback(address)) return 'is a loopback address'
  if (isLinkLocal(address)) return 'is a link-local address'
  if (isMulticast(address)) return 'is a multicast address'
  if (address.text === '255.255.255.255') return 'is the broadcast address'
  return undefined
}
