import { type Clock, sleep } from '../runtime/clock.ts'
import { linkedController } from '../runtime/signals.ts'
import type { MemberState } from '../verify/member-state.ts'
import { DrillError } from './drill-error.ts'
import { expectedList } from './expected-list.ts'
import type { DrillRecorder } from './recorder.ts'
import { Roster } from './roster.ts'
import type { Action, MasterPlan, Part, Scenario, Step, Way } from './scenario.ts'
import { type Owner, StandingFaults } from './standing-faults.ts'
import { describeStep } from './step-text.ts'
import type { DrillTarget, Primitive } from './target.ts'

/** One for all: an error for each would cost a stack trace. */
const OVER = new Error('over')
/** How long the fleet may take until everybody is listed, in milliseconds. */
const START_LIMIT_MS = 90_000
/** How long one master of a rolling restart may take to be listed again, in milliseconds. */
const LISTED_AGAIN_LIMIT_MS = 30_000
/** How long a process that was told to stop may take, in milliseconds; then it is killed, as a kubelet does. */
const GRACE_MS = 30_000
/**
 * How long a server that is told to stop serves on after its sidecar has ended, in milliseconds: what kube-apiserver's
 * --shutdown-delay-duration is for. Within it every client hears that it is not to be used any more.
 */
const SERVING_ON_MS = 2_000
/** Between two looks at how the fleet fares, in milliseconds. */
const LOOK_MS = 500

type ActionOf<Name extends Action['action']> = Extract<Action, { readonly action: Name }>
type ProcessPart = Exclude<Part, 'both'>

/**
 * Does to a fleet what a scenario says, while a recorder watches. Steps may overlap: each undoes what it did itself, and only once no
 * other step wants it so.
 */
export class Conductor {
  readonly #target: DrillTarget
  readonly #recorder: DrillRecorder
  readonly #scenario: Scenario
  readonly #clock: Clock
  readonly #roster = new Roster()
  readonly #faults = new StandingFaults()
  readonly #given: AbortSignal
  /** Aborted as soon as the drill is over, however it ends. */
  #signal: AbortSignal

  constructor(options: {
    readonly target: DrillTarget
    readonly recorder: DrillRecorder
    readonly scenario: Scenario
    readonly signal: AbortSignal
  }) {
    this.#target = options.target
    this.#recorder = options.recorder
    this.#scenario = options.scenario
    this.#given = options.signal
    this.#signal = options.signal
    this.#clock = options.target.clock
  }

  /**
   * From the start of the fleet to the end of the scenario, and of its steps. Rejects with a {@link DrillError}, or the signal's reason,
   * at once; no step goes on then.
   */
  async run(): Promise<void> {
    const { controller, unlink } = linkedController(this.#given)
    this.#signal = controller.signal
    try {
      await this.#start()
      await this.#perform()
    } finally {
      unlink()
      controller.abort(OVER)
    }
  }

  /** Until the fleet has come up: everybody is well, and the slice lists whom it should. */
  async #start(): Promise<void> {
    const { fleet } = this.#scenario
    for (const master of fleet.masters) await this.#add(master)
    const expected = expectedList(fleet)
    const isUp = (): boolean =>
      this.#target.members.every(({ well }) => well) && expected.isMet(this.#recorder.sliceNow)
    if (await this.#until(isUp, START_LIMIT_MS)) return this.#recorder.begin()
    const unwell = this.#target.members.filter(({ well }) => !well).map(({ name }) => name)
    const listed = this.#recorder.sliceNow?.join(', ') ?? 'nobody'
    const faring = unwell.length === 0 ? '' : `; not well: ${unwell.join(', ')}`
    throw new DrillError(
      `the fleet did not come up: after ${START_LIMIT_MS / 1000} s ${listed} of ${expected.addresses.join(', ')} listed${faring}`,
    )
  }

  async #perform(): Promise<void> {
    const startMs = this.#clock.monotonicMs()
    const endMs = startMs + this.#scenario.durationMs
    let performing = true
    const performed = Promise.all(this.#scenario.steps.map((step) => this.#performAt(step, startMs))).then(() => {
      performing = false
    })
    const watched = async (): Promise<void> => {
      for (;;) {
        const leftMs = endMs - this.#clock.monotonicMs()
        if (leftMs <= 0 && !performing) return
        await this.#sleep(leftMs > 0 ? Math.min(LOOK_MS, leftMs) : LOOK_MS)
        this.#recorder.look()
      }
    }
    // A step that fails ends the drill at once.
    await Promise.all([watched(), performed])
  }

  async #performAt(step: Step, startMs: number): Promise<void> {
    await this.#sleep(startMs + step.atMs - this.#clock.monotonicMs())
    const masters = 'masters' in step ? this.#roster.resolve(step.masters) : []
    this.#recorder.step(step.action, masters, describeStep(step, masters))
    await this.#act(step, masters)
  }

  async #act(step: Step, masters: readonly string[]): Promise<void> {
    // Its own, although a scenario may name one step twice.
    const owner: Owner = {}
    switch (step.action) {
      case 'kill':
        await this.#toParts(masters, step.part, 'kill', owner)
        return this.#undoAfter(step, owner)
      case 'terminate': {
        const ended = this.#terminate(masters, step.part, owner)
        await Promise.all([ended, this.#undoAfter(step, owner, ended)])
        return
      }
      case 'freeze':
        await this.#toParts(masters, step.part, 'freeze', owner)
        return this.#undoAfter(step, owner)
      case 'start':
      case 'thaw': {
        const { action } = step
        const parts = partsOf(step.part)
        const undone: readonly Primitive['type'][] = action === 'thaw' ? ['freeze'] : ['kill', 'terminate']
        this.#faults.clear(
          (fault) =>
            undone.includes(fault.type) &&
            'part' in fault &&
            parts.includes(fault.part) &&
            masters.includes(fault.master),
        )
        return this.#toParts(masters, step.part, action)
      }
      case 'restart':
        return this.#restart(step, masters)
      case 'partition':
        for (const way of waysOf(step.from))
          await this.#toEach(masters, (master) => ({ type: 'cut', master, way }), owner)
        return this.#undoAfter(step, owner)
      case 'slow':
        await this.#toEach(masters, (master) => ({ type: 'slow', master, way: step.from, byMs: step.byMs }), owner)
        return this.#undoAfter(step, owner)
      case 'heal':
        return this.#doAll(
          this.#faults.clear(
            (fault) =>
              (fault.type === 'cut' || fault.type === 'slow' || fault.type === 'readyz') &&
              masters.includes(fault.master),
          ),
        )
      case 'reset-connections':
        return this.#toEach(masters, (master) => ({ type: 'reset-connections', master }), owner)
      case 'replace':
        return this.#replace(step, masters)
      case 'clock-skew':
        return this.#toEach(masters, (master) => ({ type: 'clock-skew', master, byMs: step.byMs }), owner)
      case 'datastore-outage':
        await this.#do({ type: 'datastore', state: step.how }, owner)
        return this.#undoAfter(step, owner)
      case 'apiserver-outage':
        await this.#toParts(masters, 'server', 'kill', owner)
        return this.#undoAfter(step, owner)
      case 'readyz-fails': {
        const answer = step.how === 'etcd' ? 'etcd-fails' : step.how
        await this.#toEach(masters, (master) => ({ type: 'readyz', master, answer }), owner)
        return this.#undoAfter(step, owner)
      }
      case 'compact':
        return this.#do({ type: 'compact' }, owner)
      case 'damage':
        return this.#do({ type: 'damage', damage: step.damage }, owner)
      case 'rolling-restart':
      case 'roll-config':
        return this.#roll(step, masters)
      case 'scale':
        return this.#scale(step.to)
      case 'random':
        throw new DrillError('random steps are to be drawn before a drill begins')
    }
  }

  /** Once its time is over and `before` is done, what the step did is undone. */
  async #undoAfter(
    { forMs }: { readonly forMs?: number },
    owner: Owner,
    before: Promise<void> = Promise.resolve(),
  ): Promise<void> {
    if (forMs === undefined) return
    await Promise.all([before, this.#sleep(forMs)])
    await this.#doAll(this.#faults.release(owner))
  }

  async #restart(step: ActionOf<'restart'>, masters: readonly string[]): Promise<void> {
    if (step.overlapMs !== undefined) {
      const running = masters.filter((name) => this.#member(name)?.running === true)
      for (const master of running) await this.#do({ type: 'start', master, part: 'sidecar' })
      await this.#sleep(step.overlapMs)
      return this.#toEach(running, (master) => ({ type: 'terminate-earlier', master }))
    }
    await Promise.all(
      masters.map(async (master) => {
        const own: Owner = {}
        if (step.signal === 'kill') await this.#toParts([master], step.part, 'kill', own)
        else await this.#terminate([master], step.part, own)
        await this.#sleep(step.pauseMs)
        await this.#doAll(this.#faults.release(own))
      }),
    )
  }

  async #replace({ pauseMs }: ActionOf<'replace'>, masters: readonly string[]): Promise<void> {
    const plans = masters.flatMap((name) => this.#roster.plan(name) ?? [])
    for (const { name } of plans) await this.#retire(name)
    await this.#sleep(pauseMs)
    for (const plan of plans) await this.#add(this.#roster.successorOf(plan))
  }

  async #roll(step: ActionOf<'rolling-restart' | 'roll-config'>, masters: readonly string[]): Promise<void> {
    const part = step.action === 'rolling-restart' ? step.part : 'sidecar'
    for (const name of masters) {
      const member = this.#member(name)
      if (member === undefined || this.#roster.isRetired(name)) continue
      // A kube-apiserver has neither a sidecar nor settings that are ours.
      if (step.action === 'roll-config' && member.kind === 'kube-apiserver') continue
      if (step.action === 'roll-config') {
        this.#roster.configure(name, step.settings)
        await this.#do({ type: 'configure', master: name, settings: step.settings })
      }
      const owner: Owner = {}
      await this.#terminate([name], part, owner)
      await this.#doAll(this.#faults.release(owner))
      const isBack = (): boolean =>
        this.#roster.isRetired(name) ||
        this.#faults.isDown(name, 'sidecar') ||
        this.#faults.isDown(name, 'server') ||
        (member.well && (!this.#isToBeListed(name) || this.#isListed(member.address)))
      await this.#until(isBack, LISTED_AGAIN_LIMIT_MS)
      await this.#sleep(step.pauseMs)
    }
  }

  async #scale(to: number): Promise<void> {
    const { present } = this.#roster
    const leaving = present.slice(to).map(({ name }) => name)
    await this.#terminate(leaving, 'both', {})
    for (const name of leaving) await this.#retire(name)
    const [pattern] = this.#scenario.fleet.masters
    for (let count = present.length; count < to && pattern !== undefined; count++) {
      await this.#add(this.#roster.another(pattern))
    }
  }

  async #add(master: MasterPlan): Promise<void> {
    this.#roster.add(master)
    await this.#do({ type: 'add', master })
    await this.#do({ type: 'start', master: master.name, part: 'server' })
    await this.#do({ type: 'start', master: master.name, part: 'sidecar' })
  }

  async #retire(master: string): Promise<void> {
    this.#roster.retire(master)
    this.#faults.forget(master)
    await this.#do({ type: 'retire', master })
  }

  /**
   * SIGTERM, and the end. The server outlives its sidecar, which takes the address out first: whoever is told to stop serves until nobody
   * is sent there. Whoever does not end in time is killed.
   */
  async #terminate(masters: readonly string[], part: Part, owner: Owner): Promise<void> {
    await Promise.all(
      masters.map(async (master) => {
        // One process, whichever part is meant.
        const isKubeApiserver = this.#member(master)?.kind === 'kube-apiserver'
        if (part !== 'server' || isKubeApiserver) {
          await this.#do({ type: 'terminate', master, part: 'sidecar' }, owner)
          const hasEnded = (): boolean => this.#member(master)?.ended !== false || this.#roster.isRetired(master)
          if (!(await this.#until(hasEnded, GRACE_MS))) await this.#do({ type: 'kill', master, part: 'sidecar' })
        }
        if (isKubeApiserver || part === 'sidecar') return
        if (part === 'both') await this.#sleep(SERVING_ON_MS)
        await this.#do({ type: 'terminate', master, part: 'server' }, owner)
      }),
    )
  }

  #toParts(
    masters: readonly string[],
    part: Part,
    type: 'kill' | 'freeze' | 'start' | 'thaw',
    owner?: Owner,
  ): Promise<void> {
    return this.#doAll(
      masters.flatMap((master) => partsOf(part).map((one): Primitive => ({ type, master, part: one }))),
      owner,
    )
  }

  #toEach(masters: readonly string[], primitiveOf: (master: string) => Primitive, owner?: Owner): Promise<void> {
    return this.#doAll(masters.map(primitiveOf), owner)
  }

  async #doAll(primitives: readonly Primitive[], owner?: Owner): Promise<void> {
    for (const primitive of primitives) {
      // A second life would run beside it for ever.
      if (primitive.type === 'start' && primitive.part === 'sidecar') {
        const member = this.#member(primitive.master)
        if (member?.ended === false && !member.stopping) continue
      }
      await this.#do(primitive, owner)
    }
  }

  /** Does one thing; with an owner it stands until that one is over. Nothing is done any more to those who have gone for good. */
  async #do(primitive: Primitive, owner?: Owner): Promise<void> {
    this.#signal.throwIfAborted()
    const gone =
      'master' in primitive && typeof primitive.master === 'string' && this.#roster.isRetired(primitive.master)
    if (gone && primitive.type !== 'retire') return
    if (owner !== undefined) this.#faults.add(primitive, owner)
    this.#recorder.look()
    await this.#target.perform(primitive, this.#signal)
    this.#recorder.look()
  }

  #member(name: string): MemberState | undefined {
    return this.#target.members.find((member) => member.name === name)
  }

  #isListed(address: string): boolean {
    return this.#recorder.sliceNow?.includes(address) === true
  }

  #isToBeListed(name: string): boolean {
    return (this.#roster.plan(name)?.settings.reconciler ?? this.#scenario.fleet.reconciler) !== 'none'
  }

  /** Whether it held in time; at the very moment when it does, as far as the target tells. */
  async #until(predicate: () => boolean, limitMs: number): Promise<boolean> {
    const endMs = this.#clock.monotonicMs() + limitMs
    while (!predicate()) {
      if (this.#clock.monotonicMs() >= endMs) return false
      const { controller, unlink } = linkedController(this.#signal)
      let unsubscribe = (): void => {}
      const held = new Promise<void>((resolve) => {
        unsubscribe = this.#recorder.onLook(() => {
          if (predicate()) resolve()
        })
      })
      await Promise.race([held, sleep(this.#clock, LOOK_MS / 5, controller.signal)]).finally(() => {
        unsubscribe()
        controller.abort(OVER)
        unlink()
      })
      this.#recorder.look()
    }
    return true
  }

  #sleep(ms: number): Promise<void> {
    return sleep(this.#clock, ms, this.#signal)
  }
}

function partsOf(part: Part): readonly ProcessPart[] {
  return part === 'both' ? ['server', 'sidecar'] : [part]
}

function waysOf(from: Way): readonly ('api' | 'store' | 'server-store' | 'clients')[] {
  switch (from) {
    case 'api':
    case 'clients':
      return [from]
    case 'store':
      return ['store', 'server-store']
    case 'all':
      return ['api', 'store', 'server-store', 'clients']
  }
}
