import { readFile } from 'node:fs/promises'
import { Agent, type Dispatcher, request } from 'undici'
import { answerLimits } from './answer-limits.ts'
import { HttpBytes } from './http-bytes.ts'

/** What a kubeconfig says under `auth-provider: { name: oidc, config: … }`. */
export type OidcSettings = Readonly<Record<string, string | undefined>>

export interface OidcTokens {
  readonly idToken: string
  /** Issuers may take a refresh token once only, and need not give another. */
  readonly refreshToken: string | undefined
}

/**
 * Gets a new id-token from the issuer for the refresh token, as client-go's `plugin/pkg/client/auth/oidc` does. client-node's own way is not
 * used: it asks only after the old one has ended, and cannot (2.0.1 hands openid-client a URL and answers that it refuses).
 */
export async function refreshIdToken(settings: OidcSettings, signal: AbortSignal): Promise<OidcTokens> {
  const { 'client-id': client, 'client-secret': secret, 'refresh-token': token, 'idp-issuer-url': issuer } = settings
  if (!client || !token || !issuer) throw new Error('an id-token needs client-id, refresh-token and idp-issuer-url')
  const ca = await authorityOf(settings)
  const dispatcher = new Agent({ connect: { rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) } })
  try {
    const discovery = await json(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, {
      dispatcher,
      signal,
    })
    const { token_endpoint: endpoint, token_endpoint_auth_methods_supported: methods } = discovery
    if (typeof endpoint !== 'string') throw new Error('the issuer names no token_endpoint')
    const form = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: token })
    const headers: Record<string, string> = { 'content-type': 'application/x-www-form-urlencoded' }
    const basic = !Array.isArray(methods) || methods.includes('client_secret_basic')
    if (secret && basic) {
      const pair = `${encodeURIComponent(client)}:${encodeURIComponent(secret)}`
      headers.authorization = `Basic ${Buffer.from(pair).toString('base64')}`
    } else {
      form.set('client_id', client)
      if (secret) form.set('client_secret', secret)
    }
    const answer = await json(endpoint, { method: 'POST', headers, body: form.toString(), dispatcher, signal })
    const { id_token: idToken, refresh_token: refreshToken } = answer
    if (typeof idToken !== 'string') throw new Error('the issuer gives no id_token')
    return { idToken, refreshToken: typeof refreshToken === 'string' ? refreshToken : undefined }
  } finally {
    await dispatcher.destroy()
  }
}

async function authorityOf(settings: OidcSettings): Promise<string | undefined> {
  const { 'idp-certificate-authority': file, 'idp-certificate-authority-data': data } = settings
  if (data) return Buffer.from(data, 'base64').toString('utf8')
  return file ? await readFile(file, 'utf8') : undefined
}

type RequestOptions = NonNullable<Parameters<typeof request>[1]> & { readonly dispatcher: Dispatcher }

/** What is answered may hold tokens, and is in no message. */
async function json(url: string, options: RequestOptions): Promise<Readonly<Record<string, unknown>>> {
  const { statusCode, body } = await request(url, options)
  const bytes = new HttpBytes(answerLimits.refusal, () => {
    throw new Error(`${new URL(url).origin} answers with more than ${answerLimits.refusal} bytes`)
  })
  for await (const piece of body) bytes.add(piece)
  const text = Buffer.from(bytes.take()).toString('utf8')
  if (statusCode !== 200) throw new Error(`${new URL(url).origin} answers with HTTP status ${statusCode}`)
  try {
    const answer: unknown = JSON.parse(text)
    if (typeof answer === 'object' && answer !== null) return answer as Readonly<Record<string, unknown>>
  } catch {
    // Told below.
  }
  throw new Error(`${new URL(url).origin} answers with something that is not JSON`)
}
