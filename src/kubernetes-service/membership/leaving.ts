import type { Holder } from '../leases/master-leases.ts'
import { othersReady } from '../members.ts'
import { isConfirmed } from './fleet.ts'
import { end, probe, read, request, type Turn } from './requests.ts'
import type { LeavingStep, Membership, Phase } from './state.ts'

export type Leaving = Extract<Phase, { readonly type: 'leaving' }>

/** Between two reads of the leases while another master's confirmation is awaited, in case that no watch tells of it. */
const CONFIRMATION_READ_MS = 500

/** When a master that leaves has something to do though nothing happens. Pure. */
export function leavingWakesAtMs({ step }: Leaving, fleetReadAtMs: number | undefined): readonly number[] {
  if (step.type !== 'waiting') return []
  return [step.untilAtMs, (fleetReadAtMs ?? step.sinceAtMs) + CONFIRMATION_READ_MS]
}

/**
 * The next request of a master that was told to stop. Pure.
 *
 * It says that it leaves, and goes when another master has confirmed that it serves, so that nobody leaves to a server that hangs. A
 * master that cannot confirm says so, by its record. One that says nothing in time is believed: this one's server stops anyway.
 */
export function nextLeaving(state: Membership, phase: Leaving, turn: Turn): Membership {
  const { nowMs, timings } = turn
  const { lease, server, fleet, self } = state
  const { step, departure } = phase
  const go = (next: LeavingStep): Membership => ({ ...state, phase: { ...phase, step: next } })
  const isBusy = lease.request !== undefined || nowMs < lease.retryAtMs
  switch (step.type) {
    case 'probing':
      if (server.probedAtMs < step.sinceAtMs) return probe(state, timings.probeTimeoutMs, turn)
      // Nobody is served by a server that does not answer.
      return go(server.answeredAtMs >= step.sinceAtMs ? { type: 'announcing' } : { type: 'removing' })
    case 'announcing': {
      if (isBusy) return state
      if (self.departure === departure) {
        return go({ type: 'waiting', sinceAtMs: nowMs, untilAtMs: nowMs + timings.confirmationMs })
      }
      return request(state, 'mark', { ...self, state: 'leaving', departure, reason: undefined, confirms: [] }, turn)
    }
    case 'waiting': {
      const { readAtMs } = fleet
      if (readAtMs === undefined || readAtMs < step.sinceAtMs) return read(state, turn)
      if (othersReady(fleet.leases, self).length === 0) return go({ type: 'staying' })
      if (isConfirmed(state, departure) || nowMs >= step.untilAtMs) return go({ type: 'removing' })
      return nowMs >= readAtMs + CONFIRMATION_READ_MS ? read(state, turn) : state
    }
    case 'staying':
      if (isBusy) return state
      if (self.state === phase.before) return end(state, 'kept-the-last', turn)
      return request(state, 'mark', asBefore(self, phase), turn)
    case 'removing':
      if (isBusy) return state
      // A removal that was answered leaves no lease behind.
      if (lease.renewedAtMs === undefined && self.state === 'withdrawn') return go({ type: 'writing', sent: false })
      return request(state, 'remove', { ...self, state: 'withdrawn', departure, reason: undefined }, turn)
    case 'writing':
    case 'listing': {
      if (step.sent || nowMs < lease.retryAtMs) return state
      const isLeaving = step.type === 'writing'
      turn.effects.push({
        type: 'write-list',
        mayEmpty: isLeaving && phase.mode === 'always',
        needsOthers: isLeaving && phase.mode === 'withdraw' && server.answeredAtMs >= phase.sinceAtMs,
      })
      return go({ ...step, sent: true })
    }
    case 'checking':
      if (server.probedAtMs < step.sinceAtMs) return probe(state, timings.probeTimeoutMs, turn)
      if (server.answeredAtMs < step.sinceAtMs) return end(state, 'no-answer', turn)
      return go({ type: 'writing', sent: false })
    case 'returning':
      if (isBusy) return state
      if (lease.renewedAtMs !== undefined) return go({ type: 'listing', sent: false })
      return request(state, 'renew', asBefore(self, phase), turn)
  }
}

function asBefore(self: Holder, { before }: Leaving): Holder {
  return { ...self, state: before, departure: undefined, confirms: [] }
}
