import { formatDuration } from '../documents/duration.ts'
import { isReconciler } from './other-reconciler.ts'

/** The field manager of this program's own writes, and of those of the other masters. */
export const OWN_MANAGER = 'apiserver-bootstrap'

const TURN_OFF =
  'start it with --endpoint-reconciler-type=none, or give this program --etcd-servers so that both use one lease store'

/** What is told of a writer that undoes what is kept, again and again: one line, with the remedy. */
export function overwriteNote(fight: {
  readonly kind: string
  readonly object: string
  readonly writer: string | undefined
  readonly corrections: number
  readonly withinMs: number
}): string {
  const { kind, object, writer, corrections, withinMs } = fight
  const what = `${kind} ${object} was put right ${corrections} times in ${formatDuration(withinMs)} and undone each time`
  const then = 'from now on it is put right at growing intervals'
  return `${what} by ${describeWriter(writer)}; ${then}. ${remedyFor(kind, writer)}.`
}

/** What is told of a kube-apiserver that lists other masters than those whose leases live here. */
export function otherReconcilerNote(writer: string): string {
  return `${writer} overwrites the addresses of Endpoints default/kubernetes by its own endpoint reconciler: ${TURN_OFF}`
}

/** What is told of a master whose leases are elsewhere. `others`: what it lists that has no lease here. */
export function otherLeaseStoreNote(others: readonly string[]): string {
  return (
    `another apiserver-bootstrap lists ${others.join(', ')}, which no lease in this master's store stands for, and takes this master off: it has ` +
    'another lease store. Give all masters the same --lease-store, --etcd-servers and --etcd-prefix; docs/lease-stores.md says how to change them without a gap'
  )
}

/** What is told of somebody who takes this master's lease away, again and again. */
export function leaseContestedNote(fight: {
  readonly address: string
  readonly corrections: number
  readonly withinMs: number
}): string {
  const { address, corrections, withinMs } = fight
  return (
    `The lease of ${address} was taken away and made again ${corrections} times in ${formatDuration(withinMs)}; from now on it is ` +
    'made again at growing intervals, and the master is listed in between only. Find out who deletes it: the audit log of the ' +
    'API server or of etcd tells.'
  )
}

function describeWriter(writer: string | undefined): string {
  if (writer === undefined) return 'somebody who leaves no trace in managedFields'
  return writer === OWN_MANAGER ? 'another apiserver-bootstrap' : `field manager ${writer}`
}

function remedyFor(kind: string, writer: string | undefined): string {
  if (writer === undefined) return "The API server's audit log tells who it is"
  if (writer === OWN_MANAGER) return 'Give all masters of the cluster the same options and the same lease store'
  if (isReconciler(writer) && kind !== 'Service')
    return `It is an API server whose own endpoint reconciler is on: ${TURN_OFF}`
  return 'Stop it, or leave kubernetes-service out of --controllers here'
}
