import type { World } from './fields.ts'

/** The faults. Each fault that happens counts against the budget. */
export const FAULTS = [
  'crash', // the sidecar crashes; it may start again at any time
  'host', // the sidecar and its server crash
  'freeze', // the sidecar freezes for any length of time
  'failing', // the server answers that it is not ready, for any length of time
  'dead', // the server refuses connections for any length of time
  'hung', // the server answers nothing for any length of time
  'restart', // another life starts while this one runs
  'withdraw', // SIGTERM with each mode
  'always',
  'keep',
  'evict', // another client marks the record as withdrawn
  'watch', // the watch of the leases delivers nothing for any length of time
  'clock', // this sidecar's clock runs ahead by a tick
  'store', // the lease store answers nothing for any length of time
  'outage', // the same, and all servers answer that they are not ready
  'all-failing', // all servers answer that they are not ready
  'all-hung', // all servers answer nothing
  'refused', // one request is refused
  'lost', // one request is lost
  'answer-lost', // one answer is lost
  'slow', // one request takes a tick
  'late', // the store executes one write after the sidecar gave it up
] as const
export type Fault = (typeof FAULTS)[number]

const hitsAll: ReadonlySet<Fault> = new Set(['outage', 'all-failing', 'all-hung'])

/** What a fault costs: two if it hits several masters at once. */
export function costOf(fault: Fault): number {
  return hitsAll.has(fault) ? 2 : 1
}

/** A move as a number, so that a trace can be replayed. `WorldText.describe` renders it. */
export type Move = number

const moves = [
  'tick',
  'done',
  ...FAULTS,
  'found-before',
  'thaw',
  'thaw-late',
  'heal',
  'rejoin',
  'old-dies',
  'hear',
  'store-back',
  'start',
  'ghost',
  'ghost-gone',
] as const
export type MoveName = (typeof moves)[number]
const moveIndex = new Map(moves.map((name, index) => [name, index]))
const kinds = ['lease', 'read', 'list', 'none'] as const
export type Kind = (typeof kinds)[number]

export function moveOf(name: MoveName, master = 0, slot = 0, kind: Kind = 'none'): Move {
  return (((moveIndex.get(name) as number) * 4 + master) * 2 + slot) * 4 + kinds.indexOf(kind)
}

/** The parts of {@link moveOf}. */
export function partsOf(move: Move): {
  readonly name: MoveName
  readonly master: number
  readonly slot: number
  readonly kind: Kind
} {
  return {
    name: moves[move >> 5] as MoveName,
    master: (move >> 3) % 4,
    slot: (move >> 2) % 2,
    kind: kinds[move % 4] as Kind,
  }
}

/** `faults`: what the move costs. */
export type Emit = (move: Move, world: World, faults: number) => void
