import type { KubeApi } from '../../kube/api.ts'
import type { Followed } from '../../kube/informer.ts'
import { WriteRetry } from '../../kube/reconcile-loop.ts'
import type { IpAddress } from '../../kube/resources.ts'
import { refOfObject } from '../../kube/store.ts'
import type { Clock } from '../../runtime/clock.ts'
import { messageOf } from '../../runtime/errors.ts'
import { inSlices, type Steps } from '../../runtime/steps.ts'
import { readServices } from '../live-services.ts'
import { MAX_RELEASE_DELAY_MS, type RepairContext } from '../repair.ts'
import type { Finding } from '../reporter.ts'
import { isManagedByAllocator, refersTo } from './ip-address.ts'
import { namesToCheck, planAddress, planExisting, type ServiceIpView, servicesInvolved, withServices } from './plan.ts'
import type { IpAddressSchedule, Work } from './schedule.ts'
import { type IpAddressWrite, IpAddressWriter, type WriteOutcome } from './writer.ts'

const source = 'ip-address-repair'
/** Stands among addresses for a check that failed as a whole. No address has this name. */
const wholeCheck = ''

interface IpAddressRoundsOptions extends RepairContext {
  readonly ipAddresses: Followed<IpAddress>
  readonly view: Omit<ServiceIpView, 'repairing' | 'orphanedMs'>
  readonly schedule: IpAddressSchedule
}

/** Checks addresses, reports findings, writes, and tracks failed writes. */
export class IpAddressRounds {
  readonly #options: IpAddressRoundsOptions
  readonly #writer: IpAddressWriter
  readonly #retry: WriteRetry
  readonly #settled = Promise.withResolvers<void>()
  /** Resolves after the first full pass whose writes all succeeded. */
  readonly settled = this.#settled.promise
  /** Addresses that could not be repaired yet; each is retried. */
  readonly #failed = new Set<string>()
  /** Whether an orphan could not be deleted yet. Only a full pass tries again. */
  #undeleted = false
  #failure: string | undefined
  /** Whether a full pass has checked everything, but writes that it planned may still have to be repeated. */
  #passOpen = false
  /** Since when IPAddresses are known to be orphans, in monotonic time, by uid. */
  #orphans = new Map<string, number>()
  /** Since when other clients have been faster to repair an address, in monotonic time, by its name. */
  #overtaken = new Map<string, number>()
  /** The identities of the findings of the last full pass about addresses outside all ranges. */
  #outOfRange: ReadonlySet<string> = new Set()

  constructor(options: IpAddressRoundsOptions) {
    this.#options = options
    this.#writer = new IpAddressWriter({
      ...options,
      current: options.view.ipAddressOf,
      holdersOf: options.view.holdersOf,
    })
    // A 422 comes from a policy, which lasts: a name that another client has taken causes a 409.
    this.#retry = new WriteRetry(options.random, 'lasting')
  }

  /** Why addresses cannot be repaired; undefined while there is no failure. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Carries out one round. Rejects only with the signal's reason. Failed work is retried in a later round. */
  async round(work: Work, signal: AbortSignal): Promise<void> {
    const { reporter, availability, schedule } = this.#options
    if (work.full) this.#undeleted = false
    if (work.all) this.#failed.clear()
    for (const name of work.names) this.#failed.delete(name)
    try {
      this.#track(await this.#checkAndWrite(work, signal))
      const orphans = await this.#writer.verify(work.all ? this.#writer.made : work.names, signal)
      if (orphans.size > 0) schedule.markAfter(orphans, MAX_RELEASE_DELAY_MS)
    } catch (error) {
      signal.throwIfAborted()
      this.#comeBack(work, error)
    }
    if (this.#failed.size > 0 || this.#undeleted) return
    if (this.#failure !== undefined) availability.succeeded(source)
    this.#failure = undefined
    this.#retry.reset()
    if (!this.#passOpen) return
    this.#passOpen = false
    reporter.metrics.passed(this)
    this.#settled.resolve()
  }

  async #checkAndWrite(work: Work, signal: AbortSignal): Promise<readonly WriteOutcome[]> {
    const { api, permit, schedule, reporter, clock } = this.#options
    const { full } = work
    // A server that repairs by itself gets time until the next full pass, which only reports.
    if (permit.mode === 'report' && !full) return []
    const scope = await this.#scopeOf(work, signal)
    const seen = await inSlices(clock, check(scope, this.#view(permit.mode === 'repair')), signal)
    const wanted = seen.writes.length > 0
    const writing = wanted && permit.mode === 'repair' && (await permit.granted(signal))
    if (wanted && !writing && !full) return []
    const found = wanted ? await checkLive(seen, scope, this.#view(writing), { api, clock, signal }) : seen
    if (found.againMs !== undefined) schedule.passAfter(found.againMs)
    this.#noteOrphans(found, full)
    const outcomes = writing ? await this.#writer.write(found.writes, signal) : []
    this.#report({ ...found, findings: this.#confirmed(found.findings, outcomes, work) }, work)
    if (full) this.#passOpen = true
    for (const { write, result } of outcomes) if (result === 'done') reporter.repaired(write.finding)
    return outcomes
  }

  /**
   * Leaves out the finding of each write that another client has overtaken: a new Service may arrive here before its
   * IPAddress. But reports an address whose writes have been overtaken for longer than {@link CATCH_UP_MS}.
   */
  #confirmed(findings: readonly Finding[], outcomes: readonly WriteOutcome[], work: Work): readonly Finding[] {
    const nowMs = this.#options.clock.monotonicMs()
    const known = this.#overtaken
    const late = new Set<Finding>()
    this.#overtaken = work.full ? new Map() : new Map([...known].filter(([name]) => !work.names.has(name)))
    for (const { write, result } of outcomes) {
      if (result !== 'moot' && result !== 'again') continue
      const name = write.ipAddress.metadata?.name ?? ''
      const sinceMs = known.get(name) ?? nowMs
      this.#overtaken.set(name, sinceMs)
      if (nowMs - sinceMs < CATCH_UP_MS) late.add(write.finding)
    }
    return findings.filter((finding) => !late.has(finding))
  }

  async #scopeOf({ full, all, names }: Work, signal: AbortSignal): Promise<CheckScope> {
    const { services, ipAddresses, view, schedule, clock } = this.#options
    const named = all ? await inSlices(clock, namesToCheck(services.store, this.#view(true)), signal) : names
    const checked = [...named].filter((name) => !schedule.isJustDeleted(name))
    if (full) return { names: checked, existing: ipAddresses.store, deleting: true }
    const existing = [...names].map((name) => view.ipAddressOf(name)).filter((one) => one !== undefined)
    return { names: checked, existing, deleting: false }
  }

  #view(repairing: boolean): ServiceIpView {
    const orphanedMs = ({ metadata }: IpAddress): number => {
      const sinceMs = this.#orphans.get(metadata?.uid ?? '')
      return sinceMs === undefined ? 0 : this.#options.clock.monotonicMs() - sinceMs
    }
    return { ...this.#options.view, orphanedMs, repairing }
  }

  #noteOrphans({ orphans }: CheckResult, full: boolean): void {
    const nowMs = this.#options.clock.monotonicMs()
    const known = this.#orphans
    if (full) this.#orphans = new Map()
    for (const { metadata } of orphans) {
      const { uid = '' } = metadata ?? {}
      this.#orphans.set(uid, known.get(uid) ?? nowMs)
    }
  }

  #report({ findings }: CheckResult, { full, regular }: Work): void {
    const { reporter, schedule } = this.#options
    if (full) {
      this.#outOfRange = new Set(findings.filter(isOutOfRange).map(identityOf))
      reporter.report(findings, { full: regular })
      return
    }
    // The watch of ServiceCIDRs may be behind that of the Services, so only a full pass decides that an address is
    // outside.
    const reported = findings.filter((finding) => !isOutOfRange(finding) || this.#outOfRange.has(identityOf(finding)))
    if (reported.length < findings.length) schedule.passAfter(CATCH_UP_MS)
    if (reported.length > 0) reporter.report(reported, { full: false })
  }

  /** Schedules the failed writes of a round again, all after the same time, because one server has refused them. */
  #track(outcomes: readonly WriteOutcome[]): void {
    const { schedule } = this.#options
    const left = outcomes.filter((outcome) => 'error' in outcome)
    const [first] = left
    if (first === undefined) return
    const failure = left.find(({ result }) => result === 'failed')
    if (failure !== undefined) this.#fail(failure.error)
    const delayMs = this.#retry.next((failure ?? first).error)
    const names = new Set<string>()
    for (const { write, result } of left) {
      const { name = '' } = write.ipAddress.metadata ?? {}
      if (write.type !== 'delete') names.add(name)
      else if (result === 'failed') this.#undeleted = true
    }
    for (const name of names) this.#failed.add(name)
    schedule.markAfter(names, delayMs)
    if (names.size < left.length) schedule.passAfter(delayMs)
  }

  #comeBack({ all, names }: Work, error: unknown): void {
    const { schedule } = this.#options
    this.#fail(error)
    const delayMs = this.#retry.next(error)
    this.#failed.add(wholeCheck)
    for (const name of names) this.#failed.add(name)
    if (all) schedule.passAgain(delayMs)
    else schedule.markAfter(new Set([wholeCheck, ...names]), delayMs)
  }

  #fail(error: unknown): void {
    const { availability, reporter } = this.#options
    availability.failed(source, error)
    reporter.metrics.failed()
    this.#failure = messageOf(error)
  }
}

function isOutOfRange({ reason }: Finding): boolean {
  return reason === 'ClusterIPOutOfRange'
}

function identityOf({ item, regarding }: Finding): string {
  return `${item} ${regarding?.metadata?.uid ?? ''}`
}

/**
 * After this many milliseconds every watch has normally caught up, and the server has released the addresses of a
 * deleted Service.
 */
const CATCH_UP_MS = 5_000

interface CheckResult {
  readonly findings: readonly Finding[]
  readonly writes: readonly IpAddressWrite[]
  /** IPAddresses that the allocator manages and no Service holds, including young ones. */
  readonly orphans: readonly IpAddress[]
  /**
   * In how many milliseconds to check again the orphans that are not deleted in this round; undefined if there are
   * none.
   */
  readonly againMs: number | undefined
}

/** What a check covers. */
export interface CheckScope {
  readonly names: Iterable<string>
  /** The IPAddresses among which to find orphans. */
  readonly existing: Iterable<IpAddress>
  /** Whether to delete orphans. If not, `againMs` shows that there are some. */
  readonly deleting: boolean
}

/** Checks the objects of `view`, which may change between steps: {@link checkLive} decides about writes. Pure. */
export function* check(scope: CheckScope, view: ServiceIpView): Steps<CheckResult> {
  const findings: Finding[] = []
  const writes: IpAddressWrite[] = []
  const busy = new Set<string>()
  for (const name of scope.names) {
    for (const action of planAddress(name, view)) {
      if (action.type === 'none') continue
      findings.push(action.finding)
      if (action.type === 'report') continue
      writes.push(action)
      busy.add(name)
    }
    yield
  }
  const orphans: IpAddress[] = []
  let againMs: number | undefined
  for (const ipAddress of scope.existing) {
    yield
    // An IPAddress that is to be recreated or relabelled for a Service is not deleted.
    const { name = '' } = ipAddress.metadata ?? {}
    if (!isManagedByAllocator(ipAddress) || busy.has(name)) continue
    // Usually the Service with the address is the parent, which is quick to check.
    if (view.holdersOf(name).some((service) => refersTo(ipAddress, refOfObject(service)))) continue
    const action = planExisting(ipAddress, view)
    if (action.type === 'keep') continue
    orphans.push(ipAddress)
    const waitMs = action.type === 'wait' ? action.forMs : CATCH_UP_MS - view.orphanedMs(ipAddress)
    if (action.type === 'delete' && waitMs <= 0 && scope.deleting) {
      findings.push(action.finding)
      writes.push(action)
    } else againMs = soonest(againMs, Math.max(waitMs, 0))
  }
  return { findings, writes, orphans, againMs }
}

/**
 * Checks the planned writes once more, with the Services from a live read. Uses the IPAddresses from before that read:
 * an IPAddress that is still unchanged when it is deleted was also unchanged while the Services were read. Rejects like
 * {@link readServices}.
 */
async function checkLive(
  seen: CheckResult,
  { deleting }: CheckScope,
  view: ServiceIpView,
  { api, clock, signal }: { readonly api: KubeApi; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<CheckResult> {
  const names = new Set(seen.writes.map(({ ipAddress }) => ipAddress.metadata?.name ?? ''))
  const before = new Map<string, IpAddress>()
  for (const name of names) {
    const ipAddress = view.ipAddressOf(name)
    if (ipAddress !== undefined) before.set(name, ipAddress)
  }
  const involved = [...names].flatMap((name) => servicesInvolved(name, view))
  const live = await readServices(api, involved, signal)
  const existing = deleting ? before.values() : []
  const checked = await inSlices(clock, check({ names, existing, deleting }, withServices(view, live, before)), signal)
  return {
    findings: [...seen.findings.filter(({ item }) => !names.has(item)), ...checked.findings],
    writes: checked.writes,
    orphans: seen.orphans,
    againMs: soonest(seen.againMs, checked.againMs),
  }
}

function soonest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}
