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
  /**
   * Resolves after the first full pass whose writes all succeeded. Withheld ranges and findings that the repair may not
   * correct do not delay this.
   */
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
   * Whether a round of writes may begin; call it before each. Unless the repair was requested by name, asks the server,
   * because a new server that does the repair itself may have replaced the previous one. Beside such a server nothing
   * may be written, because that server exits if another writer is faster. Rejects with a RemoteError if no server
   * answers, or if it refuses to list its checks.
   */
  granted(signal: AbortSignal): Promise<boolean>
}

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
 * kube-apiserver aborts a request after this time, in milliseconds. It allocates before it stores the Service, so an
 * older allocation without a Service belongs to no running request.
 */
export const REQUEST_TIMEOUT_MS = 60_000

/** The longest time, in milliseconds, from storing a Service without an allocation to the release of the allocation. */
export const MAX_RELEASE_DELAY_MS = 2_000

/**
 * The longest time, in milliseconds, from the release of an allocation to the storing of the Service without it. After
 * this time a Service that still has the allocation gives it up only by a later request.
 */
export const MAX_STORE_DELAY_MS = 10_000
