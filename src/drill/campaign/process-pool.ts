import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { CampaignReport, CampaignTask, CampaignWorker } from './campaign.ts'
import { type WorkerMessage, workerModule } from './process-worker.ts'

/**
 * Flags of Node that make schedules faster. A schedule creates many short-lived objects and errors. Additional threads
 * of V8 would slow the schedules down, because by default each processor has a worker.
 */
const FAST = ['--stack-trace-limit=0', '--min-semi-space-size=64', '--max-semi-space-size=64', '--single-threaded']

/** Processes of this program that perform the tasks of a campaign. `close` kills the processes. */
export class ProcessPool {
  readonly workers: readonly ProcessWorker[]

  constructor(jobs: number) {
    this.workers = Array.from({ length: jobs }, () => new ProcessWorker())
  }

  async close(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.close()))
  }
}

class ProcessWorker implements CampaignWorker {
  readonly #child: ChildProcess
  readonly #ended: Promise<string>
  #closed = false

  constructor() {
    this.#child = fork(fileURLToPath(workerModule), {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: [...process.execArgv, ...FAST],
    })
    let stderr = ''
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-2_000)
    })
    this.#ended = new Promise((resolve) => {
      this.#child.on('error', (error) => resolve(error.message))
      this.#child.on('close', (code, signal) =>
        resolve(`${signal ?? `exit code ${code}`}${stderr && `: ${stderr.trim()}`}`),
      )
    })
  }

  /** Undefined if the process could not be started. */
  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Resolves early, without further reports, when the pool is closed. */
  async perform(task: CampaignTask, onReport: (report: CampaignReport) => void): Promise<void> {
    let onMessage: (message: WorkerMessage) => void = () => {}
    const done = new Promise<undefined>((resolve) => {
      onMessage = (message) => {
        if (this.#closed) return
        if (message.type === 'done') resolve(undefined)
        else onReport(message)
      }
    })
    this.#child.on('message', onMessage)
    if (this.#child.connected) this.#child.send(task, () => {})
    try {
      const end = await Promise.race([done, this.#ended])
      if (end !== undefined && !this.#closed) throw new Error(`a process of the campaign ended by ${end}`)
    } finally {
      this.#child.off('message', onMessage)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#child.kill('SIGKILL')
    await this.#ended
  }
}
