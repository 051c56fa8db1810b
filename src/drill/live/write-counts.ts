import { get } from 'node:http'
import type { ObservedRequest } from '../../verify/observation.ts'

type Request = ObservedRequest['request']

const LIMIT_MS = 900
const PATHS: Readonly<Record<string, string>> = {
  Service: '/api/v1/namespaces/default/services/kubernetes',
  Endpoints: '/api/v1/namespaces/default/endpoints/kubernetes',
  EndpointSlice: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes',
}
const METHODS = { create: 'POST', update: 'PUT', delete: 'DELETE' } as const

/** What one life of a sidecar has written, as its metrics tell it. */
export class WriteCounts {
  /** By what is counted. */
  #counted = new Map<string, number>()
  readonly #leasesAreObjects: boolean

  constructor(leasesAreObjects: boolean) {
    this.#leasesAreObjects = leasesAreObjects
  }

  /** The writes since the last call. None when its metrics cannot be had. */
  async next(where: { readonly host: string; readonly port: number }): Promise<readonly Request[]> {
    const text = await textOf(where).catch(() => undefined)
    if (text === undefined) return []
    const totals = this.#totalsIn(text)
    const requests: Request[] = []
    for (const [what, total] of totals) {
      const [method = 'PUT', path = ''] = what.split(' ')
      for (let count = this.#counted.get(what) ?? 0; count < total; count++) {
        requests.push({ method: method as Request['method'], path })
      }
    }
    this.#counted = totals
    return requests
  }

  #totalsIn(text: string): Map<string, number> {
    const totals = new Map<string, number>()
    for (const [, labels = '', value] of text.matchAll(/^apiserver_bootstrap_writes_total\{(.*)\} (\d+)$/gm)) {
      const kind = labelIn(labels, 'kind')
      const verb = labelIn(labels, 'verb') as keyof typeof METHODS
      const what = `${METHODS[verb] ?? 'PUT'} ${PATHS[kind] ?? kind}`
      // One write counts once for each thing that it mends.
      totals.set(what, Math.max(totals.get(what) ?? 0, Number(value)))
    }
    const [, renewals] = /^apiserver_bootstrap_lease_renewals_total\{result="success"\} (\d+)$/m.exec(text) ?? []
    if (this.#leasesAreObjects && renewals !== undefined) {
      totals.set('PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/', Number(renewals))
    }
    return totals
  }
}

function labelIn(labels: string, name: string): string {
  return new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1] ?? ''
}

function textOf({ host, port }: { readonly host: string; readonly port: number }): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get({ host, port, path: '/metrics', agent: false, timeout: LIMIT_MS }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () => resolve(text))
      response.on('error', reject)
    })
    // A sidecar that is frozen does not answer.
    request.on('timeout', () => request.destroy(new Error('no answer')))
    request.on('error', reject)
  })
}
