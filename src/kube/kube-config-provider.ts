import type { RequestOptions } from 'node:https'
import type { KubeConfig, User } from '@kubernetes/client-node'
import type { Clock } from '../runtime/clock.ts'
import { messageOf } from '../runtime/message-of.ts'
import { abortable, linkedController } from '../runtime/signals.ts'
import { keepSecret } from '../telemetry/secrets.ts'
import { KubeError } from './errors.ts'
import { tokenExpiry } from './kube-config-expiry.ts'
import { type OidcSettings, refreshIdToken } from './kube-config-oidc.ts'
import type { AskForGrant } from './kube-config-renewal.ts'

/**
 * Asks the auth-provider of the current user for the authorization: the issuer of an `oidc`, and client-node for one that a program added to its
 * KubeConfig. `source` names the kubeconfig in messages.
 */
export function authProvider(
  config: KubeConfig,
  options: {
    readonly source: string
    readonly timeoutMs: number
    readonly clock: Clock
    /** Ends whatever is under way. */
    readonly signal: AbortSignal
  },
): AskForGrant {
  const { source, timeoutMs, clock, signal: stop } = options
  const user = config.getCurrentUser()
  const name = user?.authProvider?.name
  return async (held) => {
    try {
      const authorization = await within(timeoutMs, stop, (signal) => {
        if (user === null || name !== 'oidc') return authorizationOf(config)
        // The first is the one in the kubeconfig, if it is still good.
        return idToken(user, held === undefined ? clock.wallMs() : Number.POSITIVE_INFINITY, signal)
      })
      const expiresMs = authorization === undefined ? undefined : tokenExpiry(authorization)
      return { authorization, clientCertificate: undefined, expiresMs }
    } catch (error) {
      const words = messageOf(error).replace(/\s+/g, ' ').trim().slice(0, 200)
      throw new KubeError('NoCredentials', `${source}: auth-provider ${JSON.stringify(name)}: ${words}`)
    }
  }
}

/** What client-node's provider puts into a request. */
async function authorizationOf(config: KubeConfig): Promise<string | undefined> {
  const request: RequestOptions = {}
  await config.applyToHTTPSOptions(request)
  const headers = (request.headers ?? {}) as Readonly<Record<string, unknown>>
  return typeof headers.Authorization === 'string' ? headers.Authorization : undefined
}

/** The id-token that is held if it ends after `untilMs`, else a new one, which is then held. */
async function idToken({ authProvider }: User, untilMs: number, signal: AbortSignal): Promise<string> {
  const settings: OidcSettings = authProvider.config ?? {}
  for (const secret of ['id-token', 'refresh-token', 'client-secret']) keepSecret(settings[secret])
  const given = settings['id-token'] ?? ''
  if ((tokenExpiry(given) ?? 0) > untilMs) return `Bearer ${given}`
  const { idToken, refreshToken = settings['refresh-token'] } = await refreshIdToken(settings, signal)
  keepSecret(refreshToken)
  authProvider.config = { ...settings, 'id-token': idToken, 'refresh-token': refreshToken }
  return `Bearer ${idToken}`
}

/** client-node's providers know no limit of time, nor a signal. */
async function within<T>(timeoutMs: number, stop: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { controller, unlink } = linkedController(stop)
  const timer = setTimeout(() => controller.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  try {
    return await abortable(work(controller.signal), controller.signal)
  } finally {
    clearTimeout(timer)
    unlink()
  }
}
