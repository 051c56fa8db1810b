import { groupVersionPath } from '../kube/resources.ts'
import type { ApiRequest } from '../kube/transport.ts'
import { memoize } from '../runtime/memo.ts'
import type { Kind, Subresource } from './kind.ts'

export type Route =
  | { readonly to: 'collection'; readonly kind: Kind; readonly namespace: string | undefined }
  | {
      readonly to: 'object'
      readonly kind: Kind
      readonly namespace: string | undefined
      readonly name: string
      readonly subresource: Subresource
    }
  /** Below a served group version, but nothing exists there. */
  | { readonly to: 'nothing' }
  /** Not below a served group version: discovery, health, or an unknown path. */
  | { readonly to: 'elsewhere' }

export class Routes {
  readonly #kinds = new Map<string, ReadonlyMap<string, Kind>>()

  constructor(kinds: readonly Kind[]) {
    for (const kind of kinds) {
      const root = groupVersionPath(kind.resource)
      this.#kinds.set(root, new Map([...(this.#kinds.get(root) ?? []), [kind.resource.plural, kind]]))
    }
  }

  /** The target of a path. Cached, because clients repeat a few paths. */
  readonly find = memoize((path) => this.#find(path), 256)

  #find(path: ApiRequest['path']): Route {
    const parts = withoutTrailingSlash(path).split('/')
    // The part before the leading slash is empty.
    const rootLength = parts[1] === 'api' ? 3 : 4
    if (parts.length <= rootLength) return { to: 'elsewhere' }
    const plurals = this.#kinds.get(parts.slice(0, rootLength).join('/'))
    if (plurals === undefined) return { to: 'elsewhere' }
    const rest = parts.slice(rootLength).map(decoded)
    if (rest.some((part) => part === undefined || part === '')) return { to: 'nothing' }
    return findBelow(plurals, rest as string[])
  }
}

function findBelow(plurals: ReadonlyMap<string, Kind>, parts: readonly string[]): Route {
  const inNamespace = parts[0] === 'namespaces' && parts.length > 2 && plurals.has(parts[2] as string)
  const namespace = inNamespace ? parts[1] : undefined
  const [plural = '', name, subresource, ...more] = inNamespace ? parts.slice(2) : parts
  const kind = plurals.get(plural)
  if (kind === undefined || more.length > 0) return { to: 'nothing' }
  if (inNamespace && !kind.resource.namespaced) return { to: 'nothing' }
  if (name === undefined) return { to: 'collection', kind, namespace }
  if (kind.resource.namespaced && namespace === undefined) return { to: 'nothing' }
  if (kind.review !== undefined) return { to: 'nothing' }
  if (subresource === 'status' && !kind.hasStatus) return { to: 'nothing' }
  if (subresource === 'scale' && kind.scale === undefined) return { to: 'nothing' }
  if (subresource !== undefined && subresource !== 'status' && subresource !== 'scale') return { to: 'nothing' }
  return { to: 'object', kind, namespace, name, subresource }
}

/** Undefined for broken percent-encoding. */
function decoded(part: string): string | undefined {
  if (!part.includes('%')) return part
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}

/** The path without the slashes at its end, which have no meaning. */
export function withoutTrailingSlash(path: string): string {
  let end = path.length
  while (path[end - 1] === '/') end--
  return path.slice(0, end)
}
