import { KubeError } from '../kube/errors.ts'
import { httpReadiness } from '../kube/http-readiness.ts'
import type { Readiness } from '../kube/readiness.ts'
import type { Transport } from '../kube/transport.ts'
import type { ApiServer } from './api-server.ts'

/** Carries requests to an embedded server by a call. Bodies are shared, not copied: what the server answers is frozen. */
export function inProcessTransport(server: ApiServer): Transport {
  let closed = false
  return {
    send(request, signal) {
      if (closed) return Promise.reject(new KubeError('Unreachable', 'the transport is closed'))
      return server.handle(request, signal)
    },
    async close() {
      closed = true
    },
  }
}

/** Asks an embedded server for its health. */
export function inProcessReadiness(server: ApiServer): Readiness {
  return httpReadiness({ transport: inProcessTransport(server) })
}
