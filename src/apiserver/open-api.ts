import { apiVersionOf, pathOf } from '../kube/resources.ts'
import { version } from './discovery.ts'
import type { Kind } from './kind.ts'

/**
 * The OpenAPI v3 documents by path. They say as much as kubectl needs before it writes: which kinds can be patched, and
 * that the server takes `fieldValidation`. No schemas: `kubectl explain` shows none.
 */
export function openApiDocuments(kinds: readonly Kind[]): ReadonlyMap<string, object> {
  const documents = new Map<string, object>()
  const paths: Record<string, object> = {}
  for (const groupVersion of new Set(kinds.map((kind) => apiVersionOf(kind.resource)))) {
    const served = kinds.filter((kind) => apiVersionOf(kind.resource) === groupVersion)
    const root = groupVersion.includes('/') ? `apis/${groupVersion}` : `api/${groupVersion}`
    paths[root] = { serverRelativeURL: `/openapi/v3/${root}` }
    documents.set(`/openapi/v3/${root}`, openApiOf(served))
  }
  documents.set('/openapi/v3', { paths })
  return documents
}

function openApiOf(kinds: readonly Kind[]): object {
  const paths = kinds.map(({ resource }) => {
    const path = pathOf(resource, { namespace: '{namespace}', name: '{name}' })
    const patch = {
      operationId: `patch${resource.kind}`,
      parameters: [{ in: 'query', name: 'fieldValidation', schema: { type: 'string', uniqueItems: true } }],
      responses: { 200: { description: 'OK' } },
      'x-kubernetes-action': 'patch',
      'x-kubernetes-group-version-kind': { group: resource.group, version: resource.version, kind: resource.kind },
    }
    return [decodeURIComponent(path), { patch }]
  })
  return {
    openapi: '3.0.0',
    info: { title: 'Kubernetes', version: version.gitVersion },
    paths: Object.fromEntries(paths),
    components: {},
  }
}
