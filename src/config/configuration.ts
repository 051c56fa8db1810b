import * as z from 'zod/mini'
import { masterOptions, masterRules } from '../bootstrap/options.ts'
import type { Option, OptionGroup, Rule, ValuesOf } from '../documents/option.ts'
import { endpointsOptions } from '../endpoints/options.ts'
import { endpointSliceOptions } from '../endpointslice/options.ts'
import { etcdOptions, etcdRules } from '../etcd/options.ts'
import { leaderElectionOptions, leaderElectionRules } from '../kube/leader-election.ts'
import { connectionOptions, connectionRules, observedConnectionRules } from '../kube/options.ts'
import { kubernetesServiceOptions, kubernetesServiceRules, leaseStoreRules } from '../kubernetes-service/options.ts'
import { lifecycleOptions, lifecycleRules } from '../lifecycle/options.ts'
import { repairOptions, repairRules } from '../repair/options.ts'
import { serviceCidrOptions } from '../service-cidr/options.ts'
import { loggingOptions } from '../telemetry/options.ts'

/** The options of all parts. A new part adds its group here, and its rules, if any, to {@link rules}. */
export const optionGroups = {
  connection: connectionOptions,
  etcd: etcdOptions,
  kubernetesService: kubernetesServiceOptions,
  serviceCidr: serviceCidrOptions,
  repair: repairOptions,
  endpoints: endpointsOptions,
  endpointSlice: endpointSliceOptions,
  leaderElection: leaderElectionOptions,
  master: masterOptions,
  lifecycle: lifecycleOptions,
  logging: loggingOptions,
} as const satisfies Record<string, OptionGroup>

type Groups = typeof optionGroups
type Merged<Union> = (Union extends unknown ? (one: Union) => void : never) extends (all: infer All) => void
  ? All
  : never

/** Every setting, parsed and checked. A setting without a value and without a default is undefined. */
export type Configuration = Merged<{ [Name in keyof Groups]: ValuesOf<Groups[Name]> }[keyof Groups]>

/** The flag that names the configuration file. The file cannot contain it. */
export const configFileOption = {
  schema: z.string(),
  metavar: 'FILE',
  description: 'YAML file with any of these settings; a flag overrides the file',
} as const satisfies Option

export const printOptions = {
  title: 'Printing',
  options: {
    output: {
      schema: z.enum(['yaml', 'json']),
      metavar: 'FORMAT',
      description: 'yaml, with the source of each value beside it, or json',
      default: 'yaml',
    },
  },
} as const satisfies OptionGroup

/** The rules for `run`: conditions between settings. */
export const rules: readonly Rule<Configuration>[] = [
  ...connectionRules,
  ...etcdRules,
  ...kubernetesServiceRules,
  ...repairRules,
  ...leaderElectionRules,
  ...masterRules,
  ...lifecycleRules,
]

/** The rules for `withdraw`. It needs no address, because it finds the only master of this host. */
export const withdrawRules: readonly Rule<Configuration>[] = rules.filter(
  (rule) => !(masterRules as readonly Rule<never>[]).includes(rule),
)

/** The rules for `verify`, `masters` and live drills, which need no settings of a master. */
export const observerRules: readonly Rule<Configuration>[] = [
  ...observedConnectionRules,
  ...etcdRules,
  ...leaseStoreRules,
]

export const apiVersion = 'apiserver-bootstrap/v1alpha1'
export const kind = 'Configuration'

/** Every option with its key, in the order of the groups. */
export const allOptions: readonly (readonly [key: keyof Configuration, option: Option])[] = Object.values(
  optionGroups,
).flatMap((group: OptionGroup) => Object.entries(group.options) as [keyof Configuration, Option][])
