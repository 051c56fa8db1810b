import { configFileOption, optionGroups, printOptions } from '../config/configuration.ts'
import type { OptionGroup } from '../documents/option.ts'
import { observedConnectionOptions } from '../kube/options.ts'
import { leaseStoreOptions } from '../kubernetes-service/options.ts'
import type { CommandDeclaration } from './command-declaration.ts'
import {
  drillCampaignOptions,
  drillConnectionOptions,
  drillEtcdOptions,
  drillLiveOptions,
  drillOptions,
  drillReportOptions,
  evictionOptions,
  mastersOptions,
  serveOptions,
  verifyOptions,
} from './options.ts'

const shells = ['bash', 'zsh', 'fish']

/** The summaries of commands that do nothing without a subcommand. */
export const commandSummaries: Readonly<Record<string, string>> = { config: 'check and print the configuration' }

const file: OptionGroup = { title: 'Configuration file', options: { config: configFileOption } }
/** The built-in scenarios, for completion: the names of the files in config/drills. */
const scenarios = [
  'clock-skew',
  'crash',
  'damage',
  'datastore-outage',
  'freeze',
  'full-outage',
  'graceful',
  'ip-reuse',
  'last-master',
  'mixed-fleet',
  'own-etcd-dead',
  'partition',
  'rolling-restart',
  'shared-vip',
  'sidecar-restart',
  'unauthorized',
  'upgrade',
]

const all: readonly OptionGroup[] = [file, ...Object.values(optionGroups)]
const { connection, etcd, kubernetesService, serviceCidr, logging } = optionGroups
/** The options of commands that observe a cluster without being a master of it. */
const observed: readonly OptionGroup[] = [file, observedConnectionOptions, leaseStoreOptions, etcd]

/** The commands in the order of the help. Importing this module does not load their code. */
export const commands: readonly CommandDeclaration[] = [
  {
    path: ['run'],
    summary: 'keep the cluster bootstrapped (the main job)',
    groups: all,
    examples: [
      'apiserver-bootstrap run --embedded',
      'apiserver-bootstrap run --config sidecar.yaml --advertise-address 192.0.2.1',
      'apiserver-bootstrap run --config sidecar.yaml --dry-run',
    ],
    load: () => import('./run.ts'),
  },
  {
    path: ['withdraw'],
    summary: "remove this master's address until its sidecar is started again (a preStop hook); the last master stays",
    groups: [file, connection, etcd, kubernetesService, serviceCidr, logging],
    examples: ['apiserver-bootstrap withdraw --config sidecar.yaml'],
    load: () => import('./withdraw.ts'),
  },
  {
    path: ['verify'],
    summary: 'check a live cluster, without writing: whether it came up right, and what is wrong',
    groups: [verifyOptions, ...observed],
    examples: [
      'apiserver-bootstrap verify --kubeconfig admin.conf',
      'apiserver-bootstrap verify --wait 90s --output junit',
      'apiserver-bootstrap verify --expect-masters 3 --skip node-ports',
    ],
    load: () => import('./verify.ts'),
  },
  {
    path: ['masters'],
    summary: 'list the masters: their leases, which are listed, conflicts',
    groups: [mastersOptions, ...observed],
    examples: ['apiserver-bootstrap masters', 'apiserver-bootstrap masters --watch'],
    load: () => import('./masters.ts'),
  },
  {
    path: ['masters', 'evict'],
    summary: 'remove the lease of a master that is gone; prints what it would do, unless --yes is given',
    groups: [evictionOptions, ...observed, logging],
    argument: { name: 'ADDRESS', description: 'address of the master' },
    examples: ['apiserver-bootstrap masters evict 192.0.2.3', 'apiserver-bootstrap masters evict 192.0.2.3 --yes'],
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
      values: [...scenarios, 'random', 'list'],
      files: true,
    },
    examples: [
      'apiserver-bootstrap drill list',
      'apiserver-bootstrap drill crash --runs 100 --report drill-report',
      'apiserver-bootstrap drill random --runs 1000 --fail-fast',
    ],
    load: () => import('./drill.ts'),
  },
  {
    path: ['config', 'check'],
    summary: 'check whether run would start with these flags and this file; contacts nothing',
    groups: all,
    examples: ['apiserver-bootstrap config check --config sidecar.yaml'],
    load: () => import('./config-check.ts'),
  },
  {
    path: ['config', 'print'],
    summary: 'print every effective value and where it comes from',
    groups: [printOptions, ...all],
    examples: ['apiserver-bootstrap config print --config sidecar.yaml --output json'],
    load: () => import('./config-print.ts'),
  },
  {
    path: ['serve'],
    summary: 'serve an API server in this process to kubectl and other clients, for development and tests',
    groups: [serveOptions],
    examples: ['apiserver-bootstrap serve', 'apiserver-bootstrap serve --allocate --write-kubeconfig kubeconfig'],
    load: () => import('./serve.ts'),
  },
  {
    path: ['completion'],
    summary: 'print the completion script of a shell',
    groups: [],
    argument: { name: 'SHELL', description: shells.join(', '), values: shells },
    examples: [
      'source <(apiserver-bootstrap completion bash)',
      'apiserver-bootstrap completion fish > ~/.config/fish/completions/apiserver-bootstrap.fish',
    ],
    load: async () => {
      const { completionScript } = await import('./completion.ts')
      const { print } = await import('./output.ts')
      return {
        async execute(_, shell) {
          await print(completionScript(shell, commands))
          return 0
        },
      }
    },
  },
]
