import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { linkedController } from '../runtime/signals.ts'
import { formatMicroTime } from '../runtime/time-format.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Gauge, Metrics } from '../telemetry/metrics.ts'
import type { KubeApi } from './api.ts'
import type { Availability } from './availability.ts'
import { isKubeError } from './errors.ts'
import { apiVersionOf, type Lease, leases } from './resources.ts'

/** When leadership is taken, kept and given up. */
export interface LeaderElectionTiming {
  /** Others take the lease when they have seen no renewal for so long: whole seconds, in milliseconds. @default 15000 */
  readonly leaseDurationMs: number
  /** A leader that could not renew for so long stops leading. Less than `leaseDurationMs`. @default 10000 */
  readonly renewDeadlineMs: number
  /** Between two tries; who does not lead waits 1 to 2.2 times as long. @default 2000 */
  readonly retryPeriodMs: number
}

/** The defaults of client-go and of every Kubernetes component. */
export const defaultLeaderElectionTiming: LeaderElectionTiming = {
  leaseDurationMs: 15_000,
  renewDeadlineMs: 10_000,
  retryPeriodMs: 2_000,
}

export interface LeaderElectorOptions extends Partial<LeaderElectionTiming> {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics?: Metrics | undefined
  readonly availability?: Availability | undefined
  /** The Lease: its namespace must exist. */
  readonly namespace: string
  readonly name: string
  /** Of this process alone: two that share it both lead. */
  readonly identity: string
}

/** Waits of those who do not lead are lengthened by up to this share of themselves, as in client-go. */
const jitterFactor = 1.2

/** What is wrong with a timing, in one line; undefined when it is right. The rules are client-go's. */
export function leaderElectionProblem(timing: LeaderElectionTiming): string | undefined {
  const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = timing
  if (!(retryPeriodMs > 0)) return 'the retry period must be positive'
  if (!(renewDeadlineMs > retryPeriodMs * jitterFactor)) {
    return `the renew deadline must be longer than ${jitterFactor} times the retry period`
  }
  if (!(leaseDurationMs > renewDeadlineMs)) return 'the lease duration must be longer than the renew deadline'
  return leaseDurationMs % 1000 === 0 ? undefined : 'the lease duration must be a whole number of seconds'
}

/**
 * Elects one of any number of processes by a Lease, as client-go's `tools/leaderelection` does, and together with it.
 *
 * A leader stops `renewDeadlineMs` after it *sent* its last successful renewal; another begins `leaseDurationMs` after it *saw* the
 * last change of the Lease, measured on its own monotonic clock. So no two lead at once, whatever their wall clocks say and
 * whatever the network loses, as long as their clocks run at about the same speed.
 *
 * What this cannot do: stop a process that is frozen. It goes on where it stood when it thaws, before any timer of it can fire.
 * Who must be sure asks {@link isLeader} right before writing; between that and the write there is still no fence.
 */
export class LeaderElector {
  readonly #options: LeaderElectorOptions & LeaderElectionTiming
  readonly #logger: Logger
  readonly #status: Gauge<'name'> | undefined
  /** The Lease as last read or written: the base of the next update. */
  #lease: Lease | undefined
  /** When `#lease` last said something new, on the monotonic clock. */
  #observedMs = 0
  #leadsUntilMs = Number.NEGATIVE_INFINITY

  /** @throws RangeError when the timing is wrong. */
  constructor(options: LeaderElectorOptions) {
    this.#options = { ...defaultLeaderElectionTiming, ...options }
    const problem = leaderElectionProblem(this.#options)
    if (problem !== undefined) throw new RangeError(problem)
    const { namespace, name, identity } = options
    this.#logger = options.logger.child({ lease: `${namespace}/${name}`, identity })
    this.#status = options.metrics?.gauge({
      name: 'leader_election_master_status',
      help: 'Whether this process leads (1) or waits (0).',
      labels: ['name'],
    })
    this.#status?.set({ name }, 0)
  }

  /** Whether this process leads at this instant. */
  get isLeader(): boolean {
    return this.#options.clock.monotonicMs() < this.#leadsUntilMs
  }

  /** The identity of the leader as last heard of; undefined while there is none. */
  get leader(): string | undefined {
    return this.#lease?.spec?.holderIdentity || undefined
  }

  /**
   * Waits for leadership, calls `lead`, and does both again when leadership was lost; until `signal` is aborted or `lead` resolves.
   *
   * The signal given to `lead` is aborted when leadership is lost or `signal` is aborted. The latter keeps the lease until `lead`
   * has ended, then hands it over, so that the next leader need not wait. Rejects with what `lead` rejects with, unless that is
   * the reason of its signal.
   */
  async run(signal: AbortSignal, lead: (signal: AbortSignal) => Promise<void>): Promise<void> {
    while (await this.#acquire(signal)) {
      this.#logger.info({}, 'leading')
      this.#status?.set({ name: this.#options.name }, 1)
      const lost = await this.#serve(signal, lead)
      this.#status?.set({ name: this.#options.name }, 0)
      this.#logger.info({}, lost ? 'lost leadership' : 'gave up leadership')
      if (!lost) return
    }
  }

  /** Resolves with true as leader, with false when the signal was aborted. */
  async #acquire(signal: AbortSignal): Promise<boolean> {
    const { clock, random, retryPeriodMs, renewDeadlineMs } = this.#options
    while (!signal.aborted) {
      const before = this.leader
      await this.#attempt(signal, renewDeadlineMs / 2)
      if (this.isLeader) return true
      if (this.leader !== before) this.#logger.info({ leader: this.leader }, 'another leads')
      await sleep(clock, retryPeriodMs * (1 + random.next() * jitterFactor), signal).catch(() => {})
    }
    return false
  }

  /** One term of office. Resolves with whether it ended against our will. */
  async #serve(signal: AbortSignal, lead: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const term = linkedController(signal)
    const ended = new AbortController()
    let lost = false
    const renewal = this.#renew(ended.signal).then(
      () => {
        lost = !ended.signal.aborted
        term.controller.abort(new Error('leadership was lost'))
      },
      (mistake: unknown) => {
        term.controller.abort(mistake)
        throw mistake
      },
    )
    const work = (async () => lead(term.controller.signal))()
    try {
      await work.catch((error: unknown) => {
        if (error !== term.controller.signal.reason || !term.controller.signal.aborted) throw error
      })
    } finally {
      ended.abort()
      term.unlink()
      await renewal
      await this.#release()
    }
    return lost
  }

  /** Resolves when leadership is lost or `signal` is aborted. */
  async #renew(signal: AbortSignal): Promise<void> {
    const { clock, retryPeriodMs, renewDeadlineMs } = this.#options
    const leftMs = (): number => this.#leadsUntilMs - clock.monotonicMs()
    while (this.isLeader && !signal.aborted) {
      await sleep(clock, Math.min(retryPeriodMs, leftMs()), signal).catch(() => {})
      if (this.isLeader && !signal.aborted) await this.#attempt(signal, Math.min(renewDeadlineMs / 2, leftMs()))
    }
  }

  /** Tries once, for `limitMs` at most, to get or keep the lease. */
  async #attempt(signal: AbortSignal, limitMs: number): Promise<void> {
    const { availability, clock } = this.#options
    const source = 'leader election'
    const { controller, unlink } = linkedController(signal)
    const cancel = clock.schedule(limitMs, () => controller.abort())
    try {
      await this.#hold(controller.signal)
      availability?.succeeded(source)
    } catch (error) {
      if (controller.signal.aborted) return
      if (!isKubeError(error)) throw error
      this.#logger.debug({ error }, 'the lease could not be had')
      // A conflict is what an election is made of.
      if (!isKubeError(error, 'Conflict', 'AlreadyExists')) availability?.failed(source, error)
    } finally {
      cancel()
      unlink()
    }
  }

  async #hold(signal: AbortSignal): Promise<void> {
    const { api, clock, identity, namespace, name, leaseDurationMs } = this.#options
    if (this.isLeader && this.#lease !== undefined) {
      // Most renewals meet the Lease as we left it: one request instead of two.
      try {
        await this.#write(this.#lease, signal)
        return
      } catch (error) {
        if (!isKubeError(error, 'Conflict', 'NotFound')) throw error
      }
    }
    const lease = await api.get(leases, { namespace, name }, { signal }).catch((error: unknown) => {
      if (isKubeError(error, 'NotFound')) return undefined
      throw error
    })
    if (lease !== undefined) this.#observe(lease)
    const holder = this.leader
    if (holder !== undefined && holder !== identity) {
      this.#leadsUntilMs = Number.NEGATIVE_INFINITY
      // Somebody may have deleted the Lease under its holder: that, too, is given the time to notice.
      const claimedMs = (this.#lease?.spec?.leaseDurationSeconds ?? leaseDurationMs / 1000) * 1000
      if (clock.monotonicMs() < this.#observedMs + claimedMs) return
    }
    await this.#write(lease, signal)
  }

  /** Makes the lease ours, or renews it. */
  async #write(lease: Lease | undefined, signal: AbortSignal): Promise<void> {
    const { clock, identity, leaseDurationMs, renewDeadlineMs } = this.#options
    const sentMs = clock.monotonicMs()
    const now = formatMicroTime(clock.wallMs())
    const transitions = lease?.spec?.leaseTransitions ?? 0
    const renewed = lease?.spec?.holderIdentity === identity
    await this.#put(lease, signal, {
      holderIdentity: identity,
      leaseDurationSeconds: leaseDurationMs / 1000,
      acquireTime: (renewed ? lease.spec?.acquireTime : undefined) ?? now,
      renewTime: now,
      leaseTransitions: renewed || lease === undefined ? transitions : transitions + 1,
    })
    this.#leadsUntilMs = sentMs + renewDeadlineMs
  }

  async #put(lease: Lease | undefined, signal: AbortSignal, spec: NonNullable<Lease['spec']>): Promise<void> {
    const { api, namespace, name } = this.#options
    const head = { apiVersion: apiVersionOf(leases), kind: leases.kind, metadata: { namespace, name } }
    this.#observe(
      lease === undefined
        ? await api.create(leases, { ...head, spec }, { signal })
        : // The resourceVersion in it guards against lost updates; fields that we do not know stay.
          await api.update(leases, { ...lease, spec: { ...lease.spec, ...spec } }, { signal }),
    )
  }

  /** Hands the lease over, if it is still ours: the next leader need not wait for its end. */
  async #release(): Promise<void> {
    if (!this.isLeader) return
    this.#leadsUntilMs = Number.NEGATIVE_INFINITY
    const { api, clock, identity, namespace, name, renewDeadlineMs } = this.#options
    const controller = new AbortController()
    const { signal } = controller
    const cancel = clock.schedule(renewDeadlineMs / 2, () => controller.abort())
    try {
      const lease = await api.get(leases, { namespace, name }, { signal })
      if (lease.spec?.holderIdentity !== identity) return
      const now = formatMicroTime(clock.wallMs())
      await this.#put(lease, signal, { holderIdentity: '', leaseDurationSeconds: 1, acquireTime: now, renewTime: now })
    } catch (error) {
      if (!signal.aborted && !isKubeError(error)) throw error
      this.#logger.debug({ error }, 'the lease could not be handed over')
    } finally {
      cancel()
    }
  }

  #observe(lease: Lease): void {
    if (claim(lease) !== claim(this.#lease)) this.#observedMs = this.#options.clock.monotonicMs()
    this.#lease = lease
  }
}

/** What a holder says; a change of anything else in the Lease does not prolong it. */
function claim(lease: Lease | undefined): string {
  const { holderIdentity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions } = lease?.spec ?? {}
  return JSON.stringify([holderIdentity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions])
}
