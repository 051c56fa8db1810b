import { confirmationAfterMs } from '../kubernetes-service/membership/timings.ts'
import { faultTimes } from './bounds.ts'
import type { MemberHistory } from './member-history.ts'
import {
  ageOf,
  type Breach,
  comeTo,
  doubtMs,
  goneFrom,
  isUnguarded,
  type Moment,
  mayHaveMissedTick,
  names,
  type Successor,
  sharesShorterLease,
} from './moment.ts'

/** So lately another's shutdown may be what an address went for, in milliseconds. */
const SHUTDOWN_MS = 5_000
/** Until a process that has become well can have said so, in milliseconds. */
const SAID_MS = 1_000

/** A master that was not ready for so long has surely looked around, in milliseconds. */
const SURELY_SAID_MS = 6_500
/** Whoever is ready again has said so by then, in milliseconds. */
const SAID_AGAIN_MS = 3_500
/** Nothing is left of whoever went so long ago, in milliseconds. */
const LONG_GONE_MS = 60_000

/** Lists of nobody while somebody lives. */
export function emptyLists({ listings, histories }: Moment): readonly Breach[] {
  return listings
    .filter(({ listing: { addresses = [], atMs, byDamage, by } }) => {
      if (addresses.length > 0 || byDamage) return false
      const writer = histories.findLast(({ name }) => name === by)
      // Whoever takes its address out even when it is the last does so when nobody else is there.
      const leaving = histories.some(
        (one) =>
          one.state.withdrawsLast &&
          (one.stoppedSinceMs !== undefined || one.mayBeLeftByEarlierLife) &&
          (by === undefined || one === writer),
      )
      const others = histories.filter(({ stoppedSinceMs }) => !leaving || stoppedSinceMs === undefined)
      if (leaving && (writer?.kind === 'kube-apiserver' || !others.some((one) => isKnownToServe(one, atMs))))
        return false
      // One of ours leaves an empty list when no server answers any more.
      const writers = writer === undefined ? histories.filter(({ goneSinceMs }) => goneSinceMs === undefined) : [writer]
      return writers.some(({ state }) => state.answering) || histories.some((history) => seemsToLive(history, atMs))
    })
    .map(({ listing }) => ({ of: listing.object, detail: `${listing.object} lists nobody` }))
}

/** Addresses that go because another was shut down, or because a sidecar was restarted. */
export function removedByOthers(moment: Moment): readonly Breach[] {
  return goneWithoutCause(moment).filter(({ byOthers }) => byOthers)
}

/** Addresses that go for no reason that can be seen. */
export function goesWithoutCause(moment: Moment): readonly Breach[] {
  return goneWithoutCause(moment).filter(({ byOthers }) => !byOthers)
}

function goneWithoutCause(moment: Moment): readonly (Breach & { readonly byOthers: boolean })[] {
  const { listings, histories } = moment
  return listings.flatMap((successor) =>
    goneFrom(successor).flatMap((address) => {
      const { atMs, object } = successor.listing
      const ageMs = ageOf(successor.listing, histories)
      return histories
        .filter((history) => history.address === address && history.causeToGo(atMs) === undefined)
        .filter(({ causeAtMs }) => ageMs === 0 || atMs - causeAtMs > ageMs)
        .filter((history) => !sharesShorterLease(history, histories) && !mayHaveMissedTick(history, moment))
        .map((history) => {
          const restarted = atMs - history.startedAtMs < history.ttlMs
          const shutdown = histories.some(
            (other) => other !== history && atMs - (other.stoppedSinceMs ?? Number.NEGATIVE_INFINITY) < SHUTDOWN_MS,
          )
          const why = restarted ? ', whose sidecar was restarted,' : shutdown ? ', while another was shut down,' : ''
          const detail = `${address} of ${history.name}${why} goes from ${object}`
          return { of: `${address} ${object}`, detail, byOthers: restarted || shutdown }
        })
    }),
  )
}

/** Addresses that come although nobody may hold a lease for them. */
export function comesWithoutCause(moment: Moment): readonly Breach[] {
  const { listings, histories } = moment
  return listings.flatMap((successor) => {
    const { atMs, object } = successor.listing
    if (isUnguarded(successor.listing, histories)) return []
    return comeTo(successor)
      .filter((address) => {
        const own = histories.filter((history) => history.address === address)
        if (own.length === 0 && seemsAMasters(address, successor, moment)) return false
        return !own.some((history) => history.mayCome(atMs) || isDoubted(history, moment, atMs))
      })
      .map((address) => {
        const own = histories.filter((history) => history.address === address)
        const whose = own.length === 0 ? 'which is nobody’s' : `of ${own.map(({ name }) => name).join(' and ')}, dead`
        return { of: `${address} ${object}`, detail: `${address}, ${whose}, comes to ${object}` }
      })
  })
}

/** Addresses that go after they came while their masters were well all the time. */
export function goneThoughWell({ listings, histories }: Moment): readonly Breach[] {
  return listings.flatMap((successor) =>
    goneFrom(successor).flatMap((address) => {
      const { atMs, object } = successor.listing
      if (isUnguarded(successor.listing, histories)) return []
      return histories
        .filter((history) => history.address === address && history.kind === 'apiserver-bootstrap')
        .filter((history) => (history.wellSinceMs ?? atMs) < (successor.since.get(address) ?? 0))
        .filter((history) => !history.isRecovering(atMs) && !sharesShorterLease(history, histories))
        .map(({ name }) => ({ of: `${address} ${object}`, detail: `${address} of ${name}, well, goes from ${object}` }))
    }),
  )
}

/** Masters that leave because they are not ready while nobody else is, or go afterwards for having said so then. */
export function leavesForUnready(moment: Moment): readonly Breach[] {
  return [...leavesToUnready(moment), ...saidAmongUnready(moment), ...goesAmongFailing(moment)]
}

/** Masters that go when they are ready again: they have said that they are not, although nobody else was ready all that time. */
function saidAmongUnready({ listings, histories }: Moment): readonly Breach[] {
  // A kube-apiserver's lease always says that it serves.
  if (histories.some(({ kind }) => kind === 'kube-apiserver')) return []
  return listings.flatMap((successor) => {
    const { atMs, object } = successor.listing
    return histories
      .filter(({ address }) => goneFrom(successor).includes(address))
      .filter(({ readiness: { cleanlyUnready: own }, wellSinceMs, lagMs }) => {
        if (own === undefined || wellSinceMs !== own.untilMs || lagMs > 0) return false
        if (own.untilMs - own.sinceMs < SURELY_SAID_MS || atMs - own.untilMs > SAID_AGAIN_MS) return false
        return histories.every(({ readiness: { cleanlyUnready: other }, goneSinceMs }) => {
          if (goneSinceMs !== undefined) return own.sinceMs - goneSinceMs > LONG_GONE_MS
          return other !== undefined && other.sinceMs <= own.sinceMs && other.untilMs >= own.untilMs
        })
      })
      .map(({ name }) => ({
        of: `${name} ${object}`,
        detail: `${name}, ready again, goes from ${object}: it had left it to others who were not ready either`,
      }))
  })
}

/**
 * Masters that go although their servers failed together with all others, as when what they store in is away, and are back not much later
 * than the first of them.
 */
function goesAmongFailing({ listings, histories }: Moment): readonly Breach[] {
  // A kube-apiserver's lease always says that it serves, so does who asks its server at its start only. Whoever is slow knows late of the
  // others, and a server whose answers are late may serve.
  const blurs = ({ kind, lagMs, state, impairedAtMs, readiness: { unserving } }: MemberHistory): boolean =>
    kind === 'kube-apiserver' ||
    lagMs > 0 ||
    impairedAtMs >= (unserving?.sinceMs ?? Number.POSITIVE_INFINITY) ||
    !state.leavesWhenUnready
  if (histories.some(blurs)) return []
  return listings.flatMap((successor) => {
    const { atMs, object } = successor.listing
    return histories
      .filter(({ address }) => goneFrom(successor).includes(address))
      .filter((history) => {
        const own = history.readiness.unservingInPlace
        if (own === undefined || history.causeBesideUnready(atMs) !== undefined) return false
        if (atMs - own.untilMs > SAID_AGAIN_MS || sharesShorterLease(history, histories)) return false
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
        // As much of it as whoever is back first has surely seen, in its present life.
        const sinceMs = together.map(({ readiness: { unserving }, startedAtMs }) =>
          Math.max(unserving?.sinceMs ?? 0, startedAtMs),
        )
        const failedMs = firstMs - Math.max(...sinceMs)
        const togetherMs = confirmationAfterMs(failedMs - faultTimes.noticedMs) - SAID_MS
        return failedTogether && firstMs > own.sinceMs && atMs - firstMs <= togetherMs
      })
      .map(({ name }) => ({
        of: `${name} ${object}`,
        detail: `${name}, whose server failed together with all others, goes from ${object}`,
      }))
  })
}

/** Masters that leave because they are not ready, while all who stay are not ready either. */
function leavesToUnready({ listings, histories }: Moment): readonly Breach[] {
  return listings.flatMap((successor) => {
    const { listing } = successor
    const addresses = goneFrom(successor)
    // A list of nobody is another matter, and perhaps a kube-apiserver's.
    if (addresses.length === 0 || listing.addresses?.length === 0) return []
    const gone = histories.filter(({ address }) => addresses.includes(address))
    const stay = histories.filter(({ address }) => listing.addresses?.includes(address))
    // Whose messages are slow is known not to be ready only later, and knows so much later of the others.
    const saidMs = Math.max(
      ...stay.map(
        ({ readiness: { cleanlyUnreadySinceMs = Number.POSITIVE_INFINITY }, lagMs }) => cleanlyUnreadySinceMs + lagMs,
      ),
    )
    return gone
      .filter(
        ({ readiness: { cleanlyUnreadySinceMs: sinceMs }, lagMs }) =>
          sinceMs !== undefined && sinceMs - lagMs >= saidMs,
      )
      .map(({ name }) => ({
        of: `${name} ${listing.object}`,
        detail: `${name} leaves ${listing.object} to ${names(listing.addresses)}, not ready either`,
      }))
  })
}

/**
 * Put into both lists, or into the Endpoints while there was no slice, when nobody could renew a lease. A life that began meanwhile cannot
 * tell it from the address of a master that could not renew either, and keeps it for a time.
 */
function seemsAMasters(address: string, { listing }: Successor, { histories, spoiled, unrenewed }: Moment): boolean {
  const { endpoints, slice } = spoiled
  const writer = histories.findLast(({ name }) => name === listing.by)
  if (endpoints === undefined || slice === undefined || writer?.kind !== 'apiserver-bootstrap') return false
  if (!endpoints.addresses?.includes(address) || !(slice.addresses ?? [address]).includes(address)) return false
  const meanwhile = [writer.startedAtMs, endpoints.atMs, slice.atMs]
  if (meanwhile.some((atMs) => atMs < unrenewed.sinceMs || atMs > unrenewed.untilMs)) return false
  return listing.atMs - unrenewed.untilMs <= doubtMs(writer.ttlMs)
}

/** Died while another of ours could not see it, who therefore gives it the time to renew its lease. */
function isDoubted({ goneSinceMs = 0, ttlMs }: MemberHistory, { histories, bounds }: Moment, atMs: number): boolean {
  return histories.some((other) => {
    const { kind, startedAtMs, wellSinceMs = Number.NEGATIVE_INFINITY, cutOffUntilMs } = other
    if (kind === 'kube-apiserver' || startedAtMs > goneSinceMs) return false
    // It needs no server of its own that is ready to look after the list.
    const seesSinceMs = Math.max(wellSinceMs, cutOffUntilMs)
    const graceMs = doubtMs(Math.max(ttlMs, other.ttlMs)) + bounds.removalMarginMs
    return seesSinceMs > goneSinceMs && atMs - seesSinceMs <= graceMs
  })
}

/** Is well, and has had the time to say so: a kube-apiserver does at its ticks. */
function isKnownToServe(history: MemberHistory, atMs: number): boolean {
  const { kind, readiness, watchingSinceMs = Number.POSITIVE_INFINITY } = history
  if (kind === 'kube-apiserver') return history.isSettled(atMs)
  return !readiness.mayStillSeemUnready && watchingSinceMs < atMs - SAID_MS
}

/** Runs beside a server that answers, and has had the time to say so. A life that has never been ready has nothing to say yet. */
function seemsToLive({ state, wellSinceMs = 0 }: MemberHistory, atMs: number): boolean {
  const { running, answering, hasBeenReady } = state
  return running && answering && hasBeenReady !== false && wellSinceMs < atMs - SAID_MS
}
