import { spawn } from 'node:child_process'
import { delimiter, dirname, resolve } from 'node:path'
import { type ParseArgsConfig, parseArgs } from 'node:util'

export const root = resolve(import.meta.dirname, '..')

export interface CommandOptions {
  /** @default the root of the repository */
  readonly cwd?: string | undefined
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
}

/** Parses the arguments of this process with `parseArgs`. A mistake ends the process with exit code 2 and one line. */
export function parseArguments<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config)
  } catch (error) {
    console.error(`✖ ${error instanceof Error ? error.message : error}`)
    process.exit(2)
  }
}

/** Parses an option: a whole number of at least 1. Another value ends the process with exit code 2 and one line. */
export function wholeNumber(name: string, text: string): number {
  const number = Number(text)
  if (Number.isSafeInteger(number) && number >= 1) return number
  console.error(`✖ --${name} must be a whole number of at least 1`)
  process.exit(2)
}

/**
 * Runs a command, with this process's Node and the tools of node_modules first on the PATH. Never rejects. `output` has
 * both output streams, in the order in which their text arrived; `ok` means exit code 0.
 */
export function collect(
  command: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<{ readonly ok: boolean; readonly output: string }> {
  return new Promise((settle) => {
    const path = [dirname(process.execPath), resolve(root, 'node_modules/.bin'), process.env.PATH].join(delimiter)
    const env = { ...process.env, PATH: path, ...options.env }
    const child = spawn(command, args, { cwd: options.cwd ?? root, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        output += chunk
      })
    }
    child.once('error', (error) => settle({ ok: false, output: `${output}${command}: ${error.message}\n` }))
    child.once('close', (code) => settle({ ok: code === 0, output }))
  })
}

/** As {@link collect}, but resolves with the output, and rejects with the output if the command fails. */
export async function output(command: string, args: readonly string[], options: CommandOptions = {}): Promise<string> {
  const result = await collect(command, args, options)
  if (!result.ok) throw new Error(`${command} ${args.join(' ')} failed\n${result.output}`)
  return result.output
}

/**
 * Runs the steps one after the other. Prints a line with the duration of each step, and the reason of a failure. Stops
 * at the first failure unless `keepGoing` is set. Resolves with false if a step failed.
 */
export async function runSteps(
  steps: Readonly<Record<string, () => Promise<unknown>>>,
  { keepGoing = false }: { readonly keepGoing?: boolean } = {},
): Promise<boolean> {
  let ok = true
  for (const [name, step] of Object.entries(steps)) {
    const startedAt = performance.now()
    const report = (mark: string): void =>
      console.log(`${mark} ${name} (${((performance.now() - startedAt) / 1000).toFixed(1)} s)`)
    try {
      await step()
      report('✔')
    } catch (error) {
      ok = false
      report('✖')
      console.log(indent(error instanceof Error ? error.message : String(error)))
      if (!keepGoing) break
    }
  }
  return ok
}

function indent(text: string): string {
  return text.trimEnd().replaceAll(/^(?=.)/gm, '  ')
}
