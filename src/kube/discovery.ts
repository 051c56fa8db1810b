import { KubeError } from './errors.ts'
import { apiVersionOf, groupVersionPath, isRecord, type KubeObject, type Resource } from './resources.ts'
import { named, refusal } from './rest-answer.ts'
import { answerLimits, type Transport } from './transport.ts'

export interface Discovery {
  /**
   * Whether the server serves a resource. Rejects with a KubeError if the server gives no clear answer, or with the
   * signal's reason.
   */
  serves(resource: Resource<KubeObject>, signal: AbortSignal): Promise<boolean>
}

/** Reads the list of resources in a group and version, which every authenticated user may read. */
export function restDiscovery(transport: Transport): Discovery {
  return {
    async serves(resource, signal) {
      const path = groupVersionPath(resource)
      const call = `discover ${apiVersionOf(resource)}`
      const headers = { accept: 'application/json' }
      const request = { method: 'GET', path, query: [], headers, maxBytes: answerLimits.refusal } as const
      const response = await transport.send(request, signal).catch((error: unknown) => {
        throw named(call, error)
      })
      if (response.status === 404) return false
      const body = 'body' in response ? response.body : undefined
      if (response.status !== 200) throw refusal(call, { ...response, body })
      if (!isRecord(body) || body.kind !== 'APIResourceList' || !Array.isArray(body.resources)) {
        throw new KubeError('BadResponse', `${call}: the answer is not an APIResourceList`)
      }
      return body.resources.some((served: unknown) => isRecord(served) && served.name === resource.plural)
    },
  }
}
