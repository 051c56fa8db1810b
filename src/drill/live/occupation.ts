import { isKubeError } from '../../kube/errors.ts'
import { endpoints } from '../../kube/resources.ts'
import { addressesIn, KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import type { LeaseSighting } from '../../kubernetes-service/leases/inspect.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { DrillError } from '../drill-error.ts'
import type { Cluster } from './cluster.ts'

/** Between two looks at leases that may come to their end, in milliseconds. */
const LOOK_MS = 500
/** How much later than it says a lease may end, in milliseconds. */
const LATE_MS = 2_500

/**
 * Rejects with a {@link DrillError} while somebody keeps `default/kubernetes`: masters or kube-apiservers whose leases are renewed, or the API
 * server itself. Leases that somebody left behind are waited for; nothing is written.
 */
export async function whenUnoccupied(
  cluster: Cluster,
  options: { readonly clock: Clock; readonly log: (line: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  await whenLeasesEnded(cluster, options)
  const own = await cluster.readyz()
  const listed = await cluster.api.get(endpoints, KUBERNETES_SERVICE, { signal: options.signal }).then(
    (object) => addressesIn(object),
    (error: unknown) => {
      if (isKubeError(error, 'NotFound')) return []
      throw error
    },
  )
  if (own.text.includes('poststarthook/bootstrap-controller') && listed.length > 0 && cluster.etcd === undefined) {
    throw new DrillError(
      `default/kubernetes lists ${listed.join(', ')}, and whoever keeps that would disturb a drill: give an API server with --endpoint-reconciler-type=none and stop masters whose leases are elsewhere; if nobody keeps it, delete the Endpoints kubernetes first`,
    )
  }
}

async function whenLeasesEnded(
  cluster: Cluster,
  { clock, log, signal }: { readonly clock: Clock; readonly log: (line: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  const first = await cluster.leases.inspect(signal)
  if (first.length === 0) return
  const untilMs = clock.monotonicMs() + Math.max(...first.map(leftMs)) + LATE_MS
  log(`waiting for the end of ${first.length} leases that are there: ${namesOf(first)}`)
  const left = async (): Promise<readonly LeaseSighting[]> => {
    const now = await cluster.leases.inspect(signal)
    const renewed = now.filter((lease) => first.find(({ id }) => id === lease.id)?.revision !== lease.revision)
    if (renewed.length > 0) {
      throw new DrillError(
        `masters that are not the drill's keep default/kubernetes and would disturb it: ${namesOf(renewed)}`,
      )
    }
    return now
  }
  while ((await left()).length > 0 && clock.monotonicMs() < untilMs) await sleep(clock, LOOK_MS, signal)
  const never = (await left()).filter(({ life }) => life.type === 'never')
  if (never.length > 0)
    throw new DrillError(`there are leases that never end: ${namesOf(never)}; masters evict removes them`)
}

function leftMs({ life }: LeaseSighting): number {
  switch (life.type) {
    case 'ends':
      return life.leftMs
    case 'renewed':
      return life.ttlMs
    case 'never':
      return 0
  }
}

function namesOf(leases: readonly LeaseSighting[]): string {
  return [...new Set(leases.map(({ address, id }) => address ?? id))].sort().join(', ')
}
