import type { EndpointSlice, Endpoints } from '../../src/kube/resources.ts'
import type { ApiClient } from './api-client.ts'
import { type Expected, paths, problemsOf, type Transition } from './kubernetes-service.ts'
import { untilPasses } from './until.ts'

/** Something that a person or a program may do to default/kubernetes, and that must be undone. */
export interface Damage {
  readonly name: string
  apply(api: ApiClient): Promise<unknown>
}

const otherPort = { name: 'https', port: 4444, protocol: 'TCP' }

export const damages: readonly Damage[] = [
  { name: 'slice deleted', apply: (api) => api.delete(paths.slice) },
  { name: 'slice without labels', apply: (api) => api.merge(paths.slice, { metadata: { labels: null } }) },
  {
    name: 'slice without endpoints',
    apply: (api) => change<EndpointSlice>(api, paths.slice, (slice) => ({ ...slice, endpoints: [] })),
  },
  { name: 'slice without ports', apply: (api) => api.merge(paths.slice, { ports: [] }) },
  { name: 'Endpoints deleted', apply: (api) => api.delete(paths.endpoints) },
  {
    name: 'Endpoints scrubbed',
    apply: (api) => api.merge(paths.endpoints, { metadata: { labels: null }, subsets: [] }),
  },
  { name: 'Endpoints port wrong', apply: (api) => changeSubset(api, () => ({ ports: [otherPort] })) },
  {
    name: 'Endpoints protocol wrong',
    apply: (api) =>
      changeSubset(api, (subset) => ({ ports: (subset.ports ?? []).map((port) => ({ ...port, protocol: 'UDP' })) })),
  },
  {
    name: 'foreign notReadyAddress',
    apply: (api) => changeSubset(api, () => ({ notReadyAddresses: [{ ip: '198.51.100.9' }] })),
  },
  {
    name: 'second subset',
    apply: (api) =>
      change<Endpoints>(api, paths.endpoints, (endpoints) => ({
        ...endpoints,
        subsets: [...(endpoints.subsets ?? []), { addresses: [{ ip: '198.51.100.7' }], ports: [otherPort] }],
      })),
  },
  { name: 'Service deleted', apply: (api) => api.delete(paths.service) },
  {
    name: 'Service ports changed',
    apply: (api) =>
      api.merge(paths.service, { spec: { ports: [{ name: 'https', port: 8443, protocol: 'TCP', targetPort: 4444 }] } }),
  },
  {
    // This type is the only one that needs no NodePort. A server whose NodePort range nobody initialised cannot
    // allocate one.
    name: 'Service type changed',
    apply: (api) => api.merge(paths.service, { spec: { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false } }),
  },
]

/**
 * How long a watch showed default/kubernetes wrong, in milliseconds: from the first wrong state after the first `since`
 * entries of the history to the right state that then lasted `settleMs`. Rejects if no such state comes within
 * `withinMs`.
 */
export async function wrongFor(
  history: readonly Transition[],
  since: number,
  expected: Expected,
  { withinMs, settleMs = 150 }: { readonly withinMs: number; readonly settleMs?: number },
): Promise<number> {
  return untilPasses(
    'default/kubernetes to be corrected',
    () => {
      const later = history.slice(since)
      const firstWrong = later.find((entry) => problemsOf(entry.state, expected).length > 0)
      if (firstWrong === undefined) throw new Error('the damage has not been seen yet')
      const last = later.at(-1) as Transition
      const problems = problemsOf(last.state, expected)
      if (problems.length > 0) throw new Error(problems.join('; '))
      if (performance.now() - last.atMs < settleMs) throw new Error('right, but only just')
      const lastWrong = later.findLastIndex((entry) => problemsOf(entry.state, expected).length > 0)
      return (later[lastWrong + 1] as Transition).atMs - firstWrong.atMs
    },
    { withinMs, everyMs: 10 },
  )
}

type Subset = NonNullable<Endpoints['subsets']>[number]

function changeSubset(api: ApiClient, with_: (subset: Subset) => Partial<Subset>): Promise<unknown> {
  return change<Endpoints>(api, paths.endpoints, (endpoints) => ({
    ...endpoints,
    subsets: (endpoints.subsets ?? []).map((subset) => ({ ...subset, ...with_(subset) })),
  }))
}

async function change<T>(api: ApiClient, path: string, edit: (object: T) => T): Promise<unknown> {
  return api.update(path, edit(await api.get<T>(path)))
}
