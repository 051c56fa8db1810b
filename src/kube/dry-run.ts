import type { Logger } from '../telemetry/logger.ts'
import type { KubeApi, ObjectRef } from './api.ts'
import type { KubeObject } from './json.ts'
import type { Resource } from './resources.ts'

/**
 * A KubeApi that reads for real, and logs each write instead of making it: once, until another write of the kind to the same object
 * is planned.
 * A create or update answers with the object as it was given, a patch with an object of that name.
 */
export function dryRunApi(api: KubeApi, logger: Logger): KubeApi {
  const planned = new Map<string, string>()
  const plan = (verb: string, resource: Resource<KubeObject>, ref: ObjectRef, body?: unknown): void => {
    const object = ref.namespace === undefined ? ref.name : `${ref.namespace}/${ref.name}`
    const key = `${verb} ${resource.plural} ${object}`
    // The same plan made later differs only in its times.
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
    get: (...args) => api.get(...args),
    list: (...args) => api.list(...args),
    watch: (...args) => api.watch(...args),
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

/** What lines of the log begin with that tell of a deed, and what they begin with while nobody does it. */
const PLANNED: Readonly<Record<string, string>> = {
  created: 'create',
  kept: 'keep',
  leaving: 'leave',
  resetting: 'reset',
  set: 'set',
  took: 'take',
  upgraded: 'upgrade',
  withdrew: 'withdraw',
  wrote: 'write',
}

/** A logger for a dry run: it tells of deeds as plans, and says each info line once, because what is never done is planned again at every look. */
export function dryRunLogger(logger: Logger): Logger {
  const said = new Set<string>()
  const wrap = (inner: Logger): Logger => ({
    debug: (fields, message) => inner.debug(fields, message),
    info(fields, message) {
      const line = `${message} ${JSON.stringify(fields)}`
      if (said.has(line)) return
      said.add(line)
      const [first = ''] = message.split(' ', 1)
      const plan = PLANNED[first]
      inner.info(fields, plan === undefined ? message : `dry run: would ${plan}${message.slice(first.length)}`)
    },
    warn: (fields, message) => inner.warn(fields, message),
    error: (fields, message) => inner.error(fields, message),
    child: (fields) => wrap(inner.child(fields)),
  })
  return wrap(logger)
}
