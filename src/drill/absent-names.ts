import { Roster } from './roster.ts'
import type { MasterPlan, Scenario, Step } from './scenario.ts'

/** Somebody who is yet to come. */
interface Coming {
  readonly atMs: number
  readonly come: () => void
}

/** Whose the names in a scenario are, and when. */
export interface Names {
  /** Which of the names in a step are nobody's when it may happen: not yet, or not any more. */
  readonly absent: ReadonlyMap<Step, readonly string[]>
  /** From when on each name is somebody's, at the latest. */
  readonly comesMs: ReadonlyMap<string, number>
  /** When `scale` sends somebody away, at the latest. */
  readonly goesMs: ReadonlyMap<string, number>
}

/**
 * Whose the names in the steps are, which are in the order of their times: from the start, in another's place once the pause of a
 * `replace` is over, or by `scale`, until a later one sends whoever came last away. Whoever was replaced keeps its name, and so does
 * whoever came in its place, even when it is sent away: random schedules name them on. Who comes by `random` steps is not known before,
 * nor by those that are `doubtful`. Pure.
 */
export function absentNames(
  { fleet, steps }: Pick<Scenario, 'fleet' | 'steps'>,
  doubtful: ReadonlySet<Step> = new Set(),
): Names {
  const roster = new Roster()
  const comesMs = new Map<string, number>()
  const goesMs = new Map<string, number>()
  const successors = new Set<string>()
  const coming: Coming[] = []
  const add = (plan: MasterPlan, atMs: number): void => {
    roster.add(plan)
    comesMs.set(plan.name, atMs)
  }
  /** Whoever comes at the moment of a step comes after it. */
  const comeBefore = (untilMs: number): void => {
    coming.sort((a, b) => a.atMs - b.atMs)
    while ((coming[0]?.atMs ?? untilMs) < untilMs) coming.shift()?.come()
  }
  const succeed = (gone: MasterPlan, atMs: number): void => {
    const successor = roster.successorOf(gone)
    successors.add(successor.name)
    add(successor, atMs)
  }
  const scale = (to: number, atMs: number): void => {
    const { present } = roster
    for (const { name } of present.slice(to)) {
      roster.retire(name)
      if (!successors.has(name)) goesMs.set(name, atMs)
    }
    const [pattern] = fleet.masters
    for (let count = present.length; count < to && pattern !== undefined; count++) add(roster.another(pattern), atMs)
  }
  for (const master of fleet.masters) add(master, 0)
  const absent = new Map<Step, readonly string[]>()
  for (const step of steps) {
    comeBefore(step.atMs)
    const named = 'masters' in step && step.masters !== 'all' ? step.masters : []
    absent.set(
      step,
      named.filter((name) => !comesMs.has(name) || (goesMs.get(name) ?? step.atMs) < step.atMs),
    )
    if (doubtful.has(step)) continue
    const latestMs = step.atMs + (step.jitterMs ?? 0)
    if (step.action === 'replace') {
      const gone = roster.resolve(step.masters).flatMap((name) => roster.plan(name) ?? [])
      for (const { name } of gone) roster.retire(name)
      const atMs = latestMs + step.pauseMs
      coming.push({ atMs, come: () => gone.forEach((plan) => void succeed(plan, atMs)) })
    }
    if (step.action === 'scale') {
      if (step.jitterMs === undefined) scale(step.to, latestMs)
      else coming.push({ atMs: latestMs, come: () => scale(step.to, latestMs) })
    }
    if (step.action === 'roll-config') {
      for (const name of roster.resolve(step.masters)) roster.configure(name, step.settings)
    }
  }
  comeBefore(Number.POSITIVE_INFINITY)
  return { absent, comesMs, goesMs }
}
