import { spawn } from 'node:child_process'
import { delimiter, dirname, resolve } from 'node:path'
import { type ParseArgsConfig, parseArgs } from 'node:util'

export const root = resolve(import.meta.dirname, '..')

export interface CommandOptions {
  /** Default: the repository. */
  readonly cwd?: string | undefined
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
}

/** The arguments of this process, as `parseArgs` has them. A mistake in them ends it with 2 and a line. */
export function parseArguments<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config)
  } catch (error) {
    console.error(`✖ ${error instanceof Error ? error.message : error}`)
    process.exit(2)
  }
}

/** The value of an option. What is no whole number of at least 1 ends this process with 2 and a line. */
export function wholeNumber(name: string, text: string): number {
  const number = Number(text)
  if (Number.isSafeInteger(number) && number >= 1) return number
  console.error(`✖ --${name} must be a whole number of at least 1`)
  process.exit(2)
}

/** Runs a command with this process's Node and the tools of node_modules first on the PATH; both output streams, in order. */
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

/** As {@link collect}, but a failure throws with what the command said. */
export async function output(command: string, args: readonly string[], options: CommandOptions = {}): Promise<string> {
  const result = await collect(command, args, options)
  if (!result.ok) throw new Error(`${command} ${args.join(' ')} failed\n${result.output}`)
  return result.output
}

/** Runs the steps one after the other, each reported in a line with its time, a failure with its reason; false if one failed. */
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
