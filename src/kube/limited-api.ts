import type { RequestLimit } from '../runtime/request-limit.ts'
import type { KubeApi } from './api.ts'

/** The same API, whose requests are given up at the limit. Watches are not. */
export function limitedApi(api: KubeApi, limit: RequestLimit): KubeApi {
  return {
    get: (resource, ref, options) =>
      limit.run(options?.signal, (signal) => api.get(resource, ref, { ...options, signal })),
    list: (resource, query) => limit.run(query?.signal, (signal) => api.list(resource, { ...query, signal })),
    create: (resource, object, options) =>
      limit.run(options?.signal, (signal) => api.create(resource, object, { ...options, signal })),
    update: (resource, object, options) =>
      limit.run(options?.signal, (signal) => api.update(resource, object, { ...options, signal })),
    patch: (resource, ref, patch, options) =>
      limit.run(options?.signal, (signal) => api.patch(resource, ref, patch, { ...options, signal })),
    delete: (resource, ref, options) =>
      limit.run(options?.signal, (signal) => api.delete(resource, ref, { ...options, signal })),
    watch: (resource, query) => api.watch(resource, query),
  }
}
