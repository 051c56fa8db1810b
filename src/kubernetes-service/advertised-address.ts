import { type Address, isLinkLocal, isLoopback, isMulticast, isUnspecified, tryParseAddress } from '../net/address.ts'
import { remembering } from '../runtime/memo.ts'

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

/** Whether a text is an address in canonical form that can be listed. Each look reads those of all masters, and they are the same ones. */
export const isListable = remembering((text) => {
  const address = tryParseAddress(text)
  return address?.text === text && unlistableReason(address) === undefined
}, 64)
