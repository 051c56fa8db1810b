import { formatDuration } from '../../documents/duration.ts'
import { lagOf } from '../../verify/member-history.ts'
import { isAmong } from './names.ts'
import type { FleetPlan, Scenario, Step } from './scenario.ts'

type ActionOf<Name extends Step['action']> = Extract<Step, { readonly action: Name }>

/** How long a master of a rolling restart usually takes from SIGTERM until it is listed again, in milliseconds. */
const ROLL_MS = 10_000

/** How a kube-apiserver behaves, in the settings of our masters. A kube-apiserver has no flags for these settings. */
export const upstreamSettings = {
  leaseTtlMs: 15_000,
  reconcileIntervalMs: 10_000,
  onShutdown: 'always',
  readinessGate: 'startup',
} as const

/**
 * The latest time at which a step is over and undone, in milliseconds from time 0. The time that processes take to end
 * or start is not included, except that each master of `rolling-restart` and `roll-config` takes `rollMs`.
 */
export function stepEndMs(step: Step, { masters }: Pick<FleetPlan, 'masters'>, rollMs = ROLL_MS): number {
  return latestMs(step) + spanMs(step, masters.length, rollMs)
}

export function lastStepEndMs(steps: readonly Step[], fleet: Pick<FleetPlan, 'masters'>, rollMs?: number): number {
  return Math.max(0, ...steps.map((step) => stepEndMs(step, fleet, rollMs)))
}

/**
 * Why some effects of a scenario cannot be judged, in one sentence; undefined if every reaction is due before the end.
 * Reactions of a master with slow connections are due later (see {@link lagOf}). If a master's connection stays too
 * slow to renew its lease, no reaction of this master is ever due.
 */
export function whyUnchecked({ steps, fleet, bounds, durationMs }: Scenario): string | undefined {
  if (steps.length === 0) return undefined
  const { recoveryMs, listedMs, removalMarginMs } = bounds
  // If all masters are kube-apiservers, a dead one is removed only at the first tick after its lease has ended.
  const delayMs = fleet.masters.every(({ kind }) => kind === 'kube-apiserver')
    ? upstreamSettings.reconcileIntervalMs
    : 0
  const withinMs = Math.max(recoveryMs, listedMs, longestTtlMs(steps, fleet) + removalMarginMs + delayMs)
  const slow = slowMasters(steps, fleet)
  const endless = slow.filter(({ endMs }) => endMs === undefined)
  const lagMs = Math.max(0, ...endless.map((one) => one.lagMs))
  if (endless.some((one) => one.lagMs > slackOf(one.name, fleet))) {
    return 'Not everything could be judged: a master that stays too slow to renew its lease until the end is not checked; end the slowness with the key `for`, or with a `heal` step.'
  }
  const endsMs = slow.map((one) => (one.endMs === undefined ? 0 : one.endMs + one.lagMs))
  // The duration of a rolling restart is unknown, so only its pauses count. The lag counts twice, because both the
  // affected master and the master that reacts to it may be slow.
  const dueMs = Math.max(lastStepEndMs(steps, fleet, 0), ...endsMs) + withinMs + 2 * lagMs
  if (dueMs <= durationMs) return undefined
  const [due, end] = [formatDuration(dueMs), formatDuration(durationMs)]
  return `Not everything could be judged: the effects of the last step are due by ${due}, and the drill ended at ${end}; lengthen its duration.`
}

interface SlowMaster {
  readonly name: string
  readonly lagMs: number
  /** Undefined if the master is slow until the end of the drill. */
  readonly endMs: number | undefined
}

/** An entry for each `slow` step and each of its masters. */
function slowMasters(steps: readonly Step[], fleet: FleetPlan): readonly SlowMaster[] {
  const hasStore = fleet.leaseStore === 'etcd' || fleet.leaseStore === 'kine'
  return steps.flatMap((step, index) => {
    if (step.action !== 'slow' || (step.from === 'store' && !hasStore)) return []
    const names = step.masters === 'all' ? fleet.masters.map(({ name }) => name) : step.masters
    const later = steps.slice(index + 1)
    return names.map((name) => {
      const endMs = step.forMs === undefined ? healedMs(step, name, later, fleet) : stepEndMs(step, fleet)
      return { name, lagMs: lagOf(step.byMs), endMs }
    })
  })
}

/**
 * The latest time of the first step that certainly follows `slow` and ends the delay of the master; undefined if there
 * is no such step.
 */
function healedMs(
  slow: ActionOf<'slow'>,
  name: string,
  later: readonly Step[],
  { masters }: FleetPlan,
): number | undefined {
  const place = masters.findIndex((one) => one.name === name)
  const heal = later.find((step) => {
    if (step.atMs < latestMs(slow)) return false
    if (step.action === 'scale') return step.to <= place
    return (step.action === 'heal' || step.action === 'replace') && isAmong(step.masters, name)
  })
  return heal && latestMs(heal)
}

/** How late a master may renew its lease, in milliseconds. A master that `scale` adds is like the first master. */
function slackOf(name: string, fleet: FleetPlan): number {
  const { masters } = fleet
  const plan = masters.find((one) => isAmong([name], one.name)) ?? masters[0]
  const own = plan?.kind === 'kube-apiserver' ? upstreamSettings : plan?.settings
  const { leaseTtlMs, reconcileIntervalMs } = { ...fleet, ...own }
  return leaseTtlMs - reconcileIntervalMs
}

function latestMs({ atMs, jitterMs = 0 }: Step): number {
  return atMs + jitterMs
}

/** The longest TTL of all masters at all times, in milliseconds. A kube-apiserver's is 15 s. */
export function longestTtlMs(steps: readonly Step[], { masters, leaseTtlMs }: FleetPlan): number {
  const settings = [
    ...masters.map((master) => master.settings),
    ...steps.flatMap((step) => (step.action === 'roll-config' ? [step.settings] : [])),
  ]
  const upstreamMs = masters.some(({ kind }) => kind === 'kube-apiserver') ? upstreamSettings.leaseTtlMs : 0
  return Math.max(leaseTtlMs, upstreamMs, ...settings.map((one) => one.leaseTtlMs ?? 0))
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
