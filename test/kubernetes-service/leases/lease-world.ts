import type { TestContext } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { type FaultRule, faultyTransport } from '../../../src/apiserver/faults.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { Availability } from '../../../src/kube/availability.ts'
import { namespaces } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import type { ApiRequest } from '../../../src/kube/transport.ts'
import { KubernetesLeases } from '../../../src/kubernetes-service/leases/kubernetes.ts'
import type { Holder } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { addressesOf } from './holders.ts'

const { signal } = new AbortController()
export const ttlMs = 15_000

/** The connection of one master to the Leases, with its own faults. */
export interface Opened {
  readonly leases: KubernetesLeases
  /** The same Leases over another API. */
  leasesWith(api: KubeApi): KubernetesLeases
  /** Time and method of each request except watches. */
  readonly sent: string[]
  readonly logger: ReturnType<typeof memoryLogger>
  add(rule: FaultRule): () => void
  clear(): void
  resetStreams(): void
}

/** Leases in an in-process API server, in simulated time. */
export async function openWorld() {
  const time = new VirtualClock()
  const server = createApiServer({ clock: time.view(), random: seededRandom(1, 'server') })
  const clock = time.view()
  const direct = restKubeApi({ transport: inProcessTransport(server), clock, random: seededRandom(1, 'direct') })
  await direct.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kube-system' } })
  const open = (): Opened => {
    const random = seededRandom(1, 'client')
    const sent: string[] = []
    const inner = faultyTransport(inProcessTransport(server), { clock, random })
    const transport = {
      ...inner,
      send(request: ApiRequest, given: AbortSignal) {
        if (request.stream !== true) sent.push(`${time.nowMs} ${request.method}`)
        return inner.send(request, given)
      },
    }
    const logger = memoryLogger()
    const availability = new Availability({ clock, logger })
    const api = restKubeApi({ transport, clock, random })
    const leasesWith = (api: KubeApi): KubernetesLeases =>
      new KubernetesLeases({ api, clock, random, logger, availability, ttlMs, intervalMs: 10_000 })
    const { faults } = inner
    return {
      leases: leasesWith(api),
      leasesWith,
      sent,
      logger,
      add: (rule) => faults.add(rule),
      clear: () => faults.clear(),
      resetStreams: () => faults.resetStreams(),
    }
  }
  return { time, clock, direct, open }
}

/**
 * Follows the leases and lists them after each change and at each interval, as a master does. Returns what it saw, and
 * when.
 */
export function follow(t: TestContext, time: VirtualClock, { leases }: Opened) {
  const end = new AbortController()
  const seen: string[] = []
  const list = (): void => {
    addressesOf(leases).then(
      (addresses) => {
        const line = addresses.join()
        if (seen.at(-1)?.split(' ')[1] !== line) seen.push(`${time.nowMs} ${line}`)
      },
      () => {},
    )
  }
  const clock = time.view()
  const each = (): void => {
    if (end.signal.aborted) return
    list()
    clock.schedule(10_000, each)
  }
  each()
  const watching = leases.watch(list, end.signal)
  t.after(async () => {
    end.abort()
    await time.advance(10_000)
    await watching
  })
  return seen
}

/** Renews each interval until the returned function is called. */
export function keepRenewed(time: VirtualClock, { leases }: Opened, who: Holder): () => void {
  const clock = time.view()
  let ended = false
  const renew = (): void => {
    if (ended) return
    leases.update(who, signal).catch(() => {})
    clock.schedule(10_000, renew)
  }
  renew()
  return () => {
    ended = true
  }
}
