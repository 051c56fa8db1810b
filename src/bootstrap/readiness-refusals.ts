import type { EventSink } from '../kube/event-object.ts'
import { referenceTo } from '../kube/event-object.ts'
import { eventOf } from '../kube/event-reasons.ts'
import { apiVersionOf, endpoints } from '../kube/resources.ts'
import { KUBERNETES_SERVICE } from '../kubernetes-service/identity.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'

/**
 * Records an Event whenever the own API server begins to refuse to tell its readiness, as it does when the credentials have ended. With such
 * credentials the Event is written once there are others. `address` names the master.
 */
export function recordRefusals(
  monitor: Pick<ReadinessMonitor, 'subscribe'>,
  events: EventSink,
  address: string | undefined,
): void {
  let wasRefused = false
  const regarding = referenceTo({
    apiVersion: apiVersionOf(endpoints),
    kind: endpoints.kind,
    metadata: KUBERNETES_SERVICE,
  })
  monitor.subscribe((answer) => {
    if (!answer.answered) return
    const { refused } = answer
    if (refused !== undefined && !wasRefused) {
      const note = `the readiness of the API server${address === undefined ? '' : ` of ${address}`} cannot be judged: ${refused}`
      events.record(eventOf('ReadinessRefused', { regarding, note }))
    }
    wasRefused = refused !== undefined
  })
}
