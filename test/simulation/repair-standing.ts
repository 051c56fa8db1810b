import { isAddress, type RepairComposition } from './repair-composition.ts'
import type { RepairCoverage } from './repair-coverage.ts'
import type { Ledger } from './repair-ledger.ts'
import { at, type RepairVerdicts } from './repair-verdicts.ts'

/** kube-apiserver and ours leave what is in the making alone for so long. */
export const graceMs = 60_000
/** And what has leaked for so long. */
export const leakMs = 120_000
/** From the end of a master's trouble to its first right look. */
const recoveryMs = 4_000

export interface RepairStandingOptions {
  readonly ledger: Ledger
  readonly composition: RepairComposition
  readonly coverage: RepairCoverage
  readonly verdicts: RepairVerdicts
}

/** What is wrong at a moment, and since when. */
export class RepairStanding {
  readonly #options: RepairStandingOptions
  readonly #wrongSinceMs = new Map<string, number>()
  readonly #orphanSinceMs = new Map<string, number>()
  readonly #leakSinceMs = new Map<string, number>()
  /** IPAddresses that have been in the making for long. */
  readonly #slow = new Set<string>()
  /** Items that several Services hold. */
  #shared: ReadonlySet<string> = new Set()
  /** How many things there were to do. */
  work = 0

  constructor(options: RepairStandingOptions) {
    this.#options = options
  }

  /** Since when a bit is set that nobody has a claim to. */
  leakedSinceMs(item: string): number | undefined {
    return this.#leakSinceMs.get(item)
  }

  /** Takes in what has changed. */
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

  /** Nothing may be wrong for too long, while a master is able and nothing has been spoiled since. */
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

  /** At the end: what is stored is exactly what the Services hold. */
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
