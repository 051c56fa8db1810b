import type { Followed } from '../../kube/informer.ts'
import type { IpAddress } from '../../kube/resources.ts'
import { WriteRetry } from '../../kube/write-retry.ts'
import { messageOf } from '../../runtime/message-of.ts'
import type { Finding } from '../finding.ts'
import type { RepairContext } from '../repair.ts'
import { catchUpMs, type Look, type LookScope, look, lookAgainLive } from './ip-address-look.ts'
import type { IpAddressSchedule, Work } from './ip-address-schedule.ts'
import { doubtfulNames, type ServiceIpView } from './ip-address-view.ts'
import { IpAddressWriter, releaseMs, type WriteOutcome } from './ip-address-writer.ts'

const source = 'ip-address-repair'
/** Stands among the addresses for more than these: no address has this name. */
const everything = ''

export interface IpAddressRoundsOptions extends RepairContext {
  readonly ipAddresses: Followed<IpAddress>
  /** The copies, as they are at each moment. */
  readonly view: Omit<ServiceIpView, 'repairing' | 'strayMs'>
  readonly schedule: IpAddressSchedule
  /** Called after each full pass: what is kept for addresses that nobody has any more may go. */
  readonly tidy: () => void
}

/** Looks, tells, writes, and keeps track of what could not be written. */
export class IpAddressRounds {
  readonly #options: IpAddressRoundsOptions
  readonly #writer: IpAddressWriter
  readonly #retry: WriteRetry
  readonly #settled = Promise.withResolvers<void>()
  /** Addresses that could not be put right yet; each comes back. */
  readonly #failed = new Set<string>()
  #failure: string | undefined
  /** A full pass has looked at everything, and its writes are not all done. */
  #passOpen = false
  /** Since when IPAddresses are known to be no Service's, by uid. */
  #strays = new Map<string, number>()
  /** What the last full pass found in no range. */
  #outOfRange: ReadonlySet<string> = new Set()

  constructor(options: IpAddressRoundsOptions) {
    this.#options = options
    this.#writer = new IpAddressWriter({
      ...options,
      current: options.view.ipAddressOf,
      holdersOf: options.view.holdersOf,
    })
    this.#retry = new WriteRetry(options.random)
  }

  /** Resolves after the first full pass that left everything right. */
  get settled(): Promise<void> {
    return this.#settled.promise
  }

  /** What keeps addresses from being put right. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Rejects only with the signal's reason: what fails is looked at again later. */
  async round(work: Work, signal: AbortSignal): Promise<void> {
    const { reporter, availability, schedule } = this.#options
    if (work.all) this.#failed.clear()
    for (const name of work.names) this.#failed.delete(name)
    try {
      this.#track(await this.#lookAndWrite(work, signal))
      const strays = await this.#writer.verify(work.all ? this.#writer.made : work.names, signal)
      if (strays.size > 0) schedule.markAfter(strays, releaseMs)
    } catch (error) {
      signal.throwIfAborted()
      this.#comeBack(work, error)
    }
    if (this.#failed.size > 0) return
    if (this.#failure !== undefined) availability.succeeded(source)
    this.#failure = undefined
    this.#retry.reset()
    if (!this.#passOpen) return
    this.#passOpen = false
    reporter.metrics.passed()
    this.#settled.resolve()
  }

  async #lookAndWrite(work: Work, signal: AbortSignal): Promise<readonly WriteOutcome[]> {
    const { api, permit, schedule, reporter } = this.#options
    const { full } = work
    // A server that repairs by itself is given its time.
    if (permit.mode === 'report' && !full) return []
    const scope = this.#scopeOf(work)
    const seen = look(scope, this.#view(permit.mode === 'repair'))
    const wanted = seen.writes.length > 0
    const writing = wanted && permit.mode === 'repair' && (await permit.granted(signal))
    if (wanted && !writing && !full) return []
    const found = wanted ? await lookAgainLive(seen, scope, this.#view(writing), { api, signal }) : seen
    if (found.againMs !== undefined) schedule.passWithin(found.againMs)
    this.#noteStrays(found, full)
    this.#tell(found, work)
    if (full) this.#finishLook()
    if (!writing) return []
    const outcomes = await this.#writer.write(found.writes, signal)
    for (const { write, result } of outcomes) if (result === 'done') reporter.repaired(write.finding)
    return outcomes
  }

  #scopeOf({ full, all, names }: Work): LookScope {
    const { services, ipAddresses, view, schedule } = this.#options
    const looked = [...(all ? this.#doubtful(services.store.list()) : names)].filter(
      (name) => !schedule.isReleased(name),
    )
    if (full) return { names: looked, existing: ipAddresses.store.list(), deleting: true }
    const existing = [...names].map((name) => view.ipAddressOf(name)).filter((one) => one !== undefined)
    return { names: looked, existing, deleting: false }
  }

  #doubtful(services: Parameters<typeof doubtfulNames>[0]): ReadonlySet<string> {
    return doubtfulNames(services, this.#view(true))
  }

  #view(repairing: boolean): ServiceIpView {
    const strayMs = ({ metadata }: IpAddress): number => {
      const sinceMs = this.#strays.get(metadata?.uid ?? '')
      return sinceMs === undefined ? 0 : this.#options.clock.monotonicMs() - sinceMs
    }
    return { ...this.#options.view, strayMs, repairing }
  }

  #noteStrays({ strays }: Look, full: boolean): void {
    const nowMs = this.#options.clock.monotonicMs()
    const known = this.#strays
    if (full) this.#strays = new Map()
    for (const { metadata } of strays) {
      const { uid = '' } = metadata ?? {}
      this.#strays.set(uid, known.get(uid) ?? nowMs)
    }
  }

  #tell({ findings }: Look, { full, regular }: Work): void {
    const { reporter, schedule } = this.#options
    if (full) {
      this.#outOfRange = new Set(findings.filter(isOutOfRange).map(identityOf))
      reporter.tell(findings, { full: regular })
      return
    }
    // The watch of ServiceCIDRs may be behind that of the Services: a full pass will know.
    const told = findings.filter((finding) => !isOutOfRange(finding) || this.#outOfRange.has(identityOf(finding)))
    if (told.length < findings.length) schedule.passWithin(catchUpMs)
    if (told.length > 0) reporter.tell(told, { full: false })
  }

  /** A full pass has looked at everything. */
  #finishLook(): void {
    this.#passOpen = true
    this.#options.tidy()
  }

  /** Has what could not be written come back. One wait for all: there is one server. */
  #track(outcomes: readonly WriteOutcome[]): void {
    const { schedule, reporter } = this.#options
    const left = outcomes.filter((outcome) => 'error' in outcome)
    const [first] = left
    if (first === undefined) return
    const failure = left.find(({ result }) => result === 'failed')
    if (failure !== undefined) {
      this.#fail(failure.error)
      reporter.metrics.failed()
    }
    const delayMs = this.#retry.next((failure ?? first).error)
    const names = new Set<string>()
    for (const { write, result } of left) {
      const { name = '' } = write.ipAddress.metadata ?? {}
      if (write.type !== 'delete') names.add(name)
      if (write.type !== 'delete' || result === 'failed') this.#failed.add(name)
    }
    schedule.markAfter(names, delayMs)
    // Only a full pass deletes.
    if (names.size < left.length) schedule.passWithin(delayMs)
  }

  /** Has all of it come back, because it could not even be looked at. */
  #comeBack({ all, names }: Work, error: unknown): void {
    const { schedule, reporter } = this.#options
    this.#fail(error)
    reporter.metrics.failed()
    const delayMs = this.#retry.next(error)
    this.#failed.add(everything)
    for (const name of names) this.#failed.add(name)
    if (all) schedule.passAgain(delayMs)
    else schedule.markAfter(new Set([everything, ...names]), delayMs)
  }

  #fail(error: unknown): void {
    this.#options.availability.failed(source, error)
    this.#failure = messageOf(error)
  }
}

function isOutOfRange({ reason }: Finding): boolean {
  return reason === 'ClusterIPOutOfRange'
}

function identityOf({ item, regarding }: Finding): string {
  return `${item} ${regarding?.metadata?.uid ?? ''}`
}
