import { formatDuration, humanDuration } from '../../documents/duration.ts'
import type { Violation } from '../../verify/fleet-checker.ts'
import { sentenceOf } from '../../verify/invariants.ts'
import type { FleetPlan, Scenario } from '../scenario/scenario.ts'

interface CampaignOptions {
  readonly firstSeed: number
  readonly runs: number
  /**
   * After the first failed schedule, workers finish their current tasks, and then begin only tasks that shrink a
   * schedule. @default false
   */
  readonly failFast?: boolean
  /** The most failed schedules that are shrunk: those whose results arrive first. @default 3 */
  readonly shrinkAtMost?: number
  readonly onResult?: (result: ScheduleResult) => void
  /** After an abort, workers finish their current tasks, and {@link runCampaign} resolves with the results so far. */
  readonly signal: AbortSignal
}

/** The shortest failing schedule that the search for one seed has found, and how many schedules it has tried. */
interface ShrunkSchedule {
  readonly seed: number
  readonly scenario: Scenario
  readonly tries: number
}

/** Both lists are sorted by seed. */
export interface CampaignOutcome {
  readonly results: readonly ScheduleResult[]
  readonly shrunk: readonly ShrunkSchedule[]
}

/** The most seeds of one task. The number is small, so that all workers end at about the same time. */
const MAX_CHUNK = 25

/**
 * Runs the schedules of many seeds, and shrinks the first ones that fail. Rejects if the `perform` of a worker rejects.
 */
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
        await worker.perform(task, (report) => {
          if (report.type === 'shrunk') {
            shrunk.push(report)
            return
          }
          const { result } = report
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

/** The result of one schedule. Plain JSON, because a worker process sends it. */
export interface ScheduleResult {
  readonly seed: number
  readonly violations: readonly Violation[]
  readonly cpuMs: number
  readonly simulatorEvents: number
  /** How often an address left the EndpointSlice although one of its masters had been healthy for six seconds. */
  readonly flaps: number
  readonly fleet: Pick<FleetPlan, 'leaseStore' | 'leaseTtlMs' | 'reconcileIntervalMs'>
  readonly digest: string
}

export type CampaignTask =
  /** Runs `count` seeds, from `firstSeed` on. */
  | { readonly type: 'run'; readonly firstSeed: number; readonly count: number }
  | { readonly type: 'shrink'; readonly seed: number; readonly invariant: string }

export type CampaignReport =
  | { readonly type: 'ran'; readonly result: ScheduleResult }
  | { readonly type: 'shrunk'; readonly seed: number; readonly scenario: Scenario; readonly tries: number }

/** Performs one task at a time. `perform` rejects if the worker ends unexpectedly. */
export interface CampaignWorker {
  perform(task: CampaignTask, onReport: (report: CampaignReport) => void): Promise<void>
}

/** The figures of a campaign. Plain JSON. */
export interface CampaignSummary {
  readonly schedules: number
  readonly failed: number
  readonly elapsedSeconds: number
  readonly schedulesPerSecond: number
  readonly cpuMs: MeanAndMax
  readonly simulatorEvents: MeanAndMax
  /**
   * One entry for each combination of TTL and interval. `schedules`: how many schedules had these times. `flaps`: how
   * many flaps these schedules had (see {@link ScheduleResult.flaps}). `flapFree`: how many of these schedules had no
   * flap.
   */
  readonly flaps: readonly {
    readonly leaseTtlMs: number
    readonly reconcileIntervalMs: number
    readonly schedules: number
    readonly flaps: number
    readonly flapFree: number
  }[]
  /** How many schedules had their leases in each lease store, by the name of the store. */
  readonly leaseStores: Readonly<Record<string, number>>
}

interface MeanAndMax {
  readonly mean: number
  readonly max: number
}

export function summarize({ results }: Pick<CampaignOutcome, 'results'>, elapsedMs: number): CampaignSummary {
  const elapsedSeconds = elapsedMs / 1000
  return {
    schedules: results.length,
    failed: results.filter(({ violations }) => violations.length > 0).length,
    elapsedSeconds: rounded(elapsedSeconds),
    schedulesPerSecond: elapsedMs === 0 ? 0 : rounded(results.length / elapsedSeconds),
    cpuMs: meanAndMax(results.map(({ cpuMs }) => cpuMs)),
    simulatorEvents: meanAndMax(results.map(({ simulatorEvents }) => simulatorEvents)),
    flaps: flapsByLease(results),
    leaseStores: countBy(results.map(({ fleet }) => fleet.leaseStore)),
  }
}

export function describeSummary(summary: CampaignSummary): readonly string[] {
  const { schedules, elapsedSeconds, schedulesPerSecond, cpuMs, simulatorEvents, flaps, leaseStores } = summary
  const stores = Object.entries(leaseStores).map(([store, count]) => `${count} in ${store}`)
  const flapping = flaps.map(({ leaseTtlMs, reconcileIntervalMs, schedules: among, flaps: count, flapFree }) => {
    const times = `${formatDuration(leaseTtlMs)}/${formatDuration(reconcileIntervalMs)}`
    return `${count} in ${among} schedules with ${times} (${((100 * flapFree) / among).toFixed(1)} % without a flap)`
  })
  return [
    `time       ${formatDuration(Math.round(elapsedSeconds) * 1000)}, ${schedulesPerSecond.toFixed(1)} schedules a second`,
    `CPU        ${cpuMs.mean.toFixed(0)} ms a schedule, at most ${cpuMs.max.toFixed(0)} ms`,
    `simulator  ${simulatorEvents.mean.toFixed(0)} events a schedule, at most ${simulatorEvents.max.toFixed(0)}`,
    `leases     ${stores.join(', ')}, of ${schedules} schedules`,
    `flaps      ${flapping.join(', ')}`,
  ]
}

function flapsByLease(results: readonly ScheduleResult[]): CampaignSummary['flaps'] {
  const groups = new Map<string, CampaignSummary['flaps'][number]>()
  for (const { fleet, flaps } of results) {
    const { leaseTtlMs, reconcileIntervalMs } = fleet
    const key = `${leaseTtlMs} ${reconcileIntervalMs}`
    const before = groups.get(key) ?? { leaseTtlMs, reconcileIntervalMs, schedules: 0, flaps: 0, flapFree: 0 }
    const flapFree = before.flapFree + (flaps === 0 ? 1 : 0)
    groups.set(key, { ...before, schedules: before.schedules + 1, flaps: before.flaps + flaps, flapFree })
  }
  return [...groups.values()].sort(
    (a, b) => a.leaseTtlMs - b.leaseTtlMs || a.reconcileIntervalMs - b.reconcileIntervalMs,
  )
}

function countBy(names: readonly string[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const name of [...names].sort()) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

function meanAndMax(values: readonly number[]): MeanAndMax {
  if (values.length === 0) return { mean: 0, max: 0 }
  const sum = values.reduce((total, value) => total + value, 0)
  return { mean: rounded(sum / values.length), max: rounded(values.reduce((most, value) => Math.max(most, value), 0)) }
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10
}

/**
 * Describes the violations of one schedule, and names the command that repeats the schedule. `shortest`: the shortest
 * schedule found with the same failure, with the path (`file`) and the text (`yaml`) of its scenario file. Pure.
 */
export function describeFailure(
  { seed, violations }: Pick<ScheduleResult, 'seed' | 'violations'>,
  shortest?: { readonly schedule: ShrunkSchedule; readonly file: string; readonly yaml: string },
): readonly string[] {
  const described = violations.map(({ atMs, invariant, detail }) => {
    return `  at ${(atMs / 1000).toFixed(3)} s: ${sentenceOf(invariant)} (${invariant}): ${detail}`
  })
  const lines = [`seed ${seed} violates:`, ...described, `  again: ${replayCommand(seed)}`]
  if (shortest === undefined) return lines
  const { schedule, file, yaml } = shortest
  return [
    ...lines,
    `  the shortest schedule found with the same failure (${schedule.tries} tried): apiserver-bootstrap drill ${file} --seed ${seed}`,
    '',
    ...yaml
      .trimEnd()
      .split('\n')
      .map((line) => `    ${line}`.trimEnd()),
    '',
  ]
}

/** The command that repeats the schedule of a seed, and prints the whole report. */
export function replayCommand(seed: number): string {
  return `apiserver-bootstrap drill random --seed ${seed} --runs 1`
}

export function describeProgress({
  done,
  runs,
  failed,
  elapsedMs,
}: {
  readonly done: number
  readonly runs: number
  readonly failed: number
  readonly elapsedMs: number
}): string {
  const described = failed === 0 ? 'no failure so far' : `${failed} failed`
  const parts = [`${done} of ${runs} schedules`]
  if (done === runs) {
    if (failed > 0) parts.push('searching for shorter schedules that still fail')
  } else if (done > 0 && elapsedMs > 0) {
    parts.push(`${((done * 1000) / elapsedMs).toFixed(1)} a second`)
    parts.push(`${humanDuration(((runs - done) * elapsedMs) / done)} left`)
  }
  return [...parts, described].join(', ')
}
