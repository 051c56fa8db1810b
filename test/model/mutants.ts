import type { Fault } from './moves.ts'

/** One deliberate mistake in the membership, and the faults that show it. */
export interface ModelMutant {
  /** What the mutant does wrong, in words. */
  readonly broken: string
  /** A text that occurs exactly once in src/kubernetes-service/membership/. */
  readonly text: string
  readonly instead: string
  readonly faults: readonly Fault[]
  /** How many faults one history may have. */
  readonly budget: number
}

/**
 * The exploration catches each of these. Some mistakes are not here, because two masters and two faults do not show
 * them:
 * - to accept a read that is older than the last: a lease that it lacks needs a proof first, and the next read corrects
 *   a lease that it still shows;
 * - to renew for a server that does not answer: the other master confirms the departure before the lease would expire.
 *   It matters only where nobody can confirm, beside API servers without a sidecar, which the model does not have;
 * - to confirm departures whatever the probe shows: a master that is asked and does not serve writes `failing` first;
 * - to join as ready with a server that is not: the exploration caught it before the model compared the list each
 *   interval; why it no longer does is an open question.
 * A mutant that does not compare renewals with the beginning of a recovery is not here either: the model distinguishes
 * states only by what the shipped code compares.
 */
export const mutants: Readonly<Record<string, ModelMutant>> = {
  'leave-without-confirmation': {
    broken: 'a master that leaves waits for nobody',
    text: "if (isConfirmed(state, departure)) return go({ type: 'removing' })",
    instead: "if (departure !== '') return go({ type: 'removing' })",
    faults: ['failing', 'withdraw'],
    budget: 2,
  },
  'remove-without-announcing': {
    broken: 'a leaving master deletes its lease before it has announced that',
    text: "return go(server.answeredAtMs >= step.sinceAtMs ? { type: 'announcing' } : { type: 'removing' })",
    instead: "return go({ type: 'removing' })",
    faults: ['withdraw', 'failing'],
    budget: 2,
  },
  'confirm-without-a-new-probe': {
    broken: 'a departure is confirmed by a probe that was sent before it was announced',
    text: 'const answerable = fleet.departures.filter(({ seenAtMs }) => server.probedAtMs >= seenAtMs)',
    instead: 'const answerable = fleet.departures',
    faults: ['hung', 'dead', 'failing', 'withdraw'],
    budget: 2,
  },
  'say-nothing-when-asked': {
    broken: 'a master whose server does not serve keeps saying ready until its renewal',
    text: 'if (!server.serving && (renewing || answerable.length > 0)) return failing',
    instead: '',
    faults: ['failing', 'dead', 'withdraw'],
    budget: 2,
  },
  'turn-unready-alone': {
    broken: 'a master turns unready though nobody has confirmed its departure',
    text: 'return isStated && isConfirmed(state, departure) ? unready : failing',
    instead: 'return isStated ? unready : failing',
    faults: ['all-failing', 'failing', 'dead'],
    budget: 3,
  },
  'turn-unready-in-one-step': {
    broken: 'a master turns unready before it has announced its departure',
    text: 'return isStated && isConfirmed(state, departure) ? unready : failing',
    instead: 'return unready',
    faults: ['all-failing', 'failing'],
    budget: 2,
  },
  'believe-an-ended-lease': {
    broken: 'a lease that has ended is believed at once',
    text: 'if (!isCertain) missing.push',
    instead: 'if (false) missing.push',
    faults: ['store', 'outage'],
    budget: 1,
  },
  'no-recovery': {
    broken: 'after an outage the first renewal that succeeds restores trust',
    text: "? { type: 'recovering', untilAtMs: nowMs + timings.recoveryMs, isNew }",
    instead: "? { type: 'steady' }",
    faults: ['store'],
    budget: 1,
  },
  'no-margin': {
    broken: 'the end of a lease is certain as soon as the own renewal has succeeded',
    text: 'atMs >= provedAtMs + timings.removalMarginMs',
    instead: 'atMs >= provedAtMs',
    faults: ['store', 'lost'],
    budget: 2,
  },
  'prove-by-an-old-renewal': {
    broken: 'a renewal that was sent before a lease ended proves that it has',
    text: 'one.sinceAtMs <= sentAtMs && isDecided(state, one.lease)',
    instead: 'isDecided(state, one.lease)',
    faults: ['store', 'slow'],
    budget: 2,
  },
  'never-prove': {
    broken: 'no renewal ever proves that a lease has ended',
    text: 'one.sinceAtMs <= sentAtMs && isDecided(state, one.lease)',
    instead: 'false',
    faults: ['host'],
    budget: 1,
  },
  'forget-the-own-lease': {
    broken: 'a master takes itself off the list when its own lease has ended',
    text: '...(isOwnGone ? [own] : [])',
    instead: '',
    faults: ['store'],
    budget: 1,
  },
  'forget-a-time-out': {
    broken: 'a request whose answer never comes is waited for',
    text: 'const after = { ...unanswered(state, turn), request: undefined }',
    instead: 'const after = unanswered(state, turn)',
    faults: ['lost'],
    budget: 1,
  },
  'give-up-after-a-failure': {
    broken: 'a renewal that failed is not tried again before the next interval',
    text: 'const pauseMs = isStarting || failures <= PATIENT_ATTEMPTS ? quickMs : slowRetryMs',
    instead: 'const pauseMs = 3 * slowRetryMs',
    faults: ['lost', 'refused'],
    budget: 2,
  },
  'ignore-the-watch': {
    broken: 'after an event of a watch nothing is read',
    text: 'return { ...state, fleet: { ...state.fleet, isReadDue: true } }',
    instead: 'return state',
    faults: ['withdraw', 'hung'],
    budget: 2,
  },
  'never-ready-again': {
    broken: 'a master that has turned unready stays so',
    text: "if (self.state === 'unready' && !isHealthy) return unready",
    instead: "if (self.state === 'unready') return unready",
    faults: ['failing'],
    budget: 1,
  },
  'ask-without-a-pause': {
    broken: 'a master that joins asks a server that refuses connections again and again',
    text: "if (isSilent && (state.phase.type === 'listed' || state.phase.type === 'joining')) {",
    instead: "if (isSilent && state.phase.type === 'listed') {",
    faults: ['dead', 'store'],
    budget: 2,
  },
  'die-in-silence': {
    broken: 'a master whose server is dead says nothing once its renewal is due',
    text: 'if (server.serving) return state\n',
    instead: 'if (renewing) return state\n',
    faults: ['dead', 'withdraw'],
    budget: 2,
  },
  'believe-while-recovering': {
    broken: 'a master that recovers takes it for a death when a lease ends that has not been renewed since',
    text: "(trust.type === 'recovering' && fleet.renewed.includes(nameOf(lease)))",
    instead: "trust.type === 'recovering'",
    faults: ['store'],
    budget: 1,
  },
  'trust-after-a-failure': {
    broken: 'a master whose requests fail trusts what it reads',
    text: "trust: { type: 'lost', isNew: isStarting || isNewcomer(trust) },",
    instead: "trust: { type: 'steady' },",
    faults: ['store', 'lost'],
    budget: 3,
  },
  'trust-when-joining': {
    broken: 'a master that joins after a failure trusts what it reads',
    text: 'const trust: Trust = isBack',
    instead: "const trust: Trust = !isLate && state.phase.type === 'joining' ? { type: 'steady' } : isBack",
    faults: ['store', 'lost'],
    budget: 3,
  },
  'sleep-through-an-outage': {
    broken: 'a master that was frozen when its renewal was due trusts what it reads',
    text: 'return sentAtMs - lease.renewedAtMs >= intervalMs + attemptMs',
    instead: 'return sentAtMs - lease.renewedAtMs >= ttlMs',
    faults: ['freeze', 'store'],
    budget: 2,
  },
  'join-with-an-old-read': {
    broken: 'a master that was frozen between its read and its first renewal trusts what it reads',
    text: 'return fleet.readAtMs !== undefined && sentAtMs - fleet.readAtMs >= ttlMs - intervalMs',
    instead: 'return false',
    faults: ['freeze', 'store'],
    budget: 2,
  },
  'renew-after-an-eviction': {
    broken: 'a master that was withdrawn goes on',
    text: "if (failure === 'withdrawn') {",
    instead: "if (failure === 'withdrawn' && phase.type === 'leaving') {",
    faults: ['evict', 'watch'],
    budget: 2,
  },
}
