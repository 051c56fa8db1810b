import { type Clock, sleep } from '../runtime/clock.ts'
import { linkedController } from '../runtime/signals.ts'
import type { MemberState } from '../verify/member-state.ts'
import type { DrillRecorder } from './recorder.ts'
import { Roster } from './roster.ts'
import type { MasterPlan, Part } from './scenario.ts'
import { type Owner, StandingFaults } from './standing-faults.ts'
import type { DrillTarget, Primitive } from './target.ts'

/** One for all: an error for each would cost a stack trace. */
const OVER = new Error('over')
/** How long a process that was told to stop may take, in milliseconds; then it is killed, as a kubelet does. */
const GRACE_MS = 30_000
/**
 * How long a server that is told to stop serves on after its sidecar has ended, in milliseconds: what kube-apiserver's
 * --shutdown-delay-duration is for. Within it every client hears that it is not to be used any more.
 */
const SERVING_ON_MS = 2_000
/** Between two looks for something that nobody tells of, in milliseconds. */
const POLL_MS = 100

type ProcessPart = Exclude<Part, 'both'>

/**
 * What steps do to a fleet: primitives, one after the other, with a look of the recorder before and after each. What an owner does stands
 * until that one is over; nothing is done to those who have gone for good. Every method rejects with the signal's reason once that is
 * aborted.
 */
export class FleetControl {
  readonly roster = new Roster()
  readonly faults = new StandingFaults()
  readonly #target: DrillTarget
  readonly #recorder: DrillRecorder
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #lookedAtMs: number | undefined

  constructor(target: DrillTarget, recorder: DrillRecorder, signal: AbortSignal) {
    this.#target = target
    this.#recorder = recorder
    this.#clock = target.clock
    this.#signal = signal
  }

  /** Undoes what this owner did and nobody else still wants. */
  release(owner: Owner): Promise<void> {
    return this.doAll(this.faults.release(owner))
  }

  /** Somebody comes, and is started. */
  async add(master: MasterPlan): Promise<void> {
    this.roster.add(master)
    await this.do({ type: 'add', master })
    await this.do({ type: 'start', master: master.name, part: 'server' })
    await this.do({ type: 'start', master: master.name, part: 'sidecar' })
  }

  /** Somebody dies for good. */
  async retire(master: string): Promise<void> {
    this.roster.retire(master)
    await this.do({ type: 'retire', master })
  }

  /**
   * SIGTERM, and the end. The server outlives its sidecar, which takes the address out first: whoever is told to stop serves until nobody
   * is sent there. Whoever does not end in time is killed.
   */
  async terminate(masters: readonly string[], part: Part, owner: Owner): Promise<void> {
    await Promise.all(
      masters.map(async (master) => {
        // One process, whichever part is meant.
        const isKubeApiserver = this.member(master)?.kind === 'kube-apiserver'
        if (part !== 'server' || isKubeApiserver) {
          await this.do({ type: 'terminate', master, part: 'sidecar' }, owner)
          const hasEnded = (): boolean => this.member(master)?.ended !== false || this.roster.isRetired(master)
          if (!(await this.until(hasEnded, GRACE_MS))) await this.do({ type: 'kill', master, part: 'sidecar' })
        }
        if (isKubeApiserver || part === 'sidecar') return
        if (part === 'both') await this.sleep(SERVING_ON_MS)
        await this.do({ type: 'terminate', master, part: 'server' }, owner)
      }),
    )
  }

  /** Does the same to one or both processes of each; both servers first. */
  toParts(
    masters: readonly string[],
    part: Part,
    type: 'kill' | 'freeze' | 'start' | 'thaw',
    owner?: Owner,
  ): Promise<void> {
    return this.doAll(
      masters.flatMap((master) => partsOf(part).map((one): Primitive => ({ type, master, part: one }))),
      owner,
    )
  }

  toEach(masters: readonly string[], primitiveOf: (master: string) => Primitive, owner?: Owner): Promise<void> {
    return this.doAll(masters.map(primitiveOf), owner)
  }

  /** One after the other. Nobody is started who runs. */
  async doAll(primitives: readonly Primitive[], owner?: Owner): Promise<void> {
    for (const primitive of primitives) {
      // A second life would run beside it for ever.
      if (primitive.type === 'start' && primitive.part === 'sidecar') {
        const member = this.member(primitive.master)
        if (member?.ended === false && !member.stopping) continue
      }
      await this.do(primitive, owner)
    }
  }

  /** Does one thing; with an owner it stands until that one is over. Nothing is done any more to those who have gone for good. */
  async do(primitive: Primitive, owner?: Owner): Promise<void> {
    this.#signal.throwIfAborted()
    const gone =
      'master' in primitive && typeof primitive.master === 'string' && this.roster.isRetired(primitive.master)
    if (gone && primitive.type !== 'retire') return
    if (owner !== undefined) this.faults.add(primitive, owner)
    // How it was until now; at one moment once.
    if (this.#clock.monotonicMs() !== this.#lookedAtMs) this.#recorder.look()
    await this.#target.perform(primitive, this.#signal)
    this.#recorder.look()
    this.#lookedAtMs = this.#clock.monotonicMs()
  }

  member(name: string): MemberState | undefined {
    return this.#target.members.find((member) => member.name === name)
  }

  /** Whether it held in time; at the very moment when it does, as far as the target tells. */
  async until(predicate: () => boolean, limitMs: number): Promise<boolean> {
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
      await Promise.race([held, sleep(this.#clock, POLL_MS, controller.signal)]).finally(() => {
        unsubscribe()
        controller.abort(OVER)
        unlink()
      })
      this.#recorder.look()
    }
    return true
  }

  sleep(ms: number): Promise<void> {
    return sleep(this.#clock, ms, this.#signal)
  }
}

export function partsOf(part: Part): readonly ProcessPart[] {
  return part === 'both' ? ['server', 'sidecar'] : [part]
}
