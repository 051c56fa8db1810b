import type { KubeApi } from '../kube/api.ts'
import type { EventSink } from '../kube/event-object.ts'
import type { Informers } from '../kube/informer.ts'
import type { Clock } from '../runtime/clock.ts'
import type { WorkQueueObserver } from '../runtime/work-queue.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { ServiceMembers } from './service-members.ts'

/**
 * What a controller of Endpoints or EndpointSlices needs of the world, for one term of leadership. The informers are those of the term and
 * run already or soon; every resource is followed with the transform of `kept.ts`, whoever asks.
 */
export interface WorkloadContext {
  readonly api: KubeApi
  readonly clock: Clock
  readonly logger: Logger
  readonly events: EventSink
  readonly informers: Informers
  /** Which Pods which Services select: one for all controllers of the term. */
  readonly members: Pick<ServiceMembers, 'podsOf' | 'subscribe'>
  /** Measures the queue of the controller. */
  readonly observer: WorkQueueObserver
  /** How many Services may be worked on at the same time. */
  readonly workers: number
  /** So long after a Pod changed its Services are looked at, in milliseconds, so that more changes may come together. */
  readonly batchPeriodMs: number
}

/** A controller for one term of leadership. */
export interface WorkloadController {
  /** Works once the informers have synced, until the signal is aborted; then ends what is under way. Only once. */
  run(signal: AbortSignal): Promise<void>
  /** Makes keys whose retry waits due at once: the API server has come back. */
  hasten(): void
}
