import type { RequestOptions } from 'node:https'
import type { KubeConfig, User } from '@kubernetes/client-node'
import { messageOf } from '../runtime/message-of.ts'
import { KubeError } from './errors.ts'
import { tokenExpiry } from './kube-config-expiry.ts'
import type { AskForGrant } from './kube-config-renewal.ts'

/**
 * Asks client-node's auth-providers (oidc, azure, gcp, or one that a program added to its KubeConfig) for the authorization of the
 * current user. `source` names the kubeconfig in messages.
 */
export function authProvider(config: KubeConfig, source: string, timeoutMs: number): AskForGrant {
  const user = config.getCurrentUser()
  const name = user?.authProvider?.name
  return async (held) => {
    try {
      const renewing = name === 'oidc' && held !== undefined
      const asked = renewing ? refreshedIdToken(config, user as User) : authorizationOf(config)
      const authorization = await within(asked, timeoutMs)
      const expiresMs = authorization === undefined ? undefined : tokenExpiry(authorization)
      return { authorization, clientCertificate: undefined, expiresMs }
    } catch (error) {
      const words = messageOf(error).replace(/\s+/g, ' ').trim().slice(0, 200)
      throw new KubeError('NoCredentials', `${source}: auth-provider ${JSON.stringify(name)}: ${words}`)
    }
  }
}

/** What the provider puts into a request. */
async function authorizationOf(config: KubeConfig): Promise<string | undefined> {
  const request: RequestOptions = {}
  await config.applyToHTTPSOptions(request)
  const headers = (request.headers ?? {}) as Readonly<Record<string, unknown>>
  return typeof headers.Authorization === 'string' ? headers.Authorization : undefined
}

/**
 * A new id-token from the issuer. client-node refreshes one only when it has ended, and takes what is no JWT for ended; it also
 * remembers the end of the first. So it is asked with such a token, in a KubeConfig of its own.
 */
async function refreshedIdToken(config: KubeConfig, user: User): Promise<string | undefined> {
  const { KubeConfig } = await import('@kubernetes/client-node/dist/config.js')
  const asking = new KubeConfig()
  const settings = { ...user.authProvider.config, 'id-token': 'ended' }
  const { clusters, contexts, currentContext } = config
  const users = [{ ...user, authProvider: { ...user.authProvider, config: settings } }]
  asking.loadFromOptions({ clusters, contexts, currentContext, users })
  const authorization = await authorizationOf(asking)
  if (authorization === undefined)
    throw new Error('the id-token cannot be renewed without client-id, refresh-token and idp-issuer-url')
  // Issuers may take a refresh token once only.
  Object.assign(user.authProvider.config, settings)
  return authorization
}

/** client-node's providers know no limit of time. */
function within<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
