import type { AvailabilityReporter } from '../kube/availability.ts'
import type { EventSink } from '../kube/event-object.ts'
import type { Address } from '../net/address.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { abortable } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Announcements } from './announcements.ts'
import { contentionLimits } from './contention.ts'
import type { EndpointsAdapter } from './endpoints-adapter.ts'
import type { FleetView } from './fleet-view.ts'
import { LeaseKeeper } from './lease-keeper.ts'
import { LeaseTelemetry } from './lease-telemetry.ts'
import {
  type Holder,
  type HolderState,
  LeaseWithdrawn,
  type MasterLease,
  type MasterLeases,
} from './leases/master-leases.ts'
import { isHeldBy } from './members.ts'
import type { ReadinessMonitor } from './readiness-monitor.ts'
import { LeaseEndpointReconciler } from './reconcilers/lease.ts'

/** Longer than masters that fail for one reason are apart in saying so: the probes' period, and what late messages add. */
const LOOK_AROUND_MS = 1_500

export interface LeaseMembershipOptions {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
  readonly events: EventSink
  readonly availability: AvailabilityReporter
  readonly monitor: ReadinessMonitor
  readonly adapter: EndpointsAdapter
  readonly leases: MasterLeases
  readonly holder: Holder
  readonly address: Address
  readonly intervalMs: number
  readonly ttlMs: number
  /** Told of what is read of the leases. */
  readonly fleet: FleetView
  readonly announcements: Announcements
  /** Called when the leases may have changed. */
  readonly onLeases: () => void
}

/** One master's place in the fleet: its lease kept alive, its readiness announced, changes of the others noticed. */
export class LeaseMembership {
  readonly reconciler: LeaseEndpointReconciler
  readonly #options: LeaseMembershipOptions
  readonly #keeper: LeaseKeeper
  #failingSinceMs = 0
  #isAnnounced = false

  constructor(options: LeaseMembershipOptions) {
    this.#options = options
    const { clock, random, monitor, intervalMs, address, availability, leases, adapter, holder } = options
    const telemetry = new LeaseTelemetry({
      ...options,
      address: address.text,
      renewedMs: () => this.#keeper.renewedMs,
    })
    this.#keeper = new LeaseKeeper({
      clock,
      random,
      monitor,
      intervalMs,
      limits: contentionLimits(options.ttlMs / 3),
      onContention: (input, before, now) => telemetry.contended(input, before, now),
      look: options.onLeases,
      renew: (signal) => this.#renew(signal),
      isFinal: (error) => error instanceof LeaseWithdrawn,
      report: (error) => {
        telemetry.attempted(error)
        if (error === undefined) availability.succeeded('lease')
        else if (!(error instanceof LeaseWithdrawn)) availability.failed('lease', error)
      },
    })
    this.reconciler = new LeaseEndpointReconciler({
      clock,
      adapter,
      leases,
      holder,
      stateAnew: () => (monitor.phase === 'unready' ? 'unready' : 'ready'),
      whenAnswered: (signal) => this.#keeper.whenAnswered(signal),
      onLost: () => this.#keeper.hurry(),
      isHeldBack: () => this.#keeper.isHeldBack,
      onRead: (live) => this.#read(live),
    })
  }

  /** Follows the leases of the fleet until the signal is aborted. */
  watch(signal: AbortSignal): Promise<void> {
    const { leases, fleet, onLeases } = this.#options
    const look = (): void => {
      fleet.noticed()
      onLeases()
    }
    return leases.watch(look, signal)
  }

  /**
   * Keeps this master's lease, once its first reconcile has made it, until the signal is aborted or somebody withdraws the master.
   */
  async keep(signal: AbortSignal): Promise<void> {
    await abortable(this.reconciler.whenAnnounced, signal)
    const unsubscribe = this.#announceReadiness(signal)
    try {
      await this.#keeper.run(signal)
      this.#options.logger.warn(
        { address: this.#options.address.text },
        'this master was withdrawn; it stays out until it is started again',
      )
    } finally {
      unsubscribe()
    }
  }

  #read(leases: readonly MasterLease[]): void {
    const { fleet, announcements, holder } = this.#options
    fleet.read(leases)
    if (this.#isAnnounced || !leases.some((lease) => isHeldBy(lease, holder))) return
    this.#isAnnounced = true
    announcements.announced(holder, leases)
  }

  /** What may have ended is read first: made anew, it must say what this master thinks of its server now. */
  async #renew(signal: AbortSignal): Promise<void> {
    const { clock, ttlMs, address } = this.#options
    const renewedMs = this.#keeper.renewedMs ?? Number.NEGATIVE_INFINITY
    if (clock.monotonicMs() - renewedMs >= ttlMs) await this.reconciler.readMembers(signal)
    await this.reconciler.renew(address, signal)
  }

  #announceReadiness(signal: AbortSignal): () => void {
    const { monitor, address, availability, onLeases } = this.#options
    let writing = false
    // One write at a time; a probe that finds the record out of step with the state starts the next.
    return monitor.subscribe(() => {
      if (writing || signal.aborted || !this.#isOutOfStep()) return
      writing = true
      this.reconciler
        .announce(address, (othersServe) => this.#nextState(othersServe), signal)
        .then(
          (changed) => {
            if (changed) onLeases()
          },
          (error: unknown) => {
            if (!signal.aborted && !(error instanceof LeaseWithdrawn)) availability.failed('lease', error)
          },
        )
        .finally(() => {
          writing = false
        })
    })
  }

  #isOutOfStep(): boolean {
    const { announcedState } = this.reconciler
    const { failing, phase } = this.#options.monitor
    return failing
      ? announcedState === 'ready' || announcedState === 'failing'
      : phase === 'ready' && announcedState !== 'ready'
  }

  /**
   * What the record should say next; undefined leaves it as it is.
   *
   * Leaving for unreadiness has two steps, two probes apart: say that the server fails, then look whether another one serves. When
   * all fail at once each finds the others failing, and nobody leaves.
   */
  async #nextState(othersServe: () => Promise<boolean>): Promise<HolderState | undefined> {
    const { monitor, clock, logger, address } = this.#options
    const { announcedState } = this.reconciler
    // An outage that could not be announced while it lasted is not announced after it: all masters would do so at once, and leave
    // the list to one that has died meanwhile.
    if (!monitor.failing) return monitor.phase === 'ready' ? 'ready' : undefined
    if (announcedState === 'ready') {
      this.#failingSinceMs = clock.monotonicMs()
      return 'failing'
    }
    if (announcedState !== 'failing' || clock.monotonicMs() - this.#failingSinceMs < LOOK_AROUND_MS) return undefined
    if (!(await othersServe())) return undefined
    logger.info({ address: address.text }, 'leaving the list until the API server is ready again')
    return 'unready'
  }
}
