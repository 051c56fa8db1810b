import type { ReadinessCheck } from '../kube/readiness.ts'
import { apiVersionOf } from '../kube/resources.ts'
import type { ApiRequest, ApiResponse } from '../kube/transport.ts'
import type { Kind } from './kind.ts'
import { parameter } from './query.ts'

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']

/** The version that the embedded server gives itself out as. */
const version = {
  major: '1',
  minor: '36',
  gitVersion: 'v1.36.3',
  platform: 'apiserver-bootstrap',
}

/** The discovery documents by path: /api, /apis, each group and each group version. */
export function discoveryDocuments(kinds: readonly Kind[]): ReadonlyMap<string, object> {
  const documents = new Map<string, object>([
    ['/version', version],
    ['/api', { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] }],
  ])
  const groups = [...new Set(kinds.map((kind) => kind.resource.group))].filter((group) => group !== '').sort()
  const groupDocuments = groups.map(groupOf)
  documents.set('/apis', { kind: 'APIGroupList', apiVersion: 'v1', groups: groupDocuments })
  for (const [index, group] of groups.entries()) {
    documents.set(`/apis/${group}`, { kind: 'APIGroup', apiVersion: 'v1', ...groupDocuments[index] })
  }
  for (const groupVersion of new Set(kinds.map((kind) => apiVersionOf(kind.resource)))) {
    const served = kinds.filter((kind) => apiVersionOf(kind.resource) === groupVersion)
    const path = groupVersion.includes('/') ? `/apis/${groupVersion}` : `/api/${groupVersion}`
    const resources = served.flatMap(resourcesOf)
    documents.set(path, { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources })
  }
  return documents
}

function groupOf(group: string): object {
  const served = { groupVersion: `${group}/v1`, version: 'v1' }
  return { name: group, versions: [served], preferredVersion: served }
}

function resourcesOf(kind: Kind): readonly object[] {
  const { plural, kind: name, namespaced } = kind.resource
  const shortNames = kind.shortNames === undefined ? {} : { shortNames: kind.shortNames }
  const whole = { name: plural, singularName: kind.singular, namespaced, kind: name, verbs, ...shortNames }
  if (!kind.hasStatus) return [whole]
  return [
    whole,
    { name: `${plural}/status`, singularName: '', namespaced, kind: name, verbs: ['get', 'patch', 'update'] },
  ]
}

/** The health of an embedded server: whoever owns the server can let a check pass or fail. */
export class Health {
  readonly #checks = new Map<string, boolean>()

  constructor(names: readonly string[]) {
    for (const name of names) this.#checks.set(name, true)
  }

  /** Sets a check, adding it where it is new. The server is ready while all are ok. */
  set(name: string, ok: boolean): void {
    this.#checks.set(name, ok)
  }

  get checks(): readonly ReadinessCheck[] {
    return [...this.#checks].map(([name, ok]) => ({ name, ok }))
  }

  get ready(): boolean {
    return [...this.#checks.values()].every((ok) => ok)
  }

  /** The answer to /readyz, /livez or /healthz, in the words of apiserver's healthz. The last two check only `ping`. */
  answer(path: '/readyz' | '/livez' | '/healthz', query: ApiRequest['query']): ApiResponse {
    const probe = path.slice(1)
    const checks = this.checks.filter((check) => probe === 'readyz' || check.name === 'ping')
    const ok = checks.every((check) => check.ok)
    if (ok && parameter(query, 'verbose') === undefined) return text(200, 'ok')
    const lines = checks.map(({ name, ok: passes }) =>
      passes ? `[+]${name} ok` : `[-]${name} failed: reason withheld`,
    )
    return text(ok ? 200 : 500, `${lines.join('\n')}\n${probe} check ${ok ? 'passed' : 'failed'}\n`)
  }
}

function text(status: number, body: string): ApiResponse {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8' }, body }
}
