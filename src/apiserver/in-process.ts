import { KubeError } from '../kube/errors.ts'
import type { Readiness, ReadinessAnswer, ReadinessCheck } from '../kube/readiness.ts'
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
  return {
    async probe(signal): Promise<ReadinessAnswer> {
      const request = { method: 'GET', path: '/readyz', query: [['verbose', '']], headers: {} } as const
      const response = await server.handle(request, signal)
      const text = 'body' in response ? String(response.body) : ''
      return { answered: true, ready: response.status === 200, checks: parseChecks(text) }
    },
  }
}

/** The checks in the text of `/readyz?verbose`. */
function parseChecks(text: string): readonly ReadinessCheck[] {
  return text.split('\n').flatMap((line) => {
    const match = /^\[([+-])\](\S+) /.exec(line)
    return match === null ? [] : [{ name: match[2] as string, ok: match[1] === '+' }]
  })
}
