import assert from 'node:assert/strict'
import type { Holder, HolderState, MasterLeases } from '../kubernetes-service/leases/master-leases.ts'

/** The store of one case of the contract: empty at first, and used by no other case. */
export interface LeaseWorld {
  readonly ttlMs: number
  /** Opens the client of another master. */
  open(): MasterLeases
  /** Lets this many milliseconds pass, for the store and its clients. */
  pass(ms: number): Promise<void>
  /** From now on the store refuses to delete expired leases. Left out if the store itself expires leases. */
  refuseDeletes?(): void
  /**
   * Replaces the stored record of this master, which has a lease, by a text that is no valid record. The lease lives
   * on, and no client takes part. Without this the contract does not check what unreadable records do.
   */
  spoil?(holder: Holder, text: string): Promise<void>
  /** Closes everything that the world has opened. Called after all watches have ended. */
  close(): Promise<void>
}

/** The signal of calls that are not aborted. */
export const signal: AbortSignal = new AbortController().signal

/** Opens clients. Each client watches the leases, and lists them at each change. */
export class WatchedStore {
  readonly world: LeaseWorld
  readonly #end = new AbortController()
  readonly #watches: Promise<void>[] = []
  readonly #changes = new Map<MasterLeases, number>()

  constructor(world: LeaseWorld) {
    this.world = world
  }

  open(): MasterLeases {
    const leases = this.world.open()
    const onChange = (): void => {
      this.#changes.set(leases, this.changesOf(leases) + 1)
      leases.list(this.#end.signal).catch(() => {})
    }
    this.#watches.push(leases.watch(onChange, this.#end.signal))
    return leases
  }

  changesOf(leases: MasterLeases): number {
    return this.#changes.get(leases) ?? 0
  }

  /** Gives all watches time to catch up: a tenth of a TTL, at most a second. */
  settle(): Promise<void> {
    return this.world.pass(Math.min(this.world.ttlMs / 10, 1_000))
  }

  /** Waits until the watch of `leases` has reported more than `before` changes in all. Rejects after half a TTL. */
  async untilReported(leases: MasterLeases, before: number, what = 'a change'): Promise<void> {
    const { ttlMs } = this.world
    const everyMs = Math.min(ttlMs / 20, 500)
    for (let passedMs = 0; this.changesOf(leases) <= before; passedMs += everyMs) {
      assert.ok(passedMs < ttlMs / 2, `${what} is not reported`)
      await this.world.pass(everyMs)
    }
  }

  /**
   * Waits until all leases have expired. `agoMs`: the age of the last renewal. Rejects if a lease is still listed half
   * a TTL after its end.
   */
  async untilNobodyIsListed(leases: MasterLeases, agoMs: number): Promise<void> {
    const { ttlMs } = this.world
    for (let passedMs = agoMs; ; passedMs += ttlMs / 20) {
      const listed = await addressesIn(leases)
      if (listed.length === 0) return
      assert.ok(passedMs < 1.5 * ttlMs, `${listed.join()} is listed half a TTL after the end of its lease`)
      await this.world.pass(ttlMs / 20)
    }
  }

  async end(): Promise<void> {
    this.#end.abort(new Error('the case is over'))
    await this.world.pass(0)
    const isResolved = 'a watch resolves when its signal is aborted'
    await assert.doesNotReject(Promise.all(this.#watches), isResolved)
  }
}

/** The record of a ready master at this address, in its first life. `more` overrides fields. */
export function holder(address: string, more: Partial<Holder> = {}): Holder {
  return {
    instanceId: `${address} first`,
    host: 'host',
    startedAt: '2026-01-01T00:00:00Z',
    addresses: [address],
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
    ...more,
  }
}

export async function addressesIn(leases: MasterLeases): Promise<string[]> {
  return (await leases.list(signal)).map(({ address }) => address).sort()
}

export async function holdersIn(leases: MasterLeases): Promise<(Holder | undefined)[]> {
  return (await leases.list(signal)).map((lease) => lease.holder)
}

export async function statesIn(leases: MasterLeases): Promise<(readonly [string, HolderState | undefined])[]> {
  return (await leases.list(signal)).map((lease) => [lease.address, lease.holder?.state])
}

/**
 * Aborts an attempt after `turns - 1` microtasks. Rejects as the attempt does, but resolves if the attempt rejects with
 * the reason of its signal.
 */
export async function giveUp(store: WatchedStore, turns: number, attempt: (signal: AbortSignal) => Promise<void>) {
  const controller = new AbortController()
  const reason = new Error('out of time')
  const done = attempt(controller.signal)
  done.catch(() => {})
  for (let turn = 1; turn < turns; turn++) await Promise.resolve()
  controller.abort(reason)
  await store.world.pass(0)
  await done.catch((error: unknown) => {
    if (error !== reason) throw error
  })
}
