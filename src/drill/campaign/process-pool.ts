import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type WorkerMessage, workerModule } from './process-worker.ts'
import type { CampaignNews, CampaignTask, CampaignWorker } from './schedule-result.ts'

/** A schedule makes many objects and many errors that live for a moment only; and where each processor has a worker, threads of V8 beside them cost more than they gain. */
const FAST = ['--stack-trace-limit=0', '--max-semi-space-size=64', '--single-threaded']

/** Processes of this program that do the tasks of a campaign. {@link close} ends them at once, whatever they are at. */
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
    let said = ''
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-2_000)
    })
    this.#ended = new Promise((resolve) => {
      this.#child.on('error', (error) => resolve(error.message))
      this.#child.on('close', (code, signal) =>
        resolve(`${signal ?? `exit code ${code}`}${said && `: ${said.trim()}`}`),
      )
    })
  }

  /** Undefined when it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Resolves early, with nothing more to be heard, when the pool is closed. */
  async perform(task: CampaignTask, hear: (news: CampaignNews) => void): Promise<void> {
    let onMessage: (message: WorkerMessage) => void = () => {}
    const done = new Promise<undefined>((resolve) => {
      onMessage = (message) => {
        if (this.#closed) return
        if (message.type === 'done') resolve(undefined)
        else hear(message)
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
