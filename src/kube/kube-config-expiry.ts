import { X509Certificate } from 'node:crypto'
import type { Gauge, Metrics } from '../telemetry/metrics.ts'

/** When what is shown to the API server ends, in wall time; undefined where it has no end or does not say so. */
export interface CredentialsExpiry {
  readonly 'client-certificate': number | undefined
  readonly token: number | undefined
}

/** Tells when the credentials end that are in force. */
export type ExpiryReporter = (expiry: CredentialsExpiry) => void

/** Adds the metric of when the credentials end. */
export function expiryMetric(metrics: Metrics): ExpiryReporter {
  const gauge: Gauge<'kind'> = metrics.gauge({
    name: 'apiserver_bootstrap_credentials_expiration_timestamp_seconds',
    help: 'When the credentials for the API server end, Unix time; absent where they have no end or do not say so.',
    labels: ['kind'],
  })
  return (expiry) => {
    for (const kind of ['client-certificate', 'token'] as const) {
      const endMs = expiry[kind]
      if (endMs === undefined) gauge.remove({ kind })
      else gauge.set({ kind }, endMs / 1000)
    }
  }
}

/** When a client certificate ends, in milliseconds since the epoch. */
export function certificateExpiry(pem: string): number | undefined {
  try {
    return Date.parse(new X509Certificate(pem).validTo)
  } catch {
    return undefined
  }
}

/** When a bearer token ends, in milliseconds since the epoch, if it is a JWT that says so. `text` may be a header with it. */
export function tokenExpiry(text: string): number | undefined {
  const [, payload] = /^(?:Bearer )?[\w-]+\.([\w-]+)\.[\w-]*$/.exec(text) ?? []
  if (payload === undefined) return undefined
  try {
    const { exp } = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as { readonly exp?: unknown }
    return typeof exp === 'number' ? exp * 1000 : undefined
  } catch {
    return undefined
  }
}
