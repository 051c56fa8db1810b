import { LIVES } from './machine.ts'

/**
 * Finds the lives of masters in plain data: instance ids such as `a1`, departures such as `a1/2`, and start times.
 * Lives that nothing mentions any more are forgotten, and the rest are renumbered from 0. So a restarted master is like
 * one that never stopped.
 */
const LIFE = /^([abc])(\d)(?=$|\/)/
const STARTED = /^2026-01-01T00:00:0\d/

/** Bits of the lives that a value mentions, {@link LIVES} bits for each master. */
export function livesIn(value: unknown): number {
  if (typeof value === 'string') {
    const [, host, life] = LIFE.exec(value) ?? []
    return host === undefined ? 0 : 1 << ('abc'.indexOf(host) * LIVES + Number(life))
  }
  if (typeof value !== 'object' || value === null) return 0
  let bits = 0
  for (const one of Object.values(value)) bits |= livesIn(one)
  return bits
}

/** The new number of each of these lives of one master; undefined if no number changes. */
export function countedAnew(lives: number): readonly number[] | undefined {
  const counted: number[] = []
  let next = 0
  let isSame = true
  for (let life = 0; life < LIVES; life++) {
    if ((lives & (1 << life)) === 0) continue
    counted[life] = next
    isSame &&= life === next
    next++
  }
  return isSame ? undefined : counted
}

/** The same value with new numbers for the lives of one master. */
export function withLives<T>(value: T, host: string, counted: readonly number[]): T {
  return renamed(value, host, counted) as T
}

function renamed(value: unknown, host: string, counted: readonly number[]): unknown {
  if (typeof value === 'string') {
    const [text, of, life] = LIFE.exec(value) ?? []
    return text === undefined || of !== host ? value : `${host}${counted[Number(life)]}${value.slice(2)}`
  }
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((one) => renamed(one, host, counted))
  const after: Record<string, unknown> = {}
  for (const [key, one] of Object.entries(value)) after[key] = renamed(one, host, counted)
  if (typeof after.instanceId === 'string' && typeof after.startedAt === 'string' && after.host === host) {
    after.startedAt = after.startedAt.replace(STARTED, `2026-01-01T00:00:0${after.instanceId.slice(1)}`)
  }
  return after
}
