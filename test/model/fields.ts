/** The indexes of a state's numbers: first the shared ones, then those of each master. */
export const LIST = 0
export const STORE = 1
export const GHOST = 2
export const ENV = 3
export const SHARED = 4
export const CUR = 0
export const OLD = 1
export const BITS = 2
export const EACH = 3

/** The status of a sidecar. `FREEZING`: it froze in this tick, so its requests may still be executed. */
export const [ABSENT, RUNNING, FREEZING, FROZEN, CRASHED, GONE] = [0, 1, 2, 3, 4, 5] as const

/** The fields of a master's bits, as shift and mask. */
const fields = {
  server: [0, 3],
  cur: [2, 7],
  old: [5, 7],
  /** The server or sidecar had a fault, and the master has not renewed since. */
  hit: [8, 1],
  /** The watch of the sidecar is broken. */
  deaf: [9, 1],
  life: [10, 3],
  /** Whether the server had a fault at the beginning of this tick. */
  down: [12, 1],
} as const
export type Field = keyof typeof fields

export type World = Int32Array

export function get(world: World, master: number, field: Field): number {
  const [shift, mask] = fields[field]
  return ((world[SHARED + master * EACH + BITS] as number) >> shift) & mask
}

export function set(world: World, master: number, field: Field, value: number): void {
  const [shift, mask] = fields[field]
  const at = SHARED + master * EACH + BITS
  world[at] = ((world[at] as number) & ~(mask << shift)) | (value << shift)
}

/** The number of the sidecar in a slot; 0 without one. */
export function processIn(world: World, master: number, slot: number): number {
  return world[SHARED + master * EACH + slot] as number
}

export function setProcess(world: World, master: number, slot: number, id: number): void {
  world[SHARED + master * EACH + slot] = id
}

export function statusOf(world: World, master: number, slot: number): number {
  return get(world, master, slot === CUR ? 'cur' : 'old')
}

export function setStatus(world: World, master: number, slot: number, status: number): void {
  set(world, master, slot === CUR ? 'cur' : 'old', status)
}

export function isFrozen(status: number): boolean {
  return status === FREEZING || status === FROZEN
}

export function nameOf(master: number): string {
  return 'abc'[master] as string
}
