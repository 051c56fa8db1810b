import type { Endpoints } from '../kube/resources.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { addressesIn } from './identity.ts'

/** Tells how many addresses Endpoints `default/kubernetes` list, as the watch shows them. */
export function observeListed(metrics: Metrics, observed: () => Endpoints | undefined): void {
  const listed = metrics.gauge({
    name: 'apiserver_bootstrap_listed_addresses',
    help: 'Addresses that Endpoints default/kubernetes list.',
  })
  metrics.onCollect(() => {
    listed.set({}, addressesIn(observed()).length)
  })
}
