import type { MemberHistory } from './member-history.ts'
import { type Breach, listedNow, type Moment, mustHaveRemoved, observers, seconds } from './moment.ts'

export function deadAndListed(moment: Moment): readonly Breach[] {
  const { nowMs, histories } = moment
  return overdue(moment)
    .filter(({ address, own }) => observers(histories, [address]).some((one) => mustHaveRemoved(one, own, moment)))
    .map(({ address, own, deadMs }) => {
      const who = own.map(({ name }) => name).join(' and ')
      return { of: address, detail: `${address} of ${who}, dead for ${seconds(nowMs - deadMs)}, is still listed` }
    })
}

/**
 * The dead addresses that are listed for too long, without a breach of {@link deadAndListed} only because none of the
 * masters that still run counts as healthy.
 */
export function deadWithoutJudge(moment: Moment): readonly string[] {
  return overdue(moment).flatMap(({ address }) => {
    const running = observers(moment.histories, [address]).filter(({ state }) => state.running)
    const isJudged = running.length === 0 || running.some(({ watchingSinceMs }) => watchingSinceMs !== undefined)
    return isJudged ? [] : [address]
  })
}

interface Overdue {
  readonly address: string
  /** All masters with this address. */
  readonly own: readonly MemberHistory[]
  /** When the last of them died. */
  readonly deadMs: number
}

/** The listed addresses of which all masters are dead for longer than a lease and the margin. */
function overdue(moment: Moment): readonly Overdue[] {
  const { nowMs, histories, listedSinceMs, bounds } = moment
  if (histories.every(({ deadSinceMs }) => deadSinceMs === undefined)) return []
  return listedNow(moment).flatMap((address) => {
    const own = histories.filter((history) => history.address === address)
    if (own.length === 0 || own.some(({ deadSinceMs }) => deadSinceMs === undefined)) return []
    const deadMs = Math.max(...own.map(({ deadSinceMs = 0 }) => deadSinceMs))
    const ttlMs = Math.max(...own.map((history) => history.ttlMs))
    if (nowMs <= deadMs + ttlMs + bounds.removalMarginMs) return []
    // If an address was listed again meanwhile, the masters have `agreementMs` to remove it.
    if (nowMs <= (listedSinceMs.get(address) ?? 0) + bounds.agreementMs) return []
    return [{ address, own, deadMs }]
  })
}
