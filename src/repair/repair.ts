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
  /** Follows and repairs until the signal is aborted; then resolves. Once. */
  run(signal: AbortSignal): Promise<void>
  /** Resolves after the first full pass that left everything in sync, or found nothing to repair on this server. */
  readonly settled: Promise<void>
  /** Why it cannot do its work now, as one line for a health check; undefined while it can. */
  fault(): string | undefined
}

/** Whether a repair may write. */
export interface WritePermit {
  /**
   * `report`: a server does the repair itself; full passes report the findings, and leave them to it. The mode can
   * change to that at any time; a later return to `repair` needs a new loop.
   */
  readonly mode: 'repair' | 'report'
  /**
   * Checks the answering server before each round of writes: the last one may have been replaced by one that repairs
   * itself, and that exits when another is faster. False: write nothing. Rejects with a RemoteError when no server
   * answers.
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
  /** All Services, reduced by `trimService`. Its owner runs it. */
  readonly services: Followed<Service>
  /** Between two full passes, in milliseconds; upstream's is three minutes. Each is spread by up to a tenth. */
  readonly intervalMs: number
}

/**
 * kube-apiserver allocates before it stores the Service, and aborts a request after this long, in milliseconds. An
 * allocation that is older belongs to no running request.
 */
export const REQUEST_TIMEOUT_MS = 60_000

/** A server may release an allocation up to this long after it stored the Service that gives it up, in milliseconds. */
export const MAX_RELEASE_DELAY_MS = 2_000

/**
 * A server may store the Service up to this long after it released its allocation, in milliseconds. A Service that has
 * one for longer gives it up in a later request.
 */
export const MAX_STORE_DELAY_MS = 10_000
