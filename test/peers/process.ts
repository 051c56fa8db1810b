import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Owner } from './owner.ts'
import { guardGroup, killGroup, releaseGroup } from './reaper.ts'

/** How a process ended: with a code of its own, or by a signal. */
export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface ProcessOptions {
  /** What it is called in error messages. */
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  /** Replaces the environment; the caller's PATH is kept. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** Enough to explain a failure without keeping the log of a long run. */
const keptLines = 2000

/**
 * A child process in a group of its own, with the end of its output. It does not outlive its owner, nor this process.
 */
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

  /** Whether it was told to end or to stop for a while. */
  get wasSignalled(): boolean {
    return this.#wasSignalled
  }

  /** The last lines of its output, standard error included. */
  get lines(): readonly string[] {
    return this.#lines
  }

  /** Calls `listener` for each further line; returns how to end that. */
  onLine(listener: (line: string) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Sends a signal to this process alone, if it still runs. */
  signal(signal: NodeJS.Signals): void {
    this.#wasSignalled = true
    if (this.#exit === undefined) process.kill(this.pid, signal)
  }

  /** SIGTERM, and SIGKILL for whoever does not obey within `graceMs`. */
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
   * Resolves when `ready` answers true; rejects when the process ends first or `withinMs` have passed, with the end of its
   * output in the message.
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
    if (this.#lines.length > keptLines) this.#lines.shift()
    for (const listener of this.#listeners) listener(line)
  }
}

/**
 * Starts a server on freshly picked ports, and anew on others when another program took one of them in between.
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
