import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Apiserver, startApiserver } from '../../peers/apiserver.ts'
import type { Etcd } from '../../peers/etcd.ts'
import { listedIn, whenRight } from '../../peers/kubernetes-service.ts'
import type { Owner } from '../../peers/owner.ts'
import { type Program, startMaster } from '../../peers/program.ts'
import { untilPasses } from '../../peers/until.ts'
import type { Moment } from './differences.ts'
import { type ListState, own, ownPort, type Place, readListState, writeLeases, writeListState } from './list-state.ts'
import { type ModeName, modes } from './modes.ts'
import { listing, type Start } from './starts.ts'

const withinMs = 60_000
const intervalMs = 1000

/** A kube-apiserver with its own reconciler, below its own prefix of etcd. */
export class Upstream {
  readonly #place: Place
  readonly #kind: 'eager' | 'stock'
  readonly #server: Apiserver
  #leases: readonly string[] = []

  private constructor(place: Place, kind: 'eager' | 'stock', server: Apiserver) {
    this.#place = place
    this.#kind = kind
    this.#server = server
  }

  static async start(owner: Owner, etcd: Etcd, mode: ModeName, kind: 'eager' | 'stock'): Promise<Upstream> {
    const prefix = `/${kind}/${mode.replace(' ', '-')}`
    const flags = modes[mode]
    const server = await startApiserver(owner, { kind, etcd, etcdPrefix: prefix, advertiseAddress: own, flags })
    const { api, port } = server
    await whenRight(api, { addresses: [own], port }, withinMs)
    return new Upstream({ etcd, prefix, api, port }, kind, server)
  }

  /**
   * Returns what it makes of a start: the state after enough reconciliations, which it then leaves unchanged. With the
   * moment `at start`, the start is written after the server was killed.
   */
  async endOf(start: Start, moment: Moment): Promise<ListState> {
    this.#leases = await begin(this.#place, start, this.#leases)
    if (moment === 'at start') await this.#server.kill()
    await writeListState(this.#place, start)
    if (moment === 'at start') await this.#server.start()
    // One reconciliation may have begun before the write; the next one acts on it.
    await this.#waitForReconciliations(this.#kind === 'stock' ? 2 : 3)
    const end = await readListState(this.#place)
    if (this.#kind === 'stock') return end
    await this.#waitForReconciliations(2)
    assert.deepEqual(await readListState(this.#place), end, 'kube-apiserver does not stop writing')
    return end
  }

  async #waitForReconciliations(more: number): Promise<void> {
    const before = await this.#reconciliations()
    await untilPasses(
      `${more} reconciliations of kube-apiserver`,
      async () => assert.ok((await this.#reconciliations()) >= before + more),
      // Rarely, because its metrics are large: writing them takes longer than a reconciliation.
      { withinMs, everyMs: 250 },
    )
  }

  /** Each reconciliation begins with one GET of Endpoints, and no other client sends one. */
  async #reconciliations(): Promise<number> {
    const metrics = await this.#place.api.get<string>('/metrics')
    const lines = metrics
      .split('\n')
      .filter((line) => /^apiserver_request_total\{.*resource="endpoints".*"GET"/.test(line))
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
  }
}

/** This program with the same reconciler, beside a server that nobody else bootstraps, below its own prefix of etcd. */
export class Ours {
  readonly #place: Place
  readonly #launch: () => Promise<Program>
  #program: Program
  #leases: readonly string[] = []

  private constructor(place: Place, launch: () => Promise<Program>, program: Program) {
    this.#place = place
    this.#launch = launch
    this.#program = program
  }

  static async start(owner: Owner, etcd: Etcd, mode: ModeName): Promise<Ours> {
    const prefix = `/ours/${mode.replace(' ', '-')}`
    const server = await startApiserver(owner, { kind: 'bare', etcd, etcdPrefix: prefix })
    const launch = (): Promise<Program> =>
      startMaster(owner, server, {
        address: own,
        securePort: ownPort,
        flags: [
          ...modes[mode],
          `--etcd-servers=${etcd.url}`,
          `--etcd-prefix=${prefix}`,
          '--lease-ttl=2s',
          `--reconcile-interval=${intervalMs / 1000}s`,
        ],
      })
    const program = await launch()
    await whenRight(server.api, { addresses: [own], port: ownPort }, withinMs)
    return new Ours({ etcd, prefix, api: server.api, port: ownPort }, launch, program)
  }

  /**
   * Writes a start, which the program finds at `moment`, and waits until the program has changed nothing for longer
   * than an interval.
   */
  async settle(start: Start, moment: Moment): Promise<void> {
    this.#leases = await begin(this.#place, start, this.#leases)
    if (moment === 'at start') await this.#program.kill()
    await writeListState(this.#place, start)
    if (moment === 'at start') {
      this.#program = await this.#launch()
      await untilReady(this.#program)
    }
    let seen = await readListState(this.#place)
    for (let quietMs = 0; quietMs < 1.2 * intervalMs; quietMs += 100) {
      await sleep(100)
      const now = await readListState(this.#place)
      if (JSON.stringify(now) !== JSON.stringify(seen)) quietMs = 0
      seen = now
    }
  }

  /** Asserts that the program has reached this state. On a busy machine it may need more time. */
  async endsWith(expected: ListState): Promise<void> {
    const check = async (): Promise<void> => assert.deepEqual(await readListState(this.#place), expected)
    try {
      await untilPasses('the end', check, { withinMs: 10_000, everyMs: 500 })
    } catch {
      // Now with the whole difference in the message.
      await check()
    }
    this.#program.assertRunning()
  }
}

/** Waits until the program itself reports that it has corrected everything. */
async function untilReady(program: Program): Promise<void> {
  const { health } = await program.waitForLog(/"message":"started"/, withinMs)
  await untilPasses(
    'the program to be ready',
    async () => {
      const response = await fetch(`http://${health}/readyz`, { headers: { connection: 'close' } })
      assert.equal(response.status, 200, await response.text())
    },
    { withinMs },
  )
}

/**
 * All reconcilers must know the live masters before the damage: writes the leases first, and waits until the list shows
 * them.
 */
async function begin(place: Place, start: Start, leasesBefore: readonly string[]): Promise<readonly string[]> {
  const leases = start.leases ?? []
  if (leases.join() !== leasesBefore.join()) {
    await writeLeases(place, leases)
    await writeListState(place, listing(own))
    const expected = [own, ...leases].sort()
    await untilPasses(
      `${expected.join(', ')} in the list`,
      async () => assert.deepEqual(await listed(place), expected),
      { withinMs },
    )
  }
  return leases
}

async function listed(place: Place): Promise<readonly string[]> {
  return listedIn((await readListState(place)).endpoints)
}
