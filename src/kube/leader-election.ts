import * as z from 'zod/mini'
import { duration, formatDuration } from '../documents/duration.ts'
import type { OptionGroup, Rule, ValuesOf } from '../documents/option.ts'
import { sleep } from '../runtime/clock.ts'
import { linkedController } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Gauge } from '../telemetry/metrics.ts'
import { isKubeError, KubeError } from './errors.ts'
import type { InformerContext } from './informer.ts'
import { LeaseLock } from './lease-lock.ts'

export interface LeaderElectionTiming {
  /** Other processes take the Lease when they have seen no renewal for this long, in milliseconds: whole seconds. */
  readonly leaseDurationMs: number
  /** A leader that could not renew for this long, in milliseconds, stops. Less than `leaseDurationMs`. */
  readonly renewDeadlineMs: number
  /**
   * The time between two renewals, in milliseconds. A candidate waits 1 to 2.2 times this long between two attempts.
   */
  readonly retryPeriodMs: number
}

export interface LeaderElectorOptions extends LeaderElectionTiming, InformerContext {
  /** The namespace of the Lease. This namespace must exist. */
  readonly namespace: string
  readonly name: string
  /** Must be unique to this process: two processes with the same identity both lead. */
  readonly identity: string
}

const HAND_OVER_RETRY_MS = 250
/** The longest hand-over, in milliseconds. A process that stops has five seconds for all its parts. */
const HAND_OVER_MS = 3_500

/** A candidate waits up to this many retry periods longer, by chance, as in client-go. */
const RETRY_JITTER = 1.2

/**
 * The mistake in a timing, in one line; undefined if there is none. The rules are client-go's, and a Lease stores its
 * duration in whole seconds.
 */
export function leaderElectionProblem(timing: LeaderElectionTiming): string | undefined {
  const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = timing
  if (!(retryPeriodMs > 0)) return 'the retry period must be positive'
  if (!(renewDeadlineMs > retryPeriodMs * RETRY_JITTER)) {
    return `the renew deadline must be longer than ${RETRY_JITTER} times the retry period`
  }
  if (!(leaseDurationMs > renewDeadlineMs)) return 'the lease duration must be longer than the renew deadline'
  return leaseDurationMs % 1000 === 0 ? undefined : 'the lease duration must be a whole number of seconds'
}

/**
 * Elects one of any number of processes by a Lease, compatible with client-go's `tools/leaderelection`.
 *
 * A leader stops `renewDeadlineMs` after it *sent* its last successful renewal. Another process begins no earlier than
 * `leaseDurationMs` after that process *saw* this renewal, unless the leader has handed the Lease over. Each process
 * measures on its own monotonic clock. So no two processes lead at once, whatever the wall clocks show and the network
 * loses. This requires that the monotonic clocks run at about the same speed and that nobody deletes a Lease that is
 * held.
 *
 * A frozen process cannot stop leading: when it thaws, it continues before any of its timers fires. So a caller checks
 * {@link isLeader} right before a write. That check is not a fence: the process may freeze after it.
 */
export class LeaderElector {
  readonly #options: LeaderElectorOptions
  readonly #lock: LeaseLock
  readonly #logger: Logger
  readonly #source: string
  readonly #status: Gauge<'name'> | undefined
  #leadsUntilMs = Number.NEGATIVE_INFINITY
  #reported: string | undefined

  /** @throws RangeError when the timing is wrong. */
  constructor(options: LeaderElectorOptions) {
    this.#options = options
    const problem = leaderElectionProblem(options)
    if (problem !== undefined) throw new RangeError(problem)
    const { namespace, name, identity } = options
    this.#lock = new LeaseLock(options)
    this.#source = `lease ${namespace}/${name}`
    this.#logger = options.logger.child({ lease: `${namespace}/${name}`, identity })
    this.#status = options.metrics?.gauge({
      name: 'leader_election_master_status',
      help: 'Whether this process is the leader (1) or a standby (0).',
      labels: ['name'],
    })
    this.#status?.set({ name }, 0)
  }

  get isLeader(): boolean {
    return this.#options.clock.monotonicMs() < this.#leadsUntilMs
  }

  /** The identity of the holder as last observed, even if its claim has expired; undefined if there is none. */
  get leader(): string | undefined {
    return this.#lock.holder
  }

  /**
   * Waits for leadership and calls `lead`; after leadership is lost and `lead` has ended, starts again.
   *
   * The signal given to `lead` is aborted in two cases. When leadership is lost, `lead` must end within
   * `leaseDurationMs - renewDeadlineMs`. When `signal` is aborted, this process renews the Lease until `lead` has
   * ended, and then hands the Lease over. Resolves when `signal` is aborted and `lead` is not running, or when `lead`
   * has resolved by itself. Rejects with the error of `lead`, unless that is the reason of its signal.
   */
  async run(signal: AbortSignal, lead: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { name, availability } = this.#options
    try {
      while (await this.#acquire(signal)) {
        this.#logger.info({}, 'leading')
        this.#status?.set({ name }, 1)
        const end = await this.#serve(signal, lead)
        this.#logger.info({}, end === 'lost' ? 'lost leadership' : 'gave up leadership')
        if (end === 'done') return
      }
    } finally {
      availability?.forget(this.#source)
    }
  }

  /** Resolves with true when this process leads, with false when the signal is aborted. */
  async #acquire(signal: AbortSignal): Promise<boolean> {
    const { clock, random, retryPeriodMs } = this.#options
    while (!signal.aborted) {
      await this.#attempt(signal)
      if (this.isLeader) return true
      this.#reportLeader()
      await sleep(clock, retryPeriodMs * (1 + random.next() * RETRY_JITTER), signal).catch(() => {})
    }
    return false
  }

  /** One term, from gaining leadership until `lead` has ended. */
  async #serve(signal: AbortSignal, lead: (signal: AbortSignal) => Promise<void>): Promise<'lost' | 'done'> {
    const { controller: term, unlink } = linkedController(signal)
    const ended = new AbortController()
    let end: 'lost' | 'done' = 'done'
    const renewing = this.#renew(ended.signal, () => {
      end = 'lost'
      this.#status?.set({ name: this.#options.name }, 0)
      term.abort(new Error('leadership was lost'))
    })
    const leading = (async () => lead(term.signal))().catch((error: unknown) => {
      if (!term.signal.aborted || error !== term.signal.reason) throw error
    })
    try {
      // If one of the two promises rejects, the other one is ended.
      await Promise.all([leading.finally(() => ended.abort()), renewing])
    } finally {
      ended.abort()
      unlink()
      await Promise.allSettled([leading, renewing])
      await this.#release()
    }
    return end
  }

  /** Renews until `signal` is aborted, or until leadership is lost: then calls `lost`. */
  async #renew(signal: AbortSignal, lost: () => void): Promise<void> {
    const { clock, retryPeriodMs } = this.#options
    try {
      while (this.isLeader && !signal.aborted) {
        const waitMs = Math.min(retryPeriodMs, this.#leadsUntilMs - clock.monotonicMs())
        await sleep(clock, waitMs, signal).catch(() => {})
        if (this.isLeader && !signal.aborted) await this.#attempt(signal)
      }
    } finally {
      if (!signal.aborted) lost()
    }
  }

  /**
   * Tries once to get or renew the Lease, for at most half the renew deadline. A leader does not try beyond the end of
   * its term.
   */
  async #attempt(signal: AbortSignal): Promise<void> {
    const { availability, clock, renewDeadlineMs } = this.#options
    const leftMs = this.isLeader ? this.#leadsUntilMs - clock.monotonicMs() : Number.POSITIVE_INFINITY
    const { controller, unlink } = linkedController(signal)
    const cancel = clock.schedule(Math.min(renewDeadlineMs / 2, leftMs), () => {
      controller.abort(new KubeError('Timeout', `${this.#source}: no answer`))
    })
    try {
      await this.#hold(controller.signal)
      availability?.succeeded(this.#source)
    } catch (error) {
      if (signal.aborted) return
      if (!isKubeError(error)) throw error
      this.#logger.debug({ error }, 'the lease was not acquired')
      // Conflicts are normal in an election.
      if (!isKubeError(error, 'Conflict', 'AlreadyExists')) availability?.failed(this.#source, error)
    } finally {
      cancel()
      unlink()
    }
  }

  async #hold(signal: AbortSignal): Promise<void> {
    const { clock, renewDeadlineMs } = this.#options
    let sentMs = clock.monotonicMs()
    if (this.isLeader) {
      // The Lease is usually unchanged since our last write, so most renewals need only this request.
      try {
        await this.#lock.renew(signal)
        this.#leadsUntilMs = sentMs + renewDeadlineMs
        return
      } catch (error) {
        if (!isKubeError(error, 'Conflict', 'NotFound')) throw error
      }
    }
    sentMs = clock.monotonicMs()
    this.#leadsUntilMs = (await this.#lock.take(signal)) ? sentMs + renewDeadlineMs : Number.NEGATIVE_INFINITY
  }

  /** Hands the Lease over, so that the next leader need not wait for the Lease to expire. */
  async #release(): Promise<void> {
    if (!this.isLeader) return
    const { clock, name, renewDeadlineMs } = this.#options
    this.#leadsUntilMs = Number.NEGATIVE_INFINITY
    this.#status?.set({ name }, 0)
    const controller = new AbortController()
    const cancel = clock.schedule(Math.min(renewDeadlineMs / 2, HAND_OVER_MS), () => controller.abort())
    try {
      await this.#handOver(controller.signal)
    } catch (error) {
      if (!controller.signal.aborted && !isKubeError(error)) throw error
      this.#logger.debug({ error }, 'the lease was not handed over')
    } finally {
      cancel()
    }
  }

  async #handOver(signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        await this.#lock.release(signal)
        return
      } catch (error) {
        if (!isKubeError(error, 'TooManyRequests')) throw error
        await sleep(this.#options.clock, HAND_OVER_RETRY_MS, signal)
      }
    }
  }

  #reportLeader(): void {
    if (this.leader === this.#reported || this.leader === this.#options.identity) return
    this.#reported = this.leader
    if (this.leader !== undefined) this.#logger.info({ leader: this.leader }, 'another process is the leader')
  }
}

/** The name of an object or a namespace. */
export const objectName = z
  .string()
  .check(z.regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, 'must be a valid Kubernetes name (lower case, digits, - and .)'))

/** The names of the flags and the default times are those of Kubernetes' own components. */
export const leaderElectionOptions = {
  title: 'Leader election of the Endpoints, EndpointSlice and ServiceCIDR controllers',
  options: {
    leaderElect: {
      schema: z.boolean(),
      description:
        'run the controllers only while this process holds the Lease; false: always run them, for a single process',
      default: true,
    },
    leaderElectLeaseDuration: {
      schema: duration({ minMs: 1000, wholeSeconds: true }),
      metavar: 'DURATION',
      description: 'other processes may acquire the Lease when it has not been renewed for this long',
      default: '15s',
    },
    leaderElectRenewDeadline: {
      schema: duration({ minMs: 1 }),
      metavar: 'DURATION',
      description: 'a leader that has not renewed the Lease for this long gives up leadership',
      default: '10s',
    },
    leaderElectRetryPeriod: {
      schema: duration({ minMs: 1 }),
      metavar: 'DURATION',
      description: 'time between attempts to get or renew the Lease',
      default: '2s',
    },
    leaderElectResourceName: {
      schema: objectName,
      metavar: 'NAME',
      description: 'name of the Lease; processes with different controllers need different ones',
      default: 'apiserver-bootstrap',
    },
    leaderElectResourceNamespace: {
      schema: objectName,
      metavar: 'NAMESPACE',
      description: 'namespace of the Lease',
      default: 'kube-system',
    },
  },
} as const satisfies OptionGroup

type LeaderElectionValues = ValuesOf<typeof leaderElectionOptions>

export const leaderElectionRules: readonly Rule<LeaderElectionValues>[] = [
  {
    on: 'leaderElectRetryPeriod',
    needs: ['leaderElectRenewDeadline', 'leaderElectRetryPeriod'],
    breach: ({ leaderElectRenewDeadline: deadlineMs, leaderElectRetryPeriod: periodMs }) =>
      deadlineMs <= periodMs * RETRY_JITTER
        ? `multiplied by ${RETRY_JITTER}, must be shorter than --leader-elect-renew-deadline, ${formatDuration(deadlineMs)}, not ${formatDuration(periodMs)}`
        : undefined,
  },
  {
    on: 'leaderElectRenewDeadline',
    needs: ['leaderElectLeaseDuration', 'leaderElectRenewDeadline'],
    breach: ({ leaderElectRenewDeadline: deadlineMs, leaderElectLeaseDuration: leaseMs }) =>
      deadlineMs >= leaseMs
        ? `must be shorter than --leader-elect-lease-duration, ${formatDuration(leaseMs)}, not ${formatDuration(deadlineMs)}`
        : undefined,
  },
]
