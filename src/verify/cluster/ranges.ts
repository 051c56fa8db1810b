import { AddressError } from '../../net/address.ts'
import { type Cidr, parseCidr } from '../../net/cidr.ts'
import { DEFAULT_SERVICE_CIDR } from '../../service-cidr/service-cidr-plan.ts'
import { type About, partOf } from './state.ts'

/** The ranges of the cluster's Services: as demanded, else those of the default ServiceCIDR; undefined if unknown. */
export function serviceRanges(about: About): readonly Cidr[] | undefined {
  const { serviceClusterIpRange } = about.expect
  if (serviceClusterIpRange !== undefined) return serviceClusterIpRange
  const found = partOf(about, 'serviceCidrs')?.find(({ metadata }) => metadata?.name === DEFAULT_SERVICE_CIDR)
  const cidrs = (found?.spec?.cidrs ?? []).flatMap(readCidr)
  return cidrs.length === 0 ? undefined : cidrs
}

function readCidr(text: string): readonly Cidr[] {
  try {
    return [parseCidr(text)]
  } catch (error) {
    if (error instanceof AddressError) return []
    throw error
  }
}
