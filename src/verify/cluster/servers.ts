import type { ServerAnswer } from '../../kube/http-probe.ts'
import { addressesIn, addressesInSlice } from '../../kubernetes-service/identity.ts'
import { byHand, type Command, type Finding, skipped, type Verdict, verdictOf } from './finding.ts'
import { relist } from './kubernetes-endpoints.ts'
import { ownSlice, securePortOf } from './kubernetes-objects.ts'
import { evictCommand } from './masters.ts'
import { type CheckContext, type Parts, type ProbedServer, partOf } from './state.ts'

/** The name by which Pods reach the API server if they do not use the ClusterIP. */
export const SERVICE_DNS_NAME = 'kubernetes.default.svc'
/** The largest accepted clock skew, in milliseconds. Clients, leases and tokens tolerate a few seconds. */
const MOST_SKEW_MS = 5_000

type Probes = Pick<Parts, 'serverProbes'>
type Answered = ProbedServer & { readonly answer: Extract<ServerAnswer, { readonly type: 'answer' }> }

function isAnswered(server: ProbedServer): server is Answered {
  return server.answer.type === 'answer'
}

/** `API server 192.0.2.1:6443`, or, if it was dialled elsewhere, `API server 192.0.2.1 at 127.0.0.1:6443`. */
function objectOf({ address, dialled }: ProbedServer): string {
  const isOwn = dialled.startsWith(`${address}:`) || dialled.startsWith(`[${address}]:`)
  return isOwn ? `API server ${dialled}` : `API server ${address} at ${dialled}`
}

export function judgeAnswers({ serverProbes }: Probes, context: CheckContext): Verdict {
  if (serverProbes.length === 0) return skipped('the Endpoints are empty: see kubernetes-endpoints')
  const findings = serverProbes.flatMap((server): readonly Finding[] => {
    const { address, answer } = server
    if (answer.type === 'answer') return []
    const finding = { object: objectOf(server), expected: 'an answer over TLS', found: answer.reason }
    return [{ ...finding, remedy: withoutServer(address, context) }]
  })
  return verdictOf(findings, serverProbes.map(({ address }) => address).join(', '))
}

/**
 * Commands that remove this server, and all others that do not answer, from the list. If no other address remains, or
 * this address has no lease, the only remedy is to start the server. A server that renews its lease stays, because its
 * eviction is refused, and the patches after it do not run.
 */
function withoutServer(address: string, context: CheckContext): readonly Command[] {
  const start = `start the API server at ${address}, port ${securePortOf(context) ?? 'unknown'}`
  const listed = [...addressesIn(partOf(context, 'kubernetesEndpoints')), ...addressesInSlice(ownSlice(context))]
  const probes = partOf(context, 'serverProbes') ?? []
  const silent = new Set(probes.filter((server) => !isAnswered(server)).map((server) => server.address))
  const others = [...new Set(listed)].filter((other) => !silent.has(other))
  const leased = new Set(partOf(context, 'masterLeases')?.leases.map((lease) => lease.address))
  if (others.length === 0 || !leased.has(address)) return [byHand(start)]
  // An eviction of an address without a lease fails too, and the later commands would not run.
  return [...[...silent].filter((one) => leased.has(one)).map(evictCommand), ...relist(others, context)]
}

export function judgeCertificates({ serverProbes }: Probes): Verdict {
  const answered = serverProbes.filter(isAnswered)
  if (answered.length === 0) return skipped('no API server answered: see server-answers')
  const findings = answered.flatMap((server): readonly Finding[] => {
    const { address, names, answer } = server
    const { fault, names: own } = answer.certificate
    if (fault === undefined) return []
    const text = `a certificate for ${names.join(', or for ')}, of an authority in the kubeconfig`
    const found = `its certificate ${fault}; it is for ${own.join(', ') || 'nobody'}`
    const remedy = [byHand(`give the API server at ${address} ${text}`)]
    return [{ object: objectOf(server), expected: text, found, remedy }]
  })
  return verdictOf(findings, `${answered.length} certificates`)
}

export function judgeReadiness({ serverProbes }: Probes): Verdict {
  const answered = serverProbes.filter(isAnswered)
  if (answered.length === 0) return skipped('no API server answered: see server-answers')
  const findings = answered.flatMap((server): readonly Finding[] => {
    const { status, failing } = server.answer
    if (status < 500) return []
    const found = `HTTP status ${status}${failing.length === 0 ? '' : `: ${failing.join(', ')} failed`}`
    const remedy = [byHand(`see /readyz?verbose and the log of the API server at ${server.address}`)]
    return [{ object: objectOf(server), expected: '/readyz answers 200', found, remedy }]
  })
  const refusing = answered.find(({ answer }) => answer.status !== 200 && answer.status < 500)
  if (findings.length === 0 && refusing !== undefined) {
    const { status } = refusing.answer
    return skipped(
      `${objectOf(refusing)} does not report whether it is ready: HTTP status ${status} without credentials`,
    )
  }
  return verdictOf(findings, `${answered.length} are ready`)
}

/**
 * A clock, by the object that shows it. It is at least `offsetMs` milliseconds ahead of the median, or behind the
 * median if `offsetMs` is negative.
 */
interface ClockReading {
  readonly object: string
  readonly offsetMs: number
}

/** Compares the clocks of the masters and of this machine. Their median counts as right. */
export function judgeClocks(_parts: Pick<Parts, never>, context: CheckContext): Verdict {
  const probed = (partOf(context, 'serverProbes') ?? []).filter(isAnswered).flatMap((server) => {
    const { clock } = server.answer
    return clock === undefined ? [] : [{ object: objectOf(server), ...clock }]
  })
  // The 0 is this machine's clock.
  const median = medianOf([...probed.map(({ offsetMs }) => offsetMs), 0])
  const servers = probed.map(({ object, offsetMs, toleranceMs }): ClockReading => {
    const apart = offsetMs - median
    return { object, offsetMs: Math.sign(apart) * Math.max(0, Math.abs(apart) - toleranceMs) }
  })
  // A lease is renewed before it is read. If its renewal seems to be in the future, its holder's clock is ahead.
  const leases = (partOf(context, 'masterLeases')?.leases ?? []).flatMap(({ id, life }): readonly ClockReading[] =>
    life.type === 'renewed' && life.leftMs !== undefined
      ? [{ object: `the renewal of ${id}`, offsetMs: Math.max(0, life.leftMs - life.ttlMs - median) }]
      : [],
  )
  const readings = [...servers, ...leases]
  if (readings.length === 0) {
    const isProbed = partOf(context, 'serverProbes') !== undefined
    const reason = isProbed ? 'no API server answered with its time' : 'give --probe to read their clocks'
    return skipped(`the time of the API servers is unknown: ${reason}`)
  }
  const findings = readings
    .filter(({ offsetMs }) => Math.abs(offsetMs) > MOST_SKEW_MS)
    .map(({ object, offsetMs }): Finding => {
      const found = `${secondsOf(offsetMs)} ${offsetMs > 0 ? 'ahead' : 'behind'}`
      const remedy = [byHand('synchronise the clock of its host, as by chrony or systemd-timesyncd')]
      return { object, expected: `the same time as the others, within ${secondsOf(MOST_SKEW_MS)}`, found, remedy }
    })
  const own =
    Math.abs(median) > MOST_SKEW_MS ? `; the clock of this machine differs from them by ${secondsOf(median)}` : ''
  return verdictOf(findings, `${readings.length} clocks${own}`)
}

/** Of two middle values, the one nearer to zero, so that with one server the clock of this machine counts as right. */
function medianOf(offsets: readonly number[]): number {
  const sorted = offsets.toSorted((a, b) => a - b)
  const [low = 0, high = 0] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.ceil((sorted.length - 1) / 2)]]
  return Math.abs(low) < Math.abs(high) ? low : high
}

function secondsOf(ms: number): string {
  return `${Math.round(Math.abs(ms) / 1000)}s`
}
