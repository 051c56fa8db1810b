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

/** Whether a duty is done here. */
export type DutyDecision =
  | { readonly type: 'off' }
  | { readonly type: 'on' }
  /** On because it was asked for by name, although the server does it too. */
  | { readonly type: 'on-beside-server'; readonly hook: string }
  /** The server does it itself. */
  | { readonly type: 'left-to-server'; readonly hook: string }

/** Decides whether a duty is done here, from what was asked for and what a server said of itself. Pure. */
export function decideDuty(
  name: ControllerName,
  selection: ControllerSelection,
  answer: ReadinessAnswer,
): DutyDecision {
  if (!isSelected(selection, name)) return { type: 'off' }
  const byName = selection.on.includes(name)
  const hook = HOOKS[name]
  const served = hook !== undefined && answer.answered && answer.checks.some((check) => check.name === hook)
  if (!served) return { type: 'on' }
  return byName ? { type: 'on-beside-server', hook } : { type: 'left-to-server', hook }
}
