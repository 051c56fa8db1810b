import type { Holder, MasterLease } from '../../src/kubernetes-service/leases/master-leases.ts'
import type { ReadinessState } from '../../src/kubernetes-service/membership/readiness.ts'
import type { Phase } from '../../src/kubernetes-service/membership/state.ts'
import { observerKey } from './observer.ts'
import type { Process } from './process.ts'

/**
 * The same text for equal processes, and different texts for different ones. It is short because it is computed
 * millions of times.
 */
export function processKey(process: Process): string {
  const { state, list } = process
  const { server, lease, fleet } = state
  const { request, trust, contention } = lease
  let key = `${process.master}${process.life}${process.lease}${process.read}${process.found},${process.again ? 1 : 0},${process.probingMs},${process.renewing},${process.met}`
  if (process.observer !== undefined) key += `W${observerKey(process.observer)}`
  if (list !== undefined) {
    key += `L${list.kind}${list.stage}${list.status}${list.mayEmpty ? 1 : 0}${list.needsOthers ? 1 : 0}${list.base},${list.plan},${list.met}${list.stale ? 's' : ''}`
  }
  key += `P${phaseKey(state.phase)}S${holderKey(state.self)}`
  key += `V${readinessKey(server.readiness)},${server.answeredAtMs},${server.probedAtMs},${server.serving ? 1 : 0}${server.readySinceAtMs === undefined ? 0 : 1},${server.probingSinceAtMs}`
  key += `O${lease.renewedAtMs},${lease.writtenAtMs},${lease.missing ? lease.missedAtMs : 0}${lease.outlasts ? 'o' : ''},${lease.failures},${lease.retryAtMs},${trust.type}`
  if (trust.type === 'recovering') key += `${trust.untilAtMs}${trust.isNew ? 'n' : ''}`
  if (request !== undefined) key += `R${request.type}${request.sentAtMs}${holderKey(request.holder)}`
  key += contention.phase === 'calm' ? contention.corrections.join() : JSON.stringify(contention)
  key += `F${fleet.readAtMs},${fleet.readingSinceAtMs},${fleet.isReadDue ? 1 : 0},${fleet.retryAtMs}`
  for (const one of fleet.leases) key += leaseKey(one)
  key += 'E'
  for (const one of fleet.missing) key += `${leaseKey(one.lease)}${one.sinceAtMs},${one.provedAtMs}`
  if (fleet.renewed.length > 0) key += `W${fleet.renewed.join()}`
  key += 'D'
  for (const one of fleet.departures) key += `"${one.id}"${one.isStop ? 1 : 0}${one.seenAtMs}`
  return `${key}N${state.departures}`
}

function phaseKey(phase: Phase): string {
  switch (phase.type) {
    case 'starting':
      return 's'
    case 'joining':
      return `j${phase.sinceAtMs}`
    case 'listed':
      return phase.departure === undefined ? 'l' : `l"${phase.departure}"`
    case 'leaving':
      return `g${JSON.stringify(phase)}`
    case 'out':
      return `o${phase.why}`
  }
}

function readinessKey(state: ReadinessState): string {
  switch (state.phase) {
    case 'starting':
      return `s${state.failures},${state.failingSinceMs}`
    case 'ready':
      return `r${state.failures},${state.failingSinceMs}`
    case 'unready':
      return `u${state.failures},${state.failingSinceMs},${state.onlySilent ? 1 : 0},${state.recoveringSinceMs}`
  }
}

function holderKey({ instanceId, startedAt, addresses, state, departure, confirms }: Holder): string {
  const asked = confirms === undefined ? '' : `"${confirms.join('""')}"`
  return `${instanceId}${startedAt.slice(17)}${addresses[0]}${state}"${departure}"${asked};`
}

function leaseKey({ holder, address, expirySuspected, renewal = '' }: MasterLease): string {
  return `${expirySuspected === true ? '?' : '!'}${renewal}${holder === undefined ? address : holderKey(holder)}`
}
