import type { Service } from '../kube/resources.ts'
import { tryParseAddress } from '../net/address.ts'
import type { AddressType } from './slice-info.ts'

/**
 * The address types that a Service has slices of: its families. Without families, which only very old servers leave out, that of its ClusterIP; of a
 * headless one both (upstream's `getAddressTypesForService`).
 */
export function addressTypesOf(service: Service): readonly AddressType[] {
  const { ipFamilies, clusterIP } = service.spec ?? {}
  const named = (ipFamilies ?? []).filter((family): family is AddressType => family === 'IPv4' || family === 'IPv6')
  if (named.length > 0) return [...new Set(named)]
  if (clusterIP === undefined || clusterIP === '' || clusterIP === 'None') return ['IPv4', 'IPv6']
  return [tryParseAddress(clusterIP)?.family === 6 ? 'IPv6' : 'IPv4']
}
