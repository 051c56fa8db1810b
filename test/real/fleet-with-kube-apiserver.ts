import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EtcdKv } from '../../src/etcd/kv.ts'
import { openClient } from '../etcd/etcd-client.ts'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import type { Etcd } from '../peers/etcd.ts'
import { listedIn, listedInSlices, type Transition, watchState } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import type { Exit } from '../peers/process.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'

/** The values of kube-apiserver, which has a flag for neither. */
const ttlMs = 15_000
const leases = '/registry/masterleases/'
const ours = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
const foreign = '192.0.2.9'
/** Far longer than anything takes, if no lease has to end. */
const soonMs = 60_000

export interface FleetPlan {
  /** An etcd, or a kine. */
  readonly startStore: (owner: Owner) => Promise<Pick<Etcd, 'url'>>
  /** How long nothing may change. */
  readonly steadyMs: number
  /** Also stops the kube-apiserver gracefully, and starts it again. */
  readonly restart?: boolean
}

/**
 * Three processes of this program and a real kube-apiserver with its own lease reconciler share one store. Every
 * version of Endpoints and slice is judged, from before the first one exists.
 */
export async function fleetWithKubeApiserver(
  t: TestContext,
  { startStore, steadyMs, restart = false }: FleetPlan,
): Promise<void> {
  const owner = openOwner(t)
  const store = await startStore(owner)
  // Another API server of the cluster, to read through: it stays when the others are killed.
  const home = await startApiserver(owner, { kind: 'bare', etcd: store })
  const { history, whenRight } = await watchState(owner, home.api)
  const renewals = followRenewals(t, openClient(t, [store.url]))
  const stock = await startApiserver(owner, { kind: 'stock', etcd: store, advertiseAddress: foreign })
  const flags = [`--etcd-servers=${store.url}`]
  const masters = await Promise.all(
    ours.map((address) => startMaster(owner, home, { address, securePort: stock.port, flags })),
  )
  const [first, second, third] = masters as [Program, Program, Program]
  const whenListed = async (...addresses: readonly string[]): Promise<void> => {
    await whenRight({ addresses, port: stock.port }, soonMs)
  }
  await whenListed(...ours, foreign)
  await sleep(2_000)

  const steadyFrom = history.length
  const [before] = history.slice(-1)
  await sleep(steadyMs)
  assert.deepEqual(history.slice(steadyFrom), [], 'nothing is written while everybody lives')
  assert.deepEqual(listedIn(before?.state.endpoints), [...ours, foreign])
  assert.deepEqual(listedInSlices(before?.state.slices ?? []), [...ours, foreign])
  for (const master of masters) assert.deepEqual(complaintsOf(master), [])
  assert.deepEqual(await warningsIn(home), [])

  if (restart) {
    await leavesWithTheNextWrite(history, ours, whenListed, () => stock.process.stop())
    await stock.start()
    await whenListed(...ours, foreign)
  }
  const rest = ['192.0.2.1', '192.0.2.3', foreign]
  await leavesWithTheNextWrite(history, rest, whenListed, () => second.stop())

  const kills = [
    { address: '192.0.2.3', kill: () => third.kill() },
    { address: foreign, kill: () => stock.kill() },
  ]
  const removals = kills.map(async ({ address, kill }) => {
    const renewedMs = await renewals.awhileAgo(address)
    const killedMs = performance.now()
    await kill()
    const removedMs = await untilPasses(`${address} is off the list`, () => removalOf(address, history), {
      withinMs: soonMs,
    })
    const lateMs = Math.round(removedMs - renewedMs - ttlMs)
    t.diagnostic(`${address} was off the list ${lateMs} ms after the end of its lease`)
    assert.ok(lateMs > -1_000, `${address} went ${-lateMs} ms before its lease ended`)
    assert.ok(
      removedMs - killedMs < ttlMs + 1_000,
      `${address} was listed for ${removedMs - killedMs} ms after its death`,
    )
  })
  await Promise.all(removals)
  await whenListed('192.0.2.1')

  first.assertRunning()
  for (const master of masters) assert.deepEqual(complaintsOf(master), [])
  const listed = history.map(({ state }) => state.endpoints).filter((endpoints) => endpoints !== undefined)
  assert.ok(listed.every((endpoints) => listedIn(endpoints).length > 0, 'never empty'))
}

/**
 * Asserts that a process that is asked to stop exits with 0, and that the first write after that removes its address.
 */
async function leavesWithTheNextWrite(
  history: readonly Transition[],
  rest: readonly string[],
  whenListed: (...addresses: readonly string[]) => Promise<void>,
  stop: () => Promise<Exit>,
): Promise<void> {
  const from = history.length
  assert.deepEqual(await stop(), { code: 0, signal: null })
  await whenListed(...rest)
  const listed = history.slice(from).map(({ state }) => listedIn(state.endpoints))
  assert.ok(listed.length > 0)
  for (const addresses of listed) assert.deepEqual(addresses, rest)
}

/** When each lease was last renewed, on the clock of `performance.now()`. */
function followRenewals(t: TestContext, etcd: EtcdKv): { awhileAgo(address: string): Promise<number> } {
  const renewedMs = new Map<string, number>()
  const end = new AbortController()
  const watching = etcd.watch(leases, {
    onChange: (changes = []) => {
      for (const { type, key } of changes) {
        if (type !== 'deleted') renewedMs.set(key.slice(leases.length), performance.now())
      }
    },
    report: () => {},
    signal: end.signal,
  })
  t.after(async () => {
    end.abort()
    await watching
  })
  return {
    /**
     * Waits until part of the lease's time has passed, but no other renewal is near. Resolves with the time of the last
     * renewal.
     */
    awhileAgo: (address) =>
      untilPasses(
        `the lease of ${address} to be some seconds old`,
        () => {
          const ms = renewedMs.get(address) ?? Number.NaN
          const ageMs = performance.now() - ms
          assert.ok(ageMs > 3_000 && ageMs < 7_000, `${ageMs} ms old`)
          return ms
        },
        { withinMs: soonMs },
      ),
  }
}

/** The time of the first state in which no object lists the address any longer. */
function removalOf(address: string, history: readonly Transition[]): number {
  const isListed = ({ state }: Transition): boolean =>
    listedIn(state.endpoints).includes(address) || listedInSlices(state.slices).includes(address)
  const removal = history[history.findLastIndex(isListed) + 1]
  assert.ok(removal, 'still listed')
  return removal.atMs
}

/**
 * The warnings and errors of a master, without those that the API server sent: it warns that Endpoints are deprecated.
 */
function complaintsOf(master: Program): readonly string[] {
  return master.log
    .filter(
      ({ level, message }) => (level === 'warn' || level === 'error') && message !== 'the API server sent a warning',
    )
    .map((line) => JSON.stringify(line))
}

async function warningsIn(server: Apiserver): Promise<readonly string[]> {
  interface Event {
    readonly type: string
    readonly reason: string
    readonly note: string
    readonly reportingController: string
  }
  const { items } = await server.api.get<{ readonly items: readonly Event[] }>(
    '/apis/events.k8s.io/v1/namespaces/default/events',
  )
  // A kube-apiserver's own repair warns of what it finds when it starts.
  return items
    .filter(({ type, reportingController }) => type === 'Warning' && reportingController === 'apiserver-bootstrap')
    .map(({ reason, note }) => `${reason}: ${note}`)
}
