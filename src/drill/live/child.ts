import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { killGroup } from '../../runtime/system-process-group.ts'

/**
 * One process of a drilled fleet. It has a process group of its own, so an interrupt at the terminal does not reach it.
 * When the process ends, what is left of this group is killed. If the program of the drill ends first, the
 * {@link Watchdog} kills the group.
 */
export class Child {
  readonly pid: number
  readonly exited: Promise<void>
  #ended = false
  #failure: Error | undefined
  #stopRequested = false
  #killed = false

  private constructor(command: string, child: ChildProcess, pid: number, options: ChildOptions) {
    this.pid = pid
    this.exited = once(child, 'close').then(async ([code, signal]: unknown[]) => {
      killGroup(pid)
      options.watchdog.releaseGroup(pid)
      if (!this.#killed && !(this.#stopRequested && code === 0)) {
        const line = await lastLine(options.output).catch(() => undefined)
        this.#failure = new Error(`${command} ended with ${signal ?? `code ${code}`}: ${line ?? 'no output'}`)
      }
      // Set last, so that nobody sees that the process has ended before its failure is set.
      this.#ended = true
    })
  }

  /** Rejects with one line if the command cannot be run, or its output file cannot be created. */
  static async start(command: string, args: readonly string[], options: ChildOptions): Promise<Child> {
    // The process writes to the file itself, so that a slow reader cannot delay it.
    const output = await open(options.output, 'wx')
    try {
      const child = spawn(command, args, { detached: true, stdio: ['ignore', output.fd, output.fd] })
      await once(child, 'spawn')
      const pid = child.pid as number
      options.watchdog.guardGroup(pid)
      return new Child(command, child, pid, options)
    } finally {
      await output.close()
    }
  }

  get ended(): boolean {
    return this.#ended
  }

  /**
   * Why the process ended, with the last line of its output. Undefined while the process runs, after this object has
   * killed it, and if it exited with 0 after SIGTERM.
   */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** Sends a signal to the process alone, if it still runs. */
  signal(signal: NodeJS.Signals): void {
    if (this.ended) return
    if (signal === 'SIGKILL') this.#killed = true
    if (signal === 'SIGTERM') this.#stopRequested = true
    try {
      process.kill(this.pid, signal)
    } catch {
      // The process has just ended.
    }
  }

  /** Sends SIGKILL to the whole process group. Resolves when the process has ended. */
  async kill(): Promise<void> {
    if (!this.ended) {
      this.#killed = true
      killGroup(this.pid)
    }
    await this.exited
  }
}

export interface ChildOptions {
  readonly watchdog: Watchdog
  /** The file for the output of the process. It must not exist yet. */
  readonly output: string
}

/** The most bytes that are searched for the last line of an output. */
const LAST_BYTES = 4096

/** The last non-blank line in the last {@link LAST_BYTES} of a file; undefined if there is none. */
async function lastLine(file: string): Promise<string | undefined> {
  const opened = await open(file)
  try {
    const { size } = await opened.stat()
    const position = Math.max(0, size - LAST_BYTES)
    const { buffer, bytesRead } = await opened.read({ buffer: Buffer.alloc(LAST_BYTES), position })
    const lines = buffer.toString('utf8', 0, bytesRead).split('\n')
    return lines.findLast((line) => line.trim() !== '')
  } finally {
    await opened.close()
  }
}

const signals = { terminate: 'SIGTERM', freeze: 'SIGSTOP', thaw: 'SIGCONT' } as const

/** One life of a member's process, and the effects of signals on it. */
export class ProcessLife {
  readonly child: Child
  stopping = false
  frozen = false
  /** Whether the API server has answered in this life that it is ready. */
  wasReady = false

  constructor(child: Child) {
    this.child = child
  }

  get running(): boolean {
    return !this.stopping && !this.frozen && !this.child.ended
  }

  signal(action: keyof typeof signals): void {
    if (action === 'terminate') this.stopping = true
    else this.frozen = action === 'freeze'
    this.child.signal(signals[action])
  }
}

// `groups` lists the guarded process groups between blanks. To remove a group, the script joins the parts of the list
// before and after it.
const SCRIPT = `
trap '' INT TERM HUP
groups=' '
while read -r operation group; do
  case $operation in
    group+) groups="$groups$group " ;;
    group-) groups="\${groups%% $group *} \${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -9 -"$group" 2>/dev/null; done
[ -z "$1" ] || { sleep 0.2; rm -rf -- "$1"; }
`

/**
 * A shell that kills the remaining guarded process groups, and then removes `directory`, if one is given. The shell
 * does this when its pipe from this process closes, however this process ends.
 */
export class Watchdog {
  readonly #shell: ChildProcess

  constructor(directory?: string) {
    // The directory is an argument, so no name of a directory can change the script.
    const args = ['-c', SCRIPT, 'watchdog', directory === undefined ? '' : resolve(directory)]
    this.#shell = spawn('sh', args, { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
    this.#shell.unref()
    // The drill also works without the shell, which is only a safeguard.
    this.#shell.on('error', () => {})
    this.#shell.stdin?.on('error', () => {})
  }

  guardGroup(group: number): void {
    this.#log(`group+ ${group}`)
  }

  releaseGroup(group: number): void {
    this.#log(`group- ${group}`)
  }

  close(): void {
    this.#shell.stdin?.end()
  }

  #log(line: string): void {
    this.#shell.stdin?.write(`${line}\n`)
  }
}

/** The pause between two attempts, in milliseconds. */
const PAUSE_MS = 1_000

/**
 * Repeats `attempt` until it succeeds. Rejects with the last failure if the next attempt would begin after `limitMs`.
 * `report` receives only the first failure, because later failures are normally the same.
 */
export async function patiently(
  attempt: () => Promise<void>,
  options: { readonly clock: Clock; readonly limitMs: number; readonly report: (failure: unknown) => void },
): Promise<void> {
  const { clock, limitMs, report } = options
  const endMs = clock.monotonicMs() + limitMs
  for (let tries = 1; ; tries++) {
    try {
      return await attempt()
    } catch (error) {
      if (clock.monotonicMs() + PAUSE_MS > endMs) throw error
      if (tries === 1) report(error)
    }
    await sleep(clock, PAUSE_MS)
  }
}
