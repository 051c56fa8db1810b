import { Roster } from './roster.ts'
import type { MasterPlan, Scenario, Step } from './scenario.ts'

/** Somebody who is yet to come. */
interface Coming {
  readonly atMs: number
  readonly come: () => void
}

/**
 * Which names in the steps, which are in the order of their times, are nobody's yet when their step may happen; and from when on each
 * name is somebody's, at the latest: from the start, in another's place once the pause of a `replace` is over, or by `scale`. Whoever has
 * gone keeps its name. Who comes by `random` steps is not known before. Pure.
 */
export function absentNames({ fleet, steps }: Pick<Scenario, 'fleet' | 'steps'>): {
  readonly absent: ReadonlyMap<Step, readonly string[]>
  readonly comesMs: ReadonlyMap<string, number>
} {
  const roster = new Roster()
  const comesMs = new Map<string, number>()
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
  const scale = (to: number, atMs: number): void => {
    const { present } = roster
    for (const { name } of present.slice(to)) roster.retire(name)
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
      named.filter((name) => !comesMs.has(name)),
    )
    const latestMs = step.atMs + (step.jitterMs ?? 0)
    if (step.action === 'replace') {
      const gone = roster.resolve(step.masters).flatMap((name) => roster.plan(name) ?? [])
      for (const { name } of gone) roster.retire(name)
      const atMs = latestMs + step.pauseMs
      coming.push({ atMs, come: () => gone.forEach((plan) => void add(roster.successorOf(plan), atMs)) })
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
  return { absent, comesMs }
}
