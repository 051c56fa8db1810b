import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { KubeApi } from '../../kube/api.ts'
import { ifFound, isKubeError } from '../../kube/errors.ts'
import {
  apiVersionOf,
  endpointSlices,
  endpoints,
  type KubeObject,
  type Resource,
  services,
} from '../../kube/resources.ts'
import { KUBERNETES_SERVICE, SERVICE_NAME_LABEL } from '../../kubernetes-service/identity.ts'
import type { InspectedLease } from '../../kubernetes-service/masters/inspection.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { makeTemporaryDirectory } from '../../runtime/system-file.ts'
import { addressesOf } from '../listings.ts'
import { DrillError } from '../target.ts'
import { type Cluster, isDocumentation } from './cluster.ts'

type Kind = Resource<KubeObject>

/**
 * The kinds of `default/kubernetes`, in the order of restoration: the Service first, because slices belong to the
 * Service.
 */
const KINDS = [services, endpoints, endpointSlices] as unknown as readonly Kind[]
/** The fields of metadata that only the server sets. */
const SERVERS_OWN = ['uid', 'resourceVersion', 'creationTimestamp', 'generation', 'managedFields', 'selfLink']

/** The objects of `default/kubernetes` before a drill. */
export class FoundState {
  readonly #found: ReadonlyMap<Kind, readonly KubeObject[]>

  private constructor(found: ReadonlyMap<Kind, readonly KubeObject[]>) {
    this.#found = found
  }

  static async read(api: KubeApi, signal: AbortSignal): Promise<FoundState> {
    const found = new Map<Kind, readonly KubeObject[]>()
    for (const kind of KINDS) found.set(kind, await objectsOf(api, kind, signal))
    return new FoundState(found)
  }

  /** The addresses that objects of these kinds offer to clients, each once. */
  addressesIn(...kinds: readonly ('Endpoints' | 'EndpointSlice')[]): readonly string[] {
    const objects = [...this.#found].flatMap(([{ kind }, found]) => (kinds.some((one) => one === kind) ? found : []))
    return [...new Set(objects.flatMap(addressesOf))]
  }

  /** A List for a user who must restore the objects with kubectl. */
  get list(): KubeObject {
    // The API server leaves out the kind of each item of a list.
    const items = KINDS.flatMap((kind) =>
      (this.#found.get(kind) ?? []).map((object) => ({
        ...stripped(object),
        apiVersion: apiVersionOf(kind),
        kind: kind.kind,
      })),
    )
    return { apiVersion: 'v1', kind: 'List', items } as KubeObject
  }

  /**
   * Restores everything: creates missing objects, overwrites changed objects, and deletes additional objects. Unchanged
   * objects are not written.
   */
  async restore(api: KubeApi, signal: AbortSignal): Promise<void> {
    for (const kind of KINDS) {
      const found = this.#found.get(kind) ?? []
      const present = await objectsOf(api, kind, signal)
      for (const object of present) {
        const before = found.find((one) => nameOf(one) === nameOf(object))
        if (before === undefined) await ifFound(api.delete(kind, refOf(object), { signal }))
        else if (!isDeepStrictEqual(stripped(before), stripped(object))) await restore(api, kind, before, signal)
      }
      for (const before of found) {
        if (!present.some((one) => nameOf(one) === nameOf(before))) await restore(api, kind, before, signal)
      }
    }
  }
}

async function objectsOf(api: KubeApi, kind: Kind, signal: AbortSignal): Promise<readonly KubeObject[]> {
  const { namespace, name } = KUBERNETES_SERVICE
  const named = await api.list(kind, { namespace, fieldSelector: `metadata.name=${name}`, signal })
  if (kind.kind !== 'EndpointSlice') return named.items
  const labelled = await api.list(kind, { namespace, labelSelector: `${SERVICE_NAME_LABEL}=${name}`, signal })
  return [...named.items, ...labelled.items.filter((slice) => nameOf(slice) !== name)]
}

async function restore(api: KubeApi, kind: Kind, before: KubeObject, signal: AbortSignal): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      const present = await ifFound(api.get(kind, refOf(before), { signal }))
      if (present === undefined) await api.create(kind, stripped(before), { signal })
      else {
        const { resourceVersion } = present.metadata ?? {}
        const { metadata, ...rest } = stripped(before)
        await api.update(kind, { ...rest, metadata: { ...metadata, resourceVersion } } as KubeObject, { signal })
      }
      return
    } catch (error) {
      // A controller of the cluster may write at the same moment.
      if (tries === 5 || !isKubeError(error, 'Conflict', 'AlreadyExists')) throw error
    }
  }
}

function stripped(object: KubeObject): KubeObject {
  const metadata = Object.entries(object.metadata ?? {}).filter(([key]) => !SERVERS_OWN.includes(key))
  return { ...object, metadata: Object.fromEntries(metadata) } as KubeObject
}

function refOf(object: KubeObject): { readonly namespace: string; readonly name: string } {
  return { ...KUBERNETES_SERVICE, name: nameOf(object) }
}

function nameOf(object: KubeObject): string {
  return object.metadata?.name ?? ''
}

/** The interval between checks whether the leases have ended, in milliseconds. */
const POLL_MS = 500
/** A lease may end this much later than announced, in milliseconds. */
const LATE_MS = 2_500

interface WaitOptions {
  readonly clock: Clock
  readonly log: (line: string) => void
  readonly signal: AbortSignal
}

/**
 * Waits until abandoned leases have ended. Writes nothing. Rejects with a {@link DrillError} if a lease never ends, or
 * if another program seems to manage `default/kubernetes`: masters or kube-apiservers that renew their leases, the API
 * server itself, or another drill. Otherwise this drill would restore the other drill's list in the end. A master at an
 * address from the README is taken for one of a drill: the list shows no difference.
 */
export async function whenUnoccupied(cluster: Cluster, options: WaitOptions): Promise<void> {
  await whenLeasesEnded(cluster, options)
  const own = await cluster.readyz()
  const found = await FoundState.read(cluster.api, options.signal)
  // Damage may have deleted the Endpoints of a drill that was killed, but not its slice.
  const drilled = found.addressesIn('Endpoints', 'EndpointSlice').filter(isDocumentation)
  const listed = found.addressesIn('Endpoints')
  if (drilled.length > 0) {
    throw new DrillError(
      `default/kubernetes lists ${drilled.join(', ')}, as masters of drills and of examples do: wait for the end of that drill, or stop that master; if neither runs, delete the Endpoints kubernetes and the EndpointSlices kubernetes, kubernetes-ipv4 and kubernetes-ipv6 first`,
    )
  }
  // The leases of a kube-apiserver are in etcd. If the drill's leases are there too, those were checked above.
  const mayManageItself = cluster.leaseStore !== 'etcd' && own.text.includes('poststarthook/bootstrap-controller')
  if (mayManageItself && listed.length > 0) {
    throw new DrillError(
      `default/kubernetes lists ${listed.join(', ')}, and its manager would disturb a drill: give an API server with --endpoint-reconciler-type=none and stop masters whose leases are elsewhere; if nothing manages it, delete the Endpoints kubernetes first`,
    )
  }
}

async function whenLeasesEnded(cluster: Cluster, { clock, log, signal }: WaitOptions): Promise<void> {
  const first = await cluster.leases.inspect(signal)
  if (first.length === 0) return
  const untilMs = clock.monotonicMs() + Math.max(...first.map(leftMs)) + LATE_MS
  log(`waiting for ${first.length} existing leases to expire: ${namesOf(first)}`)
  const left = async (): Promise<readonly InspectedLease[]> => {
    const now = await cluster.leases.inspect(signal)
    const renewed = now.filter((lease) => first.find(({ id }) => id === lease.id)?.revision !== lease.revision)
    if (renewed.length > 0) {
      throw new DrillError(
        `masters outside the drill maintain default/kubernetes and would disturb it: ${namesOf(renewed)}`,
      )
    }
    return now
  }
  while ((await left()).length > 0 && clock.monotonicMs() < untilMs) await sleep(clock, POLL_MS, signal)
  const never = (await left()).filter(({ life }) => life.type === 'never')
  if (never.length > 0) throw new DrillError(`some leases never end: ${namesOf(never)}; remove them with masters evict`)
}

function leftMs({ life }: InspectedLease): number {
  switch (life.type) {
    case 'ends':
      return life.leftMs
    case 'renewed':
      return life.ttlMs
    case 'never':
      return 0
  }
}

function namesOf(leases: readonly InspectedLease[]): string {
  return [...new Set(leases.map(({ address, id }) => address ?? id))].sort().join(', ')
}

/**
 * Writes a file that only this user can read, and resolves with its path. The directory of the file is new, so nobody
 * else can have placed a file or a link there.
 */
export async function writeRecoveryFile(found: KubeObject): Promise<string> {
  const directory = await makeTemporaryDirectory('apiserver-bootstrap-found-')
  const file = join(directory, 'default-kubernetes.json')
  await writeFile(file, `${JSON.stringify(found, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' })
  return file
}
