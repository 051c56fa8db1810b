import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EndpointSlice, Endpoints } from '../../src/kube/resources.ts'
import { allocationPaths } from '../peers/allocations.ts'
import { type ApiClient, ApiFailure } from '../peers/api-client.ts'
import { startEtcd } from '../peers/etcd.ts'
import { paths } from '../peers/kubernetes-service.ts'
import { explain, judgeVersions, lists } from '../peers/listing-judge.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'
import { type Damage, type FaultCell, victimOf } from './fault-cells.ts'
import {
  addresses,
  type FaultFleet,
  type LeaseStore,
  type ProxiedMaster,
  startFaultFleet,
  ttlMs,
} from './fault-fleet.ts'

interface CellResult {
  readonly cell: FaultCell
  readonly problems: readonly string[]
}

/** What is promised for after the fault; and how long this machine may take to see it. */
const rightAfterMs = 2_000
const slackMs = 500
/** A master that left has to be seen ready for a while, and to join. */
const backWithinMs = 6_000
/** After a kill, until the address is gone. */
const goneWithinMs = ttlMs + 1_000
/** How late timers of this process may be before a cell says nothing. */
const tooLateMs = 400

/** Has every cell happen, in several fleets at a time, and prints a table of what came of them. Fails with the cells that do not hold. */
export async function judgeCells(
  t: TestContext,
  cells: readonly FaultCell[],
  { store, fleets }: { readonly store: LeaseStore; readonly fleets: number },
): Promise<void> {
  const owner = openOwner(t)
  const etcd = await startEtcd(owner)
  const lateness = watchLateness(owner)
  const queue = [...cells.entries()]
  const results: CellResult[] = []
  const work = async (_: unknown, number: number): Promise<void> => {
    const fleet = await startFaultFleet(owner, { store, etcd, etcdPrefix: `/fleet-${number}` })
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [index, cell] = next
      lateness.reset()
      let problems = await haveFault(fleet, cell, victimOf(index))
      if (problems.length > 0 && lateness.maxMs > tooLateMs) {
        t.diagnostic(`again, because timers were ${Math.round(lateness.maxMs)} ms late: ${nameOf(cell)}`)
        problems = await haveFault(fleet, cell, victimOf(index))
      }
      results.push({ cell, problems })
      if (problems.length > 0) t.diagnostic(`${nameOf(cell)}: ${problems.join('; ')}`)
    }
  }
  await Promise.all(Array.from({ length: fleets }, work))
  for (const line of tableOf(results)) t.diagnostic(line)
  const failed = results.filter(({ problems }) => problems.length > 0)
  assert.deepEqual(
    failed.map(({ cell, problems }) => `${nameOf(cell)}: ${problems.join('; ')}`),
    [],
    `${failed.length} of ${results.length} cells`,
  )
}

/** Has one fault in a fleet that is right, and leaves it right. Resolves with what was wrong. */
async function haveFault(fleet: FaultFleet, cell: FaultCell, victim: number): Promise<readonly string[]> {
  const { followed, masters, server } = fleet
  await putRight(fleet)
  await followed.caughtUp()
  const since = followed.versions.length
  const master = masters[victim] as ProxiedMaster
  const dying = cell.kill ? (masters[(victim + 1) % masters.length] as ProxiedMaster) : undefined
  const struck = cell.at === 'one' ? [master] : masters

  if (cell.restart !== undefined) await master.kill()
  const placed = struck.map((one) => one.place(cell.rule))
  if (cell.restart !== undefined) await master.start(cell.restart)
  const endsMs = performance.now() + cell.lengthMs
  await sleep(300)
  const killedMs = performance.now()
  await dying?.kill()
  await addForeignAddress(server.api)
  if (cell.damage !== undefined) await damage[cell.damage](server.api)
  await sleep(Math.max(0, endsMs - performance.now()))
  for (const one of placed) one.end()

  await sleep(rightAfterMs)
  const living = addresses.filter((address) => address !== dying?.address)
  const problems: string[] = []
  const right = async (): Promise<void> => {
    await fleet.whenRight(living, cell.mayLeave ? backWithinMs : slackMs)
    if (cell.damage !== undefined) await stillThere(server.api)
  }
  await right().catch((error: Error) => problems.push(error.message))
  for (const { address, failure } of masters) if (failure !== undefined) problems.push(`${address} ended: ${failure}`)
  await followed.caughtUp()
  const judged = living.filter((address) => !(cell.mayLeave && address === master.address))
  const verdict = explain(judgeVersions(followed.versions, since, judged))
  if (verdict !== '') problems.push(verdict)
  if (dying !== undefined) problems.push(...lateRemovals(fleet, dying.address, killedMs))
  if (placed.every(({ hits }) => hits === 0) && mustHit(cell)) problems.push('the fault hit nothing')
  return problems
}

/** Whoever is dead lives again, and all is as before the first cell. */
async function putRight(fleet: FaultFleet): Promise<void> {
  for (const master of fleet.masters) {
    if (master.isAlive && master.failure === undefined) continue
    await master.kill()
    await master.start()
  }
  await fleet.whenRight(addresses, 30_000).catch(async () => {
    // Whatever a fault has left in a master, the next cell begins without it.
    for (const master of fleet.masters) {
      await master.kill()
      await master.start()
    }
    await fleet.whenRight(addresses, 30_000)
  })
}

function lateRemovals({ followed }: FaultFleet, address: string, killedMs: number): readonly string[] {
  return [...new Set(followed.versions.map(({ key }) => key))].flatMap((key) => {
    const gone = followed.versions.find((one) => one.key === key && one.atMs > killedMs && !lists(one, address))
    if (gone === undefined) return [`the dead ${address} stays in ${key}`]
    const tookMs = gone.atMs - killedMs
    return tookMs > goneWithinMs ? [`the dead ${address} was listed for ${Math.round(tookMs)} ms`] : []
  })
}

/** Requests for these come by themselves, each interval or with the damage. */
function mustHit({ resource, fault, kill }: FaultCell): boolean {
  return (
    !kill &&
    ['readyz', 'everything', 'LeaseGrant', 'Txn', 'leases (renewed)'].includes(resource) &&
    fault !== 'lost event'
  )
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
const ipAddress = `${allocationPaths.ipAddresses}/10.96.0.1`

const damage: Readonly<Record<Damage, (api: ApiClient) => Promise<unknown>>> = {
  'foreign endpoint': (api) =>
    change<EndpointSlice>(api, paths.slice, (slice) => ({
      ...slice,
      endpoints: [...(slice.endpoints ?? []), { addresses: [foreign], conditions: { ready: true } }],
    })),
  'Service ports': (api) =>
    api.merge(paths.service, { spec: { ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: 4444 }] } }),
  IPAddress: (api) => api.delete(ipAddress),
  ServiceCIDR: (api) => api.delete(cidr),
}

async function stillThere(api: ApiClient): Promise<void> {
  await untilPasses('what was deleted to be there', () => Promise.all([api.get(ipAddress), api.get(cidr)]), {
    withinMs: slackMs,
  })
}

/** Reads and writes, again when somebody else was faster. */
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

/** How late this process' timers are: its masters are then late themselves. */
function watchLateness(owner: Owner): { readonly maxMs: number; reset(): void } {
  const periodMs = 50
  let dueMs = performance.now() + periodMs
  const watched = {
    maxMs: 0,
    reset: () => {
      watched.maxMs = 0
    },
  }
  const timer = setInterval(() => {
    watched.maxMs = Math.max(watched.maxMs, performance.now() - dueMs)
    dueMs = performance.now() + periodMs
  }, periodMs)
  owner.after(() => clearInterval(timer))
  return watched
}

function nameOf({ store, resource, fault, at, kill }: FaultCell): string {
  return `${store}: ${fault} of ${resource}${at === 'all' ? ', at all masters' : ''}${kill ? ', another master killed' : ''}`
}

/** A row for each resource, a column for each fault. */
function tableOf(results: readonly CellResult[]): readonly string[] {
  const faults = [...new Set(results.map(({ cell }) => cell.fault))]
  const rowName = ({ store, resource, kill }: FaultCell): string => `${store} ${resource}${kill ? ' + kill' : ''}`
  const rows = [...new Set(results.map(({ cell }) => rowName(cell)))].sort()
  const width = Math.max(...rows.map((row) => row.length))
  const short = (fault: string): string => fault.slice(0, 14).padEnd(14)
  return [
    `${' '.repeat(width)}  ${faults.map(short).join(' ')}`,
    ...rows.map((row) => {
      const marks = faults.map((fault) => {
        const found = results.filter(({ cell }) => cell.fault === fault && rowName(cell) === row)
        if (found.length === 0) return short('')
        return short(found.some(({ problems }) => problems.length > 0) ? 'FAILS' : 'holds')
      })
      return `${row.padEnd(width)}  ${marks.join(' ')}`
    }),
  ]
}
