import { performTask } from './perform-task.ts'
import type { CampaignNews, CampaignTask } from './schedule-result.ts'

/** What a worker's process is started with: this module, which works when it is the one that was started. */
export const workerModule = import.meta.url

/** From a worker's process: news, and that a task is done. */
export type WorkerMessage = CampaignNews | { readonly type: 'done' }

if (import.meta.main) {
  // Whoever has started it ends it; with a terminal's interrupt everybody is told.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => {})
  process.on('disconnect', () => process.exit())
  const tell = (message: WorkerMessage): void => void process.send?.(message)
  const cpuMs = (): number => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  }
  const never = new AbortController().signal
  process.on('message', (task: CampaignTask) => {
    void performTask(task, { cpuMs, tell, signal: never }).then(() => tell({ type: 'done' }))
  })
}
