import type { World } from './fields.ts'
import { Violation } from './judge.ts'
import type { WorldModel } from './world.ts'

/**
 * Everything must be right within this many ticks after the last fault: a lease, a recovery, and the steps that follow.
 */
const BOUND_TICKS = 24

/**
 * Checks that the system recovers from any state once faults end. It continues without faults, and visits each state of
 * these runs once.
 */
export class FairRuns {
  readonly #model: WorldModel
  /** By state: the ticks until everything is right and stays so. */
  readonly #known = new Map<string, number>()
  runs = 0

  constructor(model: WorldModel) {
    this.#model = model
  }

  /** Throws {@link Violation} if the system does not recover. */
  check(from: World): void {
    this.runs++
    const model = this.#model
    const path: { readonly key: string; readonly isTick: boolean; readonly wrong: string | undefined }[] = []
    const at = new Map<string, number>()
    let world = model.healed(from)
    for (;;) {
      const key = String.fromCharCode(...new Uint16Array(world.buffer, 0, world.length * 2))
      const known = this.#known.get(key)
      if (known !== undefined) {
        this.#remember(path, known)
        return
      }
      const before = at.get(key)
      if (before !== undefined) {
        // The run repeats a cycle from here on: everything must be right in each quiet state of the cycle.
        const circle = path.slice(before)
        const wrong = circle.find((one) => one.wrong !== undefined)?.wrong
        if (wrong !== undefined) throw new Violation('becomes-right', `faults have ended, but for ever ${wrong}`)
        if (!circle.some((one) => one.isTick)) throw new Violation('becomes-right', 'requests go on without end')
        for (const { key: one } of circle) this.#known.set(one, 0)
        this.#remember(path.slice(0, before), 0)
        return
      }
      at.set(key, path.length)
      const isTick = model.isQuiet(world)
      path.push({ key, isTick, wrong: isTick ? model.unsettled(world) : undefined })
      world = model.fairMove(world)
    }
  }

  /** The run that failed, with the state after each move. */
  explain(from: World, ticks: number): readonly string[] {
    const model = this.#model
    let world = model.healed(from)
    const lines = [`${model.words.lineHead(ticks)}${'faults end'.padEnd(48)} ${model.words.text(world)}`]
    const seen = new Set<string>()
    for (let now = ticks; now - ticks <= BOUND_TICKS && !seen.has(world.join()); ) {
      seen.add(world.join())
      let next: World
      try {
        next = model.fairMove(world)
      } catch {
        return [...lines, `${model.words.lineHead(now)}${model.words.describe(model.trying, world)}`]
      }
      const described = model.words.describe(model.trying, world)
      if (described === 'tick') now++
      lines.push(`${model.words.lineHead(now)}${described.padEnd(48)} ${model.words.text(next)}`)
      world = next
    }
    return lines
  }

  #remember(path: readonly { key: string; isTick: boolean; wrong: string | undefined }[], known: number): void {
    let ticks = known
    for (const { key, isTick, wrong } of path.toReversed()) {
      if (wrong !== undefined) ticks = Math.max(ticks, 1)
      if (isTick && ticks > 0) ticks++
      if (ticks > BOUND_TICKS) {
        throw new Violation('becomes-right', `faults have ended, but ${BOUND_TICKS} ticks later still ${wrong}`)
      }
      this.#known.set(key, ticks)
    }
  }
}
