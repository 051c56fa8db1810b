import { sentenceOf } from '../../verify/invariants.ts'
import type { ShrunkSchedule } from './campaign.ts'
import type { ScheduleResult } from './schedule-result.ts'

/**
 * What did not hold in one schedule, and how to see it again, for people. `file`: where the shortest schedule is, or is to be, as a
 * scenario; `yaml` is its text. Pure.
 */
export function describeFailure(
  { seed, violations }: Pick<ScheduleResult, 'seed' | 'violations'>,
  shortest?: { readonly schedule: ShrunkSchedule; readonly file: string; readonly yaml: string },
): readonly string[] {
  const told = violations.map(({ atMs, invariant, detail }) => {
    return `  at ${(atMs / 1000).toFixed(3)} s: ${sentenceOf(invariant)} (${invariant}): ${detail}`
  })
  const lines = [`seed ${seed} does not hold:`, ...told, `  again: ${replayCommand(seed)}`]
  if (shortest === undefined) return lines
  const { schedule, file, yaml } = shortest
  return [
    ...lines,
    `  the shortest schedule that fails so, of ${schedule.tries} tried: apiserver-bootstrap drill ${file} --seed ${seed}`,
    '',
    ...yaml
      .trimEnd()
      .split('\n')
      .map((line) => `    ${line}`.trimEnd()),
    '',
  ]
}

/** What runs the schedule of a seed once more, with the whole report. */
export function replayCommand(seed: number): string {
  return `apiserver-bootstrap drill random --seed ${seed} --runs 1`
}
