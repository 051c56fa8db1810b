import type { ServerProbe } from '../../kube/http-probe.ts'
import type { EndpointSlice, Endpoints, Service } from '../../kube/resources.ts'
import { addressesInSlice, isListable } from '../../kubernetes-service/identity.ts'
import { formatHostPort, type HostPort } from '../../net/host-port.ts'
import { clusterIpsOf } from '../../repair/service-claims.ts'
import { Semaphore } from '../../runtime/request-limit.ts'
import { isSecondSlice } from './kubernetes-endpoints.ts'
import { SERVICE_DNS_NAME } from './servers.ts'
import type { ProbedServer } from './state.ts'

/** How each listed address is probed. */
export interface Probing {
  readonly ask: ServerProbe
  /** Where to connect instead, by listed address. */
  readonly targets: ReadonlyMap<string, HostPort>
  /** Called with each address in `targets` that is not listed and therefore not probed. */
  readonly onUnlisted?: ((address: string) => void) | undefined
}

export interface ListedServers {
  readonly endpoints: Endpoints | undefined
  readonly slices: readonly EndpointSlice[]
  readonly service: Service | undefined
}

/** The most probes at a time. Any client with the right to write Endpoints may have listed a thousand addresses. */
const PROBES_AT_ONCE = 16

/** Probes each listed address once, except addresses that no client could use: they may belong to this machine. */
export async function probeServers(
  { ask, targets, onUnlisted }: Probing,
  listed: ListedServers,
  signal: AbortSignal,
): Promise<readonly ProbedServer[]> {
  const slots = new Semaphore(PROBES_AT_ONCE)
  const serviceNames = [...(listed.service === undefined ? [] : clusterIpsOf(listed.service)), SERVICE_DNS_NAME]
  const addresses = addressesOf(listed)
  for (const address of targets.keys()) if (!addresses.has(address)) onUnlisted?.(address)
  return Promise.all(
    [...addresses].map(async ([address, port]) => {
      const target = targets.get(address) ?? { host: address, port }
      const names = [address, ...serviceNames]
      const release = await slots.acquire(signal)
      try {
        return { address, dialled: formatHostPort(target), names, answer: await ask({ ...target, names }, signal) }
      } finally {
        release()
      }
    }),
  )
}

/** The usable addresses of both families, each with its port. */
function addressesOf({ endpoints, slices }: ListedServers): ReadonlyMap<string, number> {
  const ofSubsets = (endpoints?.subsets ?? []).map(({ addresses, ports }) => ({
    texts: (addresses ?? []).map(({ ip }) => ip),
    port: ports?.[0]?.port,
  }))
  const second = slices
    .filter(({ metadata }) => isSecondSlice(metadata?.name))
    .map((slice) => ({ texts: addressesInSlice(slice), port: slice.ports?.[0]?.port }))
  const found = new Map<string, number>()
  for (const { texts, port } of [...ofSubsets, ...second]) {
    for (const text of texts) if (isListable(text) && port !== undefined && !found.has(text)) found.set(text, port)
  }
  return found
}
