import type { KubeApi } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import type { KubeObject } from '../../kube/json.ts'
import { apiVersionOf, endpointSlices, endpoints, type Resource, services } from '../../kube/resources.ts'
import { KUBERNETES_SERVICE, SERVICE_NAME_LABEL } from '../../kubernetes-service/identity.ts'

type Kind = Resource<KubeObject>

/** The kinds of which `default/kubernetes` is made, in the order in which they are put back: slices belong to the Service. */
const KINDS = [services, endpoints, endpointSlices] as unknown as readonly Kind[]
/** What a server fills in, or counts. */
const SERVERS_OWN = ['uid', 'resourceVersion', 'creationTimestamp', 'generation', 'managedFields', 'selfLink']

/** What `default/kubernetes` was before a drill: of each kind the objects, by name. */
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

  /** All of it, as kubectl takes it: for who has to put it back by hand. */
  get list(): KubeObject {
    // A server names the kind of what it lists once, in the list.
    const items = KINDS.flatMap((kind) =>
      (this.#found.get(kind) ?? []).map((object) => ({
        ...stripped(object),
        apiVersion: apiVersionOf(kind),
        kind: kind.kind,
      })),
    )
    return { apiVersion: 'v1', kind: 'List', items } as KubeObject
  }

  /** Makes everything what it was: objects that went come back, others go. What is right is not written. */
  async putBack(api: KubeApi, signal: AbortSignal): Promise<void> {
    for (const kind of KINDS) {
      const found = this.#found.get(kind) ?? []
      const present = await objectsOf(api, kind, signal)
      for (const object of present) {
        const before = found.find((one) => nameOf(one) === nameOf(object))
        if (before === undefined) await remove(api, kind, object, signal)
        else if (contentOf(before) !== contentOf(object)) await restore(api, kind, before, signal)
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

async function remove(api: KubeApi, kind: Kind, object: KubeObject, signal: AbortSignal): Promise<void> {
  const ref = { namespace: KUBERNETES_SERVICE.namespace, name: nameOf(object) }
  await api.delete(kind, ref, { signal }).catch((error: unknown) => {
    if (!isKubeError(error, 'NotFound')) throw error
  })
}

async function restore(api: KubeApi, kind: Kind, before: KubeObject, signal: AbortSignal): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      const ref = { namespace: KUBERNETES_SERVICE.namespace, name: nameOf(before) }
      const present = await api.get(kind, ref, { signal }).catch((error: unknown) => {
        if (isKubeError(error, 'NotFound')) return undefined
        throw error
      })
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

function contentOf(object: KubeObject): string {
  return JSON.stringify(sorted(stripped(object)))
}

/** With the keys of every object in order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]))
}

function nameOf(object: KubeObject): string {
  return object.metadata?.name ?? ''
}
