import type { Scenario } from '../scenario.ts'
import type { CampaignTask, CampaignWorker, ScheduleResult } from './schedule-result.ts'

export interface CampaignOptions {
  readonly firstSeed: number
  readonly runs: number
  /** Nothing new is begun after the first violation, but for looking for the shortest schedule. @default false */
  readonly failFast?: boolean
  /** For how many of the schedules that fail the shortest one is looked for: the first ones found. @default 3 */
  readonly shrinkAtMost?: number
  /** Hears each result as it comes. */
  readonly onResult?: (result: ScheduleResult) => void
  /** The campaign ends early, with what there is. */
  readonly signal: AbortSignal
}

/** A schedule that failed, as short as it was found. */
export interface ShrunkSchedule {
  readonly seed: number
  readonly scenario: Scenario
  readonly tries: number
}

export interface CampaignOutcome {
  /** In the order of their seeds. */
  readonly results: readonly ScheduleResult[]
  readonly shrunk: readonly ShrunkSchedule[]
}

/** Seeds that a worker takes at a time, at most: few enough for all to end at about the same time. */
const MAX_CHUNK = 25

/** Runs the schedules of many seeds, and looks for the shortest ones that fail as some of them do. Rejects when a worker does. */
export async function runCampaign(
  workers: readonly CampaignWorker[],
  options: CampaignOptions,
): Promise<CampaignOutcome> {
  const { firstSeed, runs, failFast = false, shrinkAtMost = 3, onResult, signal } = options
  const results: ScheduleResult[] = []
  const shrunk: ShrunkSchedule[] = []
  const toShrink: CampaignTask[] = []
  let failures = 0
  let begun = 0
  const chunk = Math.max(1, Math.min(MAX_CHUNK, Math.ceil(runs / workers.length / 4)))
  const next = (): CampaignTask | undefined => {
    if (signal.aborted) return undefined
    const shrinking = toShrink.shift()
    if (shrinking !== undefined) return shrinking
    if (begun >= runs || (failFast && failures > 0)) return undefined
    const count = Math.min(chunk, runs - begun)
    begun += count
    return { type: 'run', firstSeed: firstSeed + begun - count, count }
  }
  await Promise.all(
    workers.map(async (worker) => {
      for (let task = next(); task !== undefined; task = next()) {
        await worker.perform(task, (news) => {
          if (news.type === 'shrunk') {
            shrunk.push(news)
            return
          }
          const { result } = news
          results.push(result)
          onResult?.(result)
          const [violation] = result.violations
          if (violation === undefined) return
          failures++
          if (failures > shrinkAtMost) return
          toShrink.push({ type: 'shrink', seed: result.seed, invariant: violation.invariant })
        })
      }
    }),
  )
  const bySeed = (a: { readonly seed: number }, b: { readonly seed: number }): number => a.seed - b.seed
  return { results: results.sort(bySeed), shrunk: shrunk.sort(bySeed) }
}
