import { formatDuration } from '../../documents/duration.ts'
import type { CampaignOutcome } from './campaign.ts'
import type { ScheduleResult } from './schedule-result.ts'

/** What a campaign came to, in figures. Plain JSON. */
export interface CampaignSummary {
  readonly schedules: number
  readonly failed: number
  readonly elapsedSeconds: number
  readonly schedulesPerSecond: number
  readonly cpuMs: MeanAndMax
  readonly simulatorEvents: MeanAndMax
  /**
   * How often an address left while its master was well, in how many schedules there were leases of such times, and in how many of these no address
   * did so.
   */
  readonly flaps: readonly {
    readonly leaseTtlMs: number
    readonly reconcileIntervalMs: number
    readonly schedules: number
    readonly flaps: number
    readonly flapFree: number
  }[]
  /** How many schedules had their leases where. */
  readonly leaseStores: Readonly<Record<string, number>>
}

export interface MeanAndMax {
  readonly mean: number
  readonly max: number
}

/** Pure. */
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

/** For people: one figure a line. Pure. */
export function describeSummary(summary: CampaignSummary): readonly string[] {
  const { schedules, elapsedSeconds, schedulesPerSecond, cpuMs, simulatorEvents, flaps, leaseStores } = summary
  const stores = Object.entries(leaseStores).map(([store, count]) => `${count} in ${store}`)
  const flapping = flaps.map(({ leaseTtlMs, reconcileIntervalMs, schedules: among, flaps: count, flapFree }) => {
    const times = `${formatDuration(leaseTtlMs)}/${formatDuration(reconcileIntervalMs)}`
    return `${count} in ${among} with ${times} (${((100 * flapFree) / among).toFixed(1)} % without)`
  })
  return [
    `time       ${formatDuration(Math.round(elapsedSeconds) * 1000)}, ${schedulesPerSecond.toFixed(1)} schedules a second`,
    `CPU        ${cpuMs.mean.toFixed(0)} ms a schedule, at most ${cpuMs.max.toFixed(0)} ms`,
    `simulator  ${simulatorEvents.mean.toFixed(0)} events a schedule, at most ${simulatorEvents.max.toFixed(0)}`,
    `leases     of ${schedules} schedules ${stores.join(', ')}`,
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
