import { humanDuration } from '../documents/duration.ts'
import { tryParseTime } from '../runtime/time-format.ts'
import type { Spend } from './json-path.ts'
import type { StoredObject } from './store.ts'

/**
 * A column that `kubectl get` prints for a kind. The columns of built-in kinds are upstream's
 * (pkg/printers/internalversion).
 */
export interface Column {
  readonly name: string
  /** @default 'string' */
  readonly type?: string
  /** 1: printed only with `-o wide`. @default 0 */
  readonly priority?: 0 | 1
  readonly cell: (object: StoredObject, nowMs: number, spend: Spend) => string | number | boolean | null
}

export const nameColumn: Column = { name: 'Name', cell: ({ metadata }) => metadata.name }

export const ageColumn: Column = {
  name: 'Age',
  cell: ({ metadata }, nowMs) => timeSince(metadata.creationTimestamp, nowMs),
}

/**
 * How long ago `time` was, as upstream's TranslateTimestampSince prints it: `<unknown>` if `time` is missing or
 * malformed.
 */
export function timeSince(time: string | undefined, nowMs: number): string {
  const thenMs = time === undefined ? undefined : tryParseTime(time)
  if (thenMs === undefined) return '<unknown>'
  // Clocks differ, so a time less than two seconds in the future counts as now.
  return nowMs - thenMs <= -2000 ? '<invalid>' : humanDuration(nowMs - thenMs)
}

/** The first three of `count` items, and how many more there are, as upstream prints addresses and ports. */
export function firstThree(items: Iterable<string>, count: number): string {
  const first: string[] = []
  for (const item of items) {
    if (first.length === 3) break
    first.push(item)
  }
  return count > 3 ? `${first.join()} + ${count - 3} more...` : first.join()
}
