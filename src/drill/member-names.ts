import type { FleetPlan, Step } from './scenario.ts'

/** The master that takes the place of another. */
export function successorName(name: string): string {
  return `${name}-anew`
}

/** The names of everybody who is a member of the fleet at some time: at the start, in somebody's place, or by `scale`. Pure. */
export function namesEver({
  fleet,
  steps,
}: {
  readonly fleet: Pick<FleetPlan, 'masters'>
  readonly steps: readonly Step[]
}): ReadonlySet<string> {
  const names = new Set(fleet.masters.map(({ name }) => name))
  const size = fleet.masters.length
  let ever = size
  let present = size
  for (const step of steps) {
    if (step.action === 'replace') {
      const replaced = step.masters === 'all' ? fleet.masters.map(({ name }) => name) : step.masters
      for (const name of replaced) names.add(successorName(name))
      ever += replaced.length
    }
    if (step.action === 'scale') {
      ever += Math.max(step.to - present, 0)
      present = step.to
    }
  }
  if (steps.some(({ action }) => action === 'scale')) {
    for (let number = size + 1; number <= ever; number++) names.add(`master-${number}`)
  }
  return names
}
