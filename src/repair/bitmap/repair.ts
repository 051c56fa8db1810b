import { ReconcileLoop } from '../../kube/reconcile-loop.ts'
import type { Service } from '../../kube/resources.ts'
import type { Change } from '../../kube/store.ts'
import { type Cancel, sleep } from '../../runtime/clock.ts'
import { messageOf } from '../../runtime/errors.ts'
import { together } from '../../runtime/signals.ts'
import { inSlices } from '../../runtime/steps.ts'
import type { RangeChange, RangeRegistry } from '../registries/range-registry.ts'
import type { Repair, RepairContext } from '../repair.ts'
import type { Finding } from '../reporter.ts'
import type { RangeClaims } from './claims.ts'
import { RangeHoldings } from './holdings.ts'
import { passFindings } from './plan.ts'
import { RangeWriter, SETTLING_MS } from './range-writer.ts'

/**
 * The first pass waits at most this long, in milliseconds, for the watch of the ranges: only the watch can prove a
 * leak.
 */
const WATCHING_MS = 1_000
/** The interval between two full passes is longer or shorter by a random share of up to this much. */
const SPREAD = 0.1

export interface RangeRepairOptions extends RepairContext {
  readonly registry: RangeRegistry
  readonly claims: RangeClaims
  /** Whether to rewrite a stored range that differs from the flag. @default false */
  readonly adoptRange?: boolean | undefined
  /**
   * Whether the repair of IPAddresses runs beside this repair. If so, this repair reports no Services that are invalid,
   * out of range or duplicate: the other repair knows all ServiceCIDRs, not only the ranges of the flag. @default false
   */
  readonly isBesideIpAddresses?: (() => boolean) | undefined
}

const REPORTED_BESIDE: readonly Finding['type'][] = ['outOfRange', 'invalid', 'duplicate']

/**
 * Repairs bitmaps. A change of a Service or of a bitmap causes a check, which adds missing numbers but frees no leaks.
 * Full passes, at the start and after each interval, also free leaks; see {@link RangeWriter.free}. Upstream:
 * pkg/registry/core/service/{ipallocator,portallocator}/controller/repair.go.
 */
export class RangeRepair implements Repair {
  readonly #options: RangeRepairOptions
  readonly #source: string
  readonly #loop: ReconcileLoop<'changed' | 'released'>
  readonly #holdings: RangeHoldings
  readonly #writers: readonly RangeWriter[]
  /** Why ranges are withheld, as last reported. */
  readonly #reportedWithheld = new Map<RangeWriter, Finding>()
  #cancelAgain: Cancel | undefined
  #failure: string | undefined

  constructor(options: RangeRepairOptions) {
    const { claims, adoptRange = false } = options
    this.#options = options
    this.#source = `${claims.kind}-repair`
    this.#holdings = new RangeHoldings(claims)
    this.#loop = new ReconcileLoop({
      ...options,
      source: this.#source,
      spread: SPREAD,
      reconcile: (reasons, signal) => this.#reconcile(reasons, signal),
    })
    const holdings = this.#holdings
    this.#writers = claims.ranges.map((_, index) => new RangeWriter({ ...options, adoptRange, holdings, index }))
  }

  get settled(): Promise<void> {
    return this.#loop.settled
  }

  fault(): string | undefined {
    return this.#withheld()?.note ?? this.#failure
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, services, reporter } = this.#options
    const present = services.store.snapshot()
    // Changes that arrive while `present` is counted; undefined once they have been applied.
    let later: Change<Service>[] | undefined = []
    const unsubscribe = services.subscribe(
      (change) => {
        if (later === undefined) this.#holdings.apply(change)
        else later.push(change)
        this.#loop.trigger('changed')
      },
      { onlyChanges: true },
    )
    const watched = Promise.withResolvers<void>()
    try {
      await together(signal, [
        (ending) => this.#watch(watched.resolve, ending),
        async (ending) => {
          await inSlices(clock, this.#holdings.count(present), ending)
          for (const change of later ?? []) this.#holdings.apply(change)
          later = undefined
          await Promise.race([watched.promise, sleep(clock, WATCHING_MS, ending)])
          await this.#loop.run(ending)
        },
      ])
    } finally {
      unsubscribe()
      this.#cancelAgain?.()
      for (const { range } of this.#writers) reporter.metrics.withheld(range.name, undefined)
      reporter.metrics.ended(this)
    }
  }

  /** Watches the registry. Calls `onOpen` when the watch opens, reopens or fails. */
  #watch(onOpen: () => void, signal: AbortSignal): Promise<void> {
    const { registry, availability } = this.#options
    const source = `${this.#source} watch`
    const watching = registry.watch({
      onChange: (change) => this.#changed(change),
      report(error) {
        if (error === undefined) availability.succeeded(source)
        else availability.failed(source, error)
        onOpen()
      },
      signal,
    })
    return watching.finally(() => availability.forget(source))
  }

  #changed(change: RangeChange | undefined): void {
    const wasWithheld = this.#withheld() !== undefined
    if (change === undefined) for (const { state } of this.#writers) state.interrupted()
    else this.#writers.find(({ range }) => range.name === change.name)?.state.watched(change.stored)
    // Passes do not write a withheld range, so the range needs a pass as soon as it is no longer withheld.
    this.#loop.trigger(wasWithheld && this.#withheld() === undefined ? 'released' : 'changed')
  }

  async #reconcile(reasons: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    const { services, reporter } = this.#options
    const full = reasons.has('start') || reasons.has('interval')
    try {
      await services.whenSynced(signal)
      if (full || reasons.has('released')) await this.#pass(signal, { counts: full })
      else await this.#check(signal)
      this.#failure = undefined
      this.#checkAgain()
    } catch (error) {
      signal.throwIfAborted()
      this.#failure = messageOf(error)
      reporter.metrics.failed()
      throw error
    }
  }

  #checkAgain(): void {
    const { clock } = this.#options
    const due = this.#writers.map(({ againMs }) => againMs).filter((ms) => ms !== undefined)
    this.#cancelAgain?.()
    this.#cancelAgain = undefined
    if (due.length > 0) this.#cancelAgain = clock.schedule(Math.min(...due), () => this.#loop.trigger('changed'))
  }

  /** Adds missing numbers without a full pass. Most checks find nothing, and send no request. */
  async #check(signal: AbortSignal): Promise<void> {
    const { registry, permit, reporter, clock } = this.#options
    if (!registry.writable) return
    const wasWithheld = this.#withheld() !== undefined
    await sleep(clock, SETTLING_MS, signal)
    for (const writer of this.#writers) {
      if (writer.state.outdated) await writer.read(signal)
      // If the server repairs by itself, only full passes report wrong allocations.
      if (permit.mode === 'repair') {
        if (writer.damaged) await writer.repair(signal)
        await writer.giveBack(signal)
      }
      reporter.report(this.#withheldNow(writer), { full: false })
    }
    if (wasWithheld && this.#withheld() === undefined) await this.#pass(signal, { counts: false })
  }

  async #pass(signal: AbortSignal, { counts }: { readonly counts: boolean }): Promise<void> {
    const { registry, claims, services, reporter, clock } = this.#options
    const { metrics } = reporter
    const left: Finding[] = []
    if (registry.writable) {
      for (const writer of this.#writers) {
        const stored = await writer.read(signal)
        left.push(...(await writer.repair(signal, stored)))
        if (counts) left.push(...(await writer.free(signal, stored)))
      }
    } else {
      for (const [index, { text, size }] of claims.ranges.entries())
        metrics.usage(text, { allocated: this.#holdings.held(index).count, size })
    }
    const findings = await inSlices(clock, passFindings(services.store, claims), signal)
    // From here on the pass waits for nothing, so it reports no range that the watch has released meanwhile.
    const withheld = this.#writers.flatMap((writer) => this.#withheldNow(writer))
    const isBeside = this.#options.isBesideIpAddresses?.() === true
    // While a range is withheld, the flag may be wrong, so it is unknown which Services are outside the range.
    const outside: readonly Finding['type'][] = withheld.length === 0 ? [] : ['outOfRange']
    const unreported = isBeside ? REPORTED_BESIDE : outside
    const reported = findings.filter(({ type }) => !unreported.includes(type))
    // A pass that does not count finds no leaks.
    reporter.report([...reported, ...withheld, ...left], { full: counts })
    if (counts) for (const writer of this.#writers) writer.seen()
    // A pass with a withheld range resolves `settled`, and `fault` returns why the range is withheld. But the pass does
    // not count in the metrics.
    if (withheld.length === 0) metrics.passed(this)
  }

  /**
   * Why the range of `writer` is withheld now; empty if it is not. A range that is withheld again after it was in
   * order, or for another reason, is a new finding.
   */
  #withheldNow(writer: RangeWriter): readonly Finding[] {
    const now = writer.withheld()
    const before = this.#reportedWithheld.get(writer)
    if (before !== undefined && before.note !== now?.note) this.#options.reporter.forget(before)
    if (now === undefined) this.#reportedWithheld.delete(writer)
    else this.#reportedWithheld.set(writer, now)
    return now === undefined ? [] : [now]
  }

  #withheld(): Finding | undefined {
    return this.#writers.map(({ state }) => state.withheld).find((finding) => finding !== undefined)
  }
}
