import type { KubeApi } from './api.ts'
import { KubeError } from './errors.ts'

/**
 * A KubeApi that reads as ever, and writes only while `mayWrite` says so at that very instant: a process that was frozen goes on where it stood, with copies of
 * long ago, before any timer tells it that another leads. What it does not write rejects as Unreachable, which is nothing to tell of.
 *
 * Between the question and the server's storing there is still no fence: what was sent before the freeze arrives.
 */
export function fencedApi(api: KubeApi, mayWrite: () => boolean): KubeApi {
  const check = (): void => {
    if (!mayWrite()) throw new KubeError('Unreachable', 'not written: the Lease is no longer held')
  }
  return {
    get: (...args) => api.get(...args),
    list: (...args) => api.list(...args),
    watch: (...args) => api.watch(...args),
    async create(...args) {
      check()
      return await api.create(...args)
    },
    async update(...args) {
      check()
      return await api.update(...args)
    },
    async patch(...args) {
      check()
      return await api.patch(...args)
    },
    async delete(...args) {
      check()
      await api.delete(...args)
    },
  }
}
