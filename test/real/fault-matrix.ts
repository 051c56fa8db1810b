import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EndpointSlice, Endpoints, Namespace } from '../../src/kube/resources.ts'
import { allocationPaths } from '../peers/allocations.ts'
import { type ApiClient, ApiFailure } from '../peers/api-client.ts'
import { startEtcd } from '../peers/etcd.ts'
import type { PlacedFault } from '../peers/fault-rules.ts'
import { paths } from '../peers/kubernetes-service.ts'
import { explain, judgeVersions, lists } from '../peers/listing-judge.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import type { StoredVersion } from '../peers/stored-versions.ts'
import { untilPasses } from '../peers/until.ts'
import { type Damage, type FaultCell, victimOf } from './fault-cells.ts'
import {
  addresses,
  type FaultFleet,
  type FaultSite,
  type LeaseStore,
  type ProxiedMaster,
  startFaultFleet,
  startFaultSite,
  timings,
  ttlMs,
} from './fault-fleet.ts'

interface CellResult {
  readonly cell: FaultCell
  /** Whether the fault happened to a request. */
  readonly happened: boolean
  readonly problems: readonly string[]
}

/** The promised time from the end of the fault until all is right; and how long this machine may take to see it. */
const rightAfterMs = 2_000
const slackMs = 1_000
/** A master that left must be seen ready for a while, and then join. */
const backWithinMs = 8_000
/** The time from a kill until the address is gone: what is promised, and what this machine may add. */
const goneWithinMs = ttlMs + 1_000 + slackMs
/** If this machine is later than this, a cell that fails proves nothing. */
const tooLateMs = 200
/** How often such a cell is repeated. */
const mostRepeats = 6

/** Kube-apiservers, each for a fleet of its own, on one etcd. */
export async function startFaultSites(owner: Owner, count: number): Promise<readonly FaultSite[]> {
  const etcd = await startEtcd(owner)
  return Promise.all(Array.from({ length: count }, (_, index) => startFaultSite(owner, etcd, `/fleet-${index + 1}`)))
}

/**
 * Runs every cell, in one fleet at each site, and prints a table of the results. Fails with the cells that do not hold.
 */
export async function judgeCells(
  t: TestContext,
  cells: readonly FaultCell[],
  { store, sites }: { readonly store: LeaseStore; readonly sites: readonly FaultSite[] },
): Promise<void> {
  const owner = openOwner(t)
  const queue = [...cells.entries()]
  const results: CellResult[] = []
  const work = async (site: FaultSite): Promise<void> => {
    const fleet = await startFaultFleet(owner, site, store)
    const lateness = watchLateness(owner, site)
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [index, cell] = next
      lateness.reset()
      let result = await haveFault(fleet, cell, victimOf(index))
      // Five fleets and their servers share two cores, and their pauses resemble faults.
      for (let again = 0; again < mostRepeats && result.problems.length > 0 && lateness.maxMs > tooLateMs; again++) {
        const why = `this machine was ${Math.round(lateness.maxMs)} ms late; ${result.problems.join('; ')}`
        t.diagnostic(`${nameOf(cell)}: once more: ${why}`)
        await untilInTime(lateness)
        result = await haveFault(fleet, cell, victimOf(index))
      }
      results.push(result)
      if (result.problems.length > 0) {
        t.diagnostic(`${nameOf(cell)}: ${result.problems.join('; ')}`)
        for (const { address, tail } of fleet.masters) t.diagnostic(`${address}: ${tail}`)
      }
    }
  }
  await Promise.all(sites.map(work))
  for (const line of tableOf(results)) t.diagnostic(line)
  const failed = results.filter(({ problems }) => problems.length > 0)
  assert.deepEqual(
    failed.map(({ cell, problems }) => `${nameOf(cell)}: ${problems.join('; ')}`),
    [],
    `${failed.length} of ${results.length} cells`,
  )
}

/** Causes one fault in a fleet that is right. Resolves with what was wrong. */
async function haveFault(fleet: FaultFleet, cell: FaultCell, victim: number): Promise<CellResult> {
  const { masters } = fleet
  const { followed, server } = fleet.site
  const wrong = await putRight(fleet).then(
    () => undefined,
    (error: Error) => [
      `before the fault: ${error.message}`,
      ...masters.map(({ address, tail }) => `${address}: ${tail}`),
    ],
  )
  if (wrong !== undefined) return { cell, happened: false, problems: wrong }
  // For this long, a master that could not renew in the previous cell does not remove a master that it has not seen
  // renew since.
  if (cell.kill) await sleep(timings.recoveryMs)
  await followed.caughtUp()
  const since = followed.versions.length
  const master = masters[victim] as ProxiedMaster
  const dying = cell.kill ? masters[(victim + 1) % masters.length] : undefined

  const placed = (cell.at === 'one' ? [master] : masters).map((one) => placeAt(one, cell))
  if (cell.restart !== undefined) await master.kill()
  const endsMs = performance.now() + cell.lengthMs
  await sleep(300)
  const killedMs = performance.now()
  await dying?.kill()
  await addForeignAddress(server.api)
  if (cell.damage !== undefined) await damage[cell.damage](server.api)
  if (cell.restart !== undefined) await master.start(cell.restart)
  await sleep(Math.max(0, endsMs - performance.now()))
  const problems = cell.mustLeave ? await stillListed(fleet, master.address) : []
  for (const one of placed) one.end()

  await sleep(rightAfterMs)
  const living = addresses.filter((address) => address !== dying?.address)
  const leaves = cell.mayLeave || cell.mustLeave
  const withinMs = (cell.rightWithinMs ?? (leaves ? backWithinMs : rightAfterMs)) - rightAfterMs + slackMs
  await fleet
    .whenRight(living, withinMs)
    .then(() => stillThere(server.api, withinMs))
    .catch((error: Error) => problems.push(error.message))
  for (const { address, failure } of masters) if (failure !== undefined) problems.push(`${address} ended: ${failure}`)
  await followed.caughtUp()
  const judged = living.filter((address) => !(leaves && address === master.address))
  const verdict = explain(judgeVersions(followed.versions, since, judged))
  if (verdict !== '') problems.push(verdict)
  if (dying !== undefined) problems.push(...lateRemovals(followed.versions, dying.address, killedMs))
  const happened = placed.some(({ hits }) => hits > 0)
  if (!happened && cell.certain) problems.push('the fault happened to no request')
  return { cell, happened, problems }
}

/**
 * A fault that answers requests, or leaves them without an answer, also closes the watches, so that they must be
 * requested again.
 */
function placeAt(master: ProxiedMaster, { rule }: FaultCell): PlacedFault {
  const placed = master.place(rule)
  if (rule.fault.type !== 'cut-watches' && rule.fault.type !== 'lost-event') {
    master.place({ ...rule, fault: { type: 'cut-watches', everyMs: 60_000 }, times: 1 }).end()
  }
  return placed
}

/** Starts dead masters again, and waits until all is as before the first cell. */
async function putRight(fleet: FaultFleet): Promise<void> {
  for (const master of fleet.masters) {
    if (master.isAlive && master.failure === undefined) continue
    await master.kill()
    await master.start()
  }
  await fleet.whenRight(addresses, 10_000).catch(async () => {
    // After a restart of all masters, nothing of the last fault is left in them for the next cell.
    for (const master of fleet.masters) {
      await master.kill()
      await master.start()
    }
    await fleet.whenRight(addresses, 20_000)
  })
}

/** The objects that still list an address that they should no longer list. */
async function stillListed({ site: { followed } }: FaultFleet, address: string): Promise<string[]> {
  await followed.caughtUp()
  const last = new Map(followed.versions.map((version) => [version.key, version]))
  return [...last.values()].flatMap((version) =>
    lists(version, address) ? [`${address} stays in ${version.key}`] : [],
  )
}

function lateRemovals(versions: readonly StoredVersion[], address: string, killedMs: number): readonly string[] {
  return [...new Set(versions.map(({ key }) => key))].flatMap((key) => {
    const gone = versions.find((one) => one.key === key && one.atMs > killedMs && !lists(one, address))
    if (gone === undefined) return [`the dead ${address} stays in ${key}`]
    const tookMs = gone.atMs - killedMs
    return tookMs > goneWithinMs ? [`the dead ${address} was listed for ${Math.round(tookMs)} ms`] : []
  })
}

const foreign = '198.51.100.9'

async function addForeignAddress(api: ApiClient): Promise<void> {
  await change<Endpoints>(api, paths.endpoints, (endpoints) => ({
    ...endpoints,
    subsets: (endpoints.subsets ?? []).map((subset) => ({
      ...subset,
      addresses: [...(subset.addresses ?? []), { ip: foreign }],
    })),
  }))
}

const cidr = paths.serviceCidr
const namespace = `${paths.namespaces}/kube-node-lease`
const ipAddress = `${allocationPaths.ipAddresses}/10.96.0.1`

const damage: Readonly<Record<Damage, (api: ApiClient) => Promise<unknown>>> = {
  'foreign endpoint': (api) =>
    change<EndpointSlice>(api, paths.slice, (slice) => ({
      ...slice,
      endpoints: [...(slice.endpoints ?? []), { addresses: [foreign], conditions: { ready: true } }],
    })),
  'Service ports': (api) =>
    api.merge(paths.service, { spec: { ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: 4444 }] } }),
  async Namespace(api) {
    await api.delete(namespace)
    // Nothing else finalizes it here.
    const terminating = await api.get<Namespace>(namespace)
    await api.update(`${namespace}/finalize`, { ...terminating, spec: { finalizers: [] } })
  },
  IPAddress: (api) => api.delete(ipAddress),
  ServiceCIDR: (api) => api.delete(cidr),
}

async function stillThere(api: ApiClient, withinMs: number): Promise<void> {
  const get = (): Promise<unknown> => Promise.all([ipAddress, cidr, namespace].map((path) => api.get(path)))
  await untilPasses('what was deleted to be there', get, { withinMs })
}

/** Reads, edits and writes an object; repeats this after a conflict. */
async function change<T>(api: ApiClient, path: string, edit: (object: T) => T): Promise<void> {
  for (;;) {
    try {
      await api.update(path, edit(await api.get<T>(path)))
      return
    } catch (error) {
      if (!(error instanceof ApiFailure && error.status === 409)) throw error
    }
  }
}

interface Lateness {
  readonly maxMs: number
  reset(): void
}

/** Waits until this machine was not late for a while, at most a minute. */
async function untilInTime(lateness: Lateness): Promise<void> {
  for (let attempt = 0; attempt < 12; attempt++) {
    lateness.reset()
    await sleep(5_000)
    if (lateness.maxMs <= tooLateMs) break
  }
  lateness.reset()
}

/**
 * How late the timers of this process are, or the server's answers to a write without a proxy: the masters are then
 * late too. Only a write shows a slow disk. After a renewal that is written after its time-out, the next renewal meets
 * a conflict and must read first.
 */
function watchLateness(owner: Owner, { server }: FaultSite): Lateness {
  const periodMs = 250
  const leases = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
  const watched = {
    maxMs: 0,
    reset: () => {
      watched.maxMs = 0
    },
  }
  const stop = new AbortController()
  const watch = async (): Promise<void> => {
    // Another test may have created it in the same server.
    await server.api.send('POST', leases, { body: { metadata: { name: 'lateness' } } })
    for (let transitions = 0; ; transitions++) {
      const sinceMs = performance.now()
      await sleep(periodMs, undefined, stop)
      await server.api.merge(`${leases}/lateness`, { spec: { leaseTransitions: transitions } })
      watched.maxMs = Math.max(watched.maxMs, performance.now() - sinceMs - periodMs)
    }
  }
  const ended = watch().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error
  })
  owner.after(async () => {
    stop.abort()
    await ended
  })
  return watched
}

function nameOf({ store, resource, fault, at, kill }: FaultCell): string {
  return `${store}: ${fault} of ${resource}${at === 'all' ? ', at all masters' : ''}${kill ? ', another master killed' : ''}`
}

/**
 * A row for each resource, at one master or at all, and a column for each fault. A result in brackets met no request:
 * none was sent in that time.
 */
function tableOf(results: readonly CellResult[]): readonly string[] {
  const faults = [...new Set(results.map(({ cell }) => cell.fault))]
  const rowName = ({ store, resource, at, kill }: FaultCell): string =>
    `${store} ${resource}${at === 'all' ? ', all' : ''}${kill ? ' + kill' : ''}`
  const rows = [...new Set(results.map(({ cell }) => rowName(cell)))].sort()
  const width = Math.max(...rows.map((row) => row.length))
  const column = (text: string): string => text.slice(0, 14).padEnd(14)
  return [
    `${' '.repeat(width)}  ${faults.map(column).join(' ')}`,
    ...rows.map((row) => {
      const marks = faults.map((fault) => {
        const found = results.filter(({ cell }) => cell.fault === fault && rowName(cell) === row)
        const mark = found.some(({ problems }) => problems.length > 0) ? 'FAILS' : 'holds'
        return column(found.length === 0 ? '' : found.every(({ happened }) => happened) ? mark : `(${mark})`)
      })
      return `${row.padEnd(width)}  ${marks.join(' ')}`
    }),
  ]
}
