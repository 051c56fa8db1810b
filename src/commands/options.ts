import * as z from 'zod/mini'
import { duration } from '../documents/duration.ts'
import { fileName, type OptionGroup, parsedText, type ValuesOf, wholeNumber } from '../documents/option.ts'
import { etcdOptions } from '../etcd/options.ts'
import { connectionOptions } from '../kube/options.ts'
import { type Address, isLoopbackName, parseAddress } from '../net/address.ts'
import { formatHostPort, type HostPort, parseHostPort, parsePortRange } from '../net/host-port.ts'
import { serviceCidrOptions } from '../service-cidr/options.ts'
import { checkIds } from '../verify/cluster/check-ids.ts'
import { faultText } from './serve-faults.ts'

const loopbackAddress = parsedText(parseHostPort, formatHostPort).check(
  z.refine(({ host }) => isLoopbackName(host), 'must be a loopback address, such as 127.0.0.1:0'),
)

export const mastersOptions = {
  title: 'Listing',
  options: {
    output: {
      schema: z.enum(['table', 'json']),
      metavar: 'FORMAT',
      description: 'table, or json',
      default: 'table',
    },
    watch: {
      schema: z.boolean(),
      description: 'watch, and show each change, until SIGINT or SIGTERM',
      default: false,
    },
    web: {
      schema: loopbackAddress,
      metavar: 'HOST:PORT',
      description: 'serve a live page of the masters to browsers on this machine; port 0 selects a free one',
      unset: 'no page',
    },
  },
} as const satisfies OptionGroup

export const evictionOptions = {
  title: 'Eviction',
  options: {
    yes: {
      schema: z.boolean(),
      description: 'remove it; without this flag nothing is written',
      default: false,
    },
    force: {
      schema: z.boolean(),
      description: 'remove even a live one, but never the last one that clients could use',
      default: false,
    },
  },
} as const satisfies OptionGroup

const checkList = z
  .array(z.enum(checkIds, { error: `must be one of ${checkIds.join(', ')}` }))
  .check(z.minLength(1, 'needs at least one check'))

interface ProbeTarget {
  readonly address: Address
  readonly target: HostPort
}

function parseProbeTarget(text: string): ProbeTarget {
  const [, address, target] = /^([^=]*)=(.*)$/.exec(text) ?? []
  if (address === undefined || target === undefined) {
    throw new TypeError(`${JSON.stringify(text)} is not ADDRESS=HOST:PORT, such as 192.0.2.1=127.0.0.1:6443`)
  }
  return { address: parseAddress(address), target: parseHostPort(target) }
}

function formatProbeTarget({ address, target }: ProbeTarget): string {
  return `${address.text}=${formatHostPort(target)}`
}

const serviceRange = {
  schema: serviceCidrOptions.options.serviceClusterIpRange.schema,
  metavar: 'CIDR[,CIDR]',
  description: "addresses of Services, as the API servers' own flag has them",
} as const

export const verifyOptions = {
  title: 'Checks',
  options: {
    only: {
      schema: checkList,
      metavar: 'LIST',
      description: 'only these checks, by their ids',
      unset: 'all, except those whose flag is not given',
    },
    skip: { schema: checkList, metavar: 'LIST', description: 'leave out these checks, by their ids' },
    expectAddresses: {
      schema: z.array(parsedText(parseAddress, ({ text }) => text)).check(z.minLength(1, 'needs at least one address')),
      metavar: 'LIST',
      description:
        'default/kubernetes must list exactly these addresses; if all are of one family, only the Endpoints are checked',
    },
    expectMasters: {
      schema: wholeNumber(1, 1000),
      metavar: 'N',
      description: 'default/kubernetes must list this many addresses',
    },
    serviceClusterIpRange: {
      ...serviceRange,
      unset: 'that of the file of --config, else of the ServiceCIDR kubernetes',
    },
    serviceNodePortRange: {
      schema: parsedText(parsePortRange, (range) => range.text),
      metavar: 'A-B',
      description: "node ports of Services, as the API servers' own flag has them",
      unset: 'that of the file of --config, else not checked',
    },
    expect: {
      schema: fileName,
      metavar: 'FILE',
      description: 'YAML file with the masters, ranges and checks to skip (the flags of the same names override it)',
    },
    probe: {
      schema: z.boolean(),
      description: 'connect to each listed address: certificate, /readyz, clock; no credentials are sent',
      default: false,
    },
    probeMap: {
      schema: z.array(parsedText(parseProbeTarget, formatProbeTarget)),
      metavar: 'ADDRESS=HOST:PORT',
      description: 'where to connect instead, for an address that is not reached directly (repeatable)',
    },
    watchWriters: {
      schema: duration({ minMs: 1_000, maxMs: 3_600_000 }),
      metavar: 'DURATION',
      bare: '15s',
      description: 'watch default/kubernetes for writers that overwrite each other; 15s without a value',
    },
    output: {
      schema: z.enum(['table', 'json', 'junit', 'github']),
      metavar: 'FORMAT',
      description: 'table, json, junit, or github for the annotations of a workflow',
      default: 'table',
    },
    wait: {
      schema: duration({ minMs: 0 }),
      metavar: 'DURATION',
      description: 'check again until everything holds; begin no attempt after this time',
      default: '0s',
    },
  },
} as const satisfies OptionGroup

const directory = z.string().check(z.minLength(1, 'needs the name of a directory'))

const { expectAddresses, expectMasters, serviceClusterIpRange, serviceNodePortRange, skip } = verifyOptions.options

/** The keys of the file that `--expect` names. Each key means the same as the flag of the same name. */
export const expectationOptions = {
  expectAddresses,
  expectMasters,
  serviceClusterIpRange,
  serviceNodePortRange,
  skip,
} as const satisfies OptionGroup['options']

export const expectationHead = { apiVersion: 'apiserver-bootstrap/v1alpha1', kind: 'VerifyExpectations' } as const

export const serveOptions = {
  title: 'The API server',
  options: {
    bindAddress: {
      schema: z.string().check(z.minLength(1, 'needs an address of this machine')),
      metavar: 'HOST',
      description: 'address of this machine, or a name for one',
      default: '127.0.0.1',
    },
    port: {
      schema: wholeNumber(0, 65_535),
      metavar: 'PORT',
      description: 'port; 0 selects a free one',
      default: 0,
    },
    writeKubeconfig: {
      schema: fileName,
      metavar: 'FILE',
      description: 'write the kubeconfig there; it is deleted at the end',
      unset: 'a file in a new temporary directory',
    },
    crd: {
      schema: z.array(fileName),
      metavar: 'FILES',
      description: 'YAML files with CustomResourceDefinitions, comma-separated; their kinds are served from the start',
      unset: 'none',
    },
    allocate: {
      schema: z.boolean(),
      description: 'allocate ClusterIPs (10.96.0.0/16) and node ports for Services, as kube-apiserver does',
      default: false,
    },
    fault: {
      schema: faultText,
      metavar: 'FAULT',
      description:
        'fault to inject into requests: status=503, delay=200ms, refuse, lose-request, lose-answer, garbage, cut-watch=NUMBER or lose-events',
      unset: 'nothing',
    },
    faultPercent: {
      schema: wholeNumber(1, 100),
      metavar: 'N',
      description: 'percentage of requests that get the --fault; with lose-events, percentage of events',
      default: 100,
    },
    faultPath: {
      schema: z.string().check(z.startsWith('/', 'must begin with /')),
      metavar: 'PREFIX',
      description:
        'only requests whose path has this prefix get the --fault, such as /api/v1/namespaces/default/endpoints',
      default: '/',
    },
  },
} as const satisfies OptionGroup

/** The options of `drill` for any target. */
export const drillOptions = {
  title: 'The drill',
  options: {
    target: {
      schema: z.enum(['sim', 'live']),
      metavar: 'TARGET',
      description: 'sim: in this process, in simulated time; live: real processes around a real API server',
      default: 'sim',
    },
    seed: {
      schema: wholeNumber(0, 0xffff_ffff),
      metavar: 'N',
      description: 'seed of all random decisions; each further run uses the next one',
      default: 1,
    },
    runs: {
      schema: wholeNumber(1, 1_000_000),
      metavar: 'N',
      description: 'number of runs, of each reconciler and lease store',
      default: 1,
    },
    reconciler: {
      schema: z
        .array(z.enum(['lease', 'master-count', 'none', 'kube-apiserver']))
        .check(z.minLength(1, 'needs at least one')),
      metavar: 'LIST',
      description:
        'what maintains the list: lease, master-count, none, kube-apiserver; several are drilled side by side',
      unset: 'as in the scenario',
    },
    leaseStore: {
      schema: z.array(z.enum(['etcd', 'kine', 'kubernetes', 'memory'])).check(z.minLength(1, 'needs at least one')),
      metavar: 'LIST',
      description: 'where leases are: etcd, kine, kubernetes, memory; several are drilled side by side',
      unset: 'as in the scenario',
    },
    allowKnownFailures: {
      schema: z.boolean(),
      description: 'exit with 0 even if master-count or none have their known failures',
      default: false,
    },
  },
} as const satisfies OptionGroup

export const drillReportOptions = {
  title: 'The report',
  options: {
    output: {
      schema: z.enum(['text', 'json', 'junit']),
      metavar: 'FORMAT',
      description: 'text, with the drill as it happens; json or junit, when it is over',
      default: 'text',
    },
    report: {
      schema: directory,
      metavar: 'DIR',
      description:
        'write report.json, timeline.txt, report.html and the logs of real processes, or campaign.json and the failed schedules, to this directory; created if missing',
    },
  },
} as const satisfies OptionGroup

/** The options of `drill random` with more than one run. */
export const drillCampaignOptions = {
  title: 'Campaigns (random, with --runs over 1)',
  options: {
    jobs: {
      schema: wholeNumber(1, 1024),
      metavar: 'N',
      description: 'number of processes',
      unset: 'one for each processor',
    },
    failFast: { schema: z.boolean(), description: 'end after the first run that does not hold', default: false },
  },
} as const satisfies OptionGroup

export const drillLiveOptions = {
  title: 'Live drills (--target=live)',
  options: {
    yes: {
      schema: z.boolean(),
      description: 'yes, default/kubernetes may be changed; it is restored at the end',
      default: false,
    },
    kubeApiserver: {
      schema: fileName,
      metavar: 'FILE',
      description: 'kube-apiserver program, for masters that are kube-apiservers',
      unset: 'the one that npm run peers has built, if any',
    },
    serviceClusterIpRange: { ...serviceRange, unset: 'that of the ServiceCIDR kubernetes' },
  },
} as const satisfies OptionGroup

const { kubeconfig, context } = connectionOptions.options

/** The kubeconfig has no default, because a live drill changes objects of the cluster. */
export const drillConnectionOptions = {
  title: 'The API server (--target=live)',
  options: {
    kubeconfig: { ...kubeconfig, description: 'kubeconfig of the API server; required for a live drill' },
    context,
  },
} as const satisfies OptionGroup

export const drillEtcdOptions = { ...etcdOptions, title: 'etcd (--target=live)' } as const satisfies OptionGroup

/** The options that belong to `drill` itself, beside those of the connections to the API server and to etcd. */
export const ownDrillOptions = {
  title: 'Drill',
  options: {
    ...drillOptions.options,
    ...drillReportOptions.options,
    ...drillCampaignOptions.options,
    ...drillLiveOptions.options,
  },
} as const satisfies OptionGroup

export type DrillValues = ValuesOf<typeof ownDrillOptions>
