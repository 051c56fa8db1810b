import { type AuditEntry, audited } from '../kube/audit.ts'
import { referenceTo } from '../kube/event-object.ts'
import { Bitmap } from '../net/bitmap.ts'
import { exponentialBackoff } from '../runtime/backoff.ts'
import { sleep } from '../runtime/clock.ts'
import { aboutRanges, type Finding } from './finding.ts'
import { listServices } from './live-services.ts'
import type { OwnNumbers } from './own-numbers.ts'
import type { KeptRange, RangeClaims } from './range-claims.ts'
import type { RangeHoldings } from './range-holdings.ts'
import { RangeLive } from './range-live.ts'
import { isSameWrite, RangeMemory } from './range-memory.ts'
import { planRange, type RangePlan } from './range-plan.ts'
import type { RangeReading } from './range-reading.ts'
import { surveyServices } from './range-survey.ts'
import type { RangeRegistry, StoredRange } from './registries/range-registry.ts'
import type { RepairContext } from './repair.ts'

/** How long the watches of Services and of ranges are given to tell of one and the same Service, in milliseconds. */
export const settlingMs = 20
/** After so many writes that were overtaken only a few Services are mended at a time: reading many takes too long to be first. */
const patientTries = 3
/** How often a write that frees is tried in one pass; what has leaked can wait for the next. */
const freeingTries = 5

export interface RangeKeeperOptions extends Omit<RepairContext, 'intervalMs' | 'availability'> {
  readonly registry: RangeRegistry
  readonly claims: RangeClaims
  readonly adoptRange: boolean
  readonly holdings: RangeHoldings
  /** Which range, by its place in the claims. */
  readonly index: number
}

/** Keeps the bitmap of one range: knows what is stored, adds what Services hold, frees what has leaked. */
export class RangeKeeper {
  readonly #options: RangeKeeperOptions
  readonly #live: RangeLive
  readonly range: KeptRange
  readonly memory: RangeMemory

  constructor(options: RangeKeeperOptions) {
    const { claims, registry, adoptRange, index, reporter } = options
    this.#options = options
    this.#live = new RangeLive(options)
    this.range = claims.ranges[index] as KeptRange
    const where = registry.where(this.range.name)
    this.memory = new RangeMemory({
      range: this.range,
      claims,
      where,
      adopt: adoptRange,
      metrics: reporter.metrics,
      clock: options.clock,
    })
  }

  /** Whether something must be added or written, as far as is known. */
  get damaged(): boolean {
    const { reading } = this.memory
    return reading?.type === 'taken' && (reading.origin !== 'kept' || this.#missing(reading).count > 0)
  }

  /** Reads what is stored. */
  read(signal: AbortSignal): Promise<StoredRange> {
    const { registry } = this.#options
    return this.#hearing(() => registry.read(this.range.name, signal))
  }

  /**
   * Adds what Services hold and is missing, and makes the range where there is none. Each write is a compare-and-put on a range that was read
   * before the Services that it rests on, so the number of a Service that has gone meanwhile does not come back. `stored` was read just now.
   * Returns what is wrong and is not mended.
   */
  async mend(signal: AbortSignal, stored?: StoredRange): Promise<readonly Finding[]> {
    const { clock, random } = this.#options
    const backoff = exponentialBackoff({ firstMs: 1, maxMs: 200, jitter: 'full' }, random)
    const tried = new Bitmap(this.range.size)
    let overtaken = 0
    for (let current = stored ?? (await this.read(signal)); ; current = await this.read(signal)) {
      const reading = this.memory.read(current)
      if (reading.type === 'withheld') return []
      const missing = this.#missing(reading).minus(tried)
      if (reading.origin === 'kept' && missing.count === 0) return []
      if (current.type === 'range' && current.fixed !== undefined) return [this.memory.cannotWrite(current.fixed)]
      if (!(await this.#mayWrite(signal))) return this.#stillMissing(missing, signal)
      const many = overtaken < patientTries
      const { held, looked } =
        reading.origin === 'kept' ? await this.#live.holders(missing, many, signal) : await this.#live.all(signal)
      const add = held.numbers.minus(reading.set)
      if (reading.origin !== 'kept' || add.count > 0) {
        const findings = held.findings(add)
        this.memory.own.setting(add)
        const outcome = await this.#write(reading.set.or(add), current, signal)
        if (outcome === 'unchanged') return findings
        if (outcome === 'overtaken') {
          overtaken++
          await sleep(clock, backoff.next(), signal)
          continue
        }
        this.#written(reading, findings)
        this.memory.own.wereSet(clock.monotonicMs())
      }
      if (looked === undefined) return []
      for (const offset of looked) tried.add(offset)
    }
  }

  /**
   * Frees what has leaked, after a list of all Services. It is a compare-and-put on a state up to which the watch has told of every state: so what
   * is freed has been taken without a break for two minutes, and no request that took it is still under way. The list was read
   * later than those two minutes began by more than a request can take, so it may be older than a state that is read anew because the first was overtaken.
   * Returns what has leaked and is not freed.
   */
  async free(signal: AbortSignal, stored: StoredRange): Promise<readonly Finding[]> {
    return this.#clear(stored, (current) => this.#leakedOf(current), signal)
  }

  /** Gives back what was set here for Services that turned out to be giving it up just then; see {@link OwnNumbers}. */
  async giveBack(signal: AbortSignal): Promise<void> {
    if (this.strays.ripe.count > 0) await this.#clear(await this.read(signal), () => this.strays.ripe, signal)
  }

  /** In how many milliseconds to look again, although nothing may happen until then; undefined when there is no need. */
  get againMs(): number | undefined {
    const { releasedMs } = this.memory
    const { inMs } = this.strays
    return releasedMs === undefined ? inMs : Math.min(releasedMs, inMs ?? releasedMs)
  }

  /** What was set here and nobody holds. */
  get strays(): ReturnType<OwnNumbers['strays']> {
    const { holdings, index, clock } = this.#options
    return this.memory.own.strays(holdings.held(index), clock.monotonicMs())
  }

  /** Clears what is due in a state up to which the watch has told of every state, and held by no Service in a list that is read before. */
  async #clear(
    stored: StoredRange,
    due: (current: StoredRange) => Bitmap,
    signal: AbortSignal,
  ): Promise<readonly Finding[]> {
    const { api, claims, index, clock } = this.#options
    const leaked = due(stored)
    if (leaked.count === 0) return []
    const fixed = stored.type === 'range' && stored.fixed !== undefined
    if (fixed || !(await this.#mayWrite(signal)))
      return [...leaked].map((offset) => claims.leaked(index, offset, false))
    const live = surveyServices(await listServices(api, signal), claims).held[index] as Bitmap
    let current = stored
    for (let tries = 0; tries < freeingTries; tries++) {
      if (tries > 0) {
        await sleep(clock, settlingMs, signal)
        current = await this.read(signal)
      }
      const reading = this.memory.read(current)
      if (reading.type !== 'taken' || !this.memory.upToDate(current)) continue
      const freed = due(current).minus(live).and(reading.set)
      if (freed.count === 0) return []
      const outcome = await this.#write(reading.set.minus(freed), current, signal)
      if (outcome === 'overtaken') continue
      const findings = [...freed].map((offset) => claims.leaked(index, offset, true))
      if (outcome === 'unchanged') return findings
      this.#repaired(findings)
      return []
    }
    return []
  }

  /** A full pass is over: what it saw leaked has been seen once more. */
  seen(): void {
    this.memory.ledger = this.#plan(this.memory.reading).ledger
  }

  #plan(reading: RangeReading | undefined): RangePlan {
    const { holdings, index, clock } = this.#options
    const { ledger } = this.memory
    return planRange({ reading, held: holdings.held(index), ledger, nowMs: clock.monotonicMs() })
  }

  /** What is held and not set, but for what was cleared a moment ago. */
  #missing(reading: RangeReading & { readonly type: 'taken' }): Bitmap {
    const { holdings, index } = this.#options
    const missing = holdings.held(index).minus(reading.set)
    const released = missing.count === 0 ? undefined : this.memory.released()
    return released === undefined ? missing : missing.minus(released)
  }

  #leakedOf(stored: StoredRange): Bitmap {
    const plan = this.#plan(this.memory.read(stored))
    return plan.type === 'range' ? plan.leaked : new Bitmap(this.range.size)
  }

  async #mayWrite(signal: AbortSignal): Promise<boolean> {
    const { permit } = this.#options
    return permit.mode === 'repair' && (await permit.granted(signal))
  }

  /** A second look, because a Service that is being made can be heard of before its number is. */
  async #stillMissing(missing: Bitmap, signal: AbortSignal): Promise<readonly Finding[]> {
    await sleep(this.#options.clock, settlingMs, signal)
    const reading = this.memory.read(await this.read(signal))
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
    reporter.tell(findings, { full: false })
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
    const write = () => this.#hearing(() => registry.write(name, content, previous, signal))
    const isDone = (written: StoredRange | undefined) => written !== undefined && !isSameWrite(written, previous)
    const adoption = this.#adoption(taken, previous)
    const written = await (adoption ? audited(reporter.audit, adoption, write, { signal, isDone }) : write())
    if (written === undefined) return 'overtaken'
    return isDone(written) ? 'written' : 'unchanged'
  }

  /** For the audit trail: what becomes of a stored range of another text; undefined for this range's own. */
  #adoption(taken: Bitmap, previous: StoredRange): AuditEntry | undefined {
    const { name, text: range } = this.range
    if (previous.type !== 'range' || previous.range === '' || previous.range === range) return undefined
    const before = {
      range: previous.range,
      allocated: Bitmap.fromBytes(8 * previous.data.length, previous.data)?.count,
    }
    const where = this.#options.registry.where(name)
    const note = `${where} was rewritten for the range ${range}; it was of ${previous.range}`
    return {
      message: 'rewrote a stored range as another',
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
   * Hears the answer of a call, unless the watch told something meanwhile: then the watch goes on to tell what comes after, and which of the
   * two is newer nobody can say.
   */
  async #hearing<Answer extends StoredRange | undefined>(call: () => Promise<Answer>): Promise<Answer> {
    const { news } = this.memory
    try {
      const answer = await call()
      if (answer !== undefined && this.memory.news === news) this.memory.hear(answer)
      return answer
    } catch (error) {
      // A write may have happened.
      this.memory.doubt()
      throw error
    }
  }
}
