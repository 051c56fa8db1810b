import { confirmationAfterMs } from '../kubernetes-service/membership/timings.ts'
import type { MemberHistory } from './member-history.ts'
import {
  addedAddresses,
  ageOf,
  type Breach,
  departureLagMs,
  isUnguarded,
  latenessOf,
  listedNow,
  type Moment,
  mayHaveMissedTick,
  mustHaveRemoved,
  names,
  observers,
  recoveryMs,
  removedAddresses,
  type Successor,
  seconds,
  sharesShorterLease,
  suspicionMs,
} from './moment.ts'
import { faultTimes } from './observation.ts'

/** A removal is attributed to the shutdown of another master that began at most this long before, in milliseconds. */
const SHUTDOWN_MS = 5_000
/** A process that becomes healthy publishes its state within this time, in milliseconds. */
const STATED_MS = 1_000
/** A master that is unready for this long, in milliseconds, has certainly read the others' records meanwhile. */
const RECORDS_READ_MS = 6_500
/** A master that is ready again publishes its state within this time, in milliseconds. */
const RESTATED_MS = 3_500
/** A master that left this long ago no longer affects the others, in milliseconds. */
const LONG_GONE_MS = 60_000

export function emptyLists({ listings, histories }: Moment): readonly Breach[] {
  return listings
    .filter(({ listing: { addresses = [], atMs, byDamage, by } }) => {
      if (addresses.length > 0 || byDamage) return false
      const writer = histories.findLast(({ name }) => name === by)
      // A master that withdraws even the last address may leave the list empty if there is no other master.
      const leaving = histories.some(
        (one) =>
          one.state.withdrawsEvenIfLast &&
          (one.stoppedSinceMs !== undefined || one.mayBeLeftByEarlierLife) &&
          (by === undefined || one === writer),
      )
      const others = histories.filter(({ stoppedSinceMs }) => !leaving || stoppedSinceMs === undefined)
      if (leaving && (writer?.kind === 'kube-apiserver' || !others.some((one) => isKnownToServe(one, atMs))))
        return false
      // A master of ours may write an empty list when no server answers any more.
      const writers = writer === undefined ? histories.filter(({ goneSinceMs }) => goneSinceMs === undefined) : [writer]
      return writers.some(({ state }) => state.answering) || histories.some((history) => seemsToLive(history, atMs))
    })
    .map(({ listing }) => ({ of: listing.object, detail: `${listing.object} is empty` }))
}

export function removedByOthers(moment: Moment): readonly Breach[] {
  return goneWithoutCause(moment).filter(({ byOthers }) => byOthers)
}

export function removedWithoutCause(moment: Moment): readonly Breach[] {
  return goneWithoutCause(moment).filter(({ byOthers }) => !byOthers)
}

function goneWithoutCause(moment: Moment): readonly (Breach & { readonly byOthers: boolean })[] {
  const { histories } = moment
  return removals(moment).flatMap(({ history, listing }) => {
    const { address, name, startedAtMs, ttlMs, causeAtMs } = history
    const { atMs, object } = listing
    const ageMs = ageOf(listing, histories)
    if (history.hasCauseToGo(atMs) || (ageMs > 0 && atMs - causeAtMs <= ageMs)) return []
    if (sharesShorterLease(history, histories) || mayHaveMissedTick(history, moment)) return []
    const restarted = atMs - startedAtMs < ttlMs
    const shutdown = histories.some(
      (other) => other !== history && atMs - (other.stoppedSinceMs ?? Number.NEGATIVE_INFINITY) < SHUTDOWN_MS,
    )
    const why = restarted ? ', whose sidecar was restarted,' : shutdown ? ', while another was shut down,' : ''
    const detail = `${address} of ${name}${why} is removed from ${object}`
    return [{ of: `${address} ${object}`, detail, byOthers: restarted || shutdown }]
  })
}

/** Addresses that come although no lease for them can exist. */
export function addedWithoutCause(moment: Moment): readonly Breach[] {
  const { listings, histories } = moment
  return listings.flatMap((successor) => {
    const { atMs, object } = successor.listing
    if (isUnguarded(successor.listing, histories)) return []
    return addedAddresses(successor).flatMap((address) => {
      const own = histories.filter((history) => history.address === address)
      const hasCause =
        own.length === 0
          ? isPossibleMaster(address, successor, moment)
          : own.some((history) => history.mayCome(atMs) || isSuspected(history, moment, atMs))
      if (hasCause) return []
      const whose = own.length === 0 ? 'of no master' : `of ${own.map(({ name }) => name).join(' and ')}, dead`
      return [{ of: `${address} ${object}`, detail: `${address}, ${whose}, is added to ${object}` }]
    })
  })
}

/** Addresses that come and go again although their masters were healthy all the time. */
export function goneThoughHealthy(moment: Moment): readonly Breach[] {
  const { histories } = moment
  return removals(moment)
    .filter(({ listing }) => !isUnguarded(listing, histories))
    .filter(({ history, listing: { atMs }, since }) => {
      const { kind, address, healthySinceMs = atMs } = history
      return kind === 'apiserver-bootstrap' && healthySinceMs < (since.get(address) ?? 0) && !history.isRecovering(atMs)
    })
    .filter(({ history }) => !sharesShorterLease(history, histories))
    .map(({ history: { address, name }, listing: { object } }) => ({
      of: `${address} ${object}`,
      detail: `${address} of ${name}, healthy, is removed from ${object}`,
    }))
}

/** A master, and a version of a list that removes its address. */
interface Removal extends Successor {
  readonly history: MemberHistory
}

function removals({ listings, histories }: Moment): readonly Removal[] {
  return listings.flatMap((successor) =>
    removedAddresses(successor).flatMap((address) =>
      histories.filter((history) => history.address === address).map((history) => ({ ...successor, history })),
    ),
  )
}

/** Masters that are removed, at once or when ready again, because they were unready while no other was ready. */
export function leavesForUnready(moment: Moment): readonly Breach[] {
  return [...leavesToUnready(moment), ...statedAmongUnready(moment), ...goesAmongFailing(moment)]
}

/** Masters that are removed when ready again: they had published their unreadiness while no other was ready. */
function statedAmongUnready(moment: Moment): readonly Breach[] {
  const { histories } = moment
  // A kube-apiserver's lease always means that it serves.
  if (histories.some(({ kind }) => kind === 'kube-apiserver')) return []
  return removals(moment)
    .filter(({ listing: { atMs }, history: { readiness, healthySinceMs, lagMs } }) => {
      const own = readiness.cleanlyUnready
      if (own === undefined || healthySinceMs !== own.untilMs || lagMs > 0) return false
      if (own.untilMs - own.sinceMs < RECORDS_READ_MS || atMs - own.untilMs > RESTATED_MS) return false
      return histories.every(({ readiness: { cleanlyUnready: other }, goneSinceMs }) => {
        if (goneSinceMs !== undefined) return own.sinceMs - goneSinceMs > LONG_GONE_MS
        return other !== undefined && other.sinceMs <= own.sinceMs && other.untilMs >= own.untilMs
      })
    })
    .map(({ history: { name }, listing: { object } }) => ({
      of: `${name} ${object}`,
      detail: `${name}, ready again, is removed from ${object}: it had published its unreadiness while no other was ready`,
    }))
}

/** Masters that are removed soon after the first server recovered, although all servers had failed together. */
function goesAmongFailing(moment: Moment): readonly Breach[] {
  const { histories } = moment
  // The lease of a kube-apiserver, or of a master with the gate `startup`, always means that its server serves. A slow
  // master learns late about the others. A server whose requests or probes fail by a fault may serve.
  const mayExplainRemoval = histories.some(
    ({ kind, lagMs, state, impairedAtMs, readiness: { unserving } }) =>
      kind === 'kube-apiserver' ||
      lagMs > 0 ||
      impairedAtMs >= (unserving?.sinceMs ?? Number.POSITIVE_INFINITY) ||
      !state.leavesWhenUnready,
  )
  if (mayExplainRemoval) return []
  return removals(moment)
    .filter(({ listing: { atMs }, history }) => {
      const own = history.readiness.unservingInPlace
      if (own === undefined || history.hasCauseBesideUnready(atMs)) return false
      if (atMs - own.untilMs > RESTATED_MS || sharesShorterLease(history, histories)) return false
      const together = histories.filter(
        ({ goneSinceMs, state }) =>
          state.running || goneSinceMs === undefined || own.sinceMs - goneSinceMs <= LONG_GONE_MS,
      )
      const firstMs = Math.min(...together.map(({ readiness }) => readiness.unserving?.untilMs ?? 0))
      const failedTogether = together.every(
        ({ readiness: { unserving }, state }) =>
          state.running &&
          unserving !== undefined &&
          unserving.sinceMs <= own.sinceMs &&
          unserving.untilMs - unserving.sinceMs >= faultTimes.noticedMs,
      )
      // At the latest of these times, the first master to recover began to see all servers fail together.
      const sinceMs = together.map(({ readiness: { unserving }, startedAtMs }) =>
        Math.max(unserving?.sinceMs ?? 0, startedAtMs),
      )
      const failedMs = firstMs - Math.max(...sinceMs)
      const togetherMs = confirmationAfterMs(failedMs - faultTimes.noticedMs) - STATED_MS
      return failedTogether && firstMs > own.sinceMs && atMs - firstMs <= togetherMs
    })
    .map(({ history: { name }, listing: { object } }) => ({
      of: `${name} ${object}`,
      detail: `${name}, whose server failed together with all others, is removed from ${object}`,
    }))
}

function leavesToUnready({ listings, histories }: Moment): readonly Breach[] {
  return listings.flatMap((successor) => {
    const { listing } = successor
    const addresses = removedAddresses(successor)
    // Another invariant checks empty lists, and a kube-apiserver may have written this one.
    if (addresses.length === 0 || listing.addresses?.length === 0) return []
    const gone = histories.filter(({ address }) => addresses.includes(address))
    const stay = histories.filter(({ address }) => listing.addresses?.includes(address))
    // A master with slow messages learns late that others are unready, and the others learn late that it is unready.
    const statedMs = Math.max(
      ...stay.map(
        ({ readiness: { cleanlyUnreadySinceMs = Number.POSITIVE_INFINITY }, lagMs }) => cleanlyUnreadySinceMs + lagMs,
      ),
    )
    return gone
      .filter(
        ({ readiness: { cleanlyUnreadySinceMs: sinceMs }, lagMs }) =>
          sinceMs !== undefined && sinceMs - lagMs >= statedMs,
      )
      .map(({ name }) => ({
        of: `${name} ${listing.object}`,
        detail: `${name} leaves ${listing.object} to ${names(listing.addresses)}, not ready either`,
      }))
  })
}

/**
 * Whether the writer of a list may retain an unknown address, because the address may be that of a master that could
 * not renew its lease. This is so if the writer started, and damage put the address into both lists, while no master
 * could renew.
 */
function isPossibleMaster(address: string, { listing }: Successor, { histories, damaged, unrenewed }: Moment): boolean {
  const { endpoints, slice } = damaged
  const writer = histories.findLast(({ name }) => name === listing.by)
  if (endpoints === undefined || slice === undefined || writer?.kind !== 'apiserver-bootstrap') return false
  if (!endpoints.addresses?.includes(address) || !(slice.addresses ?? [address]).includes(address)) return false
  const meanwhile = [writer.startedAtMs, endpoints.atMs, slice.atMs]
  if (meanwhile.some((atMs) => atMs < unrenewed.sinceMs || atMs > unrenewed.untilMs)) return false
  return listing.atMs - unrenewed.untilMs <= suspicionMs(writer.ttlMs)
}

/** Whether another of our masters did not see this master die, and so still gives it time to renew its lease. */
function isSuspected({ goneSinceMs = 0, ttlMs }: MemberHistory, { histories, bounds }: Moment, atMs: number): boolean {
  return histories.some((other) => {
    const { kind, startedAtMs, healthySinceMs = Number.NEGATIVE_INFINITY, cutOffUntilMs } = other
    if (kind === 'kube-apiserver' || startedAtMs > goneSinceMs) return false
    // A master without a ready server manages the list too. For such a master only the last disconnection counts.
    const seesSinceMs = Math.max(healthySinceMs, cutOffUntilMs)
    const graceMs = suspicionMs(Math.max(ttlMs, other.ttlMs)) + bounds.removalMarginMs
    return seesSinceMs > goneSinceMs && atMs - seesSinceMs <= graceMs
  })
}

/** Whether the master is healthy and has had time to publish that. A kube-apiserver publishes once per interval. */
function isKnownToServe(history: MemberHistory, atMs: number): boolean {
  const { kind, readiness, watchingSinceMs = Number.POSITIVE_INFINITY } = history
  if (kind === 'kube-apiserver') return history.isSettled(atMs)
  return !readiness.mayStillSeemUnready && watchingSinceMs < atMs - STATED_MS
}

/**
 * Whether the master runs, its server answers, and the master has had time to publish its state. A process that has
 * never been ready has published none.
 */
function seemsToLive({ state, healthySinceMs = 0 }: MemberHistory, atMs: number): boolean {
  const { running, answering, hasBeenReady } = state
  return running && answering && hasBeenReady !== false && healthySinceMs < atMs - STATED_MS
}

/** A stopped master leaves within this time plus `removalMarginMs` and {@link departureLagMs}, in milliseconds. */
const LEAVING_MS = 1_000
/**
 * An unready master leaves within this time plus `removalMarginMs` and {@link departureLagMs}, in milliseconds: three
 * seconds of unreadiness, two until the master reads the others' records, and one period of the probes.
 */
const UNREADY_MS = 6_000

export function deadAndListed(moment: Moment): readonly Breach[] {
  const { nowMs, histories, listedSinceMs, bounds } = moment
  if (histories.every(({ deadSinceMs }) => deadSinceMs === undefined)) return []
  return listedNow(moment).flatMap((address) => {
    const own = histories.filter((history) => history.address === address)
    if (own.length === 0 || own.some(({ deadSinceMs }) => deadSinceMs === undefined)) return []
    const deadMs = Math.max(...own.map(({ deadSinceMs = 0 }) => deadSinceMs))
    const ttlMs = Math.max(...own.map((history) => history.ttlMs))
    if (nowMs <= deadMs + ttlMs + bounds.removalMarginMs) return []
    // If the address was listed again meanwhile, the masters have `agreementMs` to remove it.
    if (nowMs <= (listedSinceMs.get(address) ?? 0) + bounds.agreementMs) return []
    const seen = observers(histories, [address]).some((one) => mustHaveRemoved(one, own, moment))
    const who = own.map(({ name }) => name).join(' and ')
    return seen
      ? [{ of: address, detail: `${address} of ${who}, dead for ${seconds(nowMs - deadMs)}, is still listed` }]
      : []
  })
}

export function healthyAndMissing(moment: Moment): readonly Breach[] {
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
  // Our masters correct an overwrite at once, and each kube-apiserver after at most one reconcile interval.
  const corrected =
    observers(histories).some(
      (one) => one.isSettled(nowMs) && nowMs > damagedAtMs + bounds.agreementMs + latenessOf(one),
    ) || missing.some((one) => nowMs - damagedAtMs > one.settlingMs)
  if (!corrected) return []
  return missing.map(({ name, address, healthySinceMs = nowMs }) => ({
    of: name,
    detail: `${name}, healthy for ${seconds(nowMs - healthySinceMs)}, is not listed at ${address}`,
  }))
}

export function stoppedAndListed(moment: Moment): readonly Breach[] {
  return lateToLeave(moment, LEAVING_MS + moment.bounds.removalMarginMs, (history) => history.leavingSinceMs, 'stopped')
}

export function unreadyAndListed(moment: Moment): readonly Breach[] {
  const withinMs = UNREADY_MS + moment.bounds.removalMarginMs
  // A master confirms no departure soon after its start, or soon after its server recovered.
  const confirmers = moment.histories.filter(
    ({ healthySinceMs, startedAtMs, unhealthyMs }) =>
      healthySinceMs !== undefined &&
      moment.nowMs - Math.max(healthySinceMs, startedAtMs) >= confirmationAfterMs(unhealthyMs) + withinMs,
  )
  // A kube-apiserver counts as confirming, except if only the etcd checks of the leaving master's server fail.
  const sinceOf = ({ readiness, state: { etcdFails } }: MemberHistory): number | undefined => {
    const isConfirmed = confirmers.some(({ kind }) => kind !== 'kube-apiserver' || !etcdFails)
    return isConfirmed ? readiness.cleanlyUnreadySinceMs : undefined
  }
  return lateToLeave(moment, withinMs, sinceOf, 'not ready')
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
    if (sinceMs === undefined || nowMs - sinceMs <= withinMs + departureLagMs(history, moment)) return []
    if (!listedNow(moment).includes(address)) return []
    const coHolders = histories.filter((one) => one !== history && one.address === address)
    // A master with a co-holder does not delete their common lease. That lease expires like that of a dead master.
    const then = { ...moment, nowMs: sinceMs }
    const seen = observers(histories, [address]).some(
      (other) => other.isSettled(sinceMs) && other.isSettled(nowMs) && mustHaveRemoved(other, coHolders, then),
    )
    if (!seen) return []
    return [{ of: name, detail: `${address} of ${name}, ${what} for ${seconds(nowMs - sinceMs)}, is still listed` }]
  })
}

/** Lists that are still out of sync after the fleet has been unchanged for the recovery time. */
export function stillOutOfSync(moment: Moment): readonly Breach[] {
  const { nowMs, histories, latest, changedAtMs, leasesSinceMs, bounds } = moment
  const standingMs = nowMs - Math.max(changedAtMs, leasesSinceMs)
  const healthy = histories.filter(({ healthySinceMs }) => healthySinceMs !== undefined)
  if (healthy.length === 0) return []
  const lateMs = Math.min(...healthy.map(latenessOf)) + Math.max(...histories.map((history) => history.lagMs))
  if (standingMs <= recoveryMs(moment) + lateMs) return []
  const ofHealthy = new Set(healthy.map(({ address }) => address))
  // A master that is neither healthy nor dead for long enough may be listed or not.
  const isGone = (history: MemberHistory): boolean => healthy.some((one) => mustHaveRemoved(one, [history], moment))
  const allowed = new Set(histories.filter((history) => !isGone(history)).map(({ address }) => address))
  return (['endpoints', 'slice'] as const).flatMap((object) => {
    const { addresses: listed = [], atMs = 0 } = latest[object] ?? {}
    if (nowMs <= atMs + bounds.agreementMs) return []
    const inSync =
      listed.every((address) => allowed.has(address)) && [...ofHealthy].every((one) => listed.includes(one))
    if (inSync) return []
    const detail = `${object}: ${names(listed)}; healthy: ${names([...ofHealthy].sort())}; ${seconds(standingMs)} after the last change`
    return [{ of: object, detail }]
  })
}
