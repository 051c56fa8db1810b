import { FairRuns } from './fair-runs.ts'
import type { World } from './fields.ts'
import { Violation } from './judge.ts'
import type { Emit, Move } from './moves.ts'
import { ProcessMistake } from './processes.ts'
import { StateSet } from './state-set.ts'
import type { WorldModel } from './world.ts'

export interface ExploreOptions {
  /** How many faults one history may have. */
  readonly faults: number
  readonly maxStates: number
  readonly maxMs?: number | undefined
  /** One of this many states is checked for recovery once faults end. */
  readonly fairEvery: number
  readonly onProgress?: ((text: string) => void) | undefined
}

export interface Counterexample {
  readonly invariant: string
  readonly reason: string
  readonly faults: number
  readonly transcript: readonly string[]
}

export interface Exploration {
  readonly states: number
  readonly depth: number
  /** Histories with up to this many faults were explored completely. */
  readonly faultsDone: number
  readonly isFrontierEmpty: boolean
  readonly seconds: number
  readonly fairRuns: number
  readonly counterexample: Counterexample | undefined
}

/** States of one depth that are still to be visited. */
class Frontier {
  readonly #width: number
  #rows: Int32Array
  length = 0

  constructor(width: number) {
    this.#width = width + 2
    this.#rows = new Int32Array(64 * this.#width)
  }

  push(world: World, from: number, move: Move): void {
    const at = this.length * this.#width
    if (at + this.#width > this.#rows.length) {
      const larger = new Int32Array(this.#rows.length * 2)
      larger.set(this.#rows)
      this.#rows = larger
    }
    this.#rows.set(world, at)
    this.#rows[at + this.#width - 2] = from
    this.#rows[at + this.#width - 1] = move
    this.length++
  }

  world(row: number): World {
    return this.#rows.slice(row * this.#width, (row + 1) * this.#width - 2)
  }

  /** The state's number, or that of the state before the fault. */
  from(row: number): number {
    return this.#rows[(row + 1) * this.#width - 2] as number
  }

  /** −1 if the state already has its number. */
  move(row: number): Move {
    return this.#rows[(row + 1) * this.#width - 1] as number
  }
}

/** States by depth. */
class Layer {
  readonly #width: number
  readonly #depths: (Frontier | undefined)[] = []

  constructor(width: number) {
    this.#width = width
  }

  get depths(): number {
    return this.#depths.length
  }

  push(depth: number, world: World, from: number, move: Move): void {
    let frontier = this.#depths[depth]
    if (frontier === undefined) {
      frontier = new Frontier(this.#width)
      this.#depths[depth] = frontier
    }
    frontier.push(world, from, move)
  }

  take(depth: number): Frontier | undefined {
    const frontier = this.#depths[depth]
    this.#depths[depth] = undefined
    return frontier
  }
}

/**
 * Visits every state that `options.faults` faults can reach: first those without a fault, then those with one, and so
 * on, each set breadth-first. So the first counterexample has the fewest faults, and among those the fewest steps.
 */
export function explore(model: WorldModel, options: ExploreOptions): Exploration {
  const startedMs = performance.now()
  const seen = new StateSet()
  const fair = new FairRuns(model)
  const initial = model.initial()
  const layers: (Layer | undefined)[] = Array.from({ length: options.faults + 1 }, () => new Layer(model.width))
  layers[0]?.push(0, initial, seen.add(initial, -1, 0), -1)
  let depth = 0
  let faultsDone = -1
  let counterexample: Counterexample | undefined
  let isOver = false

  for (let faults = 0; faults <= options.faults && !isOver; faults++) {
    // A state after a fault is visited with its number of faults, unless fewer faults reach it.
    const layer = layers[faults] as Layer
    const later = [new StateSet(), new StateSet()]
    for (let at = 0; at < layer.depths && !isOver; at++) {
      const frontier = layer.take(at)
      for (let row = 0; row < (frontier?.length ?? 0); row++) {
        const world = (frontier as Frontier).world(row)
        const move = (frontier as Frontier).move(row)
        const from = (frontier as Frontier).from(row)
        const index = move === -1 ? from : seen.add(world, from, move)
        if (index === -1) continue
        depth = Math.max(depth, at)
        let isFair = false
        try {
          const emit: Emit = (made, after, cost) => {
            if (cost === 0) {
              const child = seen.add(after, index, made)
              if (child >= 0) layer.push(at + 1, after, child, -1)
            } else if (
              faults + cost <= options.faults &&
              !seen.has(after) &&
              (later[cost - 1]?.add(after, index, made) ?? -1) >= 0
            ) {
              layers[faults + cost]?.push(at + 1, after, index, made)
            }
          }
          model.successors(world, emit, faults === 0, options.faults - faults)
          isFair = true
          if (index % options.fairEvery === 0) fair.check(world)
        } catch (error) {
          if (!(error instanceof Violation || error instanceof ProcessMistake)) throw error
          const invariant = error instanceof Violation ? error.invariant : 'one-request'
          const transcript = transcriptOf(model, seen, index, error, isFair ? fair : undefined)
          counterexample = { invariant, reason: error.message, faults, transcript }
          isOver = true
          break
        }
        if (seen.size >= options.maxStates || (row % 1024 === 0 && isLate(options, startedMs))) {
          isOver = true
          break
        }
      }
      options.onProgress?.(`faults ${faults} depth ${at} states ${seen.size} processes ${model.processes.size}`)
    }
    if (!isOver) faultsDone = faults
    layers[faults] = undefined
  }
  return {
    states: seen.size,
    depth,
    faultsDone,
    isFrontierEmpty: faultsDone === options.faults,
    seconds: (performance.now() - startedMs) / 1000,
    fairRuns: fair.runs,
    counterexample,
  }
}

function isLate({ maxMs }: ExploreOptions, startedMs: number): boolean {
  return maxMs !== undefined && performance.now() - startedMs > maxMs
}

function transcriptOf(
  model: WorldModel,
  seen: StateSet,
  index: number,
  error: Error,
  fair: FairRuns | undefined,
): readonly string[] {
  const path: Move[] = []
  for (let at = index; at > 0; at = seen.parent(at)) path.unshift(seen.move(at))
  const lines: string[] = []
  let world = model.initial()
  let ticks = 0
  for (const move of path) {
    let next: World | undefined
    try {
      model.successors(
        world,
        (candidate, after) => {
          if (candidate === move) next ??= after
        },
        false,
        2,
      )
    } catch {
      // The last move throws; the code below reports why.
    }
    if (next === undefined) break
    const described = model.words.describe(move, world)
    if (described === 'tick') ticks++
    lines.push(`${model.words.lineHead(ticks)}${described.padEnd(48)} ${model.words.text(next)}`)
    world = next
  }
  if (fair !== undefined) {
    lines.push(...fair.explain(world, ticks))
  } else {
    try {
      model.successors(world, () => {}, false, 2)
    } catch {
      lines.push(`${model.words.lineHead(ticks)}${model.words.describe(model.trying, world)}`)
    }
  }
  lines.push(`VIOLATION ${error.message}`)
  return lines
}

/** The figures of an exploration in one line. */
export function figuresText(found: Exploration, budget: number): string {
  const { states, depth, faultsDone, isFrontierEmpty, seconds } = found
  const frontier = isFrontierEmpty
    ? `frontier empty for ${budget} faults`
    : `frontier empty for ${faultsDone} faults, ${budget} begun`
  const rate = Math.round(states / seconds)
  return `explored ${states.toLocaleString('en')} states, depth ${depth}, ${frontier}, ${rate.toLocaleString('en')} states/s`
}
