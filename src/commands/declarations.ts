import { configFileOption, optionGroups, printOptions } from '../config/configuration.ts'
import type { Flags } from '../config/resolve.ts'
import type { OptionGroup } from '../documents/option.ts'
import { observedConnectionOptions } from '../kube/options.ts'
import { leaseStoreOptions } from '../kubernetes-service/options.ts'
import {
  drillCampaignOptions,
  drillConnectionOptions,
  drillEtcdOptions,
  drillLiveOptions,
  drillOptions,
  drillReportOptions,
  evictionOptions,
  mastersOptions,
  verifyOptions,
} from './options.ts'

/** One command of the program. */
export interface CommandDeclaration {
  /** Its words on the command line. */
  readonly path: readonly [command: string, subcommand?: string]
  readonly summary: string
  /** The options that are its flags. A configuration file may contain all options, whatever the command. */
  readonly groups: readonly OptionGroup[]
  /** The argument after its words, beside the flags. */
  readonly argument?: { readonly name: string; readonly description: string }
  /** Loads the command's code; `execute` resolves with the exit code, or throws. */
  load(): Promise<{ execute(flags: Flags, argument: string): Promise<number> }>
}

/** The help above the subcommands of a command. */
export const commandSummaries: Readonly<Record<string, string>> = { config: 'check and print the configuration' }

const file: OptionGroup = { title: 'Configuration file', options: { config: configFileOption } }
const all: readonly OptionGroup[] = [file, ...Object.values(optionGroups)]
const { connection, etcd, kubernetesService, serviceCidr, logging } = optionGroups
/** For commands that observe a cluster without being a master of it. */
const observed: readonly OptionGroup[] = [file, observedConnectionOptions, leaseStoreOptions, etcd]

/** Every command, in the order of the help. The commands' code is not loaded. */
export const commands: readonly CommandDeclaration[] = [
  {
    path: ['run'],
    summary: 'keep the cluster bootstrapped (the main job)',
    groups: all,
    load: () => import('./run.ts'),
  },
  {
    path: ['withdraw'],
    summary: "take this master's address out now, and return when it is out (a preStop hook)",
    groups: [file, connection, etcd, kubernetesService, serviceCidr, logging],
    load: () => import('./withdraw.ts'),
  },
  {
    path: ['verify'],
    summary: 'check a live cluster, without writing: whether it came up right, and what is wrong',
    groups: [verifyOptions, ...observed],
    load: () => import('./verify.ts'),
  },
  {
    path: ['masters'],
    summary: 'list the masters: their leases, which are listed, conflicts',
    groups: [mastersOptions, ...observed],
    load: () => import('./masters.ts'),
  },
  {
    path: ['masters', 'evict'],
    summary: 'remove the lease of a master that is gone; prints what it would do, unless --yes is given',
    groups: [evictionOptions, ...observed, logging],
    argument: { name: 'ADDRESS', description: 'address of the master' },
    load: () => import('./masters-evict.ts'),
  },
  {
    path: ['drill'],
    summary: 'drill a fleet of masters, simulated or of real processes, and report what clients saw',
    groups: [
      drillOptions,
      drillReportOptions,
      drillCampaignOptions,
      drillLiveOptions,
      drillConnectionOptions,
      drillEtcdOptions,
    ],
    argument: {
      name: 'SCENARIO',
      description: 'built-in scenario, YAML file, random, or list to see the built-in ones',
    },
    load: () => import('./drill.ts'),
  },
  {
    path: ['config', 'check'],
    summary: 'check whether run would start with these flags and this file; contacts nothing',
    groups: all,
    load: () => import('./config-check.ts'),
  },
  {
    path: ['config', 'print'],
    summary: 'print every effective value and where it comes from',
    groups: [printOptions, ...all],
    load: () => import('./config-print.ts'),
  },
]
