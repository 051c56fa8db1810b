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
   * `report`: a server does the repair itself, so full passes only report the findings. The mode can change to `report`
   * at any time. If it changes back to `repair`, the owner of the repair must start a new one.
   */
  readonly mode: 'repair' | 'report'
  /**
   * Whether a round of writes may begin; call it before each round. Unless the repair was requested by name, asks the
   * server, because a new server that does the repair itself may have replaced the previous one. Beside such a server
   * nothing may be written: it exits if another writer is faster. Rejects with a RemoteError if no server answers, or
   * if the server refuses to list its health checks.
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
  /**
   * The time between two full passes, in milliseconds, plus or minus up to a tenth at random. Upstream: three minutes.
   */
  readonly intervalMs: number
}

/**
 * kube-apiserver aborts a request after this time, in milliseconds. It allocates before it stores the Service. So an
 * allocation that is older and has no Service belongs to no running request.
 */
export const REQUEST_TIMEOUT_MS = 60_000

/**
 * A server releases an allocation within this time, in milliseconds, after it deleted the Service, or stored the
 * Service without the allocation.
 */
export const MAX_RELEASE_DELAY_MS = 2_000

/**
 * If a server releases an allocation first, it stores the Service without the allocation within this time, in
 * milliseconds. After this time a Service that still has the allocation gives it up only by a later request.
 */
export const MAX_STORE_DELAY_MS = 10_000
