import type { Pod, Service } from '../kube/resources.ts'

/** The annotation that says which change an object was written for: kube-proxy and others measure from it. */
export const lastChangeTriggerTime = 'endpoints.kubernetes.io/last-change-trigger-time'

/**
 * When the oldest change happened that the next write of a Service's Endpoints or EndpointSlices is for (upstream's `TriggerTimeTracker`). Each
 * controller has one of its own.
 */
export class TriggerTimes {
  /**
   * Takes in the present state and returns the time for {@link lastChangeTriggerTime}, in Go's RFC3339Nano, UTC; undefined when there is none that is
   * sure. Called in each sync, whether it writes or not.
   */
  compute(_service: Service, _pods: readonly Pod[]): string | undefined {
    throw new Error('not yet')
  }

  /** Forgets a Service that is gone. */
  delete(_key: string): void {
    throw new Error('not yet')
  }
}
