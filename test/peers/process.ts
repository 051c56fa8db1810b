import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Owner } from './owner.ts'
import { guardGroup, killGroup, releaseGroup } from './reaper.ts'

/** How a process ended: with an exit code, or by a signal. */
export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface ProcessOptions {
  /** Its name in error messages. */
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  /** Replaces the environment, except for PATH, which is that of the caller. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** Enough to explain a failure without storing the log of a long run. */
const storedLines = 2000

/** A child process in its own group, with the end of its output. It does not outlive its owner, nor this process. */
export class RunningProcess {
  readonly name: string
  readonly pid: number
  /** Resolves when the process has ended and all its output has been read. */
  readonly exited: Promise<Exit>
  #exit: Exit | undefined
  #wasSignalled = false
  readonly #lines: string[] = []
  readonly #listeners = new Set<(line: string) => void>()

  private constructor(name: string, child: ChildProcess, pid: number) {
    this.name = name
    this.pid = pid
    for (const stream of [child.stdout, child.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on('line', (line) => this.#keep(line))
    }
    this.exited = once(child, 'close').then(([code, signal]: unknown[]) => {
      this.#exit = { code: code as number | null, signal: signal as NodeJS.Signals | null }
      releaseGroup(pid)
      return this.#exit
    })
  }

  static async start(owner: Owner, options: ProcessOptions): Promise<RunningProcess> {
    const child = spawn(options.command, options.args, {
      cwd: options.cwd,
      env: { PATH: process.env.PATH, ...options.env },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    await once(child, 'spawn')
    const pid = child.pid as number
    guardGroup(pid)
    const running = new RunningProcess(options.name, child, pid)
    owner.after(() => running.kill())
    return running
  }

  /** Undefined while it runs. */
  get exit(): Exit | undefined {
    return this.#exit
  }

  /** Whether a signal to end or to pause was sent to it. */
  get wasSignalled(): boolean {
    return this.#wasSignalled
  }

  /** The last lines of its output, standard error included. */
  get lines(): readonly string[] {
    return this.#lines
  }

  /** Calls `listener` for each further line. The returned function ends this. */
  onLine(listener: (line: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Sends a signal to this process alone, if it still runs. */
  signal(signal: NodeJS.Signals): void {
    this.#wasSignalled = true
    if (this.#exit === undefined) process.kill(this.pid, signal)
  }

  /** Sends SIGTERM, and SIGKILL if the process has not ended within `graceMs`. */
  async stop({
    signal = 'SIGTERM',
    graceMs = 30_000,
  }: {
    signal?: NodeJS.Signals
    graceMs?: number
  } = {}): Promise<Exit> {
    this.signal(signal)
    const timer = setTimeout(() => this.signal('SIGKILL'), graceMs)
    try {
      return await this.exited
    } finally {
      clearTimeout(timer)
    }
  }

  /** SIGKILL to its whole group. */
  async kill(): Promise<void> {
    this.#wasSignalled = true
    if (this.#exit === undefined) killGroup(this.pid)
    await this.exited
  }

  /**
   * Resolves when `ready` returns true. Rejects when the process ends first or `withinMs` have passed, with the end of
   * its output in the message.
   */
  async whenReady(ready: () => Promise<boolean>, withinMs: number): Promise<void> {
    const deadline = performance.now() + withinMs
    for (;;) {
      if (this.#exit !== undefined) throw new Error(`${this.name} ended before it was ready\n${this.tail()}`)
      if (await ready().catch(() => false)) return
      if (performance.now() > deadline) throw new Error(`${this.name} not ready in ${withinMs} ms\n${this.tail()}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  /** The last `count` lines of output, for messages. */
  tail(count = 25): string {
    return this.#lines.slice(-count).join('\n')
  }

  #keep(line: string): void {
    this.#lines.push(line)
    if (this.#lines.length > storedLines) this.#lines.shift()
    for (const listener of this.#listeners) listener(line)
  }
}

/**
 * Starts a server on newly picked ports. If another program has taken one of them meanwhile, starts it again on others.
 */
export async function startOnFreePorts<T>(start: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start()
    } catch (error) {
      if (attempt === 3 || !/address already in use/i.test(String(error))) throw error
    }
  }
}
