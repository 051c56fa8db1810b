import type { CampaignReport, CampaignTask } from './campaign.ts'
import { performTask } from './run-schedule.ts'

/** The URL of this module, which performs tasks only as the main module of a process. */
export const workerModule = import.meta.url

/** `done`: the task has ended. */
export type WorkerMessage = CampaignReport | { readonly type: 'done' }

if (import.meta.main) {
  // A schedule makes thousands of errors, such as conflicts. Their stack traces, which nobody reads, would take 4 % of
  // the time.
  Error.stackTraceLimit = 0
  // An interrupt at the terminal reaches all processes, but the parent decides when this one ends.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => {})
  process.on('disconnect', () => process.exit())
  const send = (message: WorkerMessage): void => void process.send?.(message)
  const cpuMs = (): number => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  }
  process.on('message', (task: CampaignTask) => {
    void performTask(task, cpuMs, send).then(() => send({ type: 'done' }))
  })
}
