import type { AvailabilityReporter } from '../../kube/availability.ts'
import { isDenied, isKubeError } from '../../kube/errors.ts'
import type { ReadinessAnswer } from '../../kube/readiness.ts'
import type { Address } from '../../net/address.ts'
import { type Cancel, type Clock, sleep } from '../../runtime/clock.ts'
import { messageOf, RemoteError } from '../../runtime/errors.ts'
import { within } from '../../runtime/request-limit.ts'
import { abortable, aborted, linkedController } from '../../runtime/signals.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Announcements, LeaseTelemetry } from '../announcements.ts'
import { type EndpointsAdapter, type ListPlan, NoLiveMasters, type StoredEndpoints } from '../endpoints-adapter.ts'
import { planEndpoints } from '../endpoints-plan.ts'
import type { FleetView } from '../fleet-view.ts'
import { conflictPause } from '../guarded-writes/object-writer.ts'
import type { EndpointPort } from '../identity.ts'
import { type Holder, LeaseWithdrawn, type MasterLeases } from '../leases/master-leases.ts'
import { othersPerhapsReady, portsAgreed } from '../members.ts'
import type { ReadinessMonitor } from '../readiness-monitor.ts'
import type { ListReconciler, ObservedEndpoints, WatchedList } from '../reconcilers/endpoint-reconciler.ts'
import { addressesForList, isFleetDualStack, listedInBoth, secondAddressesForList } from './fleet.ts'
import { failsByEtcd } from './readiness.ts'
import {
  type Membership,
  type MembershipEffect,
  type MembershipEvent,
  type MembershipInput,
  membershipFault,
  type OnShutdown,
  type OutReason,
  outMessages,
} from './state.ts'
import { isHeldBack, startMembership, step, wakeAtMs } from './step.ts'
import type { MembershipTimings } from './timings.ts'

export interface MembershipRunnerOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  readonly monitor: ReadinessMonitor
  readonly adapter: EndpointsAdapter
  readonly leases: MasterLeases
  readonly holder: Holder
  readonly ports: readonly EndpointPort[]
  readonly timings: MembershipTimings
  readonly fleet: FleetView
  readonly announcements: Announcements
  readonly telemetry: Pick<LeaseTelemetry, 'attempted' | 'contended'>
  /** Called when the list may be out of sync. */
  readonly onChange: () => void
}

/**
 * Carries out the effects of {@link step}: one request for the lease at a time, one read, one probe, one write of the
 * list. A slow write of the list never delays the lease.
 *
 * The runner is also the reconciler `lease`: the controller calls the runner to compare the list with the live leases.
 * Upstream: `leaseEndpointReconciler` in pkg/controlplane/reconcilers/lease.go.
 */
export class MembershipRunner implements ListReconciler {
  readonly #options: MembershipRunnerOptions
  readonly #beganMs: number
  /** Resolves when this master has joined, or is out. */
  readonly #hasJoined = Promise.withResolvers<void>()
  readonly #out = Promise.withResolvers<OutReason>()
  readonly #work = new Set<Promise<void>>()
  #state: Membership
  #signal: AbortSignal | undefined
  /** The time of the last answer of the API server or the lease store, refusals included, on the monotonic clock. */
  #answeredMs = Number.NEGATIVE_INFINITY
  /**
   * When the last failed request to the lease store failed, on the monotonic clock; infinite if none has failed, or if
   * the store was not away at that failure.
   */
  #awayMs = Number.POSITIVE_INFINITY
  #cancelWake: Cancel = () => {}
  /** The listed addresses at this master's first read of the list. */
  #listedBefore: readonly string[] | undefined
  readonly #conflictPause: (signal: AbortSignal) => Promise<void>
  /** Why this master could not withdraw its address, as last logged in this departure. */
  #loggedFault: string | undefined

  constructor(options: MembershipRunnerOptions) {
    this.#options = options
    this.#beganMs = options.clock.monotonicMs()
    this.#state = startMembership(options.holder)
    this.#conflictPause = conflictPause(options.clock)
  }

  fault(): string | undefined {
    const { clock, timings } = this.#options
    return membershipFault(this.#state, clock.monotonicMs(), timings)
  }

  /** When the last successful renewal was sent, on the monotonic clock; undefined unless this master is listed. */
  get renewedMs(): number | undefined {
    return this.#state.phase.type === 'listed' ? this.#state.lease.renewedAtMs : undefined
  }

  /** Runs until the signal is aborted, then waits for the running requests. */
  async run(signal: AbortSignal): Promise<void> {
    const { monitor, leases, fleet } = this.#options
    this.#signal = signal
    const unsubscribe = monitor.subscribe((answer, sentAtMs) => this.#probed(sentAtMs, answer, false))
    const changed = (): void => {
      fleet.noticed()
      this.#take({ type: 'changed' })
    }
    try {
      await Promise.all([leases.watch(changed, signal), aborted(signal)])
    } finally {
      unsubscribe()
      this.#cancelWake()
      await Promise.allSettled(this.#work)
    }
  }

  /** Leaves as `mode` demands. Resolves with `left-listed` if no server answers. Rejects when `signal` is aborted. */
  async stop(mode: OnShutdown, signal: AbortSignal): Promise<OutReason> {
    const { logger, holder } = this.#options
    const [address] = holder.addresses
    this.#take({ type: 'stop', mode })
    const { phase } = this.#state
    if (phase.type === 'out') return phase.why
    const { controller, unlink } = linkedController(signal)
    try {
      const reason = await Promise.race([abortable(this.#out.promise, signal), this.#silence(controller.signal)])
      if (reason !== 'unreached') return reason
      logger.warn({ address }, 'API server and lease store do not respond; the address stays until its lease expires')
      return 'left-listed'
    } catch (error) {
      const isGone = this.#state.self.state === 'withdrawn'
      logger.warn(
        { address },
        isGone
          ? 'could not update the list in time; the lease is gone, and the address stays listed until a master can write the Endpoints'
          : 'could not withdraw the address in time; it stays listed until its lease expires',
      )
      throw error
    } finally {
      controller.abort()
      unlink()
    }
  }

  /**
   * Resolves when neither the API server nor the lease store has answered for `unreachedMs`, from now on. While the
   * server lives and only its etcd hangs, this call continues to wait, because the store may be back soon.
   */
  async #silence(signal: AbortSignal): Promise<'unreached'> {
    const { clock, timings, monitor } = this.#options
    const sinceMs = this.#nowMs
    for (;;) {
      const leftMs = Math.max(sinceMs, this.#answeredMs) + timings.unreachedMs - this.#nowMs
      if (leftMs > 0) await sleep(clock, leftMs, signal)
      else if (await within(clock, timings.attemptMs, signal, (limited) => monitor.answers(limited)).catch(() => false))
        this.#answeredMs = this.#nowMs
      else return 'unreached'
    }
  }

  async reconcileEndpoints(
    _ip: Address,
    _ports: readonly EndpointPort[],
    reconcilePorts: boolean | 'agreed',
    signal: AbortSignal,
    watched?: WatchedList,
  ): Promise<void> {
    await abortable(this.#hasJoined.promise, signal)
    if (this.#state.phase.type !== 'listed') return
    const planFor = async (stored: StoredEndpoints): Promise<ListPlan | undefined> => {
      // If nothing is stored, only the creation by the first master succeeds, and for that older leases suffice.
      const isNew = stored.endpoints === undefined && stored.slice === undefined && stored.secondSlices.length === 0
      await this.refreshMembers(signal, isNew)
      const plan = this.#plan(stored, reconcilePorts === 'agreed' ? this.portsAgreed() : reconcilePorts)
      // Only this master lives, and its lease will soon be created again. So there is nothing to do, and no failure.
      return plan.endpoints.type === 'refuse' && isHeldBack(this.#state) ? undefined : plan
    }
    await this.#options.adapter.reconcile(planFor, signal, watched)
  }

  isSatisfied(observed: ObservedEndpoints, _ports: readonly EndpointPort[], reconcilePorts: boolean): boolean {
    const { phase } = this.#state
    if (phase.type !== 'listed') return phase.type === 'leaving' || phase.type === 'out'
    return this.#options.adapter.isSettled(this.#plan(observed, reconcilePorts), observed)
  }

  async refreshMembers(signal: AbortSignal, sinceOwnLease = false): Promise<void> {
    const sentAtMs = this.#nowMs
    this.#read(sentAtMs, await this.#options.leases.list(signal, sinceOwnLease), false)
    // This answer may be older than the answer to an earlier read, so the leases are read again.
    if (sinceOwnLease) this.#take({ type: 'changed' })
  }

  /** Whether every live master wants the same ports as this one. False without leases. */
  portsAgreed(): boolean {
    return portsAgreed(this.#state.fleet.leases, this.#options.holder.ports)
  }

  isDualStack(observed: ObservedEndpoints): boolean | undefined {
    return isFleetDualStack(this.#state, { ...observed, listedBefore: this.#listedBefore ?? listedInBoth(observed) })
  }

  /** The plan for the list, from the last read of the leases. */
  #plan(stored: StoredEndpoints, reconcilePorts: boolean, mayBecomeEmpty = false): ListPlan {
    const { endpoints: current, slicesError } = stored
    const listedBefore = this.#listedBefore ?? listedInBoth(stored)
    if (slicesError === undefined) this.#listedBefore = listedBefore
    const known = { ...stored, listedBefore }
    const addresses = addressesForList(this.#state, known, mayBecomeEmpty)
    return {
      endpoints: planEndpoints({ addresses, current, ports: this.#options.ports, reconcilePorts, mayBecomeEmpty }),
      secondAddresses: secondAddressesForList(this.#state, known),
    }
  }

  #take(input: MembershipInput): void {
    if (this.#signal?.aborted !== false) return
    const { timings, clock } = this.#options
    const nowMs = this.#nowMs
    const { state, effects } = step(this.#state, input, nowMs, timings)
    this.#state = state
    this.#cancelWake()
    const wakeMs = wakeAtMs(state, nowMs, timings)
    if (wakeMs !== undefined) this.#cancelWake = clock.schedule(wakeMs - nowMs, () => this.#take({ type: 'timer' }))
    for (const effect of effects) this.#carryOut(effect)
  }

  #carryOut(effect: MembershipEffect): void {
    switch (effect.type) {
      case 'read':
        this.#begin(() => this.#readLeases(effect.limitMs))
        break
      case 'renew':
      case 'mark':
      case 'remove':
        this.#begin(() => this.#request(effect))
        break
      case 'probe':
        this.#begin(() => this.#probe(effect.limitMs))
        break
      case 'write-list':
        this.#begin(() => this.#writeList(effect))
        break
      case 'reconcile':
        this.#options.onChange()
        break
      case 'report':
        this.#report(effect.event)
    }
  }

  #begin(work: () => Promise<void>): void {
    const running: Promise<void> = work().finally(() => this.#work.delete(running))
    this.#work.add(running)
  }

  async #readLeases(limitMs: number): Promise<void> {
    const sentAtMs = this.#nowMs
    try {
      const leases = await this.#within(limitMs, (signal) => this.#options.leases.list(signal))
      this.#read(sentAtMs, leases, true)
    } catch (error) {
      this.#failed(error)
      this.#take({ type: 'read-failed' })
    }
  }

  #read(sentAtMs: number, leases: Awaited<ReturnType<MasterLeases['list']>>, requested: boolean): void {
    const { clock, fleet, announcements, availability, timings } = this.#options
    this.#answeredMs = this.#nowMs
    // While this master sends no request for its lease (its server is dead), only reads show that the store is back.
    const isIdle = this.#state.lease.request === undefined && sentAtMs - this.#awayMs >= timings.ttlMs
    if (isIdle) availability.succeeded('lease')
    const wallMs = clock.wallMs()
    const span = { beganMs: wallMs - (this.#nowMs - this.#beganMs), nowMs: wallMs }
    this.#take({ type: 'leases', sentAtMs, leases, span, requested })
    fleet.read(this.#state.fleet.leases, sentAtMs)
    announcements.read(this.#state.self, leases)
  }

  async #request({ type, holder, limitMs }: Extract<MembershipEffect, { holder: Holder }>): Promise<void> {
    const { leases, telemetry, availability } = this.#options
    try {
      await this.#within(limitMs, (signal) =>
        type === 'renew' ? leases.update(holder, signal) : leases[type](holder, signal),
      )
      if (type === 'renew') telemetry.attempted(undefined)
      availability.succeeded('lease')
      this.#answeredMs = this.#nowMs
      this.#take({ type: 'done' })
    } catch (error) {
      if (type === 'renew') telemetry.attempted(error)
      const failure =
        error instanceof LeaseWithdrawn ? 'withdrawn' : isKubeError(error, 'NotFound') ? 'unprepared' : 'unknown'
      if (failure !== 'withdrawn') this.#failed(error)
      this.#take({ type: 'failed', failure })
    }
  }

  async #probe(limitMs: number): Promise<void> {
    const { monitor } = this.#options
    const sentAtMs = this.#nowMs
    // A lease must not expire because /readyz waits for etcd for longer than a renewal may take.
    const answers = this.#within(limitMs, (signal) => monitor.answers(signal)).catch(() => false)
    const answer = await this.#within(limitMs, (signal) => monitor.probe(signal)).catch(() => undefined)
    this.#probed(sentAtMs, answer, true, answer?.answered !== true && (await answers))
  }

  /** `requested`: by a `probe` effect. `answers`: whether the server has answered another request than /readyz. */
  #probed(sentAtMs: number, answer: ReadinessAnswer | undefined, requested: boolean, answers = false): void {
    const { state: readiness, serves } = this.#options.monitor
    const isDecided = answer?.answered === true
    const answered = isDecided || answers
    if (answered) this.#answeredMs = this.#nowMs
    this.#take({
      type: 'probed',
      sentAtMs,
      answered,
      serving: isDecided && serves,
      refused: isDecided && answer.refused !== undefined,
      failsByEtcd: answer !== undefined && failsByEtcd(answer),
      readiness,
      requested,
    })
  }

  async #writeList({ mayEmpty, needsOthers }: Extract<MembershipEffect, { type: 'write-list' }>): Promise<void> {
    const { adapter, holder } = this.#options
    const signal = this.#signal as AbortSignal
    try {
      const isWritten = await adapter.reconcile(async (stored) => {
        await this.refreshMembers(signal)
        if (needsOthers && othersPerhapsReady(this.#state.fleet.leases, holder).length === 0) return undefined
        // The remaining masters decide about their ports.
        return this.#plan(stored, false, mayEmpty)
      }, signal)
      this.#take({ type: 'list', outcome: isWritten ? 'written' : 'refused' })
    } catch (error) {
      const outcome = this.#listOutcome(error)
      if (outcome === 'conflict') await this.#conflictPause(signal).catch(() => {})
      this.#take({ type: 'list', outcome })
    }
  }

  #listOutcome(error: unknown): 'refused' | 'conflict' | 'failed' | 'denied' {
    if (error instanceof NoLiveMasters) return 'refused'
    if (error instanceof RemoteError && error.nature === 'conflict') return 'conflict'
    const reason = messageOf(error)
    if (!this.#signal?.aborted && reason !== this.#loggedFault) {
      this.#loggedFault = reason
      this.#options.logger.warn({ reason }, 'could not withdraw the address')
    }
    // After a 401 new credentials may be found, so the write is retried.
    return isDenied(error) && !isKubeError(error, 'Unauthorized') ? 'denied' : 'failed'
  }

  /** Rejects when the call takes longer than `limitMs`. The store may still execute an aborted request. */
  #within<T>(limitMs: number, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return within(this.#options.clock, limitMs, this.#signal, call)
  }

  #failed(error: unknown): void {
    const nature = error instanceof RemoteError ? error.nature : undefined
    if (nature !== undefined && nature !== 'away') this.#answeredMs = this.#nowMs
    this.#awayMs = nature === 'away' ? this.#nowMs : Number.POSITIVE_INFINITY
    if (!this.#signal?.aborted) this.#options.availability.failed('lease', error)
  }

  #report(event: MembershipEvent): void {
    const { logger, holder, telemetry } = this.#options
    const [address] = holder.addresses
    switch (event.type) {
      case 'joined':
        this.#hasJoined.resolve()
        break
      case 'unready':
        logger.info({ address }, 'leaving the list until the API server is ready again')
        break
      case 'expiry-suspected':
        logger.warn(
          { addresses: event.addresses },
          'leases are missing, and this master cannot know yet whether their masters live: their addresses stay in the list for now',
        )
        break
      case 'contention':
        telemetry.contended(event.corrected, event.before, event.now)
        break
      case 'out':
        logger[event.why === 'withdrawn' ? 'warn' : 'info']({ address }, outMessages[event.why])
        this.#hasJoined.resolve()
        if (event.why !== 'withdrawn') this.#out.resolve(event.why)
    }
  }

  get #nowMs(): number {
    return this.#options.clock.monotonicMs()
  }
}
