import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Apiserver } from './apiserver.ts'
import { serviceRange } from './apiserver.ts'
import type { Owner } from './owner.ts'
import { type Exit, RunningProcess } from './process.ts'
import { untilPasses } from './until.ts'

/** The path of the tested program: the build, or the source if there is no build. */
export function programPath(): string {
  const built = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))
  return existsSync(built) ? built : fileURLToPath(new URL('../../src/cli.ts', import.meta.url))
}

/** One structured line of the program's log. */
export interface LogLine {
  readonly level: string | number
  readonly message: string
  readonly [field: string]: unknown
}

/** apiserver-bootstrap as a process. */
export class Program {
  readonly process: RunningProcess
  readonly #log: LogLine[] = []

  private constructor(running: RunningProcess) {
    this.process = running
    running.onLine((line) => {
      if (line.startsWith('{')) this.#log.push(JSON.parse(line) as LogLine)
    })
  }

  /**
   * `host`: the host name that the program sees; by default that of this machine. `nodeArgs` come before the program.
   */
  static async start(
    owner: Owner,
    args: readonly string[],
    host?: string,
    nodeArgs: readonly string[] = [],
  ): Promise<Program> {
    const onHost = fileURLToPath(new URL('on-host.ts', import.meta.url))
    const running = await RunningProcess.start(owner, {
      name: 'apiserver-bootstrap',
      command: process.execPath,
      args: [...nodeArgs, ...(host === undefined ? [] : ['--import', onHost]), programPath(), ...args],
      ...(host !== undefined && { env: { HOST_NAME: host } }),
    })
    owner.explain(() => `apiserver-bootstrap ${args.join(' ')}\n${running.tail()}`)
    return new Program(running)
  }

  /** Every log line since the start. */
  get log(): readonly LogLine[] {
    return this.#log
  }

  /** The lines whose text, including fields, matches. */
  logged(pattern: RegExp): readonly LogLine[] {
    return this.#log.filter((line) => pattern.test(JSON.stringify(line)))
  }

  waitForLog(pattern: RegExp, withinMs: number): Promise<LogLine> {
    return untilPasses(
      `a log line that matches ${pattern}`,
      () => {
        const line = this.logged(pattern)[0]
        if (line === undefined) throw new Error(this.process.tail())
        return line
      },
      { withinMs },
    )
  }

  /** Throws, with the end of its log, if it no longer runs. */
  assertRunning(): void {
    if (this.process.exit !== undefined) {
      throw new Error(`the program ended with ${JSON.stringify(this.process.exit)}\n${this.process.tail()}`)
    }
  }

  stop(options?: { readonly signal?: NodeJS.Signals; readonly graceMs?: number }): Promise<Exit> {
    return this.process.stop(options)
  }

  kill(): Promise<void> {
    return this.process.kill()
  }
}

/** What a master must know about its API server. */
type ServerAddress = Pick<Apiserver, 'kubeconfig' | 'port'>

/** What differs between the masters of a test. */
export interface MasterOptions {
  readonly address: string
  /** The port in Endpoints; the server's own by default. */
  readonly securePort?: number
  readonly kubeconfig?: string
  /** One range, or two with a comma. */
  readonly serviceClusterIpRange?: string
  /** The name of its machine. */
  readonly host?: string
  readonly flags?: readonly string[]
}

/** The flags that make `run` keep this server bootstrapped. Its health server takes a free port. */
export function runFlags(server: ServerAddress, options: MasterOptions): readonly string[] {
  return [
    'run',
    `--kubeconfig=${options.kubeconfig ?? server.kubeconfig}`,
    `--advertise-address=${options.address}`,
    `--secure-port=${options.securePort ?? server.port}`,
    `--service-cluster-ip-range=${options.serviceClusterIpRange ?? serviceRange}`,
    '--health-bind-address=127.0.0.1:0',
    ...(options.flags ?? []),
  ]
}

export function startMaster(owner: Owner, server: ServerAddress, options: MasterOptions): Promise<Program> {
  return Program.start(owner, runFlags(server, options), options.host)
}

/** Runs a command to its end. */
export async function runToEnd(
  owner: Owner,
  args: readonly string[],
  graceMs = 60_000,
): Promise<Exit & { readonly output: string }> {
  const program = await Program.start(owner, args)
  const timer = setTimeout(() => program.process.signal('SIGKILL'), graceMs)
  const exit = await program.process.exited
  clearTimeout(timer)
  return { ...exit, output: program.process.tail(200) }
}
