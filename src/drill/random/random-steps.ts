import type { Random } from '../../runtime/random.ts'
import type { FleetPlan, Step } from '../scenario.ts'
import { Draw } from './draw.ts'
import { type Ground, makeFault } from './random-faults.ts'
import { Roster } from './roster.ts'

/**
 * What happens to a fleet between two moments: waves of faults, close enough for several to last at a time, and between them pauses in
 * which it may come right. Each is undone within the time, by itself. In the order of their times. Pure.
 */
export function randomSteps(
  random: Random,
  fleet: FleetPlan,
  { fromMs, untilMs }: { readonly fromMs: number; readonly untilMs: number },
): readonly Step[] {
  const draw = new Draw(random)
  const ground: Ground = { draw, fleet, roster: new Roster(fleet.masters), untilMs }
  const steps: Step[] = []
  let atMs = fromMs
  while (atMs < untilMs) {
    const waveEndMs = Math.min(atMs + draw.ms(15_000, 50_000), untilMs)
    for (; atMs < waveEndMs; atMs += draw.ms(300, 12_000)) steps.push(...makeFault(ground, atMs))
    atMs += draw.ms(20_000, 90_000)
  }
  return steps.sort((a, b) => a.atMs - b.atMs)
}
