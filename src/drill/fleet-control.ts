import { type Clock, sleep } from '../runtime/clock.ts'
import { linkedController } from '../runtime/signals.ts'
import type { MemberState } from '../verify/member-state.ts'
import type { DrillRecorder } from './recorder.ts'
import { Roster } from './scenario/names.ts'
import type { MasterPlan, Part } from './scenario/scenario.ts'
import type { DrillTarget, Primitive } from './target.ts'

/** One error serves all aborts, because each new error would cost a stack trace. */
const OVER = new Error('over')
/** How long a process may take to end after SIGTERM, in milliseconds. Then it is killed, as a kubelet would do. */
const GRACE_MS = 30_000
/**
 * If both processes of a master are stopped: how long the server serves after the sidecar has ended, in milliseconds.
 * kube-apiserver's `--shutdown-delay-duration` has the same purpose: every client learns in time that the address is
 * gone.
 */
const SERVING_ON_MS = 2_000
/** The interval between checks of a condition for which there is no event, in milliseconds. */
const POLL_MS = 100

type ProcessPart = Exclude<Part, 'both'>

/**
 * Performs the primitives of steps on a fleet, and lets the recorder check the fleet before and after each primitive. A
 * fault with an owner lasts until {@link release}. Primitives for retired masters do nothing. After the signal is
 * aborted, every action and every wait rejects with the signal's reason.
 */
export class FleetControl {
  readonly roster = new Roster()
  readonly faults = new StandingFaults()
  readonly #target: DrillTarget
  readonly #recorder: DrillRecorder
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #checkedAtMs: number | undefined

  constructor(target: DrillTarget, recorder: DrillRecorder, signal: AbortSignal) {
    this.#target = target
    this.#recorder = recorder
    this.#clock = target.clock
    this.#signal = signal
  }

  /** Ends the faults of this owner, except those that another owner causes too. */
  release(owner: Owner): Promise<void> {
    return this.doAll(this.faults.release(owner))
  }

  async add(master: MasterPlan): Promise<void> {
    this.roster.add(master)
    await this.do({ type: 'add', master })
    await this.do({ type: 'start', master: master.name, part: 'server' })
    await this.do({ type: 'start', master: master.name, part: 'sidecar' })
  }

  /** Kills a master for good. Later primitives for this master do nothing. */
  async retire(master: string): Promise<void> {
    this.roster.retire(master)
    await this.do({ type: 'retire', master })
  }

  /**
   * Stops masters with SIGTERM, and resolves when their processes have ended. A sidecar that has not ended after
   * {@link GRACE_MS} is killed. With `both` the sidecar ends first, and the server {@link SERVING_ON_MS} later.
   */
  async terminate(masters: readonly string[], part: Part, owner: Owner): Promise<void> {
    await Promise.all(
      masters.map(async (master) => {
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

  /**
   * Performs primitives one after the other. Does not start a sidecar or a kube-apiserver that has neither ended nor
   * received SIGTERM.
   */
  async doAll(primitives: readonly Primitive[], owner?: Owner): Promise<void> {
    for (const primitive of primitives) {
      // A second sidecar would run beside the first one until the end of the drill. A frozen kube-apiserver would be
      // replaced.
      if (primitive.type === 'start' && this.standingPart(primitive.master, primitive.part) === 'sidecar') {
        const member = this.member(primitive.master)
        if (member?.ended === false && !member.stopping) continue
      }
      await this.do(primitive, owner)
    }
  }

  async do(primitive: Primitive, owner?: Owner): Promise<void> {
    this.#signal.throwIfAborted()
    const gone =
      'master' in primitive && typeof primitive.master === 'string' && this.roster.isRetired(primitive.master)
    if (gone && primitive.type !== 'retire') return
    if (owner !== undefined) this.faults.add(this.#faultOf(primitive), owner)
    // Checks the state before the primitive, unless this moment has been checked already.
    if (this.#clock.monotonicMs() !== this.#checkedAtMs) this.#recorder.check()
    await this.#target.perform(primitive, this.#signal)
    this.#recorder.check()
    this.#checkedAtMs = this.#clock.monotonicMs()
  }

  /** The part as which {@link faults} record a fault of this part. */
  standingPart(master: string, part: ProcessPart): ProcessPart {
    // A kube-apiserver is one process, whichever part is meant.
    return this.member(master)?.kind === 'kube-apiserver' ? 'sidecar' : part
  }

  member(name: string): MemberState | undefined {
    return this.#target.members.find((member) => member.name === name)
  }

  /** Resolves with true at the first check at which the condition holds, or with false after `limitMs`. */
  async until(predicate: () => boolean, limitMs: number): Promise<boolean> {
    const endMs = this.#clock.monotonicMs() + limitMs
    while (!predicate()) {
      if (this.#clock.monotonicMs() >= endMs) return false
      const { controller, unlink } = linkedController(this.#signal)
      let unsubscribe = (): void => {}
      const held = new Promise<void>((resolve) => {
        unsubscribe = this.#recorder.onCheck(() => {
          if (predicate()) resolve()
        })
      })
      await Promise.race([held, sleep(this.#clock, POLL_MS, controller.signal)]).finally(() => {
        unsubscribe()
        controller.abort(OVER)
        unlink()
      })
      this.#recorder.check()
    }
    return true
  }

  sleep(ms: number): Promise<void> {
    return sleep(this.#clock, ms, this.#signal)
  }

  #faultOf(primitive: Primitive): Primitive {
    if (!('part' in primitive)) return primitive
    return { ...primitive, part: this.standingPart(primitive.master, primitive.part) }
  }
}

export function partsOf(part: Part): readonly ProcessPart[] {
  return part === 'both' ? ['server', 'sidecar'] : [part]
}

/** The primitives for one or both processes of each master, the server first. */
export function toParts(
  masters: readonly string[],
  part: Part,
  type: 'kill' | 'freeze' | 'start' | 'thaw',
): readonly Primitive[] {
  return masters.flatMap((master) => partsOf(part).map((one): Primitive => ({ type, master, part: one })))
}

/**
 * The owner of faults: one performance of a step, or the part of this performance for one master. Owners are compared
 * by identity.
 */
export type Owner = object

interface Fault {
  readonly owner: Owner
  readonly primitive: Primitive
}

/**
 * The faults of a fleet that have not ended, and their owners. A fault with several owners ends when the last owner
 * releases it. If owners set different values, such as two delays of one path, the value of the latest remaining owner
 * applies. This class performs nothing, but returns the primitives to perform.
 */
export class StandingFaults {
  readonly #faults = new Map<string, Fault[]>()

  /** Records a primitive that is about to be performed. Ignores a primitive without a lasting fault. */
  add(primitive: Primitive, owner: Owner): void {
    const key = lasting(primitive)?.key
    if (key === undefined) return
    const faults = this.#faults.get(key) ?? []
    faults.push({ owner, primitive })
    this.#faults.set(key, faults)
  }

  /** Whether a fault has stopped this part of the master. */
  isDown(master: string, part: ProcessPart): boolean {
    return this.#faults.has(`down ${master} ${part}`)
  }

  /**
   * Removes the faults of an owner. Returns the primitives that end each fault or, if another owner remains, restore
   * the value of that owner.
   */
  release(owner: Owner): readonly Primitive[] {
    const undone = this.#remove((fault) => fault.owner === owner)
    // Servers first, so that each starting sidecar finds its server running.
    const isServer = (one: Primitive): boolean => 'part' in one && one.part === 'server'
    return [...undone.filter(isServer), ...undone.filter((one) => !isServer(one))]
  }

  /** Removes the `chosen` faults of all owners. Returns the primitives that end them. */
  clear(chosen: (fault: Primitive) => boolean): readonly Primitive[] {
    return this.#remove(({ primitive }) => chosen(primitive))
  }

  #remove(chosen: (fault: Fault) => boolean): readonly Primitive[] {
    return [...this.#faults].flatMap(([key, faults]) => {
      const left = faults.filter((fault) => !chosen(fault))
      return left.length === faults.length ? [] : this.#replace(key, faults, left)
    })
  }

  #replace(key: string, before: readonly Fault[], left: Fault[]): readonly Primitive[] {
    if (left.length > 0) this.#faults.set(key, left)
    else this.#faults.delete(key)
    const was = before.at(-1)?.primitive
    const is = left.at(-1)?.primitive
    if (was === undefined) return []
    if (is === undefined) return [lasting(was)?.undo].filter((undo) => undo !== undefined)
    // The process stays stopped or frozen, so the remaining fault need not be performed again.
    return 'part' in is || JSON.stringify(was) === JSON.stringify(is) ? [] : [is]
  }
}

/**
 * The key of a lasting fault, and the primitive that ends it; undefined if the primitive causes no lasting fault.
 * Primitives with the same key are the same fault.
 */
function lasting(primitive: Primitive): { readonly key: string; readonly undo: Primitive } | undefined {
  switch (primitive.type) {
    case 'kill':
    case 'terminate':
      return { key: `down ${primitive.master} ${primitive.part}`, undo: { ...primitive, type: 'start' } }
    case 'freeze':
      return { key: `frozen ${primitive.master} ${primitive.part}`, undo: { ...primitive, type: 'thaw' } }
    case 'cut':
      return { key: `cut ${primitive.master} ${primitive.path}`, undo: { ...primitive, type: 'heal' } }
    case 'slow':
      return { key: `slow ${primitive.master} ${primitive.path}`, undo: { ...primitive, byMs: 0 } }
    case 'fault':
      return {
        key: `fault ${primitive.master} ${JSON.stringify(primitive.rule)}`,
        undo: { ...primitive, type: 'no-fault' },
      }
    case 'own-etcd':
      return { key: `own-etcd ${primitive.master}`, undo: { ...primitive, state: 'ok' } }
    case 'readyz':
      return { key: `readyz ${primitive.master}`, undo: { ...primitive, answer: 'ready' } }
    case 'datastore':
      return { key: 'datastore', undo: { ...primitive, state: 'up' } }
    // Listed one by one, so that a new primitive does not compile until somebody decides whether it lasts.
    case 'start':
    case 'thaw':
    case 'terminate-earlier':
    case 'heal':
    case 'no-fault':
    case 'reset-connections':
    case 'clock-skew':
    case 'configure':
    case 'add':
    case 'retire':
    case 'compact':
    case 'damage':
      return undefined
  }
}
