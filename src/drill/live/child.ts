import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Watchdog } from './watchdog.ts'

/** How much of its output is kept to explain a failure. */
const KEPT_LINES = 50

/** One process of a drilled fleet, in a group of its own: an interrupt at the terminal does not reach it, and it does not outlive the drill. */
export class Child {
  readonly pid: number
  /** When it has ended, and all its output has been read. */
  readonly exited: Promise<void>
  readonly #lines: string[] = []
  readonly #listeners = new Set<(line: string) => void>()
  #ended = false
  #failure: Error | undefined
  #toldToStop = false
  #killed = false

  private constructor(command: string, child: ChildProcess, pid: number, watchdog: Watchdog) {
    this.pid = pid
    for (const stream of [child.stdout, child.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on('line', (line) => this.#keep(line))
    }
    this.exited = once(child, 'close').then(([code, signal]: unknown[]) => {
      this.#ended = true
      if (!this.#killed && !(this.#toldToStop && code === 0)) {
        const last = this.#lines.at(-1) ?? 'no output'
        this.#failure = new Error(`${command} ended with ${signal ?? `code ${code}`}: ${last}`)
      }
      watchdog.releaseGroup(pid)
    })
  }

  /** Rejects, in one line, when the command cannot be run. */
  static async start(command: string, args: readonly string[], watchdog: Watchdog): Promise<Child> {
    const child = spawn(command, args, {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    await once(child, 'spawn')
    const pid = child.pid as number
    watchdog.guardGroup(pid)
    return new Child(command, child, pid, watchdog)
  }

  get ended(): boolean {
    return this.#ended
  }

  /**
   * Which program ended by itself, how, and the last line of its output; undefined while it runs, when it was killed here, and when it was
   * told to stop and ended well.
   */
  get failure(): Error | undefined {
    return this.#failure
  }

  get lines(): readonly string[] {
    return this.#lines
  }

  /** Calls `listener` for each further line of its output. */
  onLine(listener: (line: string) => void): void {
    this.#listeners.add(listener)
  }

  /** To the process alone, if it still runs. */
  signal(signal: NodeJS.Signals): void {
    if (this.ended) return
    if (signal === 'SIGKILL') this.#killed = true
    if (signal === 'SIGTERM') this.#toldToStop = true
    try {
      process.kill(this.pid, signal)
    } catch {
      // It has just ended.
    }
  }

  /** SIGKILL to its whole group; resolves when it has ended. */
  async kill(): Promise<void> {
    if (!this.ended) {
      this.#killed = true
      try {
        process.kill(-this.pid, 'SIGKILL')
      } catch {
        // It has just ended.
      }
    }
    await this.exited
  }

  #keep(line: string): void {
    this.#lines.push(line)
    if (this.#lines.length > KEPT_LINES) this.#lines.shift()
    for (const listener of this.#listeners) listener(line)
  }
}
