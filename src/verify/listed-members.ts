import { confirmationAfterMs } from '../kubernetes-service/membership/timings.ts'
import type { MemberHistory } from './member-history.ts'
import {
  areOverFor,
  type Breach,
  isUnguarded,
  latenessOf,
  listedNow,
  type Moment,
  mayHaveMissedTick,
  names,
  observers,
  recoveryMs,
  seconds,
  sharesShorterLease,
} from './moment.ts'

/** Until a master that was told to stop is off the list, besides the margin, in milliseconds. */
const LEAVING_MS = 1_000
/** Until a master that is not ready is, besides the margin: three seconds, two until it looks around, the probes' period, in milliseconds. */
const UNREADY_MS = 6_000

/** Dead masters that are listed later than their leases' ends. */
export function deadAndListed(moment: Moment): readonly Breach[] {
  const { nowMs, histories, listedSinceMs, bounds } = moment
  if (histories.every(({ deadSinceMs }) => deadSinceMs === undefined)) return []
  return listedNow(moment).flatMap((address) => {
    const own = histories.filter((history) => history.address === address)
    if (own.length === 0 || own.some(({ deadSinceMs }) => deadSinceMs === undefined)) return []
    const goneMs = Math.max(...own.map(({ deadSinceMs = 0 }) => deadSinceMs))
    const ttlMs = Math.max(...own.map((history) => history.ttlMs))
    if (nowMs <= goneMs + ttlMs + bounds.removalMarginMs) return []
    // One that came back meanwhile is to go again at once.
    if (nowMs <= (listedSinceMs.get(address) ?? 0) + bounds.agreementMs) return []
    const seen = observers(histories, [address]).some((one) => areOverFor(one, own, moment))
    const who = own.map(({ name }) => name).join(' and ')
    return seen
      ? [{ of: address, detail: `${address} of ${who}, dead for ${seconds(nowMs - goneMs)}, is still listed` }]
      : []
  })
}

/** Masters that are well and not listed, later than they may be. */
export function wellAndMissing(moment: Moment): readonly Breach[] {
  const { nowMs, histories, latest, damagedAtMs, bounds } = moment
  const { slice } = latest
  if (slice !== undefined && isUnguarded(slice, histories) && nowMs <= slice.atMs + bounds.agreementMs) return []
  const listed = listedNow(moment)
  const missing = histories.filter(
    (history) =>
      !listed.includes(history.address) &&
      history.isSettled(nowMs) &&
      !sharesShorterLease(history, histories) &&
      !mayHaveMissedTick(history, moment),
  )
  if (missing.length === 0) return []
  // What somebody spoiled is mended at once by ours, and at its next tick by each kube-apiserver.
  const mended =
    observers(histories).some(
      (one) => one.isSettled(nowMs) && nowMs > damagedAtMs + bounds.agreementMs + latenessOf(one),
    ) || missing.some((one) => nowMs - damagedAtMs > one.settlingMs)
  if (!mended) return []
  return missing.map(({ name, address, wellSinceMs = nowMs }) => ({
    of: name,
    detail: `${name}, well for ${seconds(nowMs - wellSinceMs)}, is not listed at ${address}`,
  }))
}

/** Masters that were told to stop and are listed longer than that takes. */
export function stoppedAndListed(moment: Moment): readonly Breach[] {
  const withinMs = LEAVING_MS + moment.bounds.removalMarginMs
  return lateToLeave(moment, withinMs, (history) => history.leavingSinceMs, 'told to stop')
}

/** Masters that are not ready and are listed longer than it takes to leave, while others serve. */
export function unreadyAndListed(moment: Moment): readonly Breach[] {
  const withinMs = UNREADY_MS + moment.bounds.removalMarginMs
  // A master whose server has just come back confirms nobody's departure, nor does one that has just been started.
  const confirmers = moment.histories.filter(
    ({ wellSinceMs, startedAtMs, illMs }) =>
      wellSinceMs !== undefined &&
      moment.nowMs - Math.max(wellSinceMs, startedAtMs) >= confirmationAfterMs(illMs) + withinMs,
  )
  return confirmers.length === 0
    ? []
    : lateToLeave(moment, withinMs, (history) => history.readiness.cleanlyUnreadySinceMs, 'not ready')
}

function lateToLeave(
  moment: Moment,
  withinMs: number,
  sinceOf: (history: MemberHistory) => number | undefined,
  what: string,
): readonly Breach[] {
  const { nowMs, histories } = moment
  return histories.flatMap((history) => {
    const sinceMs = sinceOf(history)
    const { address, name } = history
    if (sinceMs === undefined || nowMs - sinceMs <= withinMs + latenessOf(history)) return []
    if (!listedNow(moment).includes(address)) return []
    const beside = histories.filter((one) => one !== history && one.address === address)
    // Whoever finds another behind its address leaves the lease of both as it is: it then ends as a dead one's does.
    const then = { ...moment, nowMs: sinceMs }
    const seen = observers(histories, [address]).some(
      (other) => other.isSettled(sinceMs) && other.isSettled(nowMs) && areOverFor(other, beside, then),
    )
    if (!seen) return []
    return [{ of: name, detail: `${address} of ${name}, ${what} for ${seconds(nowMs - sinceMs)}, is still listed` }]
  })
}

/** What is not listed as it should be although nothing has happened to the fleet for as long as it may take to recover. */
export function wrongAfterwards(moment: Moment): readonly Breach[] {
  const { nowMs, histories, latest, changedAtMs, leasesSinceMs, bounds } = moment
  const standingMs = nowMs - Math.max(changedAtMs, leasesSinceMs)
  if (standingMs <= recoveryMs(moment)) return []
  const well = histories.filter(({ wellSinceMs }) => wellSinceMs !== undefined)
  if (well.length === 0) return []
  const lateMs = Math.min(...well.map(latenessOf)) + Math.max(...histories.map((history) => history.lagMs))
  if (standingMs <= recoveryMs(moment) + lateMs) return []
  const ofWell = new Set(well.map(({ address }) => address))
  // Whoever is neither well nor dead for long enough may be listed or not.
  const isGone = (history: MemberHistory): boolean => well.some((one) => areOverFor(one, [history], moment))
  const allowed = new Set(histories.filter((history) => !isGone(history)).map(({ address }) => address))
  return (['endpoints', 'slice'] as const).flatMap((object) => {
    const { addresses: listed = [], atMs = 0 } = latest[object] ?? {}
    if (nowMs <= atMs + bounds.agreementMs) return []
    const right = listed.every((address) => allowed.has(address)) && [...ofWell].every((one) => listed.includes(one))
    const detail = `${object}: ${names(listed)}; well: ${names([...ofWell].sort())}; ${seconds(standingMs)} after the last change`
    return right ? [] : [{ of: object, detail }]
  })
}
