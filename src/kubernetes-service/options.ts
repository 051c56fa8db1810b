import * as z from 'zod/mini'
import { duration, formatDuration } from '../documents/duration.ts'
import { type OptionGroup, parsedText, type Rule, type ValuesOf, wholeNumber } from '../documents/option.ts'
import type { EtcdValues } from '../etcd/options.ts'
import { objectName } from '../kube/leader-election.ts'
import { parseReadyzUrl } from '../kube/readiness.ts'
import { type Address, AddressError, parseAddress } from '../net/address.ts'
import { parsePortRange, portRangeContains } from '../net/host-port.ts'
import type { ServiceCidrValues } from '../service-cidr/options.ts'
import { unlistableReason } from './identity.ts'

/** Parses an address. @throws AddressError if it is malformed, or if no client can reach a server at it. */
export function parseAdvertised(text: string): Address {
  const address = parseAddress(text)
  const reason = unlistableReason(address)
  if (reason !== undefined)
    throw new AddressError(`${address.text} ${reason}: clients cannot reach a server at this address`)
  return address
}

/** The longest `--lease-ttl`, in milliseconds. */
export const LONGEST_LEASE_TTL_MS = 3_600_000

export const kubernetesServiceOptions = {
  title: 'The Service default/kubernetes',
  options: {
    advertiseAddress: {
      schema: z.array(parsedText(parseAdvertised, (address) => address.text)).check(
        z.minLength(1, 'needs at least one address'),
        z.maxLength(2, 'takes at most two addresses'),
        z.refine(
          (addresses) => addresses.length !== 2 || addresses[0]?.family !== addresses[1]?.family,
          'two addresses must be of different families, one IPv4 and one IPv6',
        ),
      ),
      metavar: 'IP',
      description:
        "address at which clients reach this master's API server; required unless the reconciler is none or kubernetes-service is off",
      conditionalDefault: {
        description: '192.0.2.1 with --embedded',
        value: (given) => (given('embedded') ? ['192.0.2.1'] : undefined),
      },
    },
    securePort: {
      schema: wholeNumber(1, 65_535),
      metavar: 'PORT',
      description: "port that this master's API server listens on",
      default: 6443,
    },
    hostnameOverride: {
      schema: z.string().check(z.minLength(1, 'needs a name'), z.maxLength(253, 'has more than 253 characters')),
      metavar: 'NAME',
      description: 'name of this machine in its holder record; masters behind one address need different ones',
      unset: "the machine's own",
    },
    serviceNodePortRange: {
      schema: parsedText(parsePortRange, (range) => range.text),
      metavar: 'A-B',
      description: 'node ports of Services',
      default: '30000-32767',
    },
    kubernetesServiceNodePort: {
      schema: wholeNumber(0, 65_535),
      metavar: 'PORT',
      description: 'node port of the Service; 0 makes it a ClusterIP Service',
      default: 0,
    },
    endpointReconcilerType: {
      schema: z.enum(['lease', 'master-count', 'none']),
      metavar: 'TYPE',
      description:
        'lease: list the masters with a live lease; master-count: list at most --apiserver-count masters; none: leave the list alone',
      default: 'lease',
    },
    apiserverCount: {
      schema: wholeNumber(1, 1000),
      metavar: 'N',
      description: 'how many API servers there are; for the reconciler master-count',
      default: 1,
    },
    leaseStore: {
      schema: z.enum(['etcd', 'kubernetes', 'memory']),
      metavar: 'STORE',
      description:
        "where the leases are: etcd (kube-apiserver's own), kubernetes (coordination.k8s.io) or memory (masters of one process)",
      conditionalDefault: {
        description: 'etcd if --etcd-servers is given, else kubernetes',
        value: (given) => (given('etcdServers') ? 'etcd' : 'kubernetes'),
      },
    },
    leaseNamespace: {
      schema: objectName,
      metavar: 'NAMESPACE',
      description: 'namespace of the Leases of --lease-store=kubernetes; it must exist, unless it is kube-system',
      default: 'kube-system',
    },
    leaseTtl: {
      schema: duration({ minMs: 2000, maxMs: LONGEST_LEASE_TTL_MS, wholeSeconds: true }),
      metavar: 'DURATION',
      description:
        'a master that does not renew for this long is removed from the list; whole seconds, 2s to 1h, 1.5 to 60 intervals',
      default: '15s',
    },
    reconcileInterval: {
      schema: duration({ minMs: 1000, wholeSeconds: true }),
      metavar: 'DURATION',
      description:
        'how often leases are renewed and everything is reconciled, whether or not it changed; whole seconds, at least 1s',
      default: '10s',
    },
    readyzUrl: {
      schema: parsedText(parseReadyzUrl, String),
      metavar: 'URL',
      description: "/readyz of this master's own API server",
      unset: "the kubeconfig's server, if that is clearly this master's own",
    },
    readinessGate: {
      schema: z.enum(['continuous', 'startup']),
      metavar: 'MODE',
      description:
        'continuous: leave the list while own /readyz fails (master-count: only at the start); startup: wait for it once',
      default: 'continuous',
    },
    readinessProbePeriod: {
      schema: duration({ minMs: 100 }),
      metavar: 'DURATION',
      description:
        'how often own /readyz is probed, at most the reconcile interval; without the controller kubernetes-service and while the server is ready, at most once in 10 s',
      default: '1s',
    },
    onShutdown: {
      schema: z.enum(['withdraw', 'always', 'keep']),
      metavar: 'MODE',
      description:
        'withdraw: remove the address from the list, unless it is the last one and its server still responds; always: remove it; keep: leave it listed until its lease ends',
      default: 'withdraw',
    },
  },
} as const satisfies OptionGroup

export type KubernetesServiceValues = ValuesOf<typeof kubernetesServiceOptions>

/**
 * Why the TTL does not fit the reconcile interval; undefined if it fits. `interval`: the name of the interval in the
 * message. With a shorter TTL there would be too little time to repeat a failed renewal. (TTL minus interval also
 * limits the time of each request for the lease.) With a longer TTL a dead master would stay listed for too long.
 */
export function ttlFault(leaseTtlMs: number, reconcileIntervalMs: number, interval: string): string | undefined {
  const leastMs = 1.5 * reconcileIntervalMs
  const mostMs = 60 * reconcileIntervalMs
  const given = formatDuration(leaseTtlMs)
  if (leaseTtlMs < leastMs) return `must be at least 1.5 times ${interval}, ${formatDuration(leastMs)}, not ${given}`
  if (leaseTtlMs > mostMs) return `must be at most 60 times ${interval}, ${formatDuration(mostMs)}, not ${given}`
  return undefined
}

/** The options of commands that read leases, and may remove some, but hold none. */
export const leaseStoreOptions = {
  title: 'The leases',
  options: {
    leaseStore: kubernetesServiceOptions.options.leaseStore,
    leaseNamespace: kubernetesServiceOptions.options.leaseNamespace,
  },
} as const satisfies OptionGroup

export const leaseStoreRules: readonly Rule<KubernetesServiceValues & EtcdValues>[] = [
  {
    on: 'leaseStore',
    needs: ['leaseStore', 'etcdServers'],
    breach: ({ leaseStore, etcdServers }) =>
      leaseStore === 'etcd' && etcdServers === undefined ? 'etcd needs --etcd-servers' : undefined,
  },
  {
    on: 'leaseNamespace',
    needs: ['leaseStore', 'leaseNamespace'],
    breach: ({ leaseStore, leaseNamespace }) =>
      leaseNamespace !== 'kube-system' && leaseStore !== 'kubernetes' ? 'requires --lease-store=kubernetes' : undefined,
  },
]

export const kubernetesServiceRules: readonly Rule<
  KubernetesServiceValues & ServiceCidrValues & EtcdValues & { readonly embedded: boolean }
>[] = [
  {
    on: 'advertiseAddress',
    needs: ['advertiseAddress', 'serviceClusterIpRange'],
    breach({ advertiseAddress = [], serviceClusterIpRange: ranges }) {
      const unmatched = advertiseAddress.find((address) => !ranges.some((range) => range.family === address.family))
      if (unmatched !== undefined) {
        return `${unmatched.text} is IPv${unmatched.family}, but --service-cluster-ip-range has no IPv${unmatched.family} range`
      }
      const [primary] = ranges
      if (
        primary !== undefined &&
        advertiseAddress.length > 0 &&
        !advertiseAddress.some((address) => address.family === primary.family)
      ) {
        return `must have an IPv${primary.family} address, the family of the first range of --service-cluster-ip-range`
      }
      return undefined
    },
  },
  {
    on: 'advertiseAddress',
    needs: ['advertiseAddress', 'endpointReconcilerType'],
    breach: ({ advertiseAddress = [], endpointReconcilerType: type }) =>
      advertiseAddress.length > 1 && type === 'master-count'
        ? 'accepts only one address with --endpoint-reconciler-type=master-count: without leases a master cannot detect which other masters have two'
        : undefined,
  },
  {
    on: 'apiserverCount',
    needs: ['apiserverCount', 'endpointReconcilerType'],
    breach: ({ apiserverCount, endpointReconcilerType: type }) =>
      apiserverCount !== 1 && type !== 'master-count' ? 'requires --endpoint-reconciler-type=master-count' : undefined,
  },
  ...leaseStoreRules,
  {
    on: 'kubernetesServiceNodePort',
    needs: ['kubernetesServiceNodePort', 'serviceNodePortRange'],
    breach: ({ kubernetesServiceNodePort: port, serviceNodePortRange: range }) =>
      port !== 0 && !portRangeContains(range, port)
        ? `${port} is not in --service-node-port-range ${range.text}`
        : undefined,
  },
  {
    on: 'leaseTtl',
    needs: ['leaseTtl', 'reconcileInterval'],
    breach: ({ leaseTtl, reconcileInterval }) => ttlFault(leaseTtl, reconcileInterval, '--reconcile-interval'),
  },
  {
    on: 'readinessProbePeriod',
    needs: ['readinessProbePeriod', 'reconcileInterval'],
    breach: ({ readinessProbePeriod, reconcileInterval }) =>
      readinessProbePeriod > reconcileInterval
        ? `must be at most --reconcile-interval, ${formatDuration(reconcileInterval)}, not ${formatDuration(readinessProbePeriod)}: a server that fails would stay listed for three periods`
        : undefined,
  },
  {
    on: 'readyzUrl',
    needs: ['readyzUrl', 'embedded'],
    breach: ({ readyzUrl, embedded }) =>
      readyzUrl !== undefined && embedded
        ? 'has no use with --embedded: that API server is probed in the process, without a URL'
        : undefined,
  },
]
