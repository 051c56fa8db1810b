import type { EtcdKv } from '../../etcd/kv.ts'
import type { KubeApi } from '../../kube/api.ts'
import { ifFound, ifNew } from '../../kube/errors.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  namespaces,
  serviceCidrs,
  services,
} from '../../kube/resources.ts'
import { restKubeApi } from '../../kube/rest-api.ts'
import { sliceOf } from '../../kubernetes-service/endpoints-plan.ts'
import {
  endpointPorts,
  KUBERNETES_SERVICE as REF,
  SKIP_MIRROR_LABEL,
  samePorts,
} from '../../kubernetes-service/identity.ts'
import { planService } from '../../kubernetes-service/service-plan.ts'
import { SYSTEM_NAMESPACES } from '../../namespaces/controller.ts'
import { parseCidr, serviceIpOf } from '../../net/cidr.ts'
import { decodeMasterLease, encodeMasterLease } from '../../protobuf/master-lease.ts'
import { sleep } from '../../runtime/clock.ts'
import { type Random, seededRandom } from '../../runtime/random.ts'
import { planServiceCidr } from '../../service-cidr/service-cidr-plan.ts'
import type { MemberState } from '../../verify/member-state.ts'
import { upstreamSettings } from '../scenario/duration.ts'
import type { EtcdRoute } from './etcd-link.ts'
import { simulatedLink } from './link.ts'
import type { Surroundings } from './master.ts'
import { SimulatedMember } from './member.ts'
import { type ProcessClock, processClock } from './process.ts'

/**
 * A model of a kube-apiserver that maintains `default/kubernetes` itself. Upstream: reconcilers/lease.go and
 * controller/kubernetesservice in pkg/controlplane.
 */
export class SimulatedKubeApiserver extends SimulatedMember<KubeApiserverLife> implements MemberState {
  readonly kind = 'kube-apiserver'
  protected readonly settings = upstreamSettings
  readonly impaired = 'no'
  readonly disturbances = 0
  readonly failure = undefined
  readonly address: string
  readonly etcd: EtcdRoute
  readonly #surroundings: Surroundings

  constructor(surroundings: Surroundings, host: { readonly name: string; readonly address: string }) {
    const etcd = surroundings.etcdRoute()
    if (etcd === undefined) throw new TypeError('a kube-apiserver needs etcd')
    super(host.name, surroundings.datastore)
    this.#surroundings = surroundings
    this.etcd = etcd
    this.address = host.address
  }

  start(): void {
    const { time, seed, spikes, transport } = this.#surroundings
    this.server.store.restart()
    const clock = processClock(time)
    const random = seededRandom(seed, `${this.name} life ${this.lives.length + 1}`)
    const link = simulatedLink(transport(this.name), { server: this.server, clock, random, spikes })
    const api = restKubeApi({ transport: link, clock, random, fieldManager: 'kube-apiserver' })
    const etcd = this.etcd.connect({ clock, random, spikes })
    this.life = new KubeApiserverLife({ api, etcd, clock, random, address: this.address })
    this.lives.push(this.life)
  }

  kill(): void {
    this.life?.clock.kill()
    this.life = undefined
  }

  /** Sends SIGTERM. A frozen process receives it when it thaws. */
  terminate(): void {
    const { life } = this
    if (life?.clock.frozen) life.clock.schedule(0, () => life.terminate())
    else life?.terminate()
  }

  freeze(): void {
    this.life?.clock.freeze()
  }

  thaw(): void {
    this.life?.clock.thaw()
  }

  get answering(): boolean {
    return !this.ended && !this.frozen && this.server.answering
  }

  get hasBeenReady(): boolean | undefined {
    return this.life?.ready
  }

  get running(): boolean {
    return this.life !== undefined && !this.life.stopping && !this.life.clock.frozen
  }

  get stopping(): boolean {
    return this.life?.stopping === true
  }

  get ended(): boolean {
    return this.life?.ended !== false
  }

  get connected(): boolean {
    return this.etcd.open && this.server.reachable && !this.server.storeless
  }

  get serves(): boolean {
    return this.answering && this.ready && this.life?.ready === true
  }

  get clientConnections(): MemberState['clientConnections'] {
    const { life, server } = this
    if (life === undefined || life.ended) return 'refused'
    if (life.clock.frozen || server.clientsCutOff) return 'black-holed'
    // A starting kube-apiserver listens, but fails all requests until it is ready.
    return life.ready ? 'served' : 'refused'
  }

  get renewing(): boolean {
    return this.life !== undefined && !this.life.ended && !this.life.clock.frozen && this.etcd.open
  }
}

const LEASES = '/registry/masterleases/'
const SECURE_PORT = 6443
const PORTS = endpointPorts(SECURE_PORT)
const { leaseTtlMs: TTL_MS, reconcileIntervalMs: INTERVAL_MS } = upstreamSettings
const NAMESPACES_INTERVAL_MS = 60_000
/** The time from the start of a kube-apiserver until it is ready, in milliseconds. */
const STARTING_MS = 4_000

interface LifeOptions {
  readonly api: KubeApi
  readonly etcd: EtcdKv
  readonly clock: ProcessClock
  readonly random: Random
  readonly address: string
}

class KubeApiserverLife {
  readonly clock: ProcessClock
  ready = false
  stopping = false
  ended = false
  readonly #options: LifeOptions
  readonly #stop = new AbortController()
  readonly #signal = new AbortController().signal

  constructor(options: LifeOptions) {
    this.#options = options
    this.clock = options.clock
    void this.#run()
  }

  terminate(): void {
    this.stopping = true
    this.#stop.abort(new Error('SIGTERM'))
  }

  async #run(): Promise<void> {
    await this.#removeEndpoints().catch(() => {})
    await sleep(this.clock, STARTING_MS, this.#stop.signal).catch(() => {})
    void this.#manageObjects()
    while (!this.#stop.signal.aborted) {
      this.ready = true
      const startedMs = this.clock.monotonicMs()
      // The next tick repeats a failed update.
      await this.#updateKubernetesService().catch(() => {})
      await sleep(this.clock, startedMs + INTERVAL_MS - this.clock.monotonicMs(), this.#stop.signal).catch(() => {})
    }
    await this.#removeEndpoints().catch(() => {})
    this.ended = true
  }

  /** Creates the namespaces and the ServiceCIDR, for which upstream has separate controllers. */
  async #manageObjects(): Promise<void> {
    const { api } = this.#options
    while (!this.#stop.signal.aborted) {
      const ensured = ensureNamespaces(api).then(() => ensureServiceCidr(api))
      const waitMs = await ensured.then(
        () => NAMESPACES_INTERVAL_MS,
        () => INTERVAL_MS,
      )
      await sleep(this.clock, waitMs, this.#stop.signal).catch(() => {})
    }
  }

  async #updateKubernetesService(): Promise<void> {
    await ensureService(this.#options.api)
    await this.#updateLease()
    await this.#doReconcile(false)
  }

  async #removeEndpoints(): Promise<void> {
    const { etcd, address } = this.#options
    for (;;) {
      const stored = await etcd.get(LEASES + address, this.#signal)
      // Upstream's RemoveLease fails if the key is missing. RemoveEndpoints then leaves the list unchanged.
      if (stored === undefined) return
      if (await etcd.delete(stored.key, stored.modRevision, this.#signal)) break
    }
    await this.#doReconcile(true)
  }

  async #updateLease(): Promise<void> {
    const { etcd, address } = this.#options
    for (;;) {
      const stored = await etcd.get(LEASES + address, this.#signal)
      const { id: lease } = await etcd.grantLease(TTL_MS / 1000, this.#signal)
      const previous = stored === undefined ? undefined : decodeMasterLease(stored.value)
      const value = encodeMasterLease(address, previous?.type === 'protobuf' ? previous : undefined)
      const how = { lease, signal: this.#signal }
      const revision =
        stored === undefined
          ? await etcd.create(LEASES + address, value, how)
          : await etcd.update(stored.key, value, stored.modRevision, how)
      if (revision !== undefined) return
    }
  }

  async #doReconcile(reconcilePorts: boolean): Promise<void> {
    const { api, etcd } = this.#options
    const found = await ifFound(api.get(endpoints, REF))
    if (found === undefined && this.stopping) return
    const { items } = await etcd.list(LEASES, { signal: this.#signal })
    const ips = items.flatMap(({ value }) => {
      const lease = decodeMasterLease(value)
      return lease.type === 'protobuf' && lease.address !== undefined ? [lease.address] : []
    })
    if (ips.length === 0 && !this.stopping) throw new Error('refusing to erase all endpoints')

    const formatCorrect = found?.subsets?.length === 1
    const subset = formatCorrect ? found?.subsets?.[0] : undefined
    const listed = (subset?.addresses ?? []).map(({ ip }) => ip)
    const ipCorrect = formatCorrect && [...listed].sort().join() === [...ips].sort().join()
    const portsCorrect = formatCorrect && (!reconcilePorts || samePorts(subset?.ports ?? [], PORTS))
    const labelled = found?.metadata?.labels?.[SKIP_MIRROR_LABEL] === 'true'
    if (found !== undefined && labelled && ipCorrect && portsCorrect) return this.#ensureSlice(found)
    const addresses = ipCorrect ? subset?.addresses : [...ips].sort().map((ip) => ({ ip }))
    const ports = portsCorrect ? subset?.ports : PORTS
    const next = {
      ...(found ?? { apiVersion: 'v1', kind: 'Endpoints' }),
      metadata: { ...(found?.metadata ?? REF), labels: { ...found?.metadata?.labels, [SKIP_MIRROR_LABEL]: 'true' } },
      subsets: ips.length === 0 ? [] : [{ ...subset, addresses, ports }],
    } as Endpoints
    const stored = found === undefined ? await ifNew(api.create(endpoints, next)) : await api.update(endpoints, next)
    if (stored !== undefined) await this.#ensureSlice(stored)
  }

  /** Upstream: EnsureEndpointSliceFromEndpoints. Its update has no resourceVersion, and so detects no conflict. */
  async #ensureSlice(stored: Endpoints): Promise<void> {
    const { api } = this.#options
    const wanted = sliceOf(stored)
    const found = await ifFound(api.get(endpointSlices, REF))
    if (found === undefined) await ifNew(api.create(endpointSlices, wanted))
    else if (!sameSlice(found, wanted)) await api.update(endpointSlices, wanted)
  }
}

function sameSlice(found: EndpointSlice, wanted: EndpointSlice): boolean {
  const listed = ({ endpoints: all }: EndpointSlice): string =>
    (all ?? []).map(({ addresses, conditions }) => `${addresses.join()} ${conditions?.ready}`).join()
  const labels = ({ metadata }: EndpointSlice): string => JSON.stringify(metadata?.labels ?? {})
  const areSamePorts = samePorts(found.ports ?? [], wanted.ports ?? [])
  return listed(found) === listed(wanted) && areSamePorts && labels(found) === labels(wanted)
}

export const SERVICE_RANGE = parseCidr('10.96.0.0/12')

// The functions below leave existing objects unchanged: upstream never corrects a Service
// (pkg/controlplane/controller/kubernetesservice).

async function ensureNamespaces(api: KubeApi): Promise<void> {
  for (const name of SYSTEM_NAMESPACES) {
    if ((await ifFound(api.get(namespaces, { name }))) !== undefined) continue
    await ifNew(api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }))
  }
}

async function ensureServiceCidr(api: KubeApi): Promise<void> {
  if ((await ifFound(api.get(serviceCidrs, { name: 'kubernetes' }))) !== undefined) return
  const plan = planServiceCidr(undefined, [SERVICE_RANGE.text])
  if (plan.type === 'create') await ifNew(api.create(serviceCidrs, plan.serviceCidr))
}

async function ensureService(api: KubeApi): Promise<void> {
  if ((await ifFound(api.get(services, REF))) !== undefined) return
  // Without these objects, the server would refuse the Service until the next tick.
  await ensureNamespaces(api)
  await ensureServiceCidr(api)
  const clusterIp = serviceIpOf(SERVICE_RANGE).text
  const plan = planService(undefined, { clusterIp, securePort: SECURE_PORT, nodePort: 0 }, true)
  if (plan.type === 'create') await ifNew(api.create(services, plan.object))
}
