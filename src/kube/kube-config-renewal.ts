import type { RequestOptions } from 'node:https'
import type { User } from '@kubernetes/client-node/dist/config_types.js'
import { Agent, type Dispatcher } from 'undici'
import type { Clock } from '../runtime/clock.ts'
import { messageOf } from '../runtime/errors.ts'
import { getOrMake } from '../runtime/memo.ts'
import { within } from '../runtime/request-limit.ts'
import { readText } from '../runtime/system-file.ts'
import { validitiesIn } from '../runtime/system-pem.ts'
import { tryFormatTime } from '../runtime/time-format.ts'
import type { ExpiringKind, Lifetime } from '../telemetry/expiry.ts'
import { addSecret, oneLine } from '../telemetry/secrets.ts'
import { KubeError } from './errors.ts'
import { isLoopbackHost } from './http-proxy.ts'
import { ByteBuffer } from './http-streams.ts'
import { tokenProblem } from './kube-config-access.ts'
import type { KubeConfig } from './kube-config-document.ts'
import { answerLimits } from './transport.ts'

/** Credentials from an exec plugin or auth-provider. */
export interface Grant {
  readonly authorization: string | undefined
  readonly clientCertificate: { readonly cert: string; readonly key: string } | undefined
  /** Wall time in milliseconds since the epoch; undefined if it is unknown. */
  readonly expiresMs: number | undefined
}

/**
 * Requests a new grant in place of `held` (undefined at first). Settles within a bounded time; rejects with
 * NoCredentials.
 */
export type AskForGrant = (held: Grant | undefined) => Promise<Grant>

interface RenewalOptions {
  readonly ask: AskForGrant
  readonly clock: Clock
  /**
   * How long after a grant without an expiry the next one is requested, in milliseconds. @default when the server
   * refuses it
   */
  readonly pollMs?: number | undefined
  /** Called after each grant and each failure. */
  readonly onSettled?: (() => void) | undefined
}

/** The shortest interval between attempts, in ms, so that failures or short-lived grants make no busy loop. */
const LEAST_MS = 1_000
const MOST_AHEAD_MS = 600_000
const LEAST_AHEAD_MS = 60_000
const MOST_BETWEEN_MS = 60_000

/**
 * When to request the next grant, in wall time. Pure.
 *
 * A grant is renewed when a fifth of its life is left, but at least one minute (twice the time that a plugin may take
 * by default) and at most ten minutes before its expiry. A grant with a life under two minutes is renewed after half of
 * its life, but after at least a second. An attempt may fail, or return a grant that expires no later, because plugins
 * cache a grant until shortly before its expiry. Such an attempt is repeated after a quarter of the remaining time, but
 * after at least a second and at most a minute.
 */
export function planRenewal(given: {
  readonly expiresMs: number
  readonly isNewer: boolean
  readonly nowMs: number
}): number {
  const { expiresMs, isNewer, nowMs } = given
  const leftMs = expiresMs - nowMs
  if (!isNewer) return nowMs + between(LEAST_MS, leftMs / 4, MOST_BETWEEN_MS)
  const aheadMs = Math.min(between(LEAST_AHEAD_MS, leftMs / 5, MOST_AHEAD_MS), leftMs / 2)
  return Math.max(expiresMs - aheadMs, nowMs + LEAST_MS)
}

/**
 * Renews a grant in the background before it expires, one attempt at a time. Callers of `current` wait only for the
 * first grant.
 */
export class Renewal {
  readonly #options: RenewalOptions
  #grant: Grant | undefined
  #renewAtMs = Number.POSITIVE_INFINITY
  #running: Promise<Grant> | undefined
  #failure: { readonly error: unknown; readonly atMs: number } | undefined

  constructor(options: RenewalOptions) {
    this.#options = options
  }

  /** Why the last attempt failed; undefined if it succeeded, or if there was none. */
  get failure(): unknown {
    return this.#failure?.error
  }

  /**
   * The current grant, even after its expiry: only the server decides if it is valid. If there is none, waits for the
   * first; rejects as {@link AskForGrant} does.
   */
  async current(): Promise<Grant> {
    const { clock } = this.#options
    if (this.#grant !== undefined) {
      if (clock.wallMs() >= this.#renewAtMs) this.renew().catch(() => {})
      return this.#grant
    }
    if (this.#failure !== undefined && clock.monotonicMs() - this.#failure.atMs < LEAST_MS) throw this.#failure.error
    return this.renew()
  }

  /** Requests a new grant now, or waits for the running request. Rejects as {@link AskForGrant} does. */
  renew(): Promise<Grant> {
    this.#running ??= this.#ask().finally(() => {
      this.#running = undefined
      this.#options.onSettled?.()
    })
    return this.#running
  }

  async #ask(): Promise<Grant> {
    const { ask, clock, pollMs } = this.#options
    const held = this.#grant
    try {
      const given = await ask(held)
      const nowMs = clock.wallMs()
      const ends = ({ expiresMs = Number.POSITIVE_INFINITY }: Grant): number => expiresMs
      if (held !== undefined && ends(given) <= nowMs && nowMs < ends(held)) {
        throw new KubeError('NoCredentials', 'the new credentials have already expired')
      }
      const isNewer = (given.expiresMs ?? 0) > (held?.expiresMs ?? 0)
      this.#grant = given
      this.#failure = undefined
      this.#plan(given.expiresMs, isNewer, pollMs)
      return given
    } catch (error) {
      this.#failure = { error, atMs: clock.monotonicMs() }
      this.#plan(held?.expiresMs, false, pollMs)
      throw error
    }
  }

  #plan(expiresMs: number | undefined, isNewer: boolean, pollMs = Number.POSITIVE_INFINITY): void {
    const nowMs = this.#options.clock.wallMs()
    this.#renewAtMs = expiresMs === undefined ? nowMs + pollMs : planRenewal({ expiresMs, isNewer, nowMs })
  }
}

function between(least: number, value: number, most: number): number {
  return Math.min(Math.max(least, value), most)
}

/** When the credentials for the API server and the trusted authorities expire. */
export type CredentialsLifetimes = readonly (readonly [
  kind: ExpiringKind & ('client-certificate' | 'certificate-authority' | 'token'),
  lifetimes: readonly Lifetime[],
])[]

/** `tokenEndsMs` is the expiry that a plugin states. It takes precedence over the expiry in the token. */
export function credentialsLifetimes(shown: {
  readonly ca?: string | undefined
  readonly clientCertificate?: { readonly cert: string } | undefined
  readonly authorization?: string | undefined
  readonly tokenEndsMs?: number | undefined
}): CredentialsLifetimes {
  const { ca = '', clientCertificate, authorization = '' } = shown
  const toMs = authorization === '' ? undefined : (shown.tokenEndsMs ?? tokenExpiry(authorization))
  return [
    // The certificates after the first are those of authorities.
    ['client-certificate', validitiesIn(clientCertificate?.cert ?? '').slice(0, 1)],
    ['certificate-authority', validitiesIn(ca)],
    ['token', toMs === undefined ? [] : [{ toMs }]],
  ]
}

/**
 * The earliest expiry of the credentials, not counting authorities, for the log. Empty if it is unknown or has no text
 * form: a token may claim any time, even the year 33658.
 */
export function endsOf(lifetimes: CredentialsLifetimes = []): { readonly ends?: string } {
  const own = lifetimes.filter(([kind]) => kind !== 'certificate-authority')
  const ends = tryFormatTime(Math.min(...own.flatMap(([, some]) => some.map(({ toMs }) => toMs))))
  return ends === undefined ? {} : { ends }
}

/**
 * When a bearer token expires, in ms since the epoch; undefined if it is no JWT with an expiry. `Bearer` may precede
 * the token.
 */
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

/**
 * Returns a function that gets the authorization from the current user's auth-provider: from the issuer for `oidc`, and
 * through client-node for a provider that an embedding program added to its KubeConfig. `source` names the kubeconfig
 * in messages.
 */
export function authProvider(
  config: KubeConfig,
  options: {
    readonly source: string
    readonly timeoutMs: number
    readonly clock: Clock
    readonly signal: AbortSignal
  },
): AskForGrant {
  const { source, timeoutMs, clock, signal: stop } = options
  const user = config.getCurrentUser()
  const name = user?.authProvider?.name
  return async (held) => {
    try {
      // client-node's providers support neither timeouts nor signals.
      const authorization = await within(clock, timeoutMs, stop, (signal) => {
        if (user === null || name !== 'oidc') return authorizationOf(config)
        // The first grant is the token in the kubeconfig, if it has not expired. Each later grant must expire later
        // than the one before.
        return idToken(user, held === undefined ? clock.wallMs() : (held.expiresMs ?? Number.POSITIVE_INFINITY), signal)
      })
      const problem = authorization === undefined ? undefined : tokenProblem(authorization)
      if (problem !== undefined) throw new Error(`returned a token that ${problem}`)
      const expiresMs = authorization === undefined ? undefined : tokenExpiry(authorization)
      return { authorization, clientCertificate: undefined, expiresMs }
    } catch (error) {
      const words = oneLine(messageOf(error), 200)
      throw new KubeError('NoCredentials', `${source}: auth-provider ${JSON.stringify(name)}: ${words}`)
    }
  }
}

/** The authorization header that client-node's provider sets. */
async function authorizationOf(config: KubeConfig): Promise<string | undefined> {
  const request: RequestOptions = {}
  await config.applyToHTTPSOptions(request)
  const headers = (request.headers ?? {}) as Readonly<Record<string, unknown>>
  return typeof headers.Authorization === 'string' ? headers.Authorization : undefined
}

/**
 * The running requests of all transports for new id-tokens. Transports share them, because an issuer may accept a
 * refresh token only once.
 */
const refreshes = new WeakMap<User, Promise<string>>()

/**
 * The authorization header with the current id-token if it expires after `untilMs`, else with a new one, which replaces
 * it in `user`.
 */
async function idToken(user: User, untilMs: number, signal: AbortSignal): Promise<string> {
  const settings: OidcSettings = user.authProvider.config ?? {}
  for (const secret of ['id-token', 'refresh-token', 'client-secret']) addSecret(settings[secret])
  const given = settings['id-token'] ?? ''
  if ((tokenExpiry(given) ?? 0) > untilMs) return `Bearer ${given}`
  return getOrMake(refreshes, user, () => newIdToken(user, settings, signal).finally(() => refreshes.delete(user)))
}

async function newIdToken({ authProvider }: User, settings: OidcSettings, signal: AbortSignal): Promise<string> {
  const { idToken, refreshToken = settings['refresh-token'] } = await refreshIdToken(settings, signal)
  addSecret(refreshToken)
  authProvider.config = { ...settings, 'id-token': idToken, 'refresh-token': refreshToken }
  return `Bearer ${idToken}`
}

/** The settings in a kubeconfig under `auth-provider: { name: oidc, config: … }`. */
type OidcSettings = Readonly<Record<string, string | undefined>>

/**
 * Gets a new id-token from the issuer for the refresh token, as client-go's `plugin/pkg/client/auth/oidc` does. We do
 * not use client-node's code: test/kube/client-node.test.ts shows that it fails.
 *
 * `refreshToken` is undefined if the issuer gave no new one.
 */
export async function refreshIdToken(
  settings: OidcSettings,
  signal: AbortSignal,
): Promise<{ readonly idToken: string; readonly refreshToken: string | undefined }> {
  const { 'client-id': client, 'client-secret': secret, 'refresh-token': token, 'idp-issuer-url': issuer } = settings
  if (!client || !token || !issuer)
    throw new Error('client-id, refresh-token and idp-issuer-url are required to renew the id-token')
  // Otherwise anybody on the path to the issuer could name another token_endpoint.
  refuseClearText('issuer', new URL(issuer), new URL(issuer))
  const ca = await authorityOf(settings)
  const connect = { rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) }
  const dispatcher = new Agent({ connect, allowH2: false })
  try {
    const discovery = await json(dispatcher, `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`, {
      method: 'GET',
      signal,
    })
    const { token_endpoint: endpoint, token_endpoint_auth_methods_supported: methods } = discovery
    if (typeof endpoint !== 'string' || !URL.canParse(endpoint))
      throw new Error('the discovery document of the issuer has no valid token_endpoint')
    refuseClearText('token_endpoint', new URL(endpoint), new URL(issuer))
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
    const answer = await json(dispatcher, endpoint, { method: 'POST', headers, body: form.toString(), signal })
    const { id_token: idToken, refresh_token: refreshToken } = answer
    if (typeof idToken !== 'string' || idToken === '') throw new Error('the token_endpoint returned no id_token')
    return { idToken, refreshToken: typeof refreshToken === 'string' ? refreshToken : undefined }
  } finally {
    await dispatcher.destroy()
  }
}

/** Throws if the refresh token would be sent without TLS, except to the issuer's own origin on loopback. */
function refuseClearText(what: string, url: URL, issuer: URL): void {
  if (url.protocol === 'https:' || (url.origin === issuer.origin && isLoopbackHost(issuer))) return
  throw new Error(`the ${what} ${oneLine(url.origin, 80)} does not use TLS; the refresh token is not sent`)
}

async function authorityOf(settings: OidcSettings): Promise<string | undefined> {
  const { 'idp-certificate-authority': file, 'idp-certificate-authority-data': data } = settings
  if (data) return Buffer.from(data, 'base64').toString('utf8')
  return file ? await readText(file) : undefined
}

/** Requests a JSON object. No error message quotes the answer, because it may contain tokens. */
async function json(
  dispatcher: Dispatcher,
  url: string,
  options: Omit<Dispatcher.RequestOptions, 'origin' | 'path'>,
): Promise<Readonly<Record<string, unknown>>> {
  const { origin, pathname, search } = new URL(url)
  const { statusCode, body } = await dispatcher.request({ ...options, origin, path: `${pathname}${search}` })
  const bytes = new ByteBuffer(answerLimits.refusal, () => {
    throw new Error(`${origin} returned more than ${answerLimits.refusal} bytes`)
  })
  for await (const piece of body) bytes.add(piece)
  const text = bytes.take((all) => Buffer.from(all).toString('utf8'))
  if (statusCode !== 200) throw new Error(`${origin} returned HTTP status ${statusCode}`)
  try {
    const answer: unknown = JSON.parse(text)
    if (typeof answer === 'object' && answer !== null) return answer as Readonly<Record<string, unknown>>
  } catch {
    // Reported below.
  }
  throw new Error(`${origin} returned a body that is not a JSON object`)
}
