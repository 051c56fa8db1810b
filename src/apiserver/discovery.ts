import type { ReadinessCheck } from '../kube/readiness.ts'
import { apiVersionOf } from '../kube/resources.ts'
import type { ApiRequest, ApiResponse } from '../kube/transport.ts'
import type { Kind } from './kind.ts'
import { mediaTypesOf } from './media-types.ts'
import { parameter } from './query.ts'

/** Upstream lists the verbs of custom resources in another order than those of built-in kinds. */
const customVerbs = ['delete', 'deletecollection', 'get', 'list', 'patch', 'create', 'update', 'watch']
const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']

function singularOf({ singular, resource }: Kind): string {
  return singular ?? resource.kind.toLowerCase()
}

function verbsOf(kind: Kind): readonly string[] {
  if (kind.isCustom) return customVerbs
  return kind.review === undefined ? verbs : ['create']
}

export const version = {
  major: '1',
  minor: '36',
  gitVersion: 'v1.36.3',
  platform: 'apiserver-bootstrap',
}

/** The documents of discovery by path: /version, /api, /apis, each group and each group version. */
export function discoveryDocuments(kinds: readonly Kind[]): ReadonlyMap<string, object> {
  const documents = new Map<string, object>([
    ['/version', version],
    ['/api', { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] }],
  ])
  const groups = [...new Set(kinds.map((kind) => kind.resource.group))].filter((group) => group !== '').sort()
  const groupDocuments = groups.map((group) => groupOf(group, versionsOf(group, kinds)))
  documents.set('/apis', { kind: 'APIGroupList', apiVersion: 'v1', groups: groupDocuments })
  for (const [index, group] of groups.entries()) {
    documents.set(`/apis/${group}`, { kind: 'APIGroup', apiVersion: 'v1', ...groupDocuments[index] })
  }
  for (const [groupVersion, served] of Map.groupBy(kinds, ({ resource }) => apiVersionOf(resource))) {
    const path = groupVersion.includes('/') ? `/apis/${groupVersion}` : `/api/${groupVersion}`
    const resources = served.flatMap(resourcesOf)
    documents.set(path, { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources })
  }
  return documents
}

function groupOf(group: string, versions: readonly string[]): object {
  const served = versions.map((version) => ({ groupVersion: `${group}/${version}`, version }))
  return { name: group, versions: served, preferredVersion: served[0] }
}

/** The versions of a group, the preferred one first. */
function versionsOf(group: string, kinds: readonly Kind[]): readonly string[] {
  const versions = kinds.filter(({ resource }) => resource.group === group).map(({ resource }) => resource.version)
  return [...new Set(versions)].sort(byPriority)
}

/** Kubernetes' order, such as v2, v1, v2beta1, v1beta2, v1alpha1. Other names come last, in alphabetical order. */
function byPriority(a: string, b: string): number {
  const [left, right] = [priorityOf(a), priorityOf(b)]
  if (left === undefined || right === undefined) {
    return left === right ? (a < b ? -1 : 1) : left === undefined ? 1 : -1
  }
  return right.stability - left.stability || right.major - left.major || right.minor - left.minor
}

function priorityOf(version: string): Readonly<Record<'stability' | 'major' | 'minor', number>> | undefined {
  const [, major, stage, minor] = /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(version) ?? []
  if (major === undefined) return undefined
  const stability = stage === undefined ? 2 : stage === 'beta' ? 1 : 0
  return { stability, major: Number(major), minor: Number(minor ?? 0) }
}

function subresourcesOf({ resource, hasStatus, scale }: Kind) {
  const { group, version, kind } = resource
  const verbs = ['get', 'patch', 'update']
  const autoscaling = { group: 'autoscaling', version: 'v1', kind: 'Scale' }
  return [
    ...(hasStatus ? [{ subresource: 'status', responseKind: { group, version, kind }, verbs }] : []),
    ...(scale === undefined ? [] : [{ subresource: 'scale', responseKind: autoscaling, verbs }]),
  ]
}

function resourcesOf(kind: Kind): readonly object[] {
  const { plural, kind: name, namespaced } = kind.resource
  const { shortNames, categories } = kind
  const whole = {
    name: plural,
    singularName: singularOf(kind),
    namespaced,
    kind: name,
    verbs: verbsOf(kind),
    ...(shortNames === undefined ? {} : { shortNames }),
    ...(categories === undefined ? {} : { categories }),
  }
  const parts = subresourcesOf(kind).map(({ subresource, responseKind: { kind: shown, ...own }, verbs }) => {
    const group = subresource === 'scale' ? own : {}
    return { name: `${plural}/${subresource}`, singularName: '', namespaced, ...group, kind: shown, verbs }
  })
  return [whole, ...parts]
}

/** The versions of aggregated discovery, as the parameter `v` of the media type. kubectl 1.29 knows only v2beta1. */
const aggregatedVersions = ['v2', 'v2beta1'] as const

/**
 * The aggregated discovery document of /api or /apis, with its content type, in the newest version that the client
 * accepts. Undefined if the client accepts neither version, or for another path. The parameters of the media type must
 * match exactly, because a client finds no kinds in a document of a version that it does not accept.
 */
export function aggregatedDiscovery(kinds: readonly Kind[], request: ApiRequest): ApiResponse | undefined {
  const { path } = request
  if (path !== '/api' && path !== '/apis') return undefined
  const accepted = mediaTypesOf(request.headers.accept ?? '')
  const version = aggregatedVersions.find((version) =>
    accepted.some(
      ({ type, parameters }) =>
        type === 'application/json' &&
        parameters.g === 'apidiscovery.k8s.io' &&
        parameters.v === version &&
        parameters.as === 'APIGroupDiscoveryList',
    ),
  )
  if (version === undefined) return undefined
  const served = kinds.filter(({ resource }) => (resource.group === '') === (path === '/api'))
  const groups = [...Map.groupBy(served, ({ resource }) => resource.group)].sort(([a], [b]) => (a < b ? -1 : 1))
  const items = groups.map(([group, members]) => groupDiscovery(group, members))
  const body = { kind: 'APIGroupDiscoveryList', apiVersion: `apidiscovery.k8s.io/${version}`, metadata: {}, items }
  const contentType = `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`
  return { status: 200, headers: { 'content-type': contentType }, body }
}

function groupDiscovery(group: string, kinds: readonly Kind[]): object {
  const resources = kinds.map((kind) => {
    const { plural, kind: name, namespaced, version } = kind.resource
    const responseKind = { group, version, kind: name }
    const subresources = subresourcesOf(kind)
    return {
      resource: plural,
      responseKind,
      scope: namespaced ? 'Namespaced' : 'Cluster',
      singularResource: singularOf(kind),
      verbs: verbsOf(kind),
      ...(kind.shortNames === undefined ? {} : { shortNames: kind.shortNames }),
      ...(kind.categories === undefined ? {} : { categories: kind.categories }),
      ...(subresources.length === 0 ? {} : { subresources }),
    }
  })
  return {
    metadata: group === '' ? {} : { name: group },
    versions: versionsOf(group, kinds).map((version) => ({
      version,
      resources: resources.filter(({ responseKind }) => responseKind.version === version),
      freshness: 'Current',
    })),
  }
}

/** The health of an embedded server. The code that owns the server can make a check pass or fail. */
export class Health {
  readonly #checks = new Map<string, boolean>()

  constructor(names: readonly string[]) {
    for (const name of names) this.#checks.set(name, true)
  }

  /** Sets the result of a check, and adds the check if it is new. The server is ready while all checks are ok. */
  set(name: string, ok: boolean): void {
    this.#checks.set(name, ok)
  }

  get checks(): readonly ReadinessCheck[] {
    return [...this.#checks].map(([name, ok]) => ({ name, ok }))
  }

  get ready(): boolean {
    return [...this.#checks.values()].every((ok) => ok)
  }

  /**
   * The answer to /readyz, /livez or /healthz, in the words of apiserver's healthz: 200 if all checks are ok, otherwise
   * 500. /readyz has all checks; /livez and /healthz have only `ping`.
   */
  answer(path: '/readyz' | '/livez' | '/healthz', query: ApiRequest['query']): ApiResponse {
    const probe = path.slice(1)
    const checks = this.checks.filter((check) => probe === 'readyz' || check.name === 'ping')
    const ok = checks.every((check) => check.ok)
    if (ok && parameter(query, 'verbose') === undefined) return text(200, 'ok')
    const lines = checks.map((check) => (check.ok ? `[+]${check.name} ok` : `[-]${check.name} failed: reason withheld`))
    return text(ok ? 200 : 500, `${lines.join('\n')}\n${probe} check ${ok ? 'passed' : 'failed'}\n`)
  }
}

export function text(status: number, body: string): ApiResponse {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8' }, body }
}
