import type { ApiRequest } from '../../src/kube/transport.ts'
import type { RepairCoverage } from './repair-coverage.ts'
import type { Holder, LedgerReader, Noted, RangeWrite } from './repair-ledger-reader.ts'
import type { RepairMaster } from './repair-master.ts'
import { graceMs, leakMs, RepairStanding, type RepairStandingOptions } from './repair-standing.ts'
import { at } from './repair-verdicts.ts'

/**
 * A repair that has set a bit for no holder waits this long for the server to release it, and then releases it itself.
 */
const giveBackMs = 2_000

/** The longest time from a live read of a Service to the write that is based on it. */
const readToWriteMs = 1_500
/** The longest time from a write that came too late to its reversal. */
const takenBackMs = 3_000
export interface RepairJudgeOptions extends RepairStandingOptions {
  readonly masters: () => readonly RepairMaster[]
}

/**
 * Judges each write of a repair when it is made, by what is stored and what is being created at that moment. After
 * every event it also checks that nothing has been wrong for too long.
 */
export class RepairJudge implements LedgerReader {
  /** The repairs' writes: those that succeeded, and those that were refused or lost a conflict. */
  readonly writes = { made: 0, lost: 0 }
  /** When something was last damaged. */
  damagedAtMs = 0
  readonly #options: RepairJudgeOptions
  readonly #standing: RepairStanding
  readonly #coverage: RepairCoverage
  /** When a leaked bit was cleared that a pass must have seen. */
  readonly #leakEndedMs = new Map<string, number>()
  /** The writer that last set each bit. */
  readonly #setBy = new Map<string, string>()
  /** IPAddresses that a repair created for a Service that no longer existed, by uid. */
  readonly #late = new Map<string, { readonly noted: Noted; readonly master: RepairMaster | undefined }>()
  readonly #madeByRepair = new Set<string>()
  #seen = -1

  constructor(options: RepairJudgeOptions) {
    this.#options = options
    this.#standing = new RepairStanding(options)
    this.#coverage = options.coverage
  }

  serviceStored(before: Holder | undefined, after: Holder | undefined): void {
    const reused = after !== undefined && before === undefined
    if (
      reused &&
      [...this.#options.ledger.addresses.values()].some(
        ({ parent, ip }) => parent === after.key && !after.items.has(ip),
      )
    ) {
      this.#coverage.count('a name was given to another Service while an IPAddress named it')
    }
  }

  addressMade(noted: Noted): void {
    const { ledger } = this.#options
    const { ip, parent, by } = noted
    if (!isRepair(by)) return
    this.writes.made++
    this.#madeByRepair.add(noted.uid)
    const holder = parent === undefined ? undefined : ledger.services.get(parent)
    if (!noted.labelled || parent === undefined)
      this.#violated(`${by} made IPAddress ${ip} with wrong labels or parent`)
    if (holder?.items.has(ip) === true) return
    this.#coverage.count('an IPAddress was made for a Service that had just gone')
    const goneMs = this.#nowMs() - (ledger.heldUntilMs.get(ip) ?? Number.NEGATIVE_INFINITY)
    const master = this.#masterOf(by)
    if (goneMs > readToWriteMs && !(master?.wasFrozen(2_000) ?? false)) {
      this.#violated(`${by} made IPAddress ${ip} for ${parent}, which has not held it for ${Math.round(goneMs)} ms`)
    }
    this.#late.set(noted.uid, { noted, master })
  }

  addressChanged(noted: Noted, by: string): void {
    if (!isRepair(by)) return
    this.writes.made++
    const { ip, parent, labelled } = noted
    const held = parent !== undefined && this.#options.ledger.services.get(parent)?.items.has(ip) === true
    this.#coverage.count('an IPAddress was labelled anew')
    const goneMs = this.#nowMs() - (this.#options.ledger.heldUntilMs.get(ip) ?? Number.NEGATIVE_INFINITY)
    if (!labelled || (!held && goneMs > readToWriteMs && !(this.#masterOf(by)?.wasFrozen(2_000) ?? false))) {
      this.#violated(`${by} changed IPAddress ${ip} of ${parent}, which does not hold it`)
    }
  }

  addressGone(noted: Noted, by: string): void {
    const { ledger } = this.#options
    const { ip, uid, parent } = noted
    if (!isRepair(by)) {
      if (by !== 'server') return
      if (ledger.holdersOf(ip).length > 0 || ledger.makersOf(ip).length > 0) ledger.spoiled.add(ip)
      if (this.#madeByRepair.has(uid)) this.#coverage.count('the server gave back what a repair had made')
      return
    }
    this.writes.made++
    const holders = ledger.holdersOf(ip)
    const right = noted.labelled && holders.some(({ key }) => key === parent)
    // After damage, two Services may hold one address. Then the IPAddress is right for either, also for one that was
    // deleted after the repair had read it.
    const leftMs = this.#nowMs() - (ledger.heldUntilMs.get(ip) ?? Number.NEGATIVE_INFINITY)
    const shared = ledger.spoiled.has(ip) && (holders.length > 1 || leftMs < readToWriteMs)
    if (right && !shared) this.#violated(`${by} deleted IPAddress ${ip} of ${parent}, which holds it`)
    if (holders.length > 0 && !right) this.#coverage.count('an IPAddress that was damaged was made anew')
    const maker = [...ledger.making].find(({ uids }) => uids.has(uid))
    if (maker !== undefined && !ledger.spoiled.has(ip)) {
      this.#violated(`${by} deleted IPAddress ${ip}, which ${maker.key} in the making has taken`)
    }
    if (holders.length > 0) return
    if (!noted.managed) this.#violated(`${by} deleted IPAddress ${ip}, which somebody else manages`)
    if (this.#late.delete(uid)) this.#coverage.count('an IPAddress that came too late was taken back')
    else if (this.#nowMs() - noted.atMs >= graceMs)
      this.#coverage.count('an orphaned IPAddress was deleted after its grace')
  }

  rangeWritten({ by, range, set, cleared, readAtMs }: RangeWrite): void {
    const { ledger } = this.#options
    const nowMs = this.#nowMs()
    if (by === 'server') {
      for (const item of cleared) {
        if (ledger.holdersOf(item).length > 0 || ledger.makersOf(item).length > 0) ledger.spoiled.add(item)
      }
      for (const item of set) {
        const endedMs = this.#leakEndedMs.get(item)
        if (endedMs !== undefined && nowMs - endedMs < leakMs) {
          this.#coverage.count('a leaked bit was cleared and taken again before it was freed')
        }
      }
    }
    for (const item of set) this.#setBy.set(item, by)
    for (const item of cleared) {
      // A pass must have seen a leak of this age.
      const sinceMs = this.#standing.leakedSinceMs(item) ?? nowMs
      if (nowMs - sinceMs > 1.1 * this.#options.composition.intervalMs) this.#leakEndedMs.set(item, nowMs)
    }
    if (!isRepair(by)) return
    this.writes.made++
    for (const item of cleared) {
      const holders = [...ledger.holdersOf(item), ...ledger.makersOf(item)]
      const leakedMs = nowMs - (ledger.setAtMs.get(item) ?? 0)
      if (ledger.holdersOf(item).length === 0 && ledger.spoiled.has(item) && this.#setBy.get(item) === by) {
        // After damage, a Service that is being created may get what another one had. The repair sets the bit again
        // when the Service is stored.
        this.#coverage.count('a bit that was set for a Service that gave it up just then was given back')
      } else if (holders.length > 0) this.#violated(`${by} freed ${item}, which ${holders[0]?.key} holds`)
      else if (this.#setBy.get(item) === by && leakedMs >= giveBackMs) {
        this.#coverage.count('a bit that was set for a Service that gave it up just then was given back')
      } else if (leakedMs < leakMs) this.#violated(`${by} freed ${item} after ${Math.round(leakedMs)} ms`)
      else this.#coverage.count('a leaked bit was freed')
    }
    for (const item of set) {
      if (ledger.holdersOf(item).length > 0) continue
      this.#coverage.count('a bit was set for a Service that had just gone')
      const untilMs = ledger.heldUntilMs.get(item) ?? Number.NEGATIVE_INFINITY
      if (untilMs < readAtMs) {
        this.#violated(`${by} set the bit of ${item} in ${range.name}, which nobody has held since it was read`)
      }
    }
  }

  refused(by: string, { method, path }: ApiRequest, status: number): void {
    if (!isRepair(by) || status !== 409) return
    this.writes.lost++
    if (method === 'POST' && path.endsWith('/ipaddresses')) {
      this.#coverage.count('an IPAddress was there already when a repair made it')
    }
    if (method === 'DELETE') this.#coverage.count('a delete by a repair met another IPAddress than it had seen')
  }

  overtaken(by: string): void {
    if (!isRepair(by)) return
    this.writes.lost++
    this.#coverage.count('a range was overtaken by another writer')
  }

  /** Checks everything that has a time limit. Called after every event. */
  check(): void {
    const { ledger, masters } = this.#options
    const ableSinceMs = Math.min(...masters().map((master) => master.ableSinceMs()))
    if (ledger.version !== this.#seen) {
      this.#seen = ledger.version
      this.#standing.take()
    }
    this.#standing.expectSoon({ ableSinceMs, damagedAtMs: this.damagedAtMs })
    this.#expectTakenBack()
  }

  /** Expects that nothing is left to do at the end. */
  expectExact(): void {
    this.#standing.expectExact()
  }

  /**
   * Expects that there was no fight: little more than one write for each repair, and no more lost conflicts than that.
   */
  expectFewWrites(): void {
    const { made, lost } = this.writes
    const most = 1.5 * this.#standing.work + 10
    if (made > most) this.#violated(`${made} writes for ${this.#standing.work} things to do`)
    if (lost > most) this.#violated(`${lost} writes lost for ${this.#standing.work} things to do`)
  }

  #expectTakenBack(): void {
    const { ledger } = this.#options
    const nowMs = this.#nowMs()
    for (const [uid, { noted, master }] of this.#late) {
      const there = ledger.addresses.get(noted.ip)?.uid === uid
      if (!there || master === undefined || master.ableSinceMs() > noted.atMs) this.#late.delete(uid)
      else if (nowMs > noted.atMs + takenBackMs) {
        const holder = ledger.services.get(noted.parent ?? '')
        if (holder?.items.has(noted.ip) !== true)
          this.#violated(
            `IPAddress ${noted.ip} of ${noted.parent}, which has gone, was made at ${at(noted.atMs)} and is still there`,
          )
        this.#late.delete(uid)
      }
    }
  }

  #masterOf(by: string): RepairMaster | undefined {
    return this.#options.masters().find(({ writer }) => writer === by)
  }

  #violated(what: string): void {
    this.#options.verdicts.violated(what)
  }

  #nowMs(): number {
    return this.#options.verdicts.nowMs()
  }
}

/** Whether the writer is a life of a master. */
function isRepair(by: string): boolean {
  return by.startsWith('master')
}
