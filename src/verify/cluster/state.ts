import type { ServerAnswer } from '../../kube/http-probe.ts'
import type { ReadinessCheck } from '../../kube/readiness.ts'
import type {
  EndpointSlice,
  Endpoints,
  IpAddress,
  KubeObject,
  Namespace,
  Node,
  Pod,
  Service,
  ServiceCidr,
} from '../../kube/resources.ts'
import type { InspectedLease } from '../../kubernetes-service/masters/inspection.ts'
import type { Cidr } from '../../net/cidr.ts'
import type { PortRange } from '../../net/host-port.ts'
import type { RangeName, StoredRange } from '../../repair/registries/range-registry.ts'

/** The parts of the state of a cluster that checks read. Objects of long lists are trimmed to what the checks need. */
export interface Parts {
  /** By name. */
  readonly namespaces: ReadonlyMap<string, Namespace>
  readonly nodesServed: boolean
  readonly kubernetesService: Service | undefined
  readonly kubernetesEndpoints: Endpoints | undefined
  /** The slice `kubernetes`, and every slice whose label names the Service `kubernetes`. */
  readonly kubernetesSlices: readonly EndpointSlice[]
  readonly serviceCidrs: readonly ServiceCidr[]
  readonly services: readonly Service[]
  readonly ipAddresses: readonly IpAddress[]
  readonly masterLeases: MasterLeasesRead
  readonly serverProbes: readonly ProbedServer[]
  readonly rangeAllocations: readonly StoredBitmap[]
  readonly objectWrites: WatchedWrites
  /** The checks that the API server lists in `/readyz?verbose`. */
  readonly readinessChecks: readonly ReadinessCheck[]
  readonly clusterIpDryRun: DryRun
  readonly nodePortDryRun: DryRun
  readonly pods: readonly Pod[]
  readonly nodes: readonly Node[]
  readonly endpoints: readonly Endpoints[]
  /** Without hints. */
  readonly endpointSlices: readonly EndpointSlice[]
}

/** The leases of masters in the one store that was read. */
interface MasterLeasesRead {
  readonly store: 'etcd' | 'kubernetes'
  readonly leases: readonly InspectedLease[]
}

export interface ProbedServer {
  readonly address: string
  /** The place to which the probe connected, as HOST:PORT. */
  readonly dialled: string
  /** The certificate must be valid for one of these names. */
  readonly names: readonly string[]
  readonly answer: ServerAnswer
}

export interface StoredBitmap {
  readonly name: RangeName
  /** The place of the bitmap, for messages. */
  readonly where: string
  readonly stored: StoredRange
}

export interface WatchedWrites {
  readonly forMs: number
  /**
   * The successive states of each object since the watch began, by a name such as `Endpoints default/kubernetes`. A
   * state is undefined while the object does not exist.
   */
  readonly states: ReadonlyMap<string, readonly (KubeObject | undefined)[]>
}

/**
 * In a dry run kube-apiserver allocates nothing. Its answer contains a dummy, such as NodePort 32769 or the first
 * address of the range, even if nothing is free.
 */
export type DryRun = { readonly type: 'accepted' } | { readonly type: 'refused'; readonly reason: string }

export type PartName = keyof Parts

export type Part<T> =
  | { readonly type: 'read'; readonly value: T }
  /** `isServed` is false if the server does not serve the kind. */
  | { readonly type: 'unread'; readonly reason: string; readonly isServed?: false }

/** The observed state of a cluster. Parts that no chosen check uses are left out. */
export type ClusterState = { readonly [Name in PartName]?: Part<Parts[Name]> }

/** What an operator expects of the cluster, beyond what the cluster itself shows. */
export interface Expectations {
  /**
   * The addresses that Endpoints must list, in canonical form. With two families, Endpoints and the slice of the other
   * family must list them together.
   */
  readonly addresses?: readonly string[] | undefined
  /** How many addresses Endpoints must list. */
  readonly masters?: number | undefined
  readonly serviceClusterIpRange?: readonly Cidr[] | undefined
  readonly serviceNodePortRange?: PortRange | undefined
}

export interface CheckContext {
  readonly state: ClusterState
  readonly expect: Expectations
  /** Wall time, in milliseconds since the Unix epoch. */
  readonly nowMs: number
}

/** The value of a part; undefined if the part was not read, or if the object does not exist. */
export function partOf<Name extends PartName>(
  { state }: Pick<CheckContext, 'state'>,
  name: Name,
): Parts[Name] | undefined {
  const part = state[name] as Part<Parts[Name]> | undefined
  return part?.type === 'read' ? part.value : undefined
}
