import { validitiesIn } from '../runtime/system-pem.ts'
import type { ExpiringKind, Lifetime } from '../telemetry/expiry.ts'

/** When what is shown to the API server ends, and what it is trusted by. */
export type CredentialsLifetimes = readonly (readonly [
  kind: ExpiringKind & ('client-certificate' | 'certificate-authority' | 'token'),
  lifetimes: readonly Lifetime[],
])[]

/** `tokenEndsMs` comes first where a plugin says it. */
export function credentialsLifetimes(shown: {
  readonly ca?: string | undefined
  readonly clientCertificate?: { readonly cert: string } | undefined
  readonly authorization?: string | undefined
  readonly tokenEndsMs?: number | undefined
}): CredentialsLifetimes {
  const { ca = '', clientCertificate, authorization = '' } = shown
  const toMs = authorization === '' ? undefined : (shown.tokenEndsMs ?? tokenExpiry(authorization))
  return [
    // Those that follow it are of authorities.
    ['client-certificate', validitiesIn(clientCertificate?.cert ?? '').slice(0, 1)],
    ['certificate-authority', validitiesIn(ca)],
    ['token', toMs === undefined ? [] : [{ toMs }]],
  ]
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
