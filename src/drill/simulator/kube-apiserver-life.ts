import type { EtcdKv } from '../../etcd/kv.ts'
import type { KubeApi } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { type EndpointSlice, type Endpoints, endpointSlices, endpoints } from '../../kube/resources.ts'
import { decodeMasterLease, encodeMasterLease } from '../../protobuf/master-lease.ts'
import { sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { KubeApiserverObjects } from './kube-apiserver-objects.ts'
import type { ProcessClock } from './process-clock.ts'

const REF = { namespace: 'default', name: 'kubernetes' }
const LEASES = '/registry/masterleases/'
const SKIP_MIRROR = 'endpointslice.kubernetes.io/skip-mirror'
const SECURE_PORT = 6443
const PORTS = [{ name: 'https', port: SECURE_PORT, protocol: 'TCP' }]
/** Neither is a flag. */
export const INTERVAL_MS = 10_000
export const TTL_SECONDS = 15
const NAMESPACES_INTERVAL_MS = 60_000
/** From its start to its first /readyz. */
const STARTING_MS = 4_000

interface LifeOptions {
  readonly api: KubeApi
  readonly etcd: EtcdKv
  readonly clock: ProcessClock
  readonly random: Random
  readonly address: string
}

/** One life of a simulated kube-apiserver's process: upstream's controller and lease reconciler, tick by tick. */
export class KubeApiserverLife {
  readonly clock: ProcessClock
  ready = false
  stopping = false
  ended = false
  readonly #options: LifeOptions
  readonly #objects: KubeApiserverObjects
  readonly #stop = new AbortController()
  readonly #signal = new AbortController().signal

  constructor(options: LifeOptions) {
    this.#options = options
    this.clock = options.clock
    this.#objects = new KubeApiserverObjects(options.api)
    void this.#run()
  }

  terminate(): void {
    this.stopping = true
    this.#stop.abort(new Error('SIGTERM'))
  }

  async #run(): Promise<void> {
    await this.#removeEndpoints().catch(() => {})
    await sleep(this.clock, STARTING_MS, this.#stop.signal).catch(() => {})
    void this.#keepObjects()
    while (!this.#stop.signal.aborted) {
      this.ready = true
      const startedMs = this.clock.monotonicMs()
      // What fails is tried again at the next tick.
      await this.#updateKubernetesService().catch(() => {})
      await sleep(this.clock, startedMs + INTERVAL_MS - this.clock.monotonicMs(), this.#stop.signal).catch(() => {})
    }
    await this.#removeEndpoints().catch(() => {})
    this.ended = true
  }

  /** The namespaces and the ServiceCIDR, which have controllers of their own. */
  async #keepObjects(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const ensured = this.#objects.ensureNamespaces().then(() => this.#objects.ensureServiceCidr())
      const waitMs = await ensured.then(
        () => NAMESPACES_INTERVAL_MS,
        () => INTERVAL_MS,
      )
      await sleep(this.clock, waitMs, this.#stop.signal).catch(() => {})
    }
  }

  async #updateKubernetesService(): Promise<void> {
    await this.#objects.ensureService(SECURE_PORT)
    await this.#updateLease()
    await this.#doReconcile(false)
  }

  async #removeEndpoints(): Promise<void> {
    const { etcd, address } = this.#options
    for (;;) {
      const stored = await etcd.get(LEASES + address, this.#signal)
      // Upstream's RemoveLease fails for a key that is not there, and the list is left alone.
      if (stored === undefined) return
      if (await etcd.delete(stored.key, stored.modRevision, this.#signal)) break
    }
    await this.#doReconcile(true)
  }

  async #updateLease(): Promise<void> {
    const { etcd, address } = this.#options
    for (;;) {
      const stored = await etcd.get(LEASES + address, this.#signal)
      const { id: lease } = await etcd.grantLease(TTL_SECONDS, this.#signal)
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
    const found = await orUndefined(api.get(endpoints, REF))
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
    const portsCorrect = formatCorrect && (!reconcilePorts || samePorts(subset?.ports, PORTS))
    const labelled = found?.metadata?.labels?.[SKIP_MIRROR] === 'true'
    if (found !== undefined && labelled && ipCorrect && portsCorrect) return this.#ensureSlice(found)
    const addresses = ipCorrect ? subset?.addresses : [...ips].sort().map((ip) => ({ ip }))
    const ports = portsCorrect ? subset?.ports : PORTS
    const next = {
      ...(found ?? { apiVersion: 'v1', kind: 'Endpoints' }),
      metadata: { ...(found?.metadata ?? REF), labels: { ...found?.metadata?.labels, [SKIP_MIRROR]: 'true' } },
      subsets: ips.length === 0 ? [] : [{ ...subset, addresses, ports }],
    } as Endpoints
    const stored =
      found === undefined
        ? await orUndefined(api.create(endpoints, next), 'AlreadyExists')
        : await api.update(endpoints, next)
    if (stored !== undefined) await this.#ensureSlice(stored)
  }

  /** EnsureEndpointSliceFromEndpoints in endpointsadapter.go: its update has no resourceVersion, so nothing guards it. */
  async #ensureSlice(stored: Endpoints): Promise<void> {
    const { api } = this.#options
    const wanted = sliceOf(stored)
    const found = await orUndefined(api.get(endpointSlices, REF))
    if (found === undefined) await orUndefined(api.create(endpointSlices, wanted), 'AlreadyExists')
    else if (!sameSlice(found, wanted)) await api.update(endpointSlices, wanted)
  }
}

function sliceOf({ subsets }: Endpoints): EndpointSlice {
  const { addresses = [], notReadyAddresses = [], ports = [] } = subsets?.[0] ?? {}
  const endpoint =
    (ready: boolean) =>
    ({ ip }: { readonly ip: string }) => ({ addresses: [ip], conditions: { ready } })
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...REF, labels: { 'kubernetes.io/service-name': REF.name } },
    addressType: 'IPv4',
    endpoints: [...addresses.map(endpoint(true)), ...notReadyAddresses.map(endpoint(false))],
    ports: ports.map(({ name, port, protocol }) => ({ name, port, protocol })),
  } as EndpointSlice
}

function sameSlice(found: EndpointSlice, wanted: EndpointSlice): boolean {
  const listed = ({ endpoints: all }: EndpointSlice): string =>
    (all ?? []).map(({ addresses, conditions }) => `${addresses.join()} ${conditions?.ready}`).join()
  const labels = ({ metadata }: EndpointSlice): string => JSON.stringify(metadata?.labels ?? {})
  return listed(found) === listed(wanted) && samePorts(found.ports, wanted.ports) && labels(found) === labels(wanted)
}

type Ports = readonly { readonly name?: string; readonly port?: number; readonly protocol?: string }[]

function samePorts(found: Ports | undefined, wanted: Ports | undefined): boolean {
  const told = (ports: Ports = []): string =>
    ports.map(({ name, port, protocol }) => `${name} ${port} ${protocol}`).join()
  return told(found) === told(wanted)
}

async function orUndefined<T>(answer: Promise<T>, code: 'NotFound' | 'AlreadyExists' = 'NotFound') {
  try {
    return await answer
  } catch (error) {
    if (isKubeError(error, code)) return undefined
    throw error
  }
}
