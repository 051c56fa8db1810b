#!/usr/bin/env node
import type { Command } from 'commander'
import type { CommandDeclaration } from './commands/command-declaration.ts'
import { oldNodeFault } from './runtime/system-node.ts'

// Everything else is imported after the guard, because an old Node must still print its one line.
const oldNode = oldNodeFault()
if (oldNode !== undefined) {
  process.stderr.write(`${oldNode}\n`)
  process.exitCode = 2
} else {
  const { enableCompileCache } = await import('./runtime/system-compile-cache.ts')
  enableCompileCache()
  const { limitMemory } = await import('./runtime/system-heap.ts')
  limitMemory()
  const { exitDespiteReadings } = await import('./runtime/system-file.ts')
  exitDespiteReadings()
  const { exitAtSignals } = await import('./commands/stop-signals.ts')
  exitAtSignals()
  const { watchOutput } = await import('./commands/output.ts')
  const { gone, fault } = watchOutput()
  const { code, isExplained } = await main(process.argv.slice(2))
  process.exitCode = code
  const outputLost = (): void => {
    process.exitCode ||= 1
    if (!isExplained) process.stderr.write(`apiserver-bootstrap: ${fault() ?? 'the reader of the output has gone'}\n`)
  }
  // A failure of the last write may appear at any later time.
  if (gone.aborted) outputLost()
  else gone.addEventListener('abort', outputLost)
  // The output has a second to be written. After this time open handles do not delay the end.
  setTimeout(() => process.exit(), 1000).unref()
}

async function main(argv: readonly string[]): Promise<{ readonly code: number; readonly isExplained: boolean }> {
  try {
    const chosen = await parse(argv)
    return { code: (await chosen?.()) ?? 0, isExplained: false }
  } catch (error) {
    const code = await explain(error)
    return { code, isExplained: code !== 0 }
  }
}

/** Prints a line for each mistake. Resolves with the exit code. Imports here, because most runs do not fail. */
async function explain(error: unknown): Promise<number> {
  const { CommanderError } = await import('commander')
  const { InvalidInputError, formatMistake } = await import('./documents/validation.ts')
  const { messageOf } = await import('./runtime/errors.ts')
  const { presentable } = await import('./commands/output.ts')
  const fail = (code: 1 | 2, ...lines: readonly string[]): number => {
    for (const line of lines) process.stderr.write(`${presentable(line)}\n`)
    return code
  }
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : fail(2, describeUsageError(error))
  if (error instanceof InvalidInputError) return fail(2, ...error.mistakes.map(formatMistake))
  return fail(1, `apiserver-bootstrap: ${messageOf(error)}`)
}

/**
 * Resolves with a function that runs the chosen command. Rejects with a CommanderError for a mistake, and, with the
 * `exitCode` 0, after help and version.
 */
async function parse(argv: readonly string[]): Promise<(() => Promise<number>) | undefined> {
  const commander = await import('commander')
  const { commands, commandSummaries } = await import('./commands/declarations.ts')
  let chosen: (() => Promise<number>) | undefined
  const program = setUp(new commander.Command('apiserver-bootstrap'), commander)
    .description("What kube-apiserver's bootstrap controller does, for any Kubernetes-style API server.")
    .usage('COMMAND [flags]')
    .version(await versionText(), '--version', 'print the versions of this program and of Node')
  for (const declaration of commands) {
    const [name, subname] = declaration.path
    const known = program.commands.find((command) => command.name() === name)
    const command =
      known ?? setUp(program.command(name), commander).description(commandSummaries[name] ?? declaration.summary)
    const leaf =
      subname === undefined ? command : setUp(command.command(subname), commander).description(declaration.summary)
    const { argument, examples } = declaration
    if (argument !== undefined) leaf.argument(`<${argument.name}>`, argument.description)
    await addFlags(leaf.usage(argument === undefined ? '[flags]' : `${argument.name} [flags]`), declaration)
    leaf.addHelpText('after', `\nExamples:\n${examples.map((line) => `  ${line}`).join('\n')}`)
    leaf.action((first: unknown) => {
      // Flags of the command may precede its subcommand.
      const given = { ...(leaf === command ? {} : command.opts()), ...leaf.opts() }
      const known = leaf.options.map((option) => option.attributeName())
      const unknownKey = Object.keys(given).find((key) => !known.includes(key))
      if (unknownKey !== undefined) leaf.error(`'${declaration.path.join(' ')}' does not take all flags of '${name}'`)
      const flags = Object.fromEntries(Object.entries(given).map(([key, value]) => [key, String(value)]))
      chosen = async () => (await declaration.load()).execute(flags, argument === undefined ? '' : String(first))
    })
  }
  program.parse(argv, { from: 'user' })
  return chosen
}

function setUp(command: Command, { Help }: typeof import('commander')): Command {
  return (
    command
      .exitOverride()
      .enablePositionalOptions()
      // `explain` prints the errors.
      .configureOutput({ writeErr: () => {} })
      .configureHelp({
        optionTerm: (option) => option.flags.replace(/ <(.*)>$/, ' $1').replace(/ \[BOOL\]$/, ''),
        // The description already contains the default.
        optionDescription: ({ description }) => description,
        subcommandTerm: (subcommand) => subcommand.name(),
        // A longer term gets a line of its own, so that enough space is left for the descriptions.
        padWidth: (about, help) => Math.min(Help.prototype.padWidth.call(help, about, help), 35),
        formatItem(term, width, description, help) {
          const item = (of: string): string => Help.prototype.formatItem.call(help, of, width, description, help)
          return help.displayWidth(term) <= width ? item(term) : `  ${term}\n${item('')}`
        },
        minWidthToWrap: 30,
      })
      .helpOption('-h, --help', 'show this help')
      .helpCommand(false)
  )
}

async function addFlags(command: Command, { groups, argument: operand }: CommandDeclaration): Promise<void> {
  const { Option } = await import('commander')
  const { defaultTextOf, flagOf, inputKindOf } = await import('./documents/option.ts')
  for (const { title, options } of groups) {
    for (const [key, option] of Object.entries(options)) {
      // If the command has an argument, a switch before it must not take the argument as its value.
      const toggle = operand === undefined ? '[BOOL]' : ''
      const value = option.bare === undefined ? `<${option.metavar}>` : `[${option.metavar}]`
      const argument = option.metavar === undefined ? toggle : value
      const defaultText = defaultTextOf(option)
      const description = `${option.description}${defaultText === undefined ? '' : ` (default: ${defaultText})`}`
      const flag = new Option(`--${flagOf(key)} ${argument}`.trimEnd(), description).helpGroup(`${title}:`)
      if (option.bare !== undefined) flag.preset(option.bare)
      if (inputKindOf(option.schema) === 'list') {
        flag.argParser((value: string, before?: string) => (before === undefined ? value : `${before},${value}`))
      }
      command.addOption(flag)
    }
  }
}

/** commander's message as one line that refers to the help. */
function describeUsageError({ code, message }: { readonly code: string; readonly message: string }): string {
  if (code === 'commander.help') return 'a command is needed; see --help'
  const line = message.replace(/^error: /, '').replace(/\.$/, '')
  return `${line.replaceAll('\n', ' ')}; see --help`
}

async function versionText(): Promise<string> {
  const { packageVersion } = await import('./runtime/system-package.ts')
  return `apiserver-bootstrap ${await packageVersion()} (Node ${process.versions.node})`
}
