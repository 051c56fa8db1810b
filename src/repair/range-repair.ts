import { LookLoop } from '../kube/look-loop.ts'
import { type Cancel, sleep } from '../runtime/clock.ts'
import { messageOf } from '../runtime/message-of.ts'
import { together } from '../runtime/together.ts'
import type { Finding } from './finding.ts'
import type { RangeClaims } from './range-claims.ts'
import { RangeHoldings } from './range-holdings.ts'
import { RangeKeeper, settlingMs } from './range-keeper.ts'
import { planPass } from './range-plan.ts'
import type { RangeChange, RangeRegistry, StoredRange } from './registries/range-registry.ts'
import type { Repair, RepairContext } from './repair.ts'

/** How long the first pass waits for the watch of the ranges: what is seen before it stands must be seen again. */
const watchingMs = 1_000
/** Full passes are spread by up to this part of their interval. */
const spread = 0.1

export interface RangeRepairOptions extends RepairContext {
  readonly registry: RangeRegistry
  /** What Services hold, and of which ranges. */
  readonly claims: RangeClaims
  /** Rewrite a stored range that is another than the flag says. @default false */
  readonly adoptRange?: boolean | undefined
}

/**
 * Keeps bitmaps right: every number that a Service holds is taken, and what has leaked is freed.
 *
 * Changes of Services and of the bitmaps cause a look, which only adds. Full passes, at the start and after each interval, also free.
 * No pass frees what a Service in the making holds. kube-apiserver takes a number before it stores the Service and gives up a request after 60 s. A
 * number is freed when it was taken, without a break, for two minutes: the registry's watch tells of every state, and a write is a
 * compare-and-put on a state up to which it has. So its Service was stored a minute ago, and the list that is read before the write
 * has it; or there is none. Upstream: pkg/registry/core/service/{ipallocator,portallocator}/controller/repair.go.
 */
export class RangeRepair implements Repair {
  readonly #options: RangeRepairOptions
  readonly #source: string
  readonly #loop: LookLoop<'changed' | 'released'>
  readonly #holdings: RangeHoldings
  readonly #keepers: readonly RangeKeeper[]
  readonly #settled = Promise.withResolvers<void>()
  #cancelAgain: Cancel | undefined
  #failure: string | undefined

  constructor(options: RangeRepairOptions) {
    const { claims, adoptRange = false } = options
    this.#options = options
    this.#source = `${claims.kind}-repair`
    this.#holdings = new RangeHoldings(claims)
    this.#loop = new LookLoop({
      ...options,
      source: this.#source,
      spread,
      reconcile: (reasons, signal) => this.#reconcile(reasons, signal),
    })
    const holdings = this.#holdings
    this.#keepers = claims.ranges.map((_, index) => new RangeKeeper({ ...options, adoptRange, holdings, index }))
  }

  get settled(): Promise<void> {
    return this.#settled.promise
  }

  fault(): string | undefined {
    return this.#withheld()?.note ?? this.#failure
  }

  async run(signal: AbortSignal): Promise<void> {
    const { services } = this.#options
    const unsubscribe = services.subscribe((change) => {
      this.#holdings.apply(change)
      this.#loop.look('changed')
    })
    const watched = Promise.withResolvers<void>()
    try {
      await together(signal, [
        (ending) => this.#watch(watched.resolve, ending),
        async (ending) => {
          await Promise.race([watched.promise, sleep(this.#options.clock, watchingMs, ending)])
          await this.#loop.run(ending)
        },
      ])
    } finally {
      unsubscribe()
      this.#cancelAgain?.()
    }
  }

  /** Follows the registry; calls `onOpen` as soon as it is known how that fares. */
  #watch(onOpen: () => void, signal: AbortSignal): Promise<void> {
    const { registry, availability } = this.#options
    const source = `${this.#source} watch`
    return registry.watch({
      onChange: (change) => this.#heard(change),
      report(error) {
        if (error === undefined) availability.succeeded(source)
        else availability.failed(source, error)
        onOpen()
      },
      signal,
    })
  }

  #heard(change: RangeChange | undefined): void {
    const wasWithheld = this.#withheld() !== undefined
    if (change === undefined) for (const { memory } of this.#keepers) memory.interrupted()
    else this.#keepers.find(({ range }) => range.name === change.name)?.memory.hearTold(change.stored)
    // What could not be looked at until now has not been seen by any pass.
    this.#loop.look(wasWithheld && this.#withheld() === undefined ? 'released' : 'changed')
  }

  async #reconcile(reasons: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    const { services, reporter } = this.#options
    const full = reasons.has('start') || reasons.has('interval')
    try {
      await services.whenSynced(signal)
      if (full || reasons.has('released')) await this.#pass(signal, { counts: full })
      else await this.#look(signal)
      this.#failure = undefined
      this.#lookAgain()
    } catch (error) {
      signal.throwIfAborted()
      this.#failure = messageOf(error)
      reporter.metrics.failed()
      throw error
    }
  }

  #lookAgain(): void {
    const { clock } = this.#options
    const due = this.#keepers.map(({ againMs }) => againMs).filter((ms) => ms !== undefined)
    this.#cancelAgain?.()
    this.#cancelAgain = undefined
    if (due.length > 0) this.#cancelAgain = clock.schedule(Math.min(...due), () => this.#loop.look('changed'))
  }

  /** Adds what is missing as far as the watches tell; most looks find nothing, and ask nothing. */
  async #look(signal: AbortSignal): Promise<void> {
    const { registry, permit, reporter, clock } = this.#options
    if (!registry.writable) return
    await sleep(clock, settlingMs, signal)
    for (const keeper of this.#keepers) {
      if (keeper.memory.doubtful) await keeper.read(signal)
      // Where a server repairs, what is wrong is told in full passes.
      if (permit.mode === 'repair') {
        if (keeper.damaged) await keeper.mend(signal)
        await keeper.giveBack(signal)
      }
      const { withheld } = keeper.memory
      if (withheld !== undefined) reporter.tell([withheld], { full: false })
    }
  }

  async #pass(signal: AbortSignal, { counts }: { readonly counts: boolean }): Promise<void> {
    const { registry, claims, reporter } = this.#options
    const left: Finding[] = []
    if (registry.writable) {
      for (const keeper of this.#keepers) {
        const stored: StoredRange = await keeper.read(signal)
        left.push(...(await keeper.mend(signal, stored)))
        if (counts) left.push(...(await keeper.free(signal, stored)))
      }
    }
    const { metrics } = reporter
    if (!registry.writable) {
      for (const [index, { text, size }] of claims.ranges.entries())
        metrics.usage(text, { allocated: this.#holdings.held(index).count, size })
    }
    const { findings } = this.#plan()
    const withheld = this.#withheld()
    // Who is in no range is not known while it is not known which range is meant.
    const told = findings.filter(
      ({ type }) => type !== 'repair' && type !== 'leak' && !(type === 'outOfRange' && withheld !== undefined),
    )
    reporter.tell([...told, ...left], { full: true })
    if (counts) for (const keeper of this.#keepers) keeper.seen()
    if (withheld === undefined) metrics.passed()
    // No waiting mends a range that is left alone: that it is so has been told, and is what ails this repair from now on.
    this.#settled.resolve()
  }

  /** What stands, from the copies that are here. */
  #plan() {
    const { claims, services, clock } = this.#options
    return planPass({
      claims,
      services: services.store.list(),
      readings: this.#keepers.map(({ memory }) => memory.reading),
      ledgers: this.#keepers.map(({ memory }) => memory.ledger),
      nowMs: clock.monotonicMs(),
      repairing: true,
    })
  }

  #withheld(): Finding | undefined {
    return this.#keepers.map(({ memory }) => memory.withheld).find((finding) => finding !== undefined)
  }
}
