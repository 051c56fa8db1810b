import { type AuditEntry, audited } from '../../kube/audit.ts'
import { referenceTo } from '../../kube/event-object.ts'
import { Bitmap } from '../../net/bitmap.ts'
import { exponentialBackoff } from '../../runtime/backoff.ts'
import { sleep } from '../../runtime/clock.ts'
import { inSlices } from '../../runtime/steps.ts'
import { listServices, RangeReader } from '../live-services.ts'
import type { RangeRegistry, StoredRange } from '../registries/range-registry.ts'
import type { RepairContext } from '../repair.ts'
import { aboutRanges, type Finding } from '../reporter.ts'
import type { BitmapRange, RangeClaims } from './claims.ts'
import { type RangeHoldings, surveyServices } from './holdings.ts'
import { planRange, type RangePlan, type RangeReading } from './plan.ts'
import { isSameWrite, RangeState, type RecentlySet } from './range-state.ts'

/**
 * The watches of Services and of ranges normally deliver the effects of one request within this time, in milliseconds.
 */
export const SETTLING_MS = 20
/**
 * After this many overtaken writes, {@link RangeReader.holders} reads the holders of only a few numbers, which is
 * faster.
 */
const PATIENT_TRIES = 3
/** How often a pass tries to free numbers while other writers are faster. The next full pass then tries again. */
const FREEING_TRIES = 5

export interface RangeWriterOptions extends Omit<RepairContext, 'intervalMs' | 'availability'> {
  readonly registry: RangeRegistry
  readonly claims: RangeClaims
  readonly adoptRange: boolean
  readonly holdings: RangeHoldings
  /** The index of the range in `claims.ranges`. */
  readonly index: number
}

/** Manages the bitmap of one range: adds missing numbers of Services, and frees leaked ones. */
export class RangeWriter {
  readonly #options: RangeWriterOptions
  readonly #live: RangeReader
  readonly range: BitmapRange
  readonly state: RangeState

  constructor(options: RangeWriterOptions) {
    const { claims, registry, adoptRange, index, reporter } = options
    this.#options = options
    this.#live = new RangeReader(options)
    this.range = claims.ranges[index] as BitmapRange
    const where = registry.where(this.range.name)
    this.state = new RangeState({
      range: this.range,
      claims,
      where,
      adopt: adoptRange,
      metrics: reporter.metrics,
      clock: options.clock,
    })
  }

  /**
   * Whether a number must be added or the range must be written, as far as is known. False while the stored range is of
   * another flag or unreadable.
   */
  get damaged(): boolean {
    const { reading } = this.state
    return reading?.type === 'taken' && (reading.origin !== 'same-range' || this.#missing(reading).count > 0)
  }

  /** Why the range is withheld, by what is known now; undefined if it is not. */
  withheld(): Finding | undefined {
    // Most checks find no withheld range, and then need no second comparison of the whole bitmap.
    if (this.state.withheld !== undefined && !this.damaged) this.state.needsNoWrite()
    return this.state.withheld
  }

  /** Reads the stored range, and records it in {@link state}. */
  read(signal: AbortSignal): Promise<StoredRange> {
    const { registry } = this.#options
    return this.#recording(() => registry.read(this.range.name, signal))
  }

  /**
   * Adds missing numbers, and creates a missing range. Reads the range before the Services, and writes by
   * compare-and-put on that range, so the number that a deleted Service has released is not set again. `stored`: the
   * range, if it has just been read. Returns the findings that were not repaired; a withheld range has none here.
   */
  async repair(signal: AbortSignal, stored?: StoredRange): Promise<readonly Finding[]> {
    const { clock, random } = this.#options
    const backoff = exponentialBackoff({ firstMs: 1, maxMs: 200, jitter: 'full' }, random)
    const tried = new Bitmap(this.range.size)
    let overtaken = 0
    for (let current = stored ?? (await this.read(signal)); ; current = await this.read(signal)) {
      const reading = this.state.read(current)
      if (reading.type === 'withheld') return []
      const missing = this.#missing(reading).minus(tried)
      if (reading.origin === 'same-range' && missing.count === 0) return []
      if (current.type === 'range' && current.fixed !== undefined) {
        this.state.cannotWrite(current.fixed)
        return []
      }
      if (!(await this.#mayWrite(signal))) return this.#stillMissing(missing, signal)
      const many = overtaken < PATIENT_TRIES
      const { held, checked } =
        reading.origin === 'same-range' ? await this.#live.holders(missing, many, signal) : await this.#live.all(signal)
      const add = held.numbers.minus(reading.set)
      if (reading.origin !== 'same-range' || add.count > 0) {
        const findings = await held.findings(add)
        this.state.own.setting(add)
        const outcome = await this.#write(reading.set.or(add), current, signal)
        if (outcome === 'unchanged') return findings
        if (outcome === 'overtaken') {
          overtaken++
          await sleep(clock, backoff.next(), signal)
          continue
        }
        this.#written(reading, findings)
        this.state.own.wereSet(clock.monotonicMs())
      }
      if (checked === undefined) return []
      for (const offset of checked) tried.add(offset)
    }
  }

  /**
   * Frees leaked numbers that no Service in a new list holds. `stored`: the range as just read.
   *
   * Never frees a number of a Service that is being created: kube-apiserver allocates the number first, and stores the
   * Service within 60 s. The write is a compare-and-put on a state before which the watch missed none, so a freed
   * number has been allocated for two minutes without a break. A Service with that number was therefore stored at least
   * a minute ago, and is in the list, even if the write must be tried again.
   *
   * Returns the leaks that may not be freed, and in a dry run all that would be freed. Does not return leaks whose
   * writes other writers overtake too often.
   */
  async free(signal: AbortSignal, stored: StoredRange): Promise<readonly Finding[]> {
    return this.#clear(stored, (current) => this.#leakedOf(current), signal)
  }

  /** Releases numbers that this master set while their Services were giving them up; see {@link RecentlySet}. */
  async giveBack(signal: AbortSignal): Promise<void> {
    if (this.unheld.due.count > 0) await this.#clear(await this.read(signal), () => this.unheld.due, signal)
  }

  /** In how many milliseconds a check is due even without a change; undefined if none will be due. */
  get againMs(): number | undefined {
    const { releasedMs } = this.state
    const { inMs } = this.unheld
    return releasedMs === undefined ? inMs : Math.min(releasedMs, inMs ?? releasedMs)
  }

  /** Which numbers that this master has set have no holder; see {@link RecentlySet.unheld}. */
  get unheld(): ReturnType<RecentlySet['unheld']> {
    const { holdings, index, clock } = this.#options
    return this.state.own.unheld(holdings.held(index), clock.monotonicMs())
  }

  /**
   * Clears the numbers that `due` returns for a state and that no Service holds in a new list. Writes only if the watch
   * missed no state before the one that the write replaces. Returns the same as {@link free}.
   */
  async #clear(
    stored: StoredRange,
    due: (current: StoredRange) => Bitmap,
    signal: AbortSignal,
  ): Promise<readonly Finding[]> {
    const { api, claims, index, clock, reporter } = this.#options
    const leaked = due(stored)
    if (leaked.count === 0) return []
    const fixed = stored.type === 'range' && stored.fixed !== undefined
    if (fixed || !(await this.#mayWrite(signal)))
      return [...leaked].map((offset) => claims.leaked(index, offset, false))
    const { held } = await inSlices(clock, surveyServices(await listServices(api, signal), claims), signal)
    const live = held[index] as Bitmap
    let current = stored
    for (let tries = 0; tries < FREEING_TRIES; tries++) {
      if (tries > 0) {
        await sleep(clock, SETTLING_MS, signal)
        current = await this.read(signal)
      }
      const reading = this.state.read(current)
      if (reading.type !== 'taken' || !this.state.upToDate(current)) continue
      const freed = due(current).minus(live).and(reading.set)
      if (freed.count === 0) return []
      const outcome = await this.#write(reading.set.minus(freed), current, signal)
      if (outcome === 'overtaken') continue
      const findings = [...freed].map((offset) => claims.leaked(index, offset, true))
      if (outcome === 'unchanged') return findings
      // Logs them even if they were logged while they could not be freed.
      for (const finding of findings) reporter.forget(finding)
      this.#repaired(findings)
      return []
    }
    return []
  }

  /** Call this after a full pass: each leak that the pass saw counts as seen once more. */
  seen(): void {
    this.state.ledger = this.#plan(this.state.reading).ledger
  }

  #plan(reading: RangeReading | undefined): RangePlan {
    const { holdings, index, clock } = this.#options
    const { ledger } = this.state
    return planRange({ reading, held: holdings.held(index), ledger, nowMs: clock.monotonicMs() })
  }

  /** Held numbers that are not set, except those that were cleared recently. */
  #missing(reading: RangeReading & { readonly type: 'taken' }): Bitmap {
    const { holdings, index } = this.#options
    const missing = holdings.held(index).minus(reading.set)
    const released = missing.count === 0 ? undefined : this.state.released()
    return released === undefined ? missing : missing.minus(released)
  }

  #leakedOf(stored: StoredRange): Bitmap {
    const plan = this.#plan(this.state.read(stored))
    return plan.type === 'range' ? plan.leaked : new Bitmap(this.range.size)
  }

  async #mayWrite(signal: AbortSignal): Promise<boolean> {
    const { permit } = this.#options
    return permit.mode === 'repair' && (await permit.granted(signal))
  }

  /**
   * Reads the range again after a pause, because a Service may have been received after the range was first read.
   * Returns the findings about those of the `missing` numbers that are still not set.
   */
  async #stillMissing(missing: Bitmap, signal: AbortSignal): Promise<readonly Finding[]> {
    await sleep(this.#options.clock, SETTLING_MS, signal)
    const reading = this.state.read(await this.read(signal))
    return reading.type === 'taken' ? this.#live.notAllocated(missing.and(this.#missing(reading))) : []
  }

  #written({ origin }: RangeReading & { readonly type: 'taken' }, findings: readonly Finding[]): void {
    const { registry, logger } = this.#options
    const { name, text: range } = this.range
    if (origin === 'absent' || origin === 'unnamed') logger.info({ range, origin }, `wrote ${registry.where(name)}`)
    this.#repaired(findings)
  }

  #repaired(findings: readonly Finding[]): void {
    const { reporter } = this.#options
    reporter.report(findings, { full: false })
    for (const finding of findings) reporter.repaired(finding)
  }

  /** `unchanged`: nothing was written, as in a dry run. */
  async #write(
    taken: Bitmap,
    previous: StoredRange,
    signal: AbortSignal,
  ): Promise<'written' | 'overtaken' | 'unchanged'> {
    const { registry, reporter } = this.#options
    const { name, text: range } = this.range
    const content = { range, data: taken.toBytes() }
    const write = () => this.#recording(() => registry.write(name, content, previous, signal))
    const isDone = (written: StoredRange | undefined) => written !== undefined && !isSameWrite(written, previous)
    const adoption = this.#adoption(taken, previous)
    const written = await (adoption ? audited(reporter.audit, adoption, write, { signal, isDone }) : write())
    if (written === undefined) return 'overtaken'
    return isDone(written) ? 'written' : 'unchanged'
  }

  /** The audit entry of a write that replaces a bitmap of another range; undefined for any other write. */
  #adoption(taken: Bitmap, previous: StoredRange): AuditEntry | undefined {
    const { name, text: range } = this.range
    if (previous.type !== 'range' || previous.range === '' || previous.range === range) return undefined
    const before = {
      range: previous.range,
      allocated: Bitmap.fromBytes(8 * previous.data.length, previous.data)?.count,
    }
    const where = this.#options.registry.where(name)
    const note = `${where} was rewritten from the range ${previous.range} to ${range}`
    return {
      message: 'rewrote a stored range to match the flag',
      verb: 'adopt',
      objectRef: { resource: 'rangeallocations', name },
      where,
      reasons: ['adopt-range'],
      before,
      after: { range, allocated: taken.count },
      event: { reason: 'ServiceRangeAdopted', regarding: referenceTo(aboutRanges), note },
    }
  }

  /**
   * Makes a call of the registry, and records the state that it returns. Does not record it if the watch delivered an
   * event during the call: the order of the two states is unknown, and the watch delivers the later states anyway.
   */
  async #recording<Answer extends StoredRange | undefined>(call: () => Promise<Answer>): Promise<Answer> {
    const { watchEvents } = this.state
    try {
      const answer = await call()
      if (answer !== undefined && this.state.watchEvents === watchEvents) this.state.stored(answer)
      return answer
    } catch (error) {
      // If the call was a write, the range may have been written.
      this.state.invalidate()
      throw error
    }
  }
}
