import type { KubeApi } from '../../src/kube/api.ts'

/** The same API as an object, some of whose methods can be replaced. Spread syntax does not work for a client. */
export function passedOn(api: KubeApi, methods: Partial<KubeApi> = {}): KubeApi {
  return {
    get: (...args) => api.get(...args),
    list: (...args) => api.list(...args),
    create: (...args) => api.create(...args),
    update: (...args) => api.update(...args),
    patch: (...args) => api.patch(...args),
    delete: (...args) => api.delete(...args),
    watch: (...args) => api.watch(...args),
    ...methods,
  }
}
