import { didYouMean } from '../documents/validation.ts'
import { ALLOCATORS_CHECK, type ReadinessAnswer } from '../kube/readiness.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import type { Clock } from '../runtime/clock.ts'

/** The duties that `auto` turns on. */
const usualNames = [
  'kubernetes-service',
  'system-namespaces',
  'default-service-cidr',
  'cluster-ip-repair',
  'node-port-repair',
] as const

/** The duties of a kube-controller-manager, for clusters without one. Each is on only if it is named. */
export const workloadControllerNames = [
  'endpoints',
  'endpointslice',
  'endpointslice-mirroring',
  'service-cidr',
] as const

const controllerNames = [...usualNames, ...workloadControllerNames] as const

export type WorkloadControllerName = (typeof workloadControllerNames)[number]

export type ControllerName = (typeof controllerNames)[number]

export interface ControllerSelection {
  /** Whether the usual duties are on, except those in `off` and those that the server does itself. */
  readonly auto: boolean
  /** Duties that are on even if the server does them itself. */
  readonly on: readonly ControllerName[]
  readonly off: readonly ControllerName[]
}

/**
 * Reads the items of `--controllers`: `auto`, names, and names after a dash. Without `auto`, exactly the named duties
 * are on. Throws a TypeError with one line if a name is unknown or both on and off, or if the list turns nothing on.
 */
export function parseControllers(items: readonly string[]): ControllerSelection {
  const on = new Set<ControllerName>()
  const off = new Set<ControllerName>()
  for (const item of items) {
    if (item === 'auto') continue
    const negated = item.startsWith('-')
    const name = negated ? item.slice(1) : item
    const set = negated ? off : on
    set.add(controllerNames.find((known) => known === name) ?? refuse(name))
  }
  const contradicted = [...on].find((name) => off.has(name))
  if (contradicted !== undefined) throw new TypeError(`turns ${contradicted} both on and off`)
  const auto = items.includes('auto')
  if (!auto && on.size === 0) throw new TypeError('turns nothing on: without auto, only the named duties are on')
  return { auto, on: [...on], off: [...off] }
}

/** Whether a duty is requested, even if the server does it itself. */
export function isSelected({ auto, on, off }: ControllerSelection, name: ControllerName): boolean {
  const isUsual = usualNames.some((usual) => usual === name)
  return on.includes(name) || (auto && isUsual && !off.includes(name))
}

/** The inverse of {@link parseControllers}. */
export function formatControllers({ auto, on, off }: ControllerSelection): string[] {
  return [...(auto ? ['auto'] : []), ...on, ...off.map((name) => `-${name}`)]
}

function refuse(name: string): never {
  // kube-controller-manager and kube-apiserver's hooks have names such as endpointslice-controller.
  const meant = didYouMean(name.replace(/^start-/, '').replace(/-controllers?$/, ''), controllerNames)
  const hint = meant === undefined ? '' : ` (did you mean ${meant}?)`
  throw new TypeError(
    `there is no controller ${JSON.stringify(name)}${hint}; known controllers: auto, ${controllerNames.join(', ')}`,
  )
}

/**
 * The post-start hook of a server's own repairs. It passes once the allocations of ClusterIPs and NodePorts are usable.
 */
export const ALLOCATIONS_HOOK = 'poststarthook/start-service-ip-repair-controllers'

/**
 * The post-start hooks that show, in `/readyz?verbose`, that a server does a duty itself. `kubernetes-service` has no
 * entry, for two reasons: a kube-apiserver lists the hook `bootstrap-controller` even if its reconciler is off, and
 * with another lease store the server and the master can both do the duty.
 */
const HOOKS: Readonly<Partial<Record<ControllerName, string>>> = {
  'system-namespaces': 'poststarthook/start-system-namespaces-controller',
  'default-service-cidr': 'poststarthook/start-kubernetes-service-cidr-controller',
  'cluster-ip-repair': ALLOCATIONS_HOOK,
  'node-port-repair': ALLOCATIONS_HOOK,
}

/**
 * For how many milliseconds all answers must lack a listed hook before it counts as absent. One answer is not enough,
 * because behind a load balancer different servers answer.
 */
const QUIET_MS = 60_000
/** After a longer gap between two answers, {@link QUIET_MS} begins again: the gap proves nothing. */
const GAP_MS = 15_000

/** Whether a server does a duty itself, judged by whether its answers list the hook of the duty. */
export type HookState =
  | { readonly type: 'unknown' }
  | { readonly type: 'absent' }
  /** `quiet`: the first and the last answer of the latest series, without a gap, of answers that lacked the hook. */
  | {
      readonly type: 'listed'
      readonly quiet?: { readonly sinceMs: number; readonly lastMs: number }
    }

export const unknownHook: HookState = { type: 'unknown' }

/**
 * The state of a hook after another answer. Pure. One answer that lists the hook makes it `listed`. The first answer
 * without the hook makes an unknown hook `absent`; a minute of such answers makes a listed hook `absent`. An answer
 * that is not ready and lists no checks counts only for an unknown hook. A refusal never counts. `nowMs` is monotonic.
 */
export function nextHookState(before: HookState, answer: ReadinessAnswer, hook: string, nowMs: number): HookState {
  if (!answer.answered || answer.refused !== undefined) return before
  if (answer.checks.some(({ name }) => name === hook)) return { type: 'listed' }
  if (before.type === 'unknown') return { type: 'absent' }
  if (before.type === 'absent' || (answer.checks.length === 0 && !answer.ready)) return before
  const { quiet } = before
  const sinceMs = quiet !== undefined && nowMs - quiet.lastMs <= GAP_MS ? quiet.sinceMs : nowMs
  return nowMs - sinceMs >= QUIET_MS ? { type: 'absent' } : { type: 'listed', quiet: { sinceMs, lastMs: nowMs } }
}

export type DutyDecision =
  | { readonly type: 'off' }
  | { readonly type: 'on' }
  /** The duty was requested by name, although the server does it too. */
  | { readonly type: 'on-beside-server'; readonly hook: string }
  /** `except`: objects that the server does not create, and that this process manages. */
  | { readonly type: 'left-to-server'; readonly hook: string; readonly except?: readonly string[] | undefined }

/**
 * kube-apiserver has this hook even if its endpoint reconciler is off. A generic control plane does not have it, and
 * creates every system namespace except that of the Nodes' leases.
 */
const BOOTSTRAP_HOOK = 'poststarthook/bootstrap-controller'
const NODE_NAMESPACES = ['kube-node-lease']

const hooks: readonly string[] = [...new Set([...Object.values(HOOKS), BOOTSTRAP_HOOK, ALLOCATORS_CHECK])]

export function decideDuty(
  name: ControllerName,
  selection: ControllerSelection,
  stateOf: (hook: string) => HookState,
): DutyDecision {
  if (!isSelected(selection, name)) return { type: 'off' }
  const hook = HOOKS[name]
  if (hook === undefined || stateOf(hook).type !== 'listed') return { type: 'on' }
  if (selection.on.includes(name)) return { type: 'on-beside-server', hook }
  const hasNodes = name !== 'system-namespaces' || stateOf(BOOTSTRAP_HOOK).type === 'listed'
  return { type: 'left-to-server', hook, ...(hasNodes ? {} : { except: NODE_NAMESPACES }) }
}

interface DutyDecisionsOptions {
  readonly selection: ControllerSelection
  readonly monitor: Pick<ReadinessMonitor, 'subscribe'>
  readonly clock: Clock
}

/** Decides which duties this process does, again with each answer of the server. */
export class DutyDecisions {
  readonly #selection: ControllerSelection
  readonly #hookStates = new Map<string, HookState>(hooks.map((hook) => [hook, unknownHook]))
  readonly #handlers = new Set<() => void>()
  #hasAnswer = false

  constructor({ selection, monitor, clock }: DutyDecisionsOptions) {
    this.#selection = selection
    monitor.subscribe((answer) => {
      // A refusal decides nothing, because the server may do all duties itself.
      if (!answer.answered || answer.refused !== undefined) return
      // On the first answer every hook changes, because all were unknown.
      let changed = false
      this.#hasAnswer = true
      for (const [hook, before] of this.#hookStates) {
        const next = nextHookState(before, answer, hook, clock.monotonicMs())
        this.#hookStates.set(hook, next)
        changed ||= next.type !== before.type
      }
      if (changed) for (const handler of [...this.#handlers]) handler()
    })
  }

  /** Undefined before the first answer that is not a refusal. */
  of(name: ControllerName): DutyDecision | undefined {
    if (!this.#hasAnswer) return undefined
    return decideDuty(name, this.#selection, (hook) => this.#hookStates.get(hook) ?? unknownHook)
  }

  /** Whether the server's answers list the check of allocators that need no stored bitmap. */
  get allocatesWithoutBitmaps(): boolean {
    return this.#hookStates.get(ALLOCATORS_CHECK)?.type === 'listed'
  }

  /**
   * Calls `handler` when decisions may have changed, before the caller of the probe gets the answer. Returns a function
   * that unsubscribes.
   */
  subscribe(handler: () => void): () => void {
    this.#handlers.add(handler)
    return () => this.#handlers.delete(handler)
  }
}
