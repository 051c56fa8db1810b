import type { RequestLimit } from '../runtime/request-limit.ts'
import type { LogFields, Logger } from '../telemetry/logger.ts'
import type { CallOptions, KubeApi, ListQuery, ObjectRef } from './api.ts'
import { isKubeError, KubeError } from './errors.ts'
import type { KubeList, KubeObject, Resource } from './resources.ts'
import { keyOf } from './store.ts'
import { smallerPage } from './transport.ts'

/**
 * A KubeApi that makes reads, and logs writes instead of making them. A write is logged only if it differs, in more
 * than its times, from the last one with the same verb and object. A create or update resolves with the given object, a
 * patch with an object that has only the name and namespace.
 */
export function dryRunApi(api: KubeApi, logger: Logger): KubeApi {
  const planned = new Map<string, string>()
  const plan = (verb: string, resource: Resource<KubeObject>, ref: ObjectRef, body?: unknown): void => {
    const object = keyOf(ref)
    const key = `${verb} ${resource.plural} ${object}`
    // Repetitions of the same write differ only in their times.
    const text = JSON.stringify(body)?.replace(/"\d{4}-\d\d-\d\dT[^"]*"/g, '""') ?? ''
    if (planned.get(key) === text) return
    planned.set(key, text)
    logger.info({ verb, kind: resource.kind, object, body }, 'dry run: would write')
  }
  const refOf = ({ metadata }: KubeObject): ObjectRef => ({
    namespace: metadata?.namespace,
    name: metadata?.name ?? metadata?.generateName ?? '',
  })
  return {
    ...readsOf(api),
    async create(resource, object) {
      plan('create', resource, refOf(object), object)
      return object
    },
    async update(resource, object) {
      plan('update', resource, refOf(object), object)
      return object
    },
    async patch<T extends KubeObject>(
      resource: Resource<T>,
      ref: ObjectRef,
      patch: { readonly body: unknown },
    ): Promise<T> {
      plan('patch', resource, ref, patch.body)
      return { metadata: { ...ref } } as unknown as T
    },
    async delete(resource, ref) {
      plan('delete', resource, ref)
    },
  }
}

/** The first words of log messages about writes, and their replacements in a dry run. */
const PLANNED: Readonly<Record<string, string>> = {
  created: 'create',
  leaving: 'leave',
  resetting: 'reset',
  set: 'set',
  took: 'take',
  upgraded: 'upgrade',
  withdrew: 'withdraw',
  wrote: 'write',
}

/**
 * A logger that rephrases messages about writes as plans. It logs equal info lines once, because every reconciliation
 * plans the same writes. Lines are equal only if the fields of their child loggers are equal too.
 */
export function dryRunLogger(logger: Logger): Logger {
  const logged = new Set<string>()
  const wrap = (inner: Logger, context: LogFields): Logger => ({
    debug: (fields, message) => inner.debug(fields, message),
    info(fields, message) {
      const line = `${message} ${JSON.stringify({ ...context, ...fields })}`
      if (logged.has(line)) return
      logged.add(line)
      const [first = ''] = message.split(' ', 1)
      const plan = PLANNED[first]
      inner.info(fields, plan === undefined ? message : `dry run: would ${plan}${message.slice(first.length)}`)
    },
    warn: (fields, message) => inner.warn(fields, message),
    error: (fields, message) => inner.error(fields, message),
    child: (fields) => wrap(inner.child(fields), { ...context, ...fields }),
  })
  return wrap(logger, {})
}

/**
 * A KubeApi that reads normally, and calls `mayWrite` immediately before each write. Without this check a process that
 * was frozen could write from outdated copies before its timers show that another process leads. If `mayWrite` returns
 * false, the write rejects as Unreachable, for which controllers record no Event.
 *
 * The API server does not check who leads: a write that was sent before the freeze may still take effect.
 */
export function fencedApi(api: KubeApi, mayWrite: () => boolean): KubeApi {
  const fenced = (): KubeApi => {
    if (!mayWrite()) throw new KubeError('Unreachable', 'not written: the Lease is no longer held')
    return api
  }
  return {
    ...readsOf(api),
    create: async (...args) => fenced().create(...args),
    update: async (...args) => fenced().update(...args),
    patch: async (...args) => fenced().patch(...args),
    delete: async (...args) => fenced().delete(...args),
  }
}

export function readsOf(api: KubeApi): Pick<KubeApi, 'get' | 'list' | 'watch'> {
  return {
    get: (...args) => api.get(...args),
    list: (...args) => api.list(...args),
    watch: (...args) => api.watch(...args),
  }
}

/** The same API, except that `limit` aborts each request that is not answered in time. Watches are not limited. */
export function limitedApi(api: KubeApi, limit: RequestLimit): KubeApi {
  return {
    get: (resource, ref, options) =>
      limit.run('read', options?.signal, (signal) => api.get(resource, ref, { ...options, signal })),
    list: (resource, query) => limit.run('read', query?.signal, (signal) => api.list(resource, { ...query, signal })),
    create: (resource, object, options) =>
      limit.run('write', options?.signal, (signal) => api.create(resource, object, { ...options, signal })),
    update: (resource, object, options) =>
      limit.run('write', options?.signal, (signal) => api.update(resource, object, { ...options, signal })),
    patch: (resource, ref, patch, options) =>
      limit.run('write', options?.signal, (signal) => api.patch(resource, ref, patch, { ...options, signal })),
    delete: (resource, ref, options) =>
      limit.run('write', options?.signal, (signal) => api.delete(resource, ref, { ...options, signal })),
    watch: (resource, query) => api.watch(resource, query),
  }
}

/** The page size of kubectl and client-go. */
const PAGE_SIZE = 500

/**
 * Lists a collection page by page. All pages of kube-apiserver show the state at the time of the first one. A page that
 * is too long is requested again with fewer objects. Throws a KubeError or the signal's reason.
 */
export async function* listPages<T extends KubeObject>(
  api: KubeApi,
  resource: Resource<T>,
  query: Omit<ListQuery & CallOptions, 'continue'> = {},
): AsyncGenerator<readonly T[], void> {
  let token: string | undefined
  const { resourceVersion, resourceVersionMatch, ...others } = query
  let { limit = PAGE_SIZE } = query
  const seen = new Set<string>()
  for (;;) {
    // A continue token contains the resourceVersion.
    const version = token === undefined ? { resourceVersion, resourceVersionMatch } : { continue: token }
    const page = await api.list(resource, { ...others, limit, ...version }).catch((error: unknown) => {
      const smaller = isKubeError(error, 'TooLarge') ? smallerPage(limit) : undefined
      if (smaller === undefined) throw error
      limit = smaller
    })
    if (page === undefined) continue
    yield page.items
    token = nextPage(resource.plural, page, seen)
    if (token === undefined) return
  }
}

/** More than any cluster needs: five million objects in pages of {@link PAGE_SIZE}. */
const MOST_PAGES = 10_000

/**
 * The continue token of the next page; undefined if this page is the last. Adds the token to `seen`. Throws a
 * BadResponse that names `source` if `seen` has the token already, or has {@link MOST_PAGES} tokens.
 */
export function nextPage(source: string, { metadata }: KubeList<KubeObject>, seen: Set<string>): string | undefined {
  const { continue: next } = metadata
  if (next === undefined || next === '') return undefined
  if (seen.has(next))
    throw new KubeError('BadResponse', `list ${source}: a page has the continue token of an earlier one`)
  if (seen.size >= MOST_PAGES)
    throw new KubeError('BadResponse', `list ${source}: the list has more than ${MOST_PAGES} pages`)
  seen.add(next)
  return next
}
