import type { EndpointSlice, Endpoints, Service } from '../../src/kube/resources.ts'
import type { ApiClient, SeenEvent } from './api-client.ts'
import type { Owner } from './owner.ts'
import { untilPasses } from './until.ts'

/** The paths of default/kubernetes and of the objects that belong to it. */
export const paths = {
  services: '/api/v1/namespaces/default/services',
  service: '/api/v1/namespaces/default/services/kubernetes',
  endpoints: '/api/v1/namespaces/default/endpoints/kubernetes',
  slice: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes',
  slices: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices',
  serviceCidr: '/apis/networking.k8s.io/v1/servicecidrs/kubernetes',
  namespaces: '/api/v1/namespaces',
  leases: '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases',
} as const

/** default/kubernetes as a client finds it. */
export interface ServiceState {
  readonly service: Service | undefined
  readonly endpoints: Endpoints | undefined
  /** All slices whose label names the Service, and the slice `kubernetes`, whatever its labels are. */
  readonly slices: readonly EndpointSlice[]
}

export interface Expected {
  readonly addresses: readonly string[]
  readonly port: number
  readonly clusterIp?: string
}

/** Describes every difference between the state and the expected one; empty if there is none. Pure. */
export function problemsOf(state: ServiceState, expected: Expected): readonly string[] {
  return [
    ...serviceProblems(state.service, expected),
    ...endpointsProblems(state.endpoints, expected),
    ...sliceProblems(state.slices, expected),
  ]
}

export async function readState(api: ApiClient): Promise<ServiceState> {
  const [service, endpoints, slices] = await Promise.all([
    api.find<Service>(paths.service),
    api.find<Endpoints>(paths.endpoints),
    api.get<{ readonly items: readonly EndpointSlice[] }>(paths.slices),
  ])
  return { service, endpoints, slices: slices.items.filter(concernsKubernetes) }
}

/** Waits until the state is right and returns it. */
export function whenRight(api: ApiClient, expected: Expected, withinMs: number): Promise<ServiceState> {
  return untilPasses(
    `default/kubernetes with ${expected.addresses.join(', ') || 'no address'}`,
    async () => {
      const state = await readState(api)
      const problems = problemsOf(state, expected)
      if (problems.length > 0) throw new Error(problems.join('; '))
      return state
    },
    { withinMs },
  )
}

/** The addresses that Endpoints lists as ready, in order. */
export function listedIn(endpoints: Endpoints | undefined): readonly string[] {
  return (endpoints?.subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map((address) => address.ip)).sort()
}

/** The addresses that the slices list as ready, in order. */
export function listedInSlices(slices: readonly EndpointSlice[]): readonly string[] {
  return slices.flatMap((slice) => (slice.endpoints ?? []).flatMap((endpoint) => endpoint.addresses)).sort()
}

/** The state after a change, and when a watch showed it. */
export interface Transition {
  /** On the clock of `performance.now()`. */
  readonly atMs: number
  readonly state: ServiceState
}

/** What watches of default/kubernetes showed. */
export interface Watched {
  /** Every state that default/kubernetes went through. */
  readonly history: readonly Transition[]
  /** Like {@link whenRight}, but also waits until the history contains what was read: a watch may be behind. */
  whenRight(expected: Expected, withinMs: number): Promise<void>
}

/**
 * Watches default/kubernetes and stores every state that it goes through. Resolves when the watches have delivered the
 * present state.
 */
export async function watchState(owner: Owner, api: ApiClient): Promise<Watched> {
  const history: Transition[] = []
  const versions = new Set<string>()
  let service: Service | undefined
  let endpoints: Endpoints | undefined
  const slices = new Map<string, EndpointSlice>()
  const stop = new AbortController()
  owner.after(() => stop.abort())

  const follow = <T extends Versioned>(path: string, apply: (event: SeenEvent<T>) => boolean): void => {
    const seen = (event: SeenEvent<T>): void => {
      if (event.type !== 'BOOKMARK' && apply(event)) {
        versions.add(versionOf(event.object))
        history.push({ atMs: performance.now(), state: { service, endpoints, slices: [...slices.values()] } })
      }
    }
    // A broken watch leaves a gap in the history, which a test could take for a time without changes. So it ends the
    // process.
    void api.watch<T>(path, seen, stop.signal)
  }
  const only = '?fieldSelector=metadata.name%3Dkubernetes'
  follow<Service>(`${paths.services}${only}`, ({ type, object }) => {
    service = type === 'DELETED' ? undefined : object
    return true
  })
  follow<Endpoints>(`/api/v1/namespaces/default/endpoints${only}`, ({ type, object }) => {
    endpoints = type === 'DELETED' ? undefined : object
    return true
  })
  follow<EndpointSlice>(paths.slices, ({ type, object }) => {
    const name = object.metadata?.name ?? ''
    if (type !== 'DELETED' && concernsKubernetes(object)) slices.set(name, object)
    else if (!slices.delete(name)) return false
    return true
  })

  const present = await readState(api)
  const wanted = (present.service ? 1 : 0) + (present.endpoints ? 1 : 0) + present.slices.length
  await untilPasses(
    'the watches to deliver the present state',
    () => {
      if (history.length < wanted) throw new Error(`${history.length} of ${wanted} objects`)
    },
    { withinMs: 20_000, everyMs: 5 },
  )
  return {
    history,
    async whenRight(expected, withinMs) {
      const read = await whenRight(api, expected, withinMs)
      const found = [read.service, read.endpoints, ...read.slices].filter((object) => object !== undefined)
      await untilPasses(
        'the watches to deliver what was read',
        () => {
          const missing = found.filter((object) => !versions.has(versionOf(object)))
          if (missing.length > 0) throw new Error(`without ${missing.map(versionOf).join(', ')}`)
        },
        { withinMs: 20_000, everyMs: 5 },
      )
    },
  }
}

type Versioned = Pick<Service, 'metadata'>

function versionOf({ metadata }: Versioned): string {
  return `${metadata?.uid} at ${metadata?.resourceVersion}`
}

function concernsKubernetes(slice: EndpointSlice): boolean {
  return (
    slice.metadata?.name === 'kubernetes' || slice.metadata?.labels?.['kubernetes.io/service-name'] === 'kubernetes'
  )
}

function serviceProblems(service: Service | undefined, expected: Expected): readonly string[] {
  if (service === undefined) return ['no Service']
  const { metadata, spec } = service
  return [
    ...differs('Service labels', pick(metadata?.labels, 'component', 'provider'), ['apiserver', 'kubernetes']),
    ...differs('Service type', spec?.type, 'ClusterIP'),
    ...differs('clusterIP', spec?.clusterIP, expected.clusterIp ?? '10.96.0.1'),
    ...differs('Service ports', spec?.ports, [
      { name: 'https', protocol: 'TCP', port: 443, targetPort: expected.port },
    ]),
  ]
}

function endpointsProblems(endpoints: Endpoints | undefined, expected: Expected): readonly string[] {
  if (endpoints === undefined) return ['no Endpoints']
  const subsets = endpoints.subsets ?? []
  const subset = subsets[0]
  const skipsMirror = endpoints.metadata?.labels?.['endpointslice.kubernetes.io/skip-mirror']
  const none = expected.addresses.length === 0
  return [
    ...differs('skip-mirror label', skipsMirror, 'true'),
    ...differs('Endpoints addresses', listedIn(endpoints), [...expected.addresses].sort()),
    ...differs('subsets', subsets.length, none ? 0 : 1),
    ...differs('notReadyAddresses', subset?.notReadyAddresses?.map((address) => address.ip) ?? [], []),
    ...(none
      ? []
      : differs('Endpoints ports', subset?.ports, [{ name: 'https', port: expected.port, protocol: 'TCP' }])),
  ]
}

function sliceProblems(slices: readonly EndpointSlice[], expected: Expected): readonly string[] {
  const slice = slices.find((candidate) => candidate.metadata?.name === 'kubernetes')
  const extra = slices.filter((candidate) => candidate !== slice).map((candidate) => candidate.metadata?.name)
  const problems = extra.length === 0 ? [] : [`extra slices ${extra.join(', ')}`]
  if (expected.addresses.length === 0) {
    return [...problems, ...differs('slice addresses', listedInSlices(slice ? [slice] : []), [])]
  }
  if (slice === undefined) return [...problems, 'no EndpointSlice']
  const unready = (slice.endpoints ?? []).filter((endpoint) => endpoint.conditions?.ready !== true)
  return [
    ...problems,
    ...differs('service-name label', slice.metadata?.labels?.['kubernetes.io/service-name'], 'kubernetes'),
    ...differs('addressType', slice.addressType, 'IPv4'),
    ...differs('slice addresses', listedInSlices([slice]), [...expected.addresses].sort()),
    ...differs('unready slice endpoints', unready.length, 0),
    ...differs('slice ports', slice.ports, [{ name: 'https', protocol: 'TCP', port: expected.port }]),
  ]
}

function pick(labels: Readonly<Record<string, string>> | undefined, ...names: readonly string[]): readonly unknown[] {
  return names.map((name) => labels?.[name])
}

function differs(what: string, seen: unknown, wanted: unknown): readonly string[] {
  return canonical(seen) === canonical(wanted)
    ? []
    : [`${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(wanted)}`]
}

/** JSON with sorted keys, so that equal objects give equal text. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    item !== null && typeof item === 'object' && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  )
}
