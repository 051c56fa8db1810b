import type { Violation } from '../../verify/fleet-judge.ts'
import type { FleetPlan, Scenario } from '../scenario.ts'

/** What is kept of one schedule of a campaign. Plain JSON: it comes from another process. */
export interface ScheduleResult {
  readonly seed: number
  readonly violations: readonly Violation[]
  readonly cpuMs: number
  readonly simulatorEvents: number
  readonly flaps: number
  readonly fleet: Pick<FleetPlan, 'leaseStore' | 'leaseTtlMs' | 'reconcileIntervalMs'>
  readonly digest: string
}

/** What is to be done in another process. */
export type CampaignTask =
  /** So many seeds from the first one on. */
  | { readonly type: 'run'; readonly firstSeed: number; readonly count: number }
  | { readonly type: 'shrink'; readonly seed: number; readonly invariant: string }

/** What comes from there: results one by one. */
export type CampaignNews =
  | { readonly type: 'ran'; readonly result: ScheduleResult }
  | { readonly type: 'shrunk'; readonly seed: number; readonly scenario: Scenario; readonly tries: number }

/** Somebody who does tasks, one at a time. Rejects when they cannot be done any more. */
export interface CampaignWorker {
  perform(task: CampaignTask, hear: (news: CampaignNews) => void): Promise<void>
}
