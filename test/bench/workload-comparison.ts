import { type Bound, shown } from './report.ts'
import type { ManagerName } from './workload-run.ts'

/** One figure of a manager, over all rounds together. */
export interface Measure<Run> {
  readonly name: string
  /** The largest allowed ratio of the program's figure to the peer's. */
  readonly limit?: number
  of(runs: readonly Run[]): number
}

export type RunsOfBoth<Run> = Readonly<Record<ManagerName, readonly Run[]>>

/** The largest allowed ratio of the program's figure to the peer's. */
export const limits = { cost: 0.5, time: 0.6, latency: 0.5, requests: 1 } as const

export const order: readonly ManagerName[] = ['kube-controller-manager', 'program']

/** Runs both managers in turn. The one that was last in a round is first in the next. */
export async function runBoth<Run>(
  scenario: string,
  rounds: number,
  measures: readonly Measure<Run>[],
  run: (manager: ManagerName, round: number) => Promise<Run>,
): Promise<RunsOfBoth<Run>> {
  const runs: Record<ManagerName, Run[]> = { 'kube-controller-manager': [], program: [] }
  for (let round = 1; round <= rounds; round++) {
    for (const manager of round % 2 === 1 ? order : order.toReversed()) {
      const found = await run(manager, round)
      runs[manager].push(found)
      console.error(`${scenario}, round ${round}/${rounds}, ${manager}: ${figuresOf(found, measures)}`)
    }
  }
  return runs
}

export function figuresOf<Run>(run: Run, measures: readonly Measure<Run>[]): string {
  return measures.map(({ name, of }) => `${name} ${shown(of([run]))}`).join('; ')
}

/** The rows of a table, and the bounds of those measures that have a limit. */
export function compared<Run>(
  scenario: string,
  measures: readonly Measure<Run>[],
  runs: RunsOfBoth<Run>,
): { readonly rows: readonly (readonly string[])[]; readonly bounds: readonly Bound[] } {
  const rows: (readonly string[])[] = []
  const bounds: Bound[] = []
  for (const { name, limit, of } of measures) {
    const [peer, ours] = order.map((manager) => of(runs[manager])) as [number, number]
    // Also if both are 0.
    const ratio = ours === peer ? 1 : ours / peer
    rows.push([scenario, name, shown(peer), shown(ours), shown(ratio)])
    if (limit !== undefined) bounds.push({ name: `${scenario}, ${name}, of the peer’s`, value: ratio, limit, unit: '' })
  }
  return { rows, bounds }
}

export function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN
}
