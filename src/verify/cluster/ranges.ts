import type { Service } from '../../kube/resources.ts'
import { keyOf, keyOfObject } from '../../kube/store.ts'
import { KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import { AddressError } from '../../net/address.ts'
import { type Cidr, parseCidr } from '../../net/cidr.ts'
import type { PortRange } from '../../net/host-port.ts'
import { ipAddressNameOf } from '../../repair/ip-address/ip-address.ts'
import { addressTest } from '../../repair/ip-address/service-ips.ts'
import { clusterIpsOf } from '../../repair/service-claims.ts'
import { DEFAULT_SERVICE_CIDR } from '../../service-cidr/service-cidr-plan.ts'
import { byHand, type Command } from './finding.ts'
import { type CheckContext, partOf } from './state.ts'

/** The ranges that the caller expects, or else those of the default ServiceCIDR; undefined if neither is known. */
export function serviceRanges(context: CheckContext): readonly Cidr[] | undefined {
  const { serviceClusterIpRange } = context.expect
  if (serviceClusterIpRange !== undefined) return serviceClusterIpRange
  const found = partOf(context, 'serviceCidrs')?.find(({ metadata }) => metadata?.name === DEFAULT_SERVICE_CIDR)
  const cidrs = (found?.spec?.cidrs ?? []).flatMap((text) => readRanges(text, parseCidr))
  return cidrs.length === 0 ? undefined : cidrs
}

/**
 * What to do instead of a repair if the expected ranges are probably mistyped: the ClusterIP of `default/kubernetes` is
 * in none of them, so a repair would break the Services of the cluster. Undefined otherwise, and if no range is
 * expected or that ClusterIP is unknown. `services`: where to find `default/kubernetes` instead of in the state.
 */
export function flagCheck(context: CheckContext, services?: readonly Service[]): Command | undefined {
  const demanded = context.expect.serviceClusterIpRange
  const service =
    services === undefined
      ? partOf(context, 'kubernetesService')
      : services.find((one) => keyOfObject(one) === keyOf(KUBERNETES_SERVICE))
  const [clusterIp = ''] = service === undefined ? [] : clusterIpsOf(service)
  const name = ipAddressNameOf(clusterIp)
  if (demanded === undefined || name === undefined) return undefined
  if (addressTest(demanded)(name)) return undefined
  const texts = demanded.map(({ text }) => text)
  return byHand(
    `check --service-cluster-ip-range first: Service default/kubernetes has ClusterIP ${clusterIp}, which is not in ${texts.join(',')}`,
  )
}

/** The parsed range, as a list of one; empty if the text is malformed. */
export function readRanges<Range extends Cidr | PortRange>(
  text: string,
  parse: (text: string) => Range,
): readonly Range[] {
  try {
    return [parse(text)]
  } catch (error) {
    if (error instanceof AddressError) return []
    throw error
  }
}
