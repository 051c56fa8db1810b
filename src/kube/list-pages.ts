import { smallerPage } from './answer-limits.ts'
import type { CallOptions, KubeApi, ListQuery } from './api.ts'
import { isKubeError, KubeError } from './errors.ts'
import type { KubeList, KubeObject } from './json.ts'
import type { Resource } from './resources.ts'

/** As many as kubectl and client-go ask for. */
const PAGE_SIZE = 500

/**
 * Lists a collection page by page: each object as it was at one moment after the call, the first page's. A page that is too long is asked
 * for again with fewer objects. Rejects with a KubeError.
 */
export async function* listPages<T extends KubeObject>(
  api: KubeApi,
  resource: Resource<T>,
  query: Omit<ListQuery & CallOptions, 'limit' | 'continue'> = {},
): AsyncGenerator<readonly T[], void> {
  let token: string | undefined
  let limit = PAGE_SIZE
  for (;;) {
    const page = await api.list(resource, { ...query, limit, continue: token }).catch((error: unknown) => {
      const smaller = isKubeError(error, 'TooLarge') ? smallerPage(limit) : undefined
      if (smaller === undefined) throw error
      limit = smaller
    })
    if (page === undefined) continue
    yield page.items
    token = nextPage(resource.plural, page, token)
    if (token === undefined) return
  }
}

/** Where the page behind this one begins, which began at `token`; undefined after the last. `source` names the collection in the KubeError that a page throws which leads back to itself. */
export function nextPage(source: string, { metadata }: KubeList<KubeObject>, token: string | undefined) {
  const { continue: next } = metadata
  if (next === undefined || next === '') return undefined
  if (next === token) throw new KubeError('BadResponse', `list ${source}: a page leads back to itself`)
  return next
}
