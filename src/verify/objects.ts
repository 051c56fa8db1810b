import { type Breach, latenessOf, type Moment, names, observers, recoveryMs, seconds } from './moment.ts'
import { isWrite, type ObservedObjects, type ObservedService } from './observation.ts'

/** The reasons of Events in which a master reports a foreign writer. A drill has no foreign writer. */
const BACK_OFFS = ['ForeignOverwrite', 'LeaseContested', 'OtherReconcilerActive', 'OtherLeaseStore']

/** Endpoints and EndpointSlice that differ for too long while a master could correct them. */
export function differing({ nowMs, histories, latest, differSinceMs, bounds }: Moment): readonly Breach[] {
  if (differSinceMs === undefined || nowMs - differSinceMs <= bounds.agreementMs) return []
  const couldCorrect = observers(histories).some((one) => {
    const sinceMs = Math.max(differSinceMs, (one.watchingSinceMs ?? nowMs) + bounds.listedMs)
    return nowMs > sinceMs + bounds.agreementMs + latenessOf(one)
  })
  const { endpoints, slice } = latest
  const detail = `Endpoints: ${names(endpoints?.addresses)}; EndpointSlice: ${names(slice?.addresses)}; for ${seconds(nowMs - differSinceMs)}`
  return couldCorrect ? [{ of: 'lists', detail }] : []
}

export function excessiveWrites({ writes, bounds }: Moment): readonly Breach[] {
  return [...writes]
    .filter(([, count]) => count > bounds.writesPerTenSeconds)
    .map(([by, count]) => ({ of: by, detail: `${by} wrote ${count} times in 10 s` }))
}

/** Writes although nothing has changed for the recovery time. Writes of leases and Events do not count. */
export function writtenInQuiet(moment: Moment): readonly Breach[] {
  const { requests, histories, changedAtMs, leasesSinceMs } = moment
  const writes = requests.filter((one) => isWrite(one) && !one.request.path.includes('/leases'))
  if (writes.length === 0) return []
  if (histories.every(({ healthySinceMs }) => healthySinceMs === undefined)) return []
  const lagMs = Math.max(0, ...histories.map((history) => history.lagMs))
  // The address of a master that is neither healthy nor gone may be added or removed at any time. After a period in
  // which no lease could expire, the TTL of a master that is gone counts from the end of that period.
  const settledMs = histories.map(({ healthySinceMs, goneSinceMs = Number.POSITIVE_INFINITY, ttlMs }) =>
    healthySinceMs === undefined ? Math.max(goneSinceMs, leasesSinceMs) + ttlMs : 0,
  )
  const quietMs = Math.max(changedAtMs, leasesSinceMs, ...settledMs) + recoveryMs(moment) + lagMs
  return writes
    .filter((one) => one.atMs > quietMs)
    .map(({ by, request: { method, path } }) => ({ of: by, detail: `${by}: ${method} ${path}` }))
}

export function foreignWriterReports({ requests }: Moment): readonly Breach[] {
  return requests.flatMap(({ by, request }) => {
    if (!request.path.endsWith('/events')) return []
    const { reason, note } = (request.body ?? {}) as { readonly reason?: string; readonly note?: string }
    return BACK_OFFS.includes(reason ?? '') ? [{ of: by, detail: `${by}: ${reason}: ${note}` }] : []
  })
}

export function serviceChanged({ objects }: Moment): readonly Breach[] {
  return objects.flatMap(({ found, before }) => {
    const what = before?.service === undefined ? undefined : lostOf(before.service, found)
    return what === undefined ? [] : [{ of: 'service', detail: what }]
  })
}

function lostOf(before: ObservedService, { service, byDamage }: ObservedObjects): string | undefined {
  if (service === undefined || service.uid !== before.uid) {
    if (byDamage) return undefined
    return service === undefined ? 'the Service is gone' : 'the Service was deleted and made again'
  }
  if (service.clusterIP !== before.clusterIP) return `ClusterIP ${before.clusterIP} became ${service.clusterIP}`
  for (const { name, port, protocol, nodePort } of before.ports) {
    if (nodePort === undefined) continue
    const same = service.ports.find((one) => one.port === port && one.protocol === protocol && one.name === name)
    if (byDamage && same?.nodePort === undefined) continue
    if (same?.nodePort !== nodePort) return `NodePort ${nodePort} of ${name} became ${same?.nodePort ?? 'none'}`
  }
  return undefined
}

/** System namespaces that are missing while a master could have created them. */
export function missingNamespaces({ nowMs, histories, missing, bounds }: Moment): readonly Breach[] {
  if (missing.namespaces.length === 0) return []
  const couldCreate = observers(histories).some(
    (one) => nowMs > Math.max(missing.sinceMs, one.watchingSinceMs ?? nowMs) + bounds.recoveryMs + one.lagMs,
  )
  const detail = `${missing.namespaces.join(', ')} for ${seconds(nowMs - missing.sinceMs)}`
  return couldCreate ? [{ of: 'namespaces', detail }] : []
}

export function failed({ histories }: Moment): readonly Breach[] {
  return histories.flatMap(({ name, state: { failure, lifeCount } }) => {
    // A master must exit if a full etcd refuses its writes for a minute at its start.
    if (failure === undefined || /still refused after .*database space exceeded/.test(`${failure}`)) return []
    return [{ of: `${name} ${lifeCount}`, detail: `${name}: ${failure}` }]
  })
}
