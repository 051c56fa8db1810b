import { formatDuration } from '../documents/duration.ts'
import { lagOf } from '../verify/member-history.ts'
import type { FleetPlan, Scenario, Step } from './scenario.ts'

type ActionOf<Name extends Step['action']> = Extract<Step, { readonly action: Name }>

/** How long one master of a rolling restart takes as a rule, from its signal until it is listed again, in milliseconds. */
const ROLL_MS = 10_000

/** When everything that a step does is done, and undone; of a rolling restart it is an estimate, unless `rollMs` says how long one takes. */
export function stepEndMs(step: Step, { masters }: Pick<FleetPlan, 'masters'>, rollMs = ROLL_MS): number {
  return step.atMs + (step.jitterMs ?? 0) + spanMs(step, masters.length, rollMs)
}

export function lastStepEndMs(steps: readonly Step[], fleet: Pick<FleetPlan, 'masters'>, rollMs?: number): number {
  return Math.max(0, ...steps.map((step) => stepEndMs(step, fleet, rollMs)))
}

/**
 * Why not everything that a scenario does can be judged, in one sentence; undefined when all of it is due before the end. What is done on
 * a slow way is due as much later as that is slow, and nothing is ever due of who cannot renew a lease on it.
 */
export function whyUnjudged({ steps, fleet, bounds, durationMs }: Scenario): string | undefined {
  if (steps.length === 0) return undefined
  const { recoveryMs, listedMs, removalMarginMs } = bounds
  const withinMs = Math.max(recoveryMs, listedMs, longestTtlMs(steps, fleet) + removalMarginMs)
  const slow = steps.flatMap((step) =>
    step.action === 'slow' ? [{ lagMs: lagOf(step.byMs), endMs: slowEndMs(step, steps, fleet) }] : [],
  )
  const lagMs = Math.max(0, ...slow.map((one) => (one.endMs === undefined ? one.lagMs : 0)))
  if (lagMs > fleet.leaseTtlMs - fleet.reconcileIntervalMs) {
    return 'Not everything could be judged: nothing is asked of a master that is slowed, to the end, by more than leaves it time to renew its lease; end that with for, or by heal.'
  }
  // How long a rolling restart takes is not known: at least its pauses.
  const endsMs = slow.map((one) => (one.endMs === undefined ? 0 : one.endMs + one.lagMs))
  // Late are both whoever is to be seen to and whoever sees to it.
  const dueMs = Math.max(lastStepEndMs(steps, fleet, 0), ...endsMs) + withinMs + 2 * lagMs
  if (dueMs <= durationMs) return undefined
  const [due, end] = [formatDuration(dueMs), formatDuration(durationMs)]
  return `Not everything could be judged: what the last step leads to is due by ${due}, and the drill ended at ${end}; lengthen its duration.`
}

/** When whatever a step slows is slow no more; undefined where that is nowhere said. */
function slowEndMs(slow: ActionOf<'slow'>, steps: readonly Step[], fleet: FleetPlan): number | undefined {
  if (slow.forMs !== undefined) return stepEndMs(slow, fleet)
  const { masters } = slow
  const heal = steps.find(
    (step) =>
      step.action === 'heal' &&
      step.atMs >= slow.atMs &&
      (step.masters === 'all' || (masters !== 'all' && masters.every((name) => step.masters.includes(name)))),
  )
  return heal && stepEndMs(heal, fleet)
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

function spanMs(step: Step, size: number, rollMs: number): number {
  switch (step.action) {
    case 'rolling-restart':
    case 'roll-config':
      return (step.masters === 'all' ? size : step.masters.length) * (rollMs + step.pauseMs)
    case 'restart':
      return step.overlapMs ?? step.pauseMs
    case 'replace':
      return step.pauseMs
    default:
      return 'forMs' in step ? (step.forMs ?? 0) : 0
  }
}
