import type { FleetPlan, Step } from './scenario.ts'

/** How long one master of a rolling restart takes as a rule, from its signal until it is listed again, in milliseconds. */
const ROLL_MS = 10_000

/** When everything that a step does is done, and undone; of a rolling restart it is an estimate. */
export function stepEndMs(step: Step, { masters }: Pick<FleetPlan, 'masters'>): number {
  return step.atMs + (step.jitterMs ?? 0) + spanMs(step, masters.length)
}

export function lastStepEndMs(steps: readonly Step[], fleet: Pick<FleetPlan, 'masters'>): number {
  return Math.max(0, ...steps.map((step) => stepEndMs(step, fleet)))
}

/** The longest TTL that anybody has at some time. A kube-apiserver's is 15 s. */
export function longestTtlMs(steps: readonly Step[], { masters, leaseTtlMs }: FleetPlan): number {
  const settings = [
    ...masters.map((master) => master.settings),
    ...steps.flatMap((step) => (step.action === 'roll-config' ? [step.settings] : [])),
  ]
  const upstream = masters.some(({ kind }) => kind === 'kube-apiserver') ? 15_000 : 0
  return Math.max(leaseTtlMs, upstream, ...settings.map((one) => one.leaseTtlMs ?? 0))
}

function spanMs(step: Step, size: number): number {
  switch (step.action) {
    case 'rolling-restart':
    case 'roll-config':
      return (step.masters === 'all' ? size : step.masters.length) * (ROLL_MS + step.pauseMs)
    case 'restart':
      return step.overlapMs ?? step.pauseMs
    case 'replace':
      return step.pauseMs
    default:
      return 'forMs' in step ? (step.forMs ?? 0) : 0
  }
}
