import { configFileOption, optionGroups, printOptions } from '../config/configuration.ts'
import type { Flags } from '../config/resolve.ts'
import type { OptionGroup } from '../documents/option.ts'

/** One thing that the program can be told to do. */
export interface CommandDeclaration {
  /** Its words on the command line. */
  readonly path: readonly [command: string, subcommand?: string]
  readonly summary: string
  /** The options that are its flags. A configuration file may hold all options, whatever the command. */
  readonly groups: readonly OptionGroup[]
  /** Loads what is needed to do it; `execute` ends with the exit code, or throws. */
  load(): Promise<{ execute(flags: Flags): Promise<number> }>
}

/** What stands above the subcommands of a command. */
export const commandSummaries: Readonly<Record<string, string>> = { config: 'check and print the configuration' }

const file: OptionGroup = { title: 'Configuration file', options: { config: configFileOption } }
const all: readonly OptionGroup[] = [file, ...Object.values(optionGroups)]
const { connection, etcd, kubernetesService, serviceCidr, logging } = optionGroups

/** Every command, in the order of the help. Nothing of what they do is loaded. */
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
    path: ['config', 'check'],
    summary: 'say whether run would start with these flags and this file; contacts nothing',
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
