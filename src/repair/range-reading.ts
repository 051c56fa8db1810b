import { Bitmap } from '../net/bitmap.ts'
import { aboutRanges, type Finding } from './finding.ts'
import type { KeptRange, RangeClaims } from './range-claims.ts'
import type { StoredRange } from './registries/range-registry.ts'

/** What a stored range means to a repair. */
export type RangeReading =
  /** It is left alone: it is another than the flag says, or nobody knows what it says. */
  | { readonly type: 'withheld'; readonly reason: 'mismatch' | 'unreadable'; readonly finding: Finding }
  | {
      readonly type: 'taken'
      /**
       * `kept`: it is this range's. `absent`: nothing is stored. `unnamed`: stored without saying of which range, as before its server's first pass.
       * `adopted`: stored for another range; what is in both is taken over. All but the first must be written even when nothing is missing.
       */
      readonly origin: 'kept' | 'absent' | 'unnamed' | 'adopted'
      /** Which numbers are taken, as the kept range counts them. */
      readonly set: Bitmap
    }

/** Reads what is stored of a range. `where` names its place in messages. */
export function readRange(
  range: KeptRange,
  stored: StoredRange,
  { claims, where, adopt }: { readonly claims: RangeClaims; readonly where: string; readonly adopt: boolean },
): RangeReading {
  switch (stored.type) {
    case 'absent':
      return { type: 'taken', origin: 'absent', set: new Bitmap(range.size) }
    case 'unreadable':
      return unreadableRange(range, where, stored.reason)
    case 'range':
      break
  }
  const { range: text, data } = stored
  const named = text === '' || text === range.text ? range : claims.parse(text)
  if (named === undefined) return unreadableRange(range, where, `is of ${JSON.stringify(text)}, which is not a range`)
  const set = Bitmap.fromBytes(named.size, data)
  if (set === undefined) return unreadableRange(range, where, `has more than the ${named.size} numbers of its range`)
  if (text === range.text) return { type: 'taken', origin: 'kept', set }
  if (text === '') return { type: 'taken', origin: 'unnamed', set }
  if (adopt) return { type: 'taken', origin: 'adopted', set: carriedOver(set, named, range) }
  const note = `${where} is of the range ${text}, not of ${range.text}, and is left alone, because a server that uses it would refuse every new Service; give ${range.flagFor(text)}, or start it anew with --adopt-range to have it rewritten`
  return withheld('mismatch', { reason: 'ServiceRangeMismatch', note, item: text })
}

/** `reason` ends a sentence that begins with the place. */
export function unreadableRange(
  range: KeptRange,
  where: string,
  reason: string,
): RangeReading & { readonly type: 'withheld' } {
  const note = `${where} ${reason}; it is left alone`
  return withheld('unreadable', { reason: 'ServiceRangeUnreadable', note, item: range.name })
}

function withheld(
  reason: 'mismatch' | 'unreadable',
  finding: Pick<Finding, 'reason' | 'note' | 'item'>,
): RangeReading & { readonly type: 'withheld' } {
  return { type: 'withheld', reason, finding: { ...finding, type: 'unknown', regarding: aboutRanges } }
}

/** By item: the same address has another number in another range. */
function carriedOver(set: Bitmap, from: Pick<KeptRange, 'textAt'>, to: KeptRange): Bitmap {
  const carried = new Bitmap(to.size)
  for (const number of set) {
    const offset = to.offsetOf(from.textAt(number))
    if (offset !== undefined) carried.add(offset)
  }
  return carried
}
