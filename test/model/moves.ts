import type { World } from './fields.ts'

/** What may go wrong; each use of one is taken from the budget. */
export const FAULTS = [
  'crash', // the sidecar dies; it may be started again at any time
  'host', // the sidecar and its server die
  'freeze', // the sidecar stops for as long as it likes
  'failing', // the server says that it is not ready, for as long as it likes
  'dead', // the server refuses connections, for as long as it likes
  'hung', // the server answers nothing, for as long as it likes
  'restart', // another life begins while this one goes on
  'withdraw', // SIGTERM with each mode
  'always',
  'keep',
  'evict', // marked as withdrawn from outside
  'watch', // the watch of the leases tells nothing, for as long as it likes
  'clock', // this sidecar's clock runs ahead by a tick
  'store', // the store of the leases answers nothing, for as long as it likes
  'outage', // the same, and all servers fail meanwhile
  'all-failing', // all servers say that they are not ready
  'all-hung', // all servers answer nothing
  'refused', // one request is refused
  'lost', // one request is lost
  'answer-lost', // one answer is lost
  'slow', // one request takes a tick
  'late', // one write is carried out after it was given up
] as const
export type Fault = (typeof FAULTS)[number]

const hitsAll: ReadonlySet<Fault> = new Set(['outage', 'all-failing', 'all-hung'])

/** What a fault takes from the budget: two when it hits several at once. */
export function costOf(fault: Fault): number {
  return hitsAll.has(fault) ? 2 : 1
}

/** What was done, as a number, so that a trace can be played again: see `WorldText.describe`. */
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

/** `faults`: how many it takes from the budget. */
export type Emit = (move: Move, world: World, faults: number) => void
