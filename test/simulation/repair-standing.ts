import { isAddress, type RepairComposition } from './repair-composition.ts'
import type { RepairCoverage } from './repair-coverage.ts'
import type { Ledger } from './repair-ledger.ts'
import { at, type RepairVerdicts } from './repair-verdicts.ts'

/** kube-apiserver and our repairs leave alone for this long what may belong to a Service that is being created. */
export const graceMs = 60_000
/** And a leaked item for this long. */
export const leakMs = 120_000
/** The longest time from the end of a master's faults to its first correct read. */
const recoveryMs = 4_000

export interface RepairStandingOptions {
  readonly ledger: Ledger
  readonly composition: RepairComposition
  readonly coverage: RepairCoverage
  readonly verdicts: RepairVerdicts
}

/** What is wrong now, and since when. */
export class RepairStanding {
  readonly #options: RepairStandingOptions
  readonly #wrongSinceMs = new Map<string, number>()
  readonly #orphanSinceMs = new Map<string, number>()
  readonly #leakSinceMs = new Map<string, number>()
  /** The uids of IPAddresses whose Services have been in creation for long. */
  readonly #slow = new Set<string>()
  /** Items that several Services hold. */
  #shared: ReadonlySet<string> = new Set()
  /** How many repairs were necessary so far. */
  work = 0

  constructor(options: RepairStandingOptions) {
    this.#options = options
  }

  /** Since when the bit of an item has been set without a claim; undefined if the item is not leaked. */
  leakedSinceMs(item: string): number | undefined {
    return this.#leakSinceMs.get(item)
  }

  /** Updates the state after changes. */
  take(): void {
    const { ledger } = this.#options
    const nowMs = this.#options.verdicts.nowMs()
    const wrong = new Set<string>()
    const held = new Map<string, string>()
    const shared = new Map<string, string>()
    for (const { key, items } of ledger.services.values()) {
      for (const item of items) {
        const other = held.get(item)
        if (other !== undefined) shared.set(item, other)
        held.set(item, key)
        for (const what of this.#wrongWith(item)) wrong.add(what)
      }
    }
    for (const [item, other] of shared) {
      if (this.#shared.has(item)) continue
      if (!ledger.spoiled.has(item)) this.#options.verdicts.violated(`${other} and ${held.get(item)} both hold ${item}`)
      this.#options.coverage.count(
        'two Services got one address or port, because of damage or a server that gave it back twice',
      )
    }
    this.#shared = new Set(shared.keys())
    this.#keep(this.#wrongSinceMs, wrong, nowMs)
    const orphans = [...ledger.addresses.values()].filter(({ ip, managed }) => managed && !held.has(ip))
    this.#keep(this.#orphanSinceMs, new Set(orphans.map(({ uid, ip }) => `${ip} ${uid}`)), nowMs)
    const claimed = new Set([...[...ledger.making].flatMap(({ items }) => [...items]), ...ledger.releasing])
    this.#keep(
      this.#leakSinceMs,
      new Set([...ledger.bits].filter((item) => !held.has(item) && !claimed.has(item))),
      nowMs,
    )
    for (const item of ledger.spoiled) {
      if (
        !wrong.has(`IPAddress ${item}`) &&
        !wrong.has(`bit ${item}`) &&
        !claimed.has(item) &&
        ledger.holdersOf(item).length < 2
      ) {
        ledger.spoiled.delete(item)
      }
    }
  }

  #wrongWith(item: string): readonly string[] {
    const { ledger } = this.#options
    const { book } = this.#options.composition
    const wrong: string[] = []
    if ((!isAddress(item) || book !== 'objects') && !ledger.bits.has(item)) wrong.push(`bit ${item}`)
    if (isAddress(item) && book !== 'bitmap') {
      const noted = ledger.addresses.get(item)
      const parent = noted?.parent === undefined ? undefined : ledger.services.get(noted.parent)
      if (noted?.labelled !== true || parent?.items.has(item) !== true) wrong.push(`IPAddress ${item}`)
    }
    return wrong
  }

  /** Expects that nothing is wrong for too long, while a master is able to repair and nothing was damaged since. */
  expectSoon({ ableSinceMs, damagedAtMs }: { readonly ableSinceMs: number; readonly damagedAtMs: number }): void {
    const { ledger } = this.#options
    const { intervalMs, spikes } = this.#options.composition
    const nowMs = this.#options.verdicts.nowMs()
    const quietMs = spikes ? 2_000 : 1_000
    const overdue = (sinceMs: number, limitMs: number): boolean =>
      nowMs > Math.max(sinceMs, ableSinceMs + recoveryMs) + limitMs
    for (const [what, sinceMs] of this.#wrongSinceMs) {
      if (overdue(Math.max(sinceMs, damagedAtMs), quietMs))
        this.#options.verdicts.violated(`the ${what} of a Service has been wrong since ${at(sinceMs)}`)
    }
    const passMs = 1.1 * intervalMs + 5_000
    for (const [what, sinceMs] of this.#orphanSinceMs) {
      if (overdue(sinceMs, graceMs + passMs))
        this.#options.verdicts.violated(`IPAddress ${what} has been an orphan since ${at(sinceMs)}`)
    }
    for (const [item, sinceMs] of this.#leakSinceMs) {
      if (overdue(sinceMs, Math.max(leakMs, 2.2 * intervalMs) + 2 * passMs))
        this.#options.verdicts.violated(`${item} has been leaked since ${at(sinceMs)}`)
    }
    for (const { uids, sinceMs } of ledger.making) {
      for (const uid of uids) {
        if (nowMs - sinceMs <= 5_000 || this.#slow.has(uid)) continue
        this.#slow.add(uid)
        this.#options.coverage.count('an IPAddress in the making was there for more than 5 s')
      }
    }
  }

  /** Expects that at the end exactly what the Services hold is stored. */
  expectExact(): void {
    const { ledger } = this.#options
    const { book } = this.#options.composition
    const held = new Set([...ledger.services.values()].flatMap(({ items }) => [...items]))
    for (const { ip, managed, parent } of ledger.addresses.values()) {
      if (managed && !held.has(ip)) this.#options.verdicts.violated(`at the end there is IPAddress ${ip} of ${parent}`)
    }
    for (const item of ledger.bits) {
      if (!held.has(item)) this.#options.verdicts.violated(`at the end the bit of ${item} is set, and nobody holds it`)
    }
    for (const item of held) {
      if ((!isAddress(item) || book !== 'objects') && !ledger.bits.has(item)) {
        this.#options.verdicts.violated(`at the end the bit of ${item} is not set`)
      }
    }
  }

  #keep(sinceMs: Map<string, number>, present: ReadonlySet<string>, nowMs: number): void {
    for (const known of [...sinceMs.keys()]) if (!present.has(known)) sinceMs.delete(known)
    for (const one of present) {
      if (sinceMs.has(one)) continue
      sinceMs.set(one, nowMs)
      this.work++
    }
  }
}
