import { apiVersionOf } from '../kube/resources.ts'
import { getOrMake } from '../runtime/memo.ts'
import type { Kind } from './kind.ts'
import { type ListOptions, revisionOf } from './query.ts'
import { badRequest, expired, resourceVersionTooLarge } from './refusal.ts'
import { Compacted, type Objects, type Store, type StoredObject } from './store.ts'

/**
 * Where the next page of a list begins: at the first key that is not before `start`. In a list of one namespace,
 * `start` lacks the namespace. `rv` is the revision of the listed state; -1 stands for the present state.
 */
interface ContinueToken {
  readonly v: 'meta.k8s.io/v1'
  readonly rv: number
  readonly start: string
}

/**
 * The List object of a namespace, or of all namespaces if `namespace` is undefined. All pages of a list show the same
 * state, because the continue token has the revision of that state. A page whose token has the revision -1 shows the
 * present state instead.
 * @throws Refusal 400, 410 or 504
 */
export function listObjects(store: Store, kind: Kind, namespace: string | undefined, options: ListOptions): object {
  const collection = store.objects(kind)
  const prefix = namespace === undefined ? '' : `${namespace}/`
  const page = options.continue === undefined ? undefined : parseToken(options)
  const revision = page === undefined ? revisionToList(store, options) : page.rv === -1 ? store.revision : page.rv
  const { keys: allKeys, get } = stateAt(collection, revision, store.revision, prefix, page)
  const start = prefix + (page?.start ?? '')
  const keys = page === undefined ? allKeys : allKeys.filter((key) => key >= start)
  // For resourceVersion "0", kube-apiserver answers with the whole list from its cache.
  const limit = options.resourceVersion === '0' ? undefined : options.limit
  const items: object[] = []
  let index = 0
  for (; index < keys.length && (limit === undefined || items.length < limit); index++) {
    const object = get(keys[index] as string) as StoredObject
    if (options.matches?.(object) ?? true) items.push(kind.isCustom ? object : listed(object))
  }
  const rest = keys.length - index
  const metadata = {
    resourceVersion: String(revision),
    // Go writes an empty `continue` for a list of unstructured objects.
    ...(kind.isCustom ? { continue: '' } : {}),
    ...(rest > 0 ? { continue: token(revision, `${keys[index - 1]?.slice(prefix.length)}\0`) } : {}),
    ...(rest > 0 && options.matches === undefined ? { remainingItemCount: rest } : {}),
  }
  return { kind: `${kind.resource.kind}List`, apiVersion: apiVersionOf(kind.resource), metadata, items }
}

/** Built-in objects as they are in lists: without kind and apiVersion. */
const listedForms = new WeakMap<StoredObject, object>()

function listed(object: StoredObject): object {
  return getOrMake(listedForms, object, () => {
    const { kind: _kind, apiVersion: _apiVersion, ...rest } = object
    return Object.freeze(rest)
  })
}

function stateAt(
  collection: Objects,
  revision: number,
  current: number,
  prefix: string,
  page: ContinueToken | undefined,
): { keys: readonly string[]; get: (key: string) => StoredObject | undefined } {
  if (revision === current) return { keys: collection.keys(prefix), get: (key) => collection.get(key) }
  try {
    const objects = collection.at(revision)
    const keys = [...objects.keys()].filter((key) => key.startsWith(prefix)).sort()
    return { keys, get: (key) => objects.get(key) }
  } catch (error) {
    if (!(error instanceof Compacted)) throw error
    if (page === undefined) throw expired(`The resourceVersion for the provided list is too old.`)
    throw expired(
      'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.',
      { continue: token(-1, page.start) },
    )
  }
}

function revisionToList(store: Store, options: ListOptions): number {
  const wanted = options.resourceVersion
  if (wanted === undefined || wanted === '0') return store.revision
  const revision = revisionOf(wanted)
  if (revision === undefined) {
    throw badRequest(
      `invalid resource version: resourceVersion: Invalid value: ${JSON.stringify(wanted)}: strconv.ParseUint: parsing ${JSON.stringify(wanted)}: invalid syntax`,
    )
  }
  if (revision > store.revision) throw resourceVersionTooLarge(wanted, store.revision)
  // With a limit and no resourceVersionMatch, kube-apiserver lists at exactly the requested version.
  const exact =
    options.resourceVersionMatch === 'Exact' ||
    (options.resourceVersionMatch === undefined && options.limit !== undefined)
  return exact ? revision : store.revision
}

function token(revision: number, start: string): string {
  return btoa(JSON.stringify({ v: 'meta.k8s.io/v1', rv: revision, start: `/${start}` })).replace(/=+$/, '')
}

function parseToken(options: ListOptions): ContinueToken {
  if (options.resourceVersion !== undefined && options.resourceVersion !== '0') {
    throw badRequest('specifying resource version is not allowed when using continue')
  }
  try {
    const parsed = JSON.parse(atob(options.continue as string)) as ContinueToken
    const isRevision = Number.isSafeInteger(parsed.rv) && (parsed.rv > 0 || parsed.rv === -1)
    if (parsed.v !== 'meta.k8s.io/v1' || !isRevision || !parsed.start.startsWith('/')) throw new Error()
    return { ...parsed, start: parsed.start.slice(1) }
  } catch {
    throw badRequest('invalid continue token: continue key is not valid')
  }
}
