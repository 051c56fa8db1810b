import type { ReadinessAnswer } from '../kube/readiness.ts'
import { type ControllerName, type ControllerSelection, isSelected } from './controller-selection.ts'

/**
 * The post-start hooks by which a server shows, in `/readyz?verbose`, that it has a duty itself.
 * `kubernetes-service` is not among them: with another lease store both can do it side by side, and the hook is listed even
 * where its reconciler is off.
 */
const HOOKS: Readonly<Partial<Record<ControllerName, string>>> = {
  'system-namespaces': 'poststarthook/start-system-namespaces-controller',
  'default-service-cidr': 'poststarthook/start-kubernetes-service-cidr-controller',
  'cluster-ip-repair': 'poststarthook/start-service-ip-repair-controllers',
  'node-port-repair': 'poststarthook/start-service-ip-repair-controllers',
}

/** So long must no answer have listed a hook that was listed before: behind a balancer different members answer. */
const QUIET_MS = 60_000
/** Answers further apart than that say nothing about the time between. */
const GAP_MS = 15_000

/** Whether a server does a duty itself, by what answers have said of its hook. */
export type HookSightings =
  | { readonly type: 'unheard' }
  | { readonly type: 'absent' }
  /** `quiet`: the answers since the last that listed it, without a gap. */
  | {
      readonly type: 'listed'
      readonly quiet?: { readonly sinceMs: number; readonly lastMs: number }
    }

export const unheard: HookSightings = { type: 'unheard' }

/**
 * What is known of a hook after another answer. Pure. One answer that lists it is enough; that it has gone is believed after a minute of answers without
 * it. An answer that says nothing of any check does not count, but as the first one. One that refuses to tell never counts.
 */
export function nextSightings(
  before: HookSightings,
  answer: ReadinessAnswer,
  hook: string,
  nowMs: number,
): HookSightings {
  if (!answer.answered || answer.refused !== undefined) return before
  if (answer.checks.some(({ name }) => name === hook)) return { type: 'listed' }
  if (before.type === 'unheard') return { type: 'absent' }
  if (before.type === 'absent' || (answer.checks.length === 0 && !answer.ready)) return before
  const { quiet } = before
  const sinceMs = quiet !== undefined && nowMs - quiet.lastMs <= GAP_MS ? quiet.sinceMs : nowMs
  return nowMs - sinceMs >= QUIET_MS ? { type: 'absent' } : { type: 'listed', quiet: { sinceMs, lastMs: nowMs } }
}

/** Whether a duty is done here. */
export type DutyDecision =
  | { readonly type: 'off' }
  | { readonly type: 'on' }
  /** On because it was asked for by name, although the server does it too. */
  | { readonly type: 'on-beside-server'; readonly hook: string }
  /** The server does it itself. */
  | { readonly type: 'left-to-server'; readonly hook: string }

/** All of them, each once. */
export const hooks: readonly string[] = [...new Set(Object.values(HOOKS))]

/** The hook of a duty that a server may do itself. */
export function hookOf(name: ControllerName): string | undefined {
  return HOOKS[name]
}

/** Decides whether a duty is done here, from what was asked for and what is known of its hook. Pure. */
export function decideDuty(
  name: ControllerName,
  selection: ControllerSelection,
  sightings: HookSightings,
): DutyDecision {
  if (!isSelected(selection, name)) return { type: 'off' }
  const hook = HOOKS[name]
  if (hook === undefined || sightings.type !== 'listed') return { type: 'on' }
  return selection.on.includes(name) ? { type: 'on-beside-server', hook } : { type: 'left-to-server', hook }
}
