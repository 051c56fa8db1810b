import { apiVersionOf, pathOf } from '../kube/resources.ts'
import type { ApiRequest, ApiResponse } from '../kube/transport.ts'
import { version } from './discovery.ts'
import type { Kind } from './kind.ts'
import { mediaTypesOf } from './media-types.ts'

/**
 * The OpenAPI v3 documents by path. They have what kubectl reads before it writes: for each kind a patch that accepts
 * `fieldValidation`. They have no schemas, so `kubectl explain` shows none.
 */
export function openApiDocuments(kinds: readonly Kind[]): ReadonlyMap<string, object> {
  const documents = new Map<string, object>()
  const paths: Record<string, object> = {}
  for (const [groupVersion, served] of Map.groupBy(kinds, ({ resource }) => apiVersionOf(resource))) {
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

export const OPENAPI_V2_PATH = '/openapi/v2'

const PROTOBUF_V2 = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf'
/** Clients request the first type; upstream answers with the second one. */
const protobufTypes = ['application/com.github.proto-openapi.spec.v2@v1.0+protobuf', PROTOBUF_V2]

/**
 * The OpenAPI v2 document, which defines no kinds. kubectl validates the items of a `kind: List` with this document,
 * and skips items whose kind is not defined. The server validates each item when kubectl sends it.
 */
export function openApiV2({ headers }: ApiRequest): ApiResponse {
  const title = 'Kubernetes'
  const accepted = mediaTypesOf(headers.accept || '*/*').map(({ type }) => type)
  const isProtobuf = accepted.some((type) => protobufTypes.includes(type))
  if (isProtobuf) {
    const info = field(1, title) + field(2, version.gitVersion)
    const body = field(1, '2.0') + field(2, info) + field(8, '')
    return { status: 200, headers: { 'content-type': PROTOBUF_V2 }, body }
  }
  if (!accepted.some((type) => type === 'application/json' || type === 'application/*' || type === '*/*')) {
    return { status: 406, headers: {}, body: '' }
  }
  const body = { swagger: '2.0', info: { title, version: version.gitVersion }, paths: {} }
  return { status: 200, headers: { 'content-type': 'application/json' }, body }
}

/** A field of a protobuf message whose value is ASCII, and shorter than 128 bytes. */
function field(number: number, value: string): string {
  return String.fromCharCode((number << 3) | 2, value.length) + value
}
