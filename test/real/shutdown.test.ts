import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Service } from '../../src/kube/resources.ts'
import { eventsFor } from '../peers/allocations.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import { auditIn, auditUser, logOf } from '../peers/audit-lines.ts'
import { listedIn, listedInSlices, type Transition, watchState, whenRight } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { type Program, runToEnd, startMaster } from '../peers/program.ts'
import { ReusedClusters } from '../peers/reused-clusters.ts'
import { untilPasses } from '../peers/until.ts'

const clusters = new ReusedClusters({ kind: 'bare' })

const ended = { code: 0, signal: null }
const shortLease = ['--lease-ttl=3s', '--reconcile-interval=2s']
const boundMs = 30_000

interface Fleet {
  readonly owner: Owner
  readonly server: Apiserver
  readonly masters: readonly Program[]
  readonly history: readonly Transition[]
  /** Waits until exactly these are listed. */
  whenListed(...addresses: readonly string[]): Promise<void>
}

/** Masters at these addresses beside one server, all listed; each Endpoints and slice is in `history`. */
async function startFleet(t: TestContext, addresses: readonly string[], flags: readonly string[]): Promise<Fleet> {
  const owner = openOwner(t)
  const { server } = await clusters.take(owner)
  const watched = await watchState(owner, server.api)
  const masters = await Promise.all(addresses.map((address) => startMaster(owner, server, { address, flags })))
  const whenListed = async (...listed: readonly string[]): Promise<void> => {
    await watched.whenRight({ addresses: listed, port: server.port }, boundMs)
  }
  await whenListed(...addresses)
  return { owner, server, masters, history: watched.history, whenListed }
}

/** The transitions after the first `since` in which Endpoints or a slice does not list the address. */
function without(address: string, history: readonly Transition[], since: number): readonly Transition[] {
  return history
    .slice(since)
    .filter(
      ({ state }) => ![listedIn(state.endpoints), listedInSlices(state.slices)].every((list) => list.includes(address)),
    )
}

describe('shutdown of a master', () => {
  after(() => clusters.close())

  test('with --on-shutdown always the next write removes the address, and the exit code is 0', async (t) => {
    const { masters, history, whenListed } = await startFleet(t, ['192.0.2.1'], ['--on-shutdown=always'])
    const since = history.length
    assert.deepEqual(await masters[0]?.stop(), ended)
    await whenListed()
    const lists = history.slice(since).map(({ state }) => listedIn(state.endpoints))
    assert.deepEqual(
      lists.filter((list) => list.length > 0).map((list) => list.join()),
      [],
      'no write of the shutdown still lists the address',
    )
  })

  test('by default the address of the only master stays listed when it stops and restarts', async (t) => {
    const { owner, server, masters, history, whenListed } = await startFleet(t, ['192.0.2.1'], shortLease)
    const since = history.length
    assert.deepEqual(await masters[0]?.stop(), ended)
    await sleep(1000)
    const again = await startMaster(owner, server, { address: '192.0.2.1', flags: shortLease })
    await sleep(8000)
    again.assertRunning()
    await whenListed('192.0.2.1')
    assert.deepEqual(await again.stop(), ended)
    await sleep(4000)
    await whenListed('192.0.2.1')
    assert.deepEqual(without('192.0.2.1', history, since), [])
  })

  test('by default one of two masters withdraws its address when it stops, and the list is never empty', async (t) => {
    const { masters, history, whenListed } = await startFleet(t, ['192.0.2.1', '192.0.2.2'], [])
    const since = history.length
    assert.deepEqual(await masters[0]?.stop(), ended)
    await whenListed('192.0.2.2')
    assert.deepEqual(without('192.0.2.2', history, since), [])
  })

  test('a restart of one of two masters with --on-shutdown keep within the TTL never removes its address', async (t) => {
    const flags = ['--on-shutdown=keep', '--lease-ttl=12s', '--reconcile-interval=2s']
    const { owner, server, masters, history } = await startFleet(t, ['192.0.2.1', '192.0.2.2'], flags)
    const since = history.length
    assert.deepEqual(await masters[0]?.stop(), ended)
    const again = await startMaster(owner, server, { address: '192.0.2.1', flags })
    await sleep(16_000)
    again.assertRunning()
    assert.deepEqual(without('192.0.2.1', history, since), [])
  })

  test('with --on-shutdown keep and no successor the address is removed no sooner than its lease can expire', async (t) => {
    const flags = ['--on-shutdown=keep', ...shortLease]
    const { masters, history, whenListed } = await startFleet(t, ['192.0.2.1', '192.0.2.2'], flags)
    const since = history.length
    const stoppedAt = performance.now()
    assert.deepEqual(await masters[0]?.stop(), ended)
    await whenListed('192.0.2.2')
    const removedAt = without('192.0.2.1', history, since)[0]?.atMs ?? 0
    // The last renewal is at most one interval old when the signal comes: at least a second of the lease is left.
    assert.ok(removedAt - stoppedAt > 800, `gone ${Math.round(removedAt - stoppedAt)} ms after the signal`)
  })

  test('withdraw removes the address of a running master, which does not restore it, and the audit trail has every write', async (t) => {
    const { owner, server, masters, history, whenListed } = await startFleet(t, ['192.0.2.1', '192.0.2.2'], shortLease)
    const since = history.length
    const withdrawal = await runToEnd(owner, [
      'withdraw',
      `--kubeconfig=${server.kubeconfig}`,
      '--advertise-address=192.0.2.1',
      `--secure-port=${server.port}`,
      ...shortLease,
    ])
    assert.equal(withdrawal.code, 0, withdrawal.output)
    const lines = [withdrawal.output, ...masters.map(logOf)].flatMap(auditIn)
    assert.deepEqual(
      lines
        .filter(({ verb }) => verb === 'withdraw')
        .map(({ objectRef, outcome, user }) => [objectRef.name, outcome, user]),
      [['192.0.2.1', 'written', auditUser(hostname())]],
    )
    await whenListed('192.0.2.2')
    const withdrawnAt = history.length
    const stored: Readonly<Record<string, (state: Transition['state']) => readonly (Service | undefined)[]>> = {
      services: ({ service }) => [service],
      endpoints: (state) => [state.endpoints],
      endpointslices: ({ slices }) => slices,
    }
    const assertAudited = (): void => {
      const lines = [withdrawal.output, ...masters.map(logOf)].flatMap(auditIn)
      for (const [resource, objectsOf] of Object.entries(stored)) {
        const audited = lines.filter(({ objectRef }) => objectRef.resource === resource)
        const seen = history.flatMap(({ state }) =>
          objectsOf(state).flatMap((each) => each?.metadata?.resourceVersion ?? []),
        )
        assert.deepEqual(
          audited.map(({ objectRef }) => objectRef.resourceVersion).toSorted(),
          [...new Set(seen)].toSorted(),
          `each write of ${resource} in the history of the server is in the audit trail of the fleet once`,
        )
      }
    }
    // The server reports a write before the log line about it arrives here.
    await untilPasses('the audit trail', assertAudited, { withinMs: 10_000 })
    assert.equal((await eventsFor(server.api, 'MasterWithdrawn')).length, 1)
    const state = await whenRight(server.api, { addresses: ['192.0.2.2'], port: server.port }, 0)
    assert.deepEqual(listedIn(state.endpoints), ['192.0.2.2'])
    // Several reconciliations of both masters.
    await sleep(8000)
    await whenListed('192.0.2.2')
    const lists = history
      .slice(withdrawnAt)
      .flatMap(({ state }) => [listedIn(state.endpoints), listedInSlices(state.slices)])
    assert.deepEqual(
      lists.filter((list) => list.includes('192.0.2.1')),
      [],
      'no later write lists the withdrawn address',
    )
    assert.deepEqual(without('192.0.2.2', history, since), [])
    await untilPasses('the audit trail', assertAudited, { withinMs: 10_000 })
    for (const master of masters) master.assertRunning()
  })

  test('a second signal ends a shutdown that waits', async (t) => {
    const { masters } = await startFleet(t, ['192.0.2.1'], ['--shutdown-delay-duration=1m'])
    const [master] = masters
    assert.ok(master !== undefined)
    master.process.signal('SIGTERM')
    await sleep(1500)
    master.assertRunning()
    const startedAt = performance.now()
    master.process.signal('SIGTERM')
    await master.process.exited
    const tookMs = performance.now() - startedAt
    assert.ok(tookMs < 20_000, `${Math.round(tookMs)} ms`)
  })

  test('signals right after the first, as `timeout` sends them, count as one: the address is withdrawn', async (t) => {
    const { masters, whenListed } = await startFleet(t, ['192.0.2.1', '192.0.2.2'], [])
    const [first, second] = masters
    assert.ok(first !== undefined && second !== undefined)
    for (const signal of ['SIGTERM', 'SIGTERM', 'SIGINT'] as const) first.process.signal(signal)
    await first.process.exited
    assert.deepEqual(first.process.exit, ended)
    await whenListed('192.0.2.2')
    second.assertRunning()
  })

  test('a withdraw that finds no lease exits with 1 and reports what it searched for, and where', async (t) => {
    const { owner, server, whenListed } = await startFleet(t, ['192.0.2.1', '192.0.2.2'], [])
    const withdraw = (address: string) =>
      runToEnd(owner, [
        'withdraw',
        `--kubeconfig=${server.kubeconfig}`,
        `--advertise-address=${address}`,
        `--readyz-url=${server.url}/readyz`,
        '--hostname-override=host-7',
      ])
    const nothing = await withdraw('192.0.2.1')
    assert.equal(nothing.code, 1, nothing.output)
    assert.match(
      nothing.output,
      /^nothing withdrawn: no lease of host host-7 for 192\.0\.2\.1 among the Leases in kube-system; it is held by \S+ \(--hostname-override selects the host\)$/m,
    )
    await whenListed('192.0.2.1', '192.0.2.2')
  })

  test('the address is withdrawn before the shutdown delay', async (t) => {
    const { masters, whenListed } = await startFleet(t, ['192.0.2.1', '192.0.2.2'], ['--shutdown-delay-duration=8s'])
    const [master] = masters
    assert.ok(master !== undefined)
    const startedAt = performance.now()
    const exited = master.stop({ graceMs: 60_000 })
    await whenListed('192.0.2.2')
    master.assertRunning()
    assert.deepEqual(await exited, ended)
    assert.ok(performance.now() - startedAt > 7500)
  })

  test('a shutdown beside a hanging server ends in time, within 15 s for an interval of 2 s', async (t) => {
    const { server, masters } = await startFleet(t, ['192.0.2.1'], shortLease)
    server.pause()
    const startedAt = performance.now()
    const exit = await masters[0]?.stop({ graceMs: 60_000 })
    server.resume()
    assert.equal(exit?.signal, null)
    assert.ok(performance.now() - startedAt < 15_000, 'twice the interval of two seconds, with a wide margin')
  })

  test('SIGINT ends a master like SIGTERM', async (t) => {
    const { masters, whenListed } = await startFleet(t, ['192.0.2.1', '192.0.2.2'], [])
    assert.deepEqual(await masters[1]?.stop({ signal: 'SIGINT' }), ended)
    await whenListed('192.0.2.1')
  })
})
