import { type Clock, sleep } from '../runtime/clock.ts'
import type { DrillRecorder } from './recorder.ts'
import type { Action, Chosen, Part, Scenario, Step, Way } from './scenario.ts'
import type { DrillTarget, Primitive } from './target.ts'

/** A drill cannot go on: the fleet did not come up, or a step cannot be done to it. */
export class DrillError extends Error {
  override readonly name = 'DrillError'
  readonly code = 'DrillFailed'
}

/** How long the fleet may take until everybody is listed, in milliseconds. */
const START_LIMIT_MS = 90_000
/** How long one master of a rolling restart may take to be listed again, in milliseconds. */
const LISTED_AGAIN_LIMIT_MS = 30_000
/** Between two looks at how the fleet fares, in milliseconds. */
const LOOK_MS = 500

type ActionOf<Name extends Action['action']> = Extract<Action, { readonly action: Name }>

/** Does to a fleet what a scenario says, while a recorder watches. */
export class Conductor {
  readonly #target: DrillTarget
  readonly #recorder: DrillRecorder
  readonly #scenario: Scenario
  readonly #signal: AbortSignal
  readonly #clock: Clock
  /** When the last step was over. */
  #lastStepMs = 0

  constructor(options: {
    readonly target: DrillTarget
    readonly recorder: DrillRecorder
    readonly scenario: Scenario
    readonly signal: AbortSignal
  }) {
    this.#target = options.target
    this.#recorder = options.recorder
    this.#scenario = options.scenario
    this.#signal = options.signal
    this.#clock = options.target.clock
  }

  /** From the start of the fleet to the end of the scenario. Rejects with a {@link DrillError}, or the signal's reason. */
  async run(): Promise<void> {
    const { fleet, steps, durationMs } = this.#scenario
    for (const master of fleet.masters) {
      await this.#perform({ type: 'add', master })
      await this.#each([master.name], 'both', 'start')
    }
    const expected = [...new Set(fleet.masters.map(({ addresses }) => addresses[0] ?? ''))].sort()
    await this.#untilListed(expected, START_LIMIT_MS, true)
    this.#recorder.begin()
    const startMs = this.#clock.monotonicMs()
    const performed = Promise.all(steps.map((step) => this.#performAt(step, startMs)))
    // A step that fails ends the drill at once.
    await Promise.race([this.#watch(startMs + durationMs), performed.then(() => new Promise<never>(() => {}))])
    await performed
    const quietMs = this.#clock.monotonicMs() - this.#lastStepMs - this.#scenario.bounds.recoveryMs
    this.#recorder.end(Math.min(Math.max(quietMs, 0), fleet.leaseTtlMs))
  }

  async #watch(endMs: number): Promise<void> {
    while (this.#clock.monotonicMs() < endMs) {
      await this.#sleep(Math.min(LOOK_MS, endMs - this.#clock.monotonicMs()))
      this.#recorder.look()
    }
  }

  async #performAt(step: Step, startMs: number): Promise<void> {
    await this.#sleep(startMs + step.atMs - this.#clock.monotonicMs())
    const masters = 'masters' in step ? this.#namesOf(step.masters) : []
    this.#recorder.step(step.action, masters, describeStep(step, masters))
    await this.#act(step, masters)
    this.#lastStepMs = Math.max(this.#lastStepMs, this.#clock.monotonicMs())
  }

  async #act(step: Step, masters: readonly string[]): Promise<void> {
    switch (step.action) {
      case 'kill':
      case 'terminate':
        await this.#each(masters, step.part, step.action)
        return this.#undo(step, () => this.#each(masters, step.part, 'start'))
      case 'freeze':
        await this.#each(masters, step.part, 'freeze')
        return this.#undo(step, () => this.#each(masters, step.part, 'thaw'))
      case 'start':
      case 'thaw':
        return this.#each(masters, step.part, step.action)
      case 'restart':
        return this.#restart(step, masters)
      case 'partition':
        for (const way of waysOf(step.from)) await this.#all(masters, (master) => ({ type: 'cut', master, way }))
        return this.#undo(step, () => this.#heal(masters))
      case 'slow':
        await this.#all(masters, (master) => ({ type: 'slow', master, way: step.from, byMs: step.byMs }))
        return this.#undo(step, () => this.#heal(masters))
      case 'heal':
        return this.#heal(masters)
      case 'reset-connections':
        return this.#all(masters, (master) => ({ type: 'reset-connections', master }))
      case 'replace':
        return this.#replace(step, masters)
      case 'clock-skew':
        return this.#all(masters, (master) => ({ type: 'clock-skew', master, byMs: step.byMs }))
      case 'datastore-outage':
        await this.#perform({ type: 'datastore', state: step.how })
        return this.#undo(step, () => this.#perform({ type: 'datastore', state: 'up' }))
      case 'apiserver-outage':
        await this.#each(masters, 'server', 'kill')
        return this.#undo(step, () => this.#each(masters, 'server', 'start'))
      case 'readyz-fails': {
        const answer = step.how === 'etcd' ? 'etcd-fails' : step.how
        await this.#all(masters, (master) => ({ type: 'readyz', master, answer }))
        return this.#undo(step, () => this.#heal(masters))
      }
      case 'compact':
        return this.#perform({ type: 'compact' })
      case 'damage':
        return this.#perform({ type: 'damage', damage: step.damage })
      case 'rolling-restart':
      case 'roll-config':
        return this.#roll(step, masters)
      case 'scale':
        return this.#scale(step.to)
      case 'random':
        throw new DrillError('random steps are to be drawn before a drill begins')
    }
  }

  async #undo({ forMs }: { readonly forMs?: number }, undo: () => Promise<void>): Promise<void> {
    if (forMs === undefined) return
    await this.#sleep(forMs)
    await undo()
  }

  async #restart(step: ActionOf<'restart'>, masters: readonly string[]): Promise<void> {
    if (step.overlapMs !== undefined) {
      await this.#each(masters, 'sidecar', 'start')
      await this.#sleep(step.overlapMs)
      return this.#all(masters, (master) => ({ type: 'terminate-earlier', master }))
    }
    await this.#each(masters, step.part, step.signal)
    await this.#sleep(step.pauseMs)
    await this.#each(masters, step.part, 'start')
  }

  async #replace({ pauseMs }: ActionOf<'replace'>, masters: readonly string[]): Promise<void> {
    const plans = masters.flatMap((name) => this.#scenario.fleet.masters.filter((plan) => plan.name === name))
    await this.#all(masters, (master) => ({ type: 'retire', master }))
    await this.#sleep(pauseMs)
    for (const plan of plans) {
      const master = { ...plan, name: `${plan.name}-anew`, skewMs: plan.skewMs + 60_000 }
      await this.#perform({ type: 'add', master })
      await this.#each([master.name], 'both', 'start')
    }
  }

  async #roll(step: ActionOf<'rolling-restart' | 'roll-config'>, masters: readonly string[]): Promise<void> {
    const part = step.action === 'rolling-restart' ? step.part : 'sidecar'
    for (const name of masters) {
      const member = this.#target.members.find((one) => one.name === name)
      if (member === undefined || this.#target.retired.has(name)) continue
      if (step.action === 'roll-config')
        await this.#perform({ type: 'configure', master: name, settings: step.settings })
      await this.#each([name], part, 'terminate')
      await this.#until(() => !member.running && !member.stopping, LISTED_AGAIN_LIMIT_MS)
      await this.#each([name], part, 'start')
      await this.#until(() => member.well && this.#isListed(member.address), LISTED_AGAIN_LIMIT_MS)
      await this.#sleep(step.pauseMs)
    }
  }

  async #scale(to: number): Promise<void> {
    const present = this.#target.members.filter(({ name }) => !this.#target.retired.has(name))
    const leaving = present.slice(to)
    await this.#each(
      leaving.map(({ name }) => name),
      'both',
      'terminate',
    )
    for (const { name } of leaving) {
      const member = present.find((one) => one.name === name)
      await this.#until(() => member?.stopping !== true, LISTED_AGAIN_LIMIT_MS)
      await this.#perform({ type: 'retire', master: name })
    }
    const [pattern] = this.#scenario.fleet.masters
    if (pattern === undefined) return
    for (let count = present.length; count < to; count++) {
      const number = this.#target.members.length + 1
      const master = { ...pattern, name: `master-${number}`, addresses: [`192.0.2.${number}`], skewMs: 0, settings: {} }
      await this.#perform({ type: 'add', master })
      await this.#each([master.name], 'both', 'start')
    }
  }

  async #heal(masters: readonly string[]): Promise<void> {
    for (const way of ['api', 'store', 'server-store', 'clients'] as const) {
      await this.#all(masters, (master) => ({ type: 'heal', master, way }))
    }
    for (const way of ['api', 'store'] as const) {
      await this.#all(masters, (master) => ({ type: 'slow', master, way, byMs: 0 }))
    }
    await this.#all(masters, (master) => ({ type: 'readyz', master, answer: 'ready' }))
  }

  #each(
    masters: readonly string[],
    part: Part,
    type: 'start' | 'kill' | 'terminate' | 'freeze' | 'thaw',
  ): Promise<void> {
    const parts = part === 'both' ? (['server', 'sidecar'] as const) : ([part] as const)
    return this.#all(masters, (master) => parts.map((one) => ({ type, master, part: one }) as const))
  }

  async #all(
    masters: readonly string[],
    primitivesOf: (master: string) => Primitive | readonly Primitive[],
  ): Promise<void> {
    for (const master of masters) for (const one of [primitivesOf(master)].flat()) await this.#perform(one)
  }

  async #perform(primitive: Primitive): Promise<void> {
    this.#recorder.look()
    await this.#target.perform(primitive, this.#signal)
    this.#recorder.look()
  }

  #namesOf(chosen: Chosen): readonly string[] {
    const { members, retired } = this.#target
    return chosen === 'all' ? members.map(({ name }) => name).filter((name) => !retired.has(name)) : chosen
  }

  #isListed(address: string): boolean {
    return this.#recorder.sliceNow?.includes(address) === true
  }

  async #untilListed(addresses: readonly string[], limitMs: number, exactly: boolean): Promise<void> {
    const text = JSON.stringify(addresses)
    const held = await this.#until(() => !exactly || JSON.stringify(this.#recorder.sliceNow) === text, limitMs)
    if (held) return
    const listed = this.#recorder.sliceNow?.join(', ') ?? 'nobody'
    throw new DrillError(
      `the fleet did not come up: after ${limitMs / 1000} s ${listed} of ${addresses.join(', ')} listed`,
    )
  }

  async #until(predicate: () => boolean, limitMs: number): Promise<boolean> {
    const endMs = this.#clock.monotonicMs() + limitMs
    while (!predicate()) {
      if (this.#clock.monotonicMs() >= endMs) return false
      await this.#sleep(100)
      this.#recorder.look()
    }
    return true
  }

  #sleep(ms: number): Promise<void> {
    return sleep(this.#clock, ms, this.#signal)
  }
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

/** A step in words, for the transcript. */
export function describeStep(step: Step, masters: readonly string[]): string {
  const { atMs: _, action, ...rest } = step
  const facts = Object.entries(rest)
    .filter(([key]) => key !== 'masters')
    .map(([key, value]) => `${key}=${typeof value === 'object' ? JSON.stringify(value) : value}`)
  return [action, masters.join(','), ...facts].filter((word) => word !== '').join(' ')
}
