import { messageOf } from '../runtime/errors.ts'
import { linkedController } from '../runtime/signals.ts'
import type { MemberState } from '../verify/member-state.ts'
import { FleetControl, type Owner, partsOf, toParts } from './fleet-control.ts'
import type { DrillRecorder } from './recorder.ts'
import type { RequestFault, RequestRule } from './request-faults.ts'
import { describeStep } from './scenario/render.ts'
import { type Action, expectedList, type Scenario, type Step } from './scenario/scenario.ts'
import { DrillError, type DrillTarget, type Primitive } from './target.ts'

/** The faults that `heal` ends. */
const healed: readonly Primitive['type'][] = ['cut', 'slow', 'fault', 'own-etcd', 'readyz']
/** One error serves all aborts, because each new error would cost a stack trace. */
const OVER = new Error('over')
/** How long the fleet may take to start, in milliseconds. */
const START_LIMIT_MS = 90_000
/** How long `rolling-restart` and `roll-config` wait until a master is listed again, in milliseconds. */
const LISTED_AGAIN_LIMIT_MS = 30_000
/** How long steps may go on after the end of the scenario, in milliseconds: a step may wait for a hung process. */
const OVERTIME_MS = 600_000
/** The interval between checks of the fleet, in milliseconds. Most changes of a real process trigger no check. */
const POLL_MS = { sim: 1_000, live: 500 }

const paths = {
  api: ['api'],
  store: ['store', 'server-store'],
  clients: ['clients'],
  all: ['api', 'store', 'server-store', 'clients'],
} as const

type ActionOf<Name extends Action['action']> = Extract<Action, { readonly action: Name }>

/**
 * Performs the steps of a scenario on a fleet, while a recorder observes. Steps may overlap. The end of a step ends
 * only the faults of that step, and a fault that several steps cause lasts until the last of these steps ends. Only
 * `start`, `thaw` and `heal` end the faults of other steps.
 */
export class Conductor {
  readonly #target: DrillTarget
  readonly #recorder: DrillRecorder
  readonly #scenario: Scenario
  readonly #fleet: FleetControl
  /** Masters that `scale` stops. The roster contains each of them until its processes have ended. */
  readonly #sentAway = new Set<string>()
  readonly #ending: ReturnType<typeof linkedController>

  constructor(options: {
    readonly target: DrillTarget
    readonly recorder: DrillRecorder
    readonly scenario: Scenario
    readonly signal: AbortSignal
  }) {
    this.#target = options.target
    this.#recorder = options.recorder
    this.#scenario = options.scenario
    this.#ending = linkedController(options.signal)
    this.#fleet = new FleetControl(options.target, options.recorder, this.#ending.controller.signal)
  }

  /**
   * Starts the fleet, and resolves when the scenario and all its steps have ended. Rejects with the signal's reason, a
   * {@link DrillError}, or the error of an action. After a rejection no step begins another action.
   */
  async run(): Promise<void> {
    const { controller, unlink } = this.#ending
    try {
      await this.#start()
      await this.#perform()
    } finally {
      unlink()
      controller.abort(OVER)
    }
  }

  /** Starts all masters. Time 0 is when all are healthy, and the slice lists the expected addresses. */
  async #start(): Promise<void> {
    const { fleet } = this.#scenario
    for (const master of fleet.masters) await this.#fleet.add(master)
    const expected = expectedList(fleet)
    const isUp = (): boolean =>
      this.#target.members.every(({ healthy }) => healthy) && expected.isMet(this.#recorder.sliceNow)
    // A failure ends the wait, because nobody starts a failed process again.
    const failed = (): MemberState | undefined => this.#target.members.find(({ failure }) => failure !== undefined)
    const inTime = await this.#fleet.until(() => isUp() || failed() !== undefined, START_LIMIT_MS)
    const { name, failure } = failed() ?? {}
    if (failure !== undefined) throw new DrillError(`the fleet did not come up: ${name}: ${messageOf(failure)}`)
    if (inTime) return this.#recorder.begin()
    const unhealthy = this.#target.members.filter(({ healthy }) => !healthy).map(({ name }) => name)
    const listed = this.#recorder.sliceNow?.join(', ') ?? 'nobody'
    const notHealthy = unhealthy.length === 0 ? '' : `; not healthy: ${unhealthy.join(', ')}`
    throw new DrillError(
      `the fleet did not come up within ${START_LIMIT_MS / 1000} s: masters are at ${expected.addresses.join(', ')}; listed: ${listed}${notHealthy}`,
    )
  }

  async #perform(): Promise<void> {
    const startMs = this.#target.clock.monotonicMs()
    const endMs = startMs + this.#scenario.durationMs
    const pollMs = POLL_MS[this.#target.kind]
    let performing = true
    const performed = Promise.all(this.#scenario.steps.map((step) => this.#performAt(step, startMs))).then(() => {
      performing = false
    })
    const watched = async (): Promise<void> => {
      for (;;) {
        const leftMs = endMs - this.#target.clock.monotonicMs()
        if (leftMs <= 0 && !performing) return
        if (leftMs <= -OVERTIME_MS) {
          throw new DrillError(`a step has not finished ${OVERTIME_MS / 60_000} minutes after the end of the drill`)
        }
        await this.#fleet.sleep(leftMs > 0 ? Math.min(pollMs, leftMs) : pollMs)
        this.#recorder.check()
      }
    }
    await Promise.all([watched(), performed])
  }

  async #performAt(step: Step, startMs: number): Promise<void> {
    await this.#fleet.sleep(startMs + step.atMs - this.#target.clock.monotonicMs())
    const masters = 'masters' in step ? this.#fleet.roster.resolve(step.masters) : []
    this.#recorder.step(step.action, masters, describeStep(step, masters))
    await this.#act(step, masters)
  }

  async #act(step: Step, masters: readonly string[]): Promise<void> {
    // A new object for each performance, because a scenario may contain the same step object twice.
    const owner: Owner = {}
    switch (step.action) {
      case 'terminate': {
        const ended = this.#fleet.terminate(masters, step.part, owner)
        await Promise.all([ended, this.#undoAfter(step, owner, ended)])
        return
      }
      case 'start':
      case 'thaw': {
        const { action } = step
        const parts = partsOf(step.part)
        const undone: readonly Primitive['type'][] = action === 'thaw' ? ['freeze'] : ['kill', 'terminate']
        this.#fleet.faults.clear(
          (fault) =>
            undone.includes(fault.type) &&
            'part' in fault &&
            masters.includes(fault.master) &&
            parts.some((part) => this.#fleet.standingPart(fault.master, part) === fault.part),
        )
        return this.#fleet.doAll(toParts(masters, step.part, action))
      }
      case 'restart':
        return this.#restart(step, masters)
      case 'heal':
        return this.#fleet.doAll(
          this.#fleet.faults.clear(
            (fault) => healed.includes(fault.type) && 'master' in fault && masters.includes(`${fault.master}`),
          ),
        )
      case 'replace':
        return this.#replace(step, masters)
      case 'rolling-restart':
      case 'roll-config':
        return this.#roll(step, masters)
      case 'scale':
        return this.#scale(step.to)
      case 'random':
        throw new DrillError('random steps are to be drawn before a drill begins')
      default:
        await this.#fleet.doAll(primitivesOf(step, masters), owner)
        return this.#undoAfter(step, owner)
    }
  }

  /** Undoes the step when `forMs` has passed and `before` has resolved. Without `forMs` the faults of the step last. */
  async #undoAfter(step: Step, owner: Owner, before: Promise<void> = Promise.resolve()): Promise<void> {
    if (!('forMs' in step) || step.forMs === undefined) return
    await Promise.all([before, this.#fleet.sleep(step.forMs)])
    await this.#fleet.release(owner)
  }

  async #restart(step: ActionOf<'restart'>, masters: readonly string[]): Promise<void> {
    if (step.overlapMs !== undefined) {
      const running = masters.filter((name) => this.#fleet.member(name)?.running === true)
      for (const master of running) await this.#fleet.do({ type: 'start', master, part: 'sidecar' })
      await this.#fleet.sleep(step.overlapMs)
      return this.#fleet.doAll(running.map((master) => ({ type: 'terminate-earlier', master })))
    }
    await Promise.all(
      masters.map(async (master) => {
        const own: Owner = {}
        if (step.signal === 'kill') await this.#fleet.doAll(toParts([master], step.part, 'kill'), own)
        else await this.#fleet.terminate([master], step.part, own)
        await this.#fleet.sleep(step.pauseMs)
        await this.#fleet.release(own)
      }),
    )
  }

  async #replace({ pauseMs }: ActionOf<'replace'>, masters: readonly string[]): Promise<void> {
    const plans = masters.flatMap((name) => this.#fleet.roster.plan(name) ?? [])
    for (const { name } of plans) await this.#fleet.retire(name)
    await this.#fleet.sleep(pauseMs)
    for (const plan of plans) await this.#fleet.add(this.#fleet.roster.successorOf(plan))
  }

  async #roll(step: ActionOf<'rolling-restart' | 'roll-config'>, masters: readonly string[]): Promise<void> {
    const part = step.action === 'rolling-restart' ? step.part : 'sidecar'
    for (const name of masters) {
      const member = this.#fleet.member(name)
      if (member === undefined || this.#fleet.roster.isRetired(name)) continue
      if (step.action === 'roll-config') {
        // A kube-apiserver has no sidecar to configure.
        if (member.kind === 'kube-apiserver') continue
        this.#fleet.roster.configure(name, step.settings)
        await this.#fleet.do({ type: 'configure', master: name, settings: step.settings })
      }
      const owner: Owner = {}
      await this.#fleet.terminate([name], part, owner)
      await this.#fleet.release(owner)
      const isBack = (): boolean =>
        this.#fleet.roster.isRetired(name) ||
        this.#fleet.faults.isDown(name, 'sidecar') ||
        this.#fleet.faults.isDown(name, 'server') ||
        (member.healthy && (!this.#isToBeListed(name) || this.#isListed(member.address)))
      await this.#fleet.until(isBack, LISTED_AGAIN_LIMIT_MS)
      await this.#fleet.sleep(step.pauseMs)
    }
  }

  async #scale(to: number): Promise<void> {
    const staying = this.#fleet.roster.present.filter(({ name }) => !this.#sentAway.has(name))
    const leaving = staying.slice(to).map(({ name }) => name)
    for (const name of leaving) this.#sentAway.add(name)
    await this.#fleet.terminate(leaving, 'both', {})
    for (const name of leaving) await this.#fleet.retire(name)
    const [pattern] = this.#scenario.fleet.masters
    for (let count = staying.length; count < to && pattern !== undefined; count++) {
      await this.#fleet.add(this.#fleet.roster.another(pattern))
    }
  }

  #isListed(address: string): boolean {
    return this.#recorder.sliceNow?.includes(address) === true
  }

  #isToBeListed(name: string): boolean {
    return (this.#fleet.roster.plan(name)?.settings.reconciler ?? this.#scenario.fleet.reconciler) !== 'none'
  }
}

/** The steps whose whole effect is a list of primitives. */
type SimpleStep = Exclude<
  Step,
  ActionOf<
    | 'terminate'
    | 'start'
    | 'thaw'
    | 'restart'
    | 'heal'
    | 'replace'
    | 'rolling-restart'
    | 'roll-config'
    | 'scale'
    | 'random'
  >
>

function primitivesOf(step: SimpleStep, masters: readonly string[]): readonly Primitive[] {
  switch (step.action) {
    case 'kill':
    case 'freeze':
      return toParts(masters, step.part, step.action)
    case 'apiserver-outage':
      return toParts(masters, 'server', 'kill')
    case 'partition':
      return paths[step.from].flatMap((path) => masters.map((master) => ({ type: 'cut', master, path })))
    case 'slow':
      return masters.map((master) => ({ type: 'slow', master, path: step.from, byMs: step.byMs }))
    case 'requests-fail':
      return masters.map((master) => ({ type: 'fault', master, rule: ruleOf(step) }))
    case 'own-etcd-dead':
      return masters.map((master) => ({ type: 'own-etcd', master, state: step.how }))
    case 'readyz-fails': {
      const answer = step.how === 'etcd' ? 'etcd-fails' : step.how
      return masters.map((master) => ({ type: 'readyz', master, answer }))
    }
    case 'reset-connections':
      return masters.map((master) => ({ type: 'reset-connections', master }))
    case 'clock-skew':
      return masters.map((master) => ({ type: 'clock-skew', master, byMs: step.byMs }))
    case 'datastore-outage':
      return [{ type: 'datastore', state: step.how }]
    case 'compact':
      return [{ type: 'compact' }]
    case 'damage':
      return [{ type: 'damage', damage: step.damage }]
  }
}

export function ruleOf(step: ActionOf<'requests-fail'>): RequestRule {
  const { only, resource, verb, requests } = step
  return { fault: faultOf(step), only, resource, verb, requests }
}

function faultOf({ how, status = 500, retryAfterMs, byMs = 0, everyMs }: ActionOf<'requests-fail'>): RequestFault {
  switch (how) {
    case 'status':
      return { type: how, status, retryAfterMs }
    case 'delay':
      return { type: how, byMs }
    case 'cut-watches':
      return { type: how, everyMs }
    case 'hang':
    case 'lose-event':
    case 'expired':
      return { type: how }
  }
}
