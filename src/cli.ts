#!/usr/bin/env node
import type { Command as CommanderCommand } from 'commander'
import type { Flags } from './config/resolve.ts'
import type { OptionGroup } from './documents/option.ts'

// Nothing but types is imported above the guard: an old Node must come as far as its one line.
const oldestNode = [22, 19] as const
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1])) {
  process.stderr.write(
    `apiserver-bootstrap needs Node ${oldestNode.join('.')} or later; this is ${process.versions.node}\n`,
  )
  process.exitCode = 2
} else {
  const { enableCompileCache } = await import('node:module')
  enableCompileCache()
  process.exitCode = await main(process.argv.slice(2))
  // Whatever is still open then is not worth staying for, but what has been written has a moment to get out.
  setTimeout(() => process.exit(), 1000).unref()
}

/** What a command module offers: ends with the exit code, or throws. */
interface CommandModule {
  execute(flags: Flags): Promise<number>
}

interface CommandDeclaration {
  readonly path: readonly string[]
  readonly summary: string
  /** The groups whose options are flags of the command; a configuration file may hold all of them. */
  readonly groups: readonly OptionGroup[]
  load(): Promise<CommandModule>
}

async function main(argv: readonly string[]): Promise<number> {
  const { CommanderError } = await import('commander')
  const { InvalidInputError, formatMistake } = await import('./documents/validation.ts')
  const fail = (code: number, ...lines: readonly string[]): number => {
    for (const line of lines) process.stderr.write(`${line}\n`)
    return code
  }
  let chosen: (() => Promise<number>) | undefined
  try {
    const program = await buildProgram((run) => {
      chosen = run
    })
    program.parse(argv, { from: 'user' })
    return (await chosen?.()) ?? 0
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return 0
      return fail(2, describeUsageError(error))
    }
    if (error instanceof InvalidInputError) return fail(2, ...error.mistakes.map(formatMistake))
    return fail(1, `apiserver-bootstrap: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** commander's complaint as one line of ours. */
function describeUsageError({ code, message }: { readonly code: string; readonly message: string }): string {
  if (code === 'commander.help') return 'a command is needed; see --help'
  const line = message
    .replace(/^error: /, '')
    .replace(/\.$/, '')
    .replace(/\n/g, ' ')
  return `${line}; see --help`
}

async function declareCommands(): Promise<readonly CommandDeclaration[]> {
  const { optionGroups, printOptions } = await import('./config/configuration.ts')
  const all = Object.values(optionGroups)
  const { connection, kubernetesService, serviceCidr, logging } = optionGroups
  return [
    {
      path: ['run'],
      summary: 'keep the cluster bootstrapped (the main job)',
      groups: all,
      load: () => import('./commands/run.ts'),
    },
    {
      path: ['withdraw'],
      summary: "take this master's address out now, and return when it is out (a preStop hook)",
      groups: [connection, kubernetesService, serviceCidr, logging],
      load: () => import('./commands/withdraw.ts'),
    },
    {
      path: ['config', 'check'],
      summary: 'say whether flags and file make a valid configuration; contacts nothing',
      groups: all,
      load: () => import('./commands/config-check.ts'),
    },
    {
      path: ['config', 'print'],
      summary: 'print every effective value and where it comes from',
      groups: [printOptions, ...all],
      load: () => import('./commands/config-print.ts'),
    },
  ]
}

/** The command line, without having acted: parsing calls `choose` with what is to be done. */
async function buildProgram(choose: (run: () => Promise<number>) => void): Promise<CommanderCommand> {
  const { Command, Option } = await import('commander')
  const { flagOf, defaultTextOf, inputKindOf } = await import('./documents/option.ts')
  const { configFileOption } = await import('./config/configuration.ts')

  const setUp = (command: CommanderCommand): CommanderCommand =>
    command
      .exitOverride()
      // What is wrong is said by main; help is written on request only.
      .configureOutput({ writeErr: () => {} })
      .configureHelp({
        optionTerm: (option) => option.flags.replace(/ <(.*)>$/, ' $1').replace(/ \[BOOL\]$/, ''),
        subcommandTerm: (command) => command.name(),
        minWidthToWrap: 30,
      })
      .helpOption('-h, --help', 'show this help')
      .helpCommand(false)

  const program = setUp(new Command('apiserver-bootstrap'))
    .description("What kube-apiserver's bootstrap controller does, for any Kubernetes-style API server.")
    .usage('COMMAND [flags]')
    .version(await versionText(), '--version', 'print the versions of this program and of Node')

  const groups = new Map<string, CommanderCommand>()
  for (const declaration of await declareCommands()) {
    const [first = '', second] = declaration.path
    const parent =
      second === undefined
        ? program
        : (groups.get(first) ?? setUp(program.command(first)).description('check and print the configuration'))
    groups.set(first, parent)
    const command = setUp(parent.command(declaration.path.at(-1) ?? ''))
      .description(declaration.summary)
      .usage('[flags]')
    const file: OptionGroup = { title: 'Configuration file', options: { config: configFileOption } }
    for (const group of [file, ...declaration.groups]) {
      for (const [key, option] of Object.entries(group.options)) {
        const defaultText = defaultTextOf(option)
        const argument = option.metavar === undefined ? '[BOOL]' : `<${option.metavar}>`
        const description =
          defaultText === undefined ? option.description : `${option.description} (default: ${defaultText})`
        const flag = new Option(`--${flagOf(key)} ${argument}`, description).helpGroup(`${group.title}:`)
        if (inputKindOf(option.schema) === 'list') {
          flag.argParser((value: string, before?: string) => (before === undefined ? value : `${before},${value}`))
        }
        command.addOption(flag)
      }
    }
    command.action((given: Record<string, string | true>) => {
      const flags = Object.fromEntries(Object.entries(given).map(([key, value]) => [key, String(value)]))
      choose(async () => (await declaration.load()).execute(flags))
    })
  }
  return program
}

/** The version is package.json's, which lies beside `src/` and `dist/` alike. */
async function versionText(): Promise<string> {
  const { readFile } = await import('node:fs/promises')
  const { version } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  return `apiserver-bootstrap ${version} (Node ${process.versions.node})`
}
