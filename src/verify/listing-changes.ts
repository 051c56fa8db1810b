import { readyToConfirmMs } from '../kubernetes-service/membership/timings.ts'
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
  mayHaveOmittedRenewal,
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

/** Removals are attributed to a shutdown of another master that began less than this long before, in milliseconds. */
const SHUTDOWN_MS = 5_000
/** A master whose process becomes healthy publishes its state within this time, in milliseconds. */
const STATED_MS = 1_000
/** A master that is unready for this long has certainly read the records of the other masters, in milliseconds. */
const RECORDS_READ_MS = 6_500
/** A master whose server is ready again publishes that within this time, in milliseconds. */
const RESTATED_MS = 3_500
/** A master that could last renew its lease this long ago does not affect the other masters, in milliseconds. */
const LONG_GONE_MS = 60_000

export function emptyLists({ listings, histories }: Moment): readonly Breach[] {
  return listings
    .filter(({ listing: { addresses = [], atMs, byDamage, by } }) => {
      if (addresses.length > 0 || byDamage) return false
      const writer = histories.findLast(({ name }) => name === by)
      // A stopped master that withdraws even the last address may leave the list empty if no other master is known to
      // serve. A stopped kube-apiserver may always do so.
      const leaving = histories.some(
        (one) =>
          one.state.withdrawsEvenIfLast &&
          (one.stoppedSinceMs !== undefined || one.mayBeLeftByEarlierLife) &&
          (by === undefined || one === writer),
      )
      const others = histories.filter(({ stoppedSinceMs }) => !leaving || stoppedSinceMs === undefined)
      if (leaving && (writer?.kind === 'kube-apiserver' || !others.some((one) => isKnownToServe(one, atMs))))
        return false
      // An empty list is no breach either if its writer's server does not answer and no master seems to live. An
      // unknown writer may be any master that can renew its lease.
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
    if (sharesShorterLease(history, histories) || mayHaveOmittedRenewal(history, moment)) return []
    const restarted = atMs - startedAtMs < ttlMs
    const shutdown = histories.some(
      (other) => other !== history && atMs - (other.stoppedSinceMs ?? Number.NEGATIVE_INFINITY) < SHUTDOWN_MS,
    )
    const why = restarted ? ', whose sidecar was restarted,' : shutdown ? ', while another was shut down,' : ''
    const detail = `${address} of ${name}${why} is removed from ${object}`
    return [{ of: `${address} ${object}`, detail, byOthers: restarted || shutdown }]
  })
}

/** Addresses that are added although no lease for them can exist, and no master can suspect that one exists. */
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

/** Addresses of this program's masters that are added and then removed, although the master was healthy throughout. */
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

/** A version of a list that removes an address, and a master with that address. */
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

/** Masters that are removed for unreadiness, although the other servers are or were unready at the same time. */
export function leavesForUnready(moment: Moment): readonly Breach[] {
  return [
    ...removedInFavourOfUnready(moment),
    ...removedAfterStatingUnready(moment),
    ...removedAfterCommonFailure(moment),
  ]
}

/** Ready masters that are removed because they had published their unreadiness while no other master was ready. */
function removedAfterStatingUnready(moment: Moment): readonly Breach[] {
  const { histories } = moment
  // The lease of a kube-apiserver always counts as ready, so an unready master may leave in its favour.
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

/** Masters that are removed just after the first server recovered, although all servers had failed together. */
function removedAfterCommonFailure(moment: Moment): readonly Breach[] {
  const { histories } = moment
  // The lease of a kube-apiserver, or of a master with the gate `startup`, always counts as ready. With slow messages a
  // master learns late about the other masters. While requests or probes fail by a fault, the server itself may serve.
  const mayExplainRemoval = histories.some(
    ({ kind, lagMs, state, impairedAtMs, readiness: { notServing } }) =>
      kind === 'kube-apiserver' ||
      lagMs > 0 ||
      impairedAtMs >= (notServing?.sinceMs ?? Number.POSITIVE_INFINITY) ||
      !state.leavesWhenUnready,
  )
  if (mayExplainRemoval) return []
  return removals(moment)
    .filter(({ listing: { atMs }, history }) => {
      const own = history.readiness.notServingIfListed
      if (own === undefined || history.hasCauseBesideUnready(atMs)) return false
      if (atMs - own.untilMs > RESTATED_MS || sharesShorterLease(history, histories)) return false
      const together = histories.filter(
        ({ goneSinceMs, state }) =>
          state.running || goneSinceMs === undefined || own.sinceMs - goneSinceMs <= LONG_GONE_MS,
      )
      const firstMs = Math.min(...together.map(({ readiness }) => readiness.notServing?.untilMs ?? 0))
      const failedTogether = together.every(
        ({ readiness: { notServing }, state }) =>
          state.running &&
          notServing !== undefined &&
          notServing.sinceMs <= own.sinceMs &&
          notServing.untilMs - notServing.sinceMs >= faultTimes.noticedMs,
      )
      // At the latest of these times, the master that recovers first began to see all servers fail together.
      const sinceMs = together.map(({ readiness: { notServing }, startedAtMs }) =>
        Math.max(notServing?.sinceMs ?? 0, startedAtMs),
      )
      const failedMs = firstMs - Math.max(...sinceMs)
      const togetherMs = readyToConfirmMs(failedMs - faultTimes.noticedMs) - STATED_MS
      return failedTogether && firstMs > own.sinceMs && atMs - firstMs <= togetherMs
    })
    .map(({ history: { name }, listing: { object } }) => ({
      of: `${name} ${object}`,
      detail: `${name}, whose server failed together with all others, is removed from ${object}`,
    }))
}

function removedInFavourOfUnready({ listings, histories }: Moment): readonly Breach[] {
  return listings.flatMap((successor) => {
    const { listing } = successor
    const addresses = removedAddresses(successor)
    // The invariant `never-empty` judges empty lists. A kube-apiserver may write one.
    if (addresses.length === 0 || listing.addresses?.length === 0) return []
    const gone = histories.filter(({ address }) => addresses.includes(address))
    const stay = histories.filter(({ address }) => listing.addresses?.includes(address))
    // Slow messages delay what a master learns about the others, and what the others learn about this master.
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
 * Whether the writer of a list may take an unknown address for that of a master that could not renew its lease. This
 * requires that, while no master could renew, the writer started, and damage put the address into both lists, or into
 * Endpoints and deleted the slice. From {@link suspicionMs} after a master could renew again, the writer may not.
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

/** Whether another master of this program did not see this one die, and so still grants it time to renew its lease. */
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
 * Whether the master runs, its server answers, and the master has had time to publish its state. A master whose present
 * process has never been ready has published no state.
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
      !mayHaveOmittedRenewal(history, moment),
  )
  if (missing.length === 0) return []
  // Masters of this program correct an overwrite at once, kube-apiservers only at their next tick.
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
  // A master confirms no departure for unreadiness soon after its own start, or soon after its server recovered.
  const confirmers = moment.histories.filter(
    ({ healthySinceMs, startedAtMs, unhealthyMs }) =>
      healthySinceMs !== undefined &&
      moment.nowMs - Math.max(healthySinceMs, startedAtMs) >= readyToConfirmMs(unhealthyMs) + withinMs,
  )
  // A kube-apiserver counts as confirming. If only the etcd checks of the leaving server fail, it does not count.
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
    // In etcd a master does not delete a lease that it shares with a co-holder. The lease ends when nobody renews it.
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
  if (standingMs <= recoveryMs(moment)) return []
  const healthy = histories.filter(({ healthySinceMs }) => healthySinceMs !== undefined)
  if (healthy.length === 0) return []
  const lateMs = Math.min(...healthy.map(latenessOf)) + Math.max(...histories.map((history) => history.lagMs))
  if (standingMs <= recoveryMs(moment) + lateMs) return []
  const ofHealthy = new Set(healthy.map(({ address }) => address))
  // While a master is neither healthy nor dead for long enough to be removed, its address may be listed or not.
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
