import * as z from 'zod/mini'
import { type OptionGroup, parsedText, type ValuesOf } from '../documents/option.ts'
import { AddressError } from '../net/address.ts'
import { type Cidr, parseCidr } from '../net/cidr.ts'

/** Upstream's minimum: `ServiceIPRange` in pkg/controlplane/apiserver/options. All ranges begin at multiples of it. */
export const FEWEST_ADDRESSES = 8n

function parseServiceRange(text: string): Cidr {
  const range = parseCidr(text)
  if (range.size < FEWEST_ADDRESSES) {
    throw new AddressError(
      `${JSON.stringify(text)} is too small: it has ${range.size} addresses, ${FEWEST_ADDRESSES} are needed`,
    )
  }
  return range
}

/** The size of a range has no upper limit, as in a kube-apiserver that uses IPAddress objects. */
export const serviceCidrOptions = {
  title: 'Service addresses',
  options: {
    serviceClusterIpRange: {
      schema: z.array(parsedText(parseServiceRange, (range) => range.text)).check(
        z.minLength(1, 'needs at least one range'),
        z.maxLength(2, 'takes at most two ranges'),
        z.refine(
          (ranges) => ranges.length !== 2 || ranges[0]?.family !== ranges[1]?.family,
          'two ranges must be of different families, one IPv4 and one IPv6',
        ),
      ),
      metavar: 'CIDR[,CIDR]',
      description:
        "addresses of Services, one range per family; the first range's first usable address is the ClusterIP of kubernetes",
      default: ['10.0.0.0/24'],
    },
  },
} as const satisfies OptionGroup

export type ServiceCidrValues = ValuesOf<typeof serviceCidrOptions>
