import { apiVersionOf } from '../kube/resources.ts'
import type { Kind } from './kind.ts'

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']

/** The version that the embedded server gives itself out as. */
export const version = {
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
