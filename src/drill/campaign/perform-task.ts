import { randomScenario } from '../random/random-scenario.ts'
import { runSchedule } from './run-schedule.ts'
import type { CampaignNews, CampaignTask } from './schedule-result.ts'
import { shrinkScenario } from './shrink-scenario.ts'

/** Does one task of a campaign in this process. `cpuMs`: what it has used so far, in milliseconds. */
export async function performTask(
  task: CampaignTask,
  {
    cpuMs,
    tell,
    signal,
  }: {
    readonly cpuMs: () => number
    readonly tell: (news: CampaignNews) => void
    readonly signal: AbortSignal
  },
): Promise<void> {
  if (task.type === 'shrink') {
    const { seed, invariant } = task
    const { scenario, tries } = await shrinkScenario(randomScenario(seed), async (candidate) => {
      const { violations } = await runSchedule(candidate, seed, signal)
      return violations.find((violation) => violation.invariant === invariant)?.atMs
    })
    const description = `What is left of seed ${seed} where the rest of it is not needed: ${invariant}.`
    tell({ type: 'shrunk', seed, scenario: { ...scenario, description }, tries })
    return
  }
  for (let seed = task.firstSeed; seed < task.firstSeed + task.count; seed++) {
    const startedMs = cpuMs()
    const scenario = randomScenario(seed)
    const { events: _, ...outcome } = await runSchedule(scenario, seed, signal)
    const { leaseStore, leaseTtlMs, reconcileIntervalMs } = scenario.fleet
    const fleet = { leaseStore, leaseTtlMs, reconcileIntervalMs }
    tell({ type: 'ran', result: { seed, fleet, ...outcome, cpuMs: cpuMs() - startedMs } })
  }
}
