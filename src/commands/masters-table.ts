import { humanDuration } from '../documents/human-duration.ts'
import { printable } from '../runtime/printable.ts'
import type { MasterRow } from './masters-rows.ts'

const HEADS = ['ADDRESS', 'HOLDER', 'HOST', 'AGE', 'LEFT', 'LISTED', 'READY', 'CONFLICTS'] as const

/** How much of an instance id a person needs to tell two apart. */
const HOLDER_LENGTH = 8

/**
 * The masters as a table of lines without trailing spaces, each column as wide as its content; `-` stands for unknown. Pure.
 *
 * @param rows - at least one.
 */
export function mastersTable(rows: readonly MasterRow[]): readonly string[] {
  const cells = [HEADS, ...rows.map(cellsOf)]
  const widths = HEADS.map((_, column) => Math.max(...cells.map((line) => line[column]?.length ?? 0)))
  return cells.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** What a person would call a difference: a table without what changes by itself as time passes. */
export function changeKey(rows: readonly MasterRow[]): string {
  return JSON.stringify(
    rows.map(({ address, holder, verdict, listed, conflicts, leased, id }) => {
      const { instanceId, state } = holder ?? {}
      // A lease that is found alive is what one expects.
      return [address, id, instanceId, state, verdict === 'stale', listed, leased, conflicts.map(({ code }) => code)]
    }),
  )
}

function cellsOf(row: MasterRow): readonly string[] {
  const { address, holder, ageMs, listed, conflicts } = row
  return [
    address ?? '-',
    holder?.instanceId.slice(0, HOLDER_LENGTH) ?? '-',
    holder?.host ?? '-',
    ageMs === undefined ? '-' : humanDuration(ageMs),
    leftOf(row),
    listed === undefined ? '-' : yesNo(listed),
    readyOf(row),
    conflicts.map(({ message }) => message).join('; ') || '-',
  ].map(printable)
}

function leftOf({ life, verdict, leased }: MasterRow): string {
  if (life === undefined || !leased) return '-'
  switch (life.type) {
    case 'never':
      return 'never'
    case 'ends':
      return humanDuration(life.leftMs)
    case 'renewed':
      if (verdict === 'stale') return 'over'
      return life.leftMs === undefined ? '-' : `~${humanDuration(life.leftMs)}`
  }
}

/** A master that does not say is taken for ready as long as it renews its lease, but nobody knows. */
function readyOf({ holder }: MasterRow): string {
  if (holder === undefined) return '-'
  return holder.state === 'ready' ? 'yes' : holder.state
}

function yesNo(value: boolean): string {
  return value ? 'yes' : 'no'
}
