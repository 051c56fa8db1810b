import type { KubeApi } from '../kube/api.ts'
import type { AvailabilityReporter } from '../kube/availability.ts'
import type { Followed } from '../kube/informer.ts'
import type { Service } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { RepairReporter } from './repair-reporter.ts'

/** A repair loop, as a master runs it. */
export interface Repair {
  /** Follows and repairs until the signal is aborted; then resolves. Once. */
  run(signal: AbortSignal): Promise<void>
  /** Resolves after the first full pass that left everything right, or found that there is nothing to repair on this server. */
  readonly settled: Promise<void>
  /** Why it cannot do its work now, as one line for a health check; undefined while it can. */
  fault(): string | undefined
}

/** Whether a repair may write. */
export interface WritePermit {
  /** `report`: a server does the repair itself; what is wrong is told, in full passes, and left to it. It can change to that at any time; who is to repair again begins anew. */
  readonly mode: 'repair' | 'report'
  /**
   * Asks the server that answers now, before each round of writes: the one that answered last may have been replaced by one that does the repair itself, and
   * exits when somebody is faster. False: write nothing. Rejects with a RemoteError when no server answers.
   */
  granted(signal: AbortSignal): Promise<boolean>
}

/** What all repairs need of the world. */
export interface RepairContext {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  readonly reporter: RepairReporter
  readonly permit: WritePermit
  /** All Services, cut down by `keptOfService`. Somebody else runs it. */
  readonly services: Followed<Service>
  /** Between two full passes, in milliseconds; upstream's is three minutes. Each is spread by up to a tenth. */
  readonly intervalMs: number
}
