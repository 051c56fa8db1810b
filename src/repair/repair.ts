import type { KubeApi } from '../kube/api.ts'
import type { AvailabilityReporter } from '../kube/availability.ts'
import type { Followed } from '../kube/informer.ts'
import type { Service } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { RepairReporter } from './reporter.ts'

/** A repair loop, as a master runs it. */
export interface Repair {
  /** Repairs until the signal is aborted, then resolves. May be called once. */
  run(signal: AbortSignal): Promise<void>
  /** Resolves after the first full pass that left everything in sync, or found nothing to repair on this server. */
  readonly settled: Promise<void>
  /** Why the repair cannot work now, as one line for a health check; undefined while it can. */
  fault(): string | undefined
}

/** Whether a repair may write. */
export interface WritePermit {
  /**
   * `report`: a server does the repair itself, so full passes only report the findings. The mode can change to
   * `report` at any time. If it changes back to `repair`, the loop must be started anew.
   */
  readonly mode: 'repair' | 'report'
  /**
   * Asks the server, before each round of writes, whether it does the repair itself, because a new server may have
   * replaced the previous one. A server that repairs exits if another writer is faster, so after false nothing may be
   * written. Rejects with a RemoteError if no server answers.
   */
  granted(signal: AbortSignal): Promise<boolean>
}

/** The inputs of all repairs. */
export interface RepairContext {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  readonly reporter: RepairReporter
  readonly permit: WritePermit
  /** The informer of all Services, reduced by `trimService`. Its creator runs it, not the repair. */
  readonly services: Followed<Service>
  /** The time between two full passes, in milliseconds, plus or minus a random tenth. Upstream's is three minutes. */
  readonly intervalMs: number
}

/**
 * kube-apiserver allocates before it stores the Service, and aborts a request after this long, in milliseconds. An
 * allocation that is older belongs to no running request.
 */
export const REQUEST_TIMEOUT_MS = 60_000

/**
 * When an update of a Service gives up an allocation, the server may release it up to this long after it stored the
 * Service, in milliseconds.
 */
export const MAX_RELEASE_DELAY_MS = 2_000

/**
 * A server that releases an allocation first may store the Service up to this long afterwards, in milliseconds. If a
 * Service still has the allocation after this time, only a later request gives it up.
 */
export const MAX_STORE_DELAY_MS = 10_000
