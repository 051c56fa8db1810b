import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import type { Cleanup } from './cleanup.ts'
import { atEndOfProcess } from './last-resort.ts'
import { withTimeout } from './with-timeout.ts'

/** How a process ended: one of the two is null. */
export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A process that ends with the test that started it. */
export interface Child {
  readonly pid: number
  /** Everything written so far. */
  stdout(): string
  stderr(): string
  /** Settles when the process has ended and its output is complete. Never rejects. */
  readonly exited: Promise<Exit>
  /**
   * The first match in its stdout or stderr, written before this call or after. Rejects when the process ends first, or
   * on time-out.
   */
  output(pattern: RegExp, timeoutMs?: number): Promise<RegExpMatchArray>
  kill(signal: NodeJS.Signals): void
  /** Sends SIGTERM, and SIGKILL after `graceMs` (default 5000); resolves when the process has ended. */
  stop(graceMs?: number): Promise<Exit>
}

export interface SpawnChildOptions {
  readonly cwd?: string | undefined
  /** Added to this process's environment; `undefined` removes a name. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
}

/**
 * Starts a process, and ends it when the test ends, however that ends, and when this process is interrupted. Rejects
 * when it cannot be started.
 */
export async function spawnChild(
  t: Cleanup,
  command: string,
  args: readonly string[],
  options: SpawnChildOptions = {},
): Promise<Child> {
  const spawned = spawn(command, args, {
    cwd: options.cwd,
    // A child that itself runs node:test must not take this run for its parent.
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const start = new Promise<void>((resolve, reject) => {
    spawned.once('spawn', resolve)
    spawned.once('error', reject)
  })
  const exited = new Promise<Exit>((resolve) => {
    spawned.once('close', (code, signal) => resolve({ code, signal }))
  })
  await start
  const { pid } = spawned
  if (pid === undefined) throw new Error(`${command} has no process id`)
  const callOff = atEndOfProcess(() => void spawned.kill('SIGKILL'))
  spawned.once('exit', callOff)

  const collected = collectOutput(spawned)
  const running = (): boolean => spawned.exitCode === null && spawned.signalCode === null
  const kill = (signal: NodeJS.Signals): void => {
    if (running()) spawned.kill(signal)
  }
  const stop = async (graceMs = 5000): Promise<Exit> => {
    kill('SIGTERM')
    const timer = setTimeout(() => {
      kill('SIGKILL')
      // Its own children may have inherited the pipes and would keep them open.
      spawned.stdout.destroy()
      spawned.stderr.destroy()
    }, graceMs)
    try {
      return await exited
    } finally {
      clearTimeout(timer)
    }
  }
  t.after(async () => {
    await stop()
  })
  const output = (pattern: RegExp, timeoutMs = 60_000): Promise<RegExpMatchArray> =>
    withTimeout(collected.match(pattern, exited), timeoutMs, `${pattern} in the output of ${command}`).catch(
      (error) => {
        throw new Error(`${(error as Error).message}\n${collected.stdout()}${collected.stderr()}`)
      },
    )
  return { pid, stdout: collected.stdout, stderr: collected.stderr, exited, output, kill, stop }
}

function collectOutput(child: ChildProcessByStdio<null, Readable, Readable>): {
  stdout(): string
  stderr(): string
  match(pattern: RegExp, ended: Promise<unknown>): Promise<RegExpMatchArray>
} {
  const text = { stdout: '', stderr: '' }
  const waiting = new Set<() => void>()
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (chunk: string) => {
      text[name] += chunk
      for (const check of [...waiting]) check()
    })
  }
  const find = (pattern: RegExp): RegExpMatchArray | null => text.stdout.match(pattern) ?? text.stderr.match(pattern)
  const match = (pattern: RegExp, ended: Promise<unknown>): Promise<RegExpMatchArray> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        const found = find(pattern)
        if (found === null) return
        waiting.delete(check)
        resolve(found)
      }
      waiting.add(check)
      check()
      void ended.then(() => {
        waiting.delete(check)
        reject(new Error(`the process ended before ${pattern} was seen`))
      })
    })
  return { stdout: () => text.stdout, stderr: () => text.stderr, match }
}
