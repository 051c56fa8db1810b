import { unreadableReason } from '../documents/validation.ts'
import type { Clock } from '../runtime/clock.ts'
import { messageOf } from '../runtime/errors.ts'
import { within } from '../runtime/request-limit.ts'
import { abortable } from '../runtime/signals.ts'
import { readText } from '../runtime/system-file.ts'
import type { ExpiryReporter } from '../telemetry/expiry.ts'
import type { Logger } from '../telemetry/logger.ts'
import { noOutages, type Outages, type Symptom } from '../telemetry/outages.ts'
import { addSecret, oneLine } from '../telemetry/secrets.ts'
import { KubeError } from './errors.ts'
import type { ClientTls, ExtraHeaders } from './http-transport.ts'
import {
  type Access,
  authorityProblem,
  impersonationHeaders,
  keyPairProblem,
  type Pem,
  type ResolvedKubeConfig,
  remedyOf,
  tokenProblem,
} from './kube-config-access.ts'
import { clusterInfo, execPlugin } from './kube-config-exec.ts'
import {
  authProvider,
  type CredentialsLifetimes,
  credentialsLifetimes,
  endsOf,
  type Grant,
  Renewal,
} from './kube-config-renewal.ts'

/** The credentials of a request. {@link KubeCredentials} returns the same object while the content is unchanged. */
export interface Credentials {
  readonly headers: ExtraHeaders
  readonly tls: ClientTls
}

interface KubeCredentialsOptions extends ResolvedKubeConfig {
  /** Reads the kubeconfig again; the same object while the text is unchanged. @default it is not read again */
  readonly reload?: (() => Promise<ResolvedKubeConfig>) | undefined
  readonly clock: Clock
  readonly logger: Logger
  /** The outages of the API server. @default no outage is known */
  readonly outages?: Outages | undefined
  /** Called at each reading, for each kind of credentials, with the lifetimes of those in use. */
  readonly onExpiry?: ExpiryReporter | undefined
  /** How long an exec plugin or auth-provider may take, in milliseconds. @default 30000 */
  readonly execTimeoutMs?: number | undefined
}

/** A request reads the files again when the last reading is this old, in milliseconds. */
const REREAD_MS = 1_000
/** How long a request that has credentials waits for newer ones, in milliseconds. */
const PATIENCE_MS = 1_000
/** The least time between two replacements of refused credentials, and from the last 401 to the end of a refusal. */
const REFUSED_MS = 5_000
/** How often we ask an auth-provider that does not state when its credentials expire, in milliseconds. */
const PROVIDER_POLL_MS = 5_000

interface Parts {
  readonly ca?: string | undefined
  readonly clientCertificate?: Grant['clientCertificate']
  readonly authorization?: string | undefined
  readonly grant?: Grant | undefined
}

/** The user of the current context, and the renewal of its credentials if a plugin or provider issues them. */
interface Identity {
  readonly resolved: ResolvedKubeConfig
  /** Everything that `renewal` depends on. */
  readonly key: string
  readonly renewal: Renewal | undefined
  readonly close: () => void
}

interface Held {
  readonly credentials: Credentials
  readonly text: string
  readonly grant: Grant | undefined
  readonly lifetimes: CredentialsLifetimes
}

/**
 * The credentials of one kubeconfig user, always current.
 *
 * The kubeconfig and its files are read again before a request if the last reading is a second old, and when the server
 * answers 401. Exec plugins and auth-providers are asked in the background, before their credentials expire. While
 * there are credentials, a request waits at most a second for newer ones. If something cannot be read or issued, the
 * last credentials stay in use; without any, requests are rejected with NoCredentials. Such a failure is logged once
 * when it begins and once when it ends.
 *
 * New content of a file takes effect when a second reading finds it again, because the first may find it half written.
 * After a 401 it takes effect at once. Contents are compared: a rotation may leave a file's time and size equal.
 */
export class KubeCredentials {
  readonly #options: KubeCredentialsOptions
  #identity: Identity
  #held: Held | undefined
  /** The certificate authority as last read. It is read before a plugin is asked. */
  #ca: string | undefined
  /** The result of the last reading, if it is not in use yet. */
  #candidate: string | undefined
  #reading: Promise<Credentials> | undefined
  #readAtMs = Number.NEGATIVE_INFINITY
  #replacing: Promise<void> | undefined
  #replacedAtMs = Number.NEGATIVE_INFINITY
  #rejected: Credentials | undefined
  #refusal: { readonly credentials: Credentials; readonly lastMs: number } | undefined
  readonly #refused: Symptom
  #isFailing = false
  #authorityFailure: unknown

  constructor(options: KubeCredentialsOptions) {
    this.#options = options
    this.#refused = (options.outages ?? noOutages).symptom({ againMs: 300_000 })
    this.#identity = this.#identityOf(options)
  }

  /** The current credentials. Rejects with NoCredentials if there have never been any, or with the signal's reason. */
  async current(signal: AbortSignal): Promise<Credentials> {
    const { clock } = this.#options
    const held = this.#held
    if (held === undefined) return abortable(this.#read(), signal)
    // A request does not wait for a reading that another request already waits for, so that a hanging file system
    // delays one request by a second, not all of them.
    const isFresh = this.#reading !== undefined || clock.monotonicMs() - this.#readAtMs < REREAD_MS
    if (!isFresh) await abortable(this.#atMost(PATIENCE_MS, this.#read()), signal)
    return (this.#held ?? held).credentials
  }

  /** Whether there are credentials. Waits up to `patienceMs` for a plugin or issuer, and four times that for files. */
  async waitForAny(patienceMs: number, signal: AbortSignal): Promise<boolean> {
    // Several waits, because a busy start may block the event loop past the end of a wait, before the files are read.
    for (let waits = this.#identity.renewal ? 1 : 4; waits > 0 && this.#held === undefined; waits--) {
      await abortable(this.#atMost(patienceMs, this.#read()), signal)
    }
    return this.#held !== undefined
  }

  /** The TLS settings of an anonymous request, without any credentials. */
  async anonymous(signal: AbortSignal): Promise<Credentials> {
    const { access } = this.#identity.resolved
    return assemble({ ...access, user: undefined }, { ca: await abortable(this.#authority(access), signal) })
  }

  /** Call this after a 401. Resolves with other credentials, or with `rejected` if there are none in a second. */
  async replace(rejected: Credentials, signal: AbortSignal): Promise<Credentials> {
    const { clock } = this.#options
    if (this.#held?.credentials === rejected) {
      const isDue = clock.monotonicMs() - this.#replacedAtMs >= REFUSED_MS
      if (isDue && this.#replacing === undefined) {
        this.#replacedAtMs = clock.monotonicMs()
        this.#rejected = rejected
        this.#replacing = this.#atMost(PATIENCE_MS, this.#replaceHeld(rejected)).finally(() => {
          this.#replacing = undefined
        })
      }
      await abortable(this.#replacing ?? Promise.resolve(), signal)
    }
    return this.#held?.credentials ?? rejected
  }

  /** Records the server's final answer to `credentials`, and logs when a refusal (401) begins and ends. */
  answered(credentials: Credentials, status: number): void {
    const { clock, logger } = this.#options
    const { access } = this.#identity.resolved
    const { source, server } = access
    const refusal = this.#refusal
    const nowMs = clock.monotonicMs()
    if (status === 401) {
      this.#refusal = { credentials, lastMs: nowMs }
      const message = `the API server does not accept the credentials (401): ${remedyOf(access)}`
      this.#refused.present(logger, { source, server: server.origin, ...endsOf(this.#held?.lifetimes) }, message)
    } else if (refusal !== undefined && (refusal.credentials !== credentials || nowMs - refusal.lastMs >= REFUSED_MS)) {
      this.#refusal = undefined
      this.#refused.absent(logger, { source, server: server.origin }, 'the API server accepts the credentials again')
    }
  }

  close(): void {
    this.#identity.close()
  }

  async #replaceHeld(rejected: Credentials): Promise<void> {
    // A reading that is already running may have read the files before they changed.
    await this.#reading?.catch(() => {})
    await this.#read()
    if (this.#held?.credentials !== rejected) return
    await this.#identity.renewal?.renew()
    await this.#read()
  }

  #read(): Promise<Credentials> {
    this.#readAtMs = this.#options.clock.monotonicMs()
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #readAll(): Promise<Credentials> {
    let problem: unknown
    this.#authorityFailure = undefined
    try {
      const resolved = await this.#options.reload?.()
      // While the certificate authority of a new kubeconfig cannot be read, the previous kubeconfig stays in use.
      if (resolved && resolved.access !== this.#identity.resolved.access) await this.#authority(resolved.access)
      if (resolved) this.#adopt(resolved)
    } catch (error) {
      problem = error
    }
    try {
      this.#take(await this.#parts())
    } catch (error) {
      problem ??= error
    }
    if (this.#held === undefined) {
      this.#report(problem)
      throw noCredentials(problem)
    }
    for (const [kind, lifetimes] of this.#held.lifetimes) this.#options.onExpiry?.(kind, lifetimes)
    this.#report(problem ?? this.#authorityFailure ?? this.#identity.renewal?.failure)
    return this.#held.credentials
  }

  #report(problem: unknown): void {
    const { logger } = this.#options
    const { source } = this.#identity.resolved.access
    if (problem !== undefined && !this.#isFailing) {
      const message =
        this.#held === undefined
          ? 'no credentials are available yet; until then only the readiness of the API server is read, anonymously'
          : 'credentials cannot be renewed; the previous ones stay in use'
      logger.warn({ source, error: noCredentials(problem), ...endsOf(this.#held?.lifetimes) }, message)
    }
    if (problem === undefined && this.#isFailing) logger.info({ source }, 'credentials can be read again')
    this.#isFailing = problem !== undefined
  }

  /** Continues as the user that the kubeconfig names after a reload. */
  #adopt(resolved: ResolvedKubeConfig): void {
    const { access } = resolved
    const before = this.#identity.resolved.access
    // An auth-provider renews `access.user` in place, so keys are compared only if the kubeconfig was read again.
    if (access.user === before.user || keyOf(access) === this.#identity.key) {
      this.#identity = { ...this.#identity, resolved }
      return
    }
    const { close } = this.#identity
    this.#identity = this.#identityOf(resolved)
    close()
  }

  #identityOf(resolved: ResolvedKubeConfig): Identity {
    const { clock, logger, execTimeoutMs: timeoutMs = 30_000 } = this.#options
    const { access, config } = resolved
    const { user } = access
    const key = keyOf(access)
    // The next request reads again, so that renewed credentials take effect.
    const onSettled = (): void => {
      this.#readAtMs = Number.NEGATIVE_INFINITY
    }
    if (user === undefined || hasOwnAuthorization(user)) return { resolved, key, renewal: undefined, close: () => {} }
    const stop = new AbortController()
    const close = (): void => stop.abort(new Error('the connection is closed'))
    const options = { timeoutMs, signal: stop.signal, logger }
    if (user.exec) {
      const info = (): unknown => clusterInfo(access, this.#ca)
      const ask = execPlugin({ config: user.exec, userName: user.name, clusterInfo: info, ...options })
      return { resolved, key, renewal: new Renewal({ ask, clock, onSettled }), close }
    }
    const ask = authProvider(config, { source: access.source, clock, ...options })
    const renewal = user.authProvider ? new Renewal({ ask, clock, pollMs: PROVIDER_POLL_MS, onSettled }) : undefined
    return { resolved, key, renewal, close }
  }

  #take(parts: Parts): void {
    addSecret(parts.authorization?.replace(/^(Bearer|Basic) /, ''))
    addSecret(parts.clientCertificate?.key)
    const credentials = assemble(this.#identity.resolved.access, parts)
    const text = JSON.stringify(credentials)
    const held = this.#held
    const isCertain =
      held === undefined ||
      held.credentials === this.#rejected ||
      held.grant !== parts.grant ||
      text === this.#candidate
    this.#candidate = isCertain ? undefined : text
    if (!isCertain || (held?.text === text && held.grant === parts.grant)) return
    // Equal content stays the same object, because callers compare by identity. The lifetimes may be new: a plugin may
    // extend the life of a token.
    const same = held?.text === text ? held.credentials : credentials
    const lifetimes = credentialsLifetimes({ ...parts, tokenEndsMs: parts.grant?.expiresMs })
    this.#held = { credentials: same, text, grant: parts.grant, lifetimes }
  }

  async #parts(): Promise<Parts> {
    const { resolved, renewal } = this.#identity
    const { access } = resolved
    const { user } = access
    const ca = await this.#authority(access).catch((error: unknown) => {
      // The authority in use stays, so that a token or client certificate can be replaced all the same.
      if (this.#held === undefined) throw error
      this.#authorityFailure = error
      return this.#held.credentials.tls.ca
    })
    const clientCertificate = await readPair(access, this.#held?.credentials.tls)
    if (user === undefined) return { ca }
    if (user.tokenFile) return { ca, clientCertificate, authorization: `Bearer ${await readToken(user.tokenFile)}` }
    if (user.token) return { ca, clientCertificate, authorization: `Bearer ${user.token}` }
    if (user.username) {
      const basic = Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64')
      return { ca, clientCertificate, authorization: `Basic ${basic}` }
    }
    if (renewal === undefined) return { ca, clientCertificate }
    const grant = await renewal.current()
    const certificate = grant.clientCertificate ?? clientCertificate
    return { ca, clientCertificate: certificate, authorization: grant.authorization, grant }
  }

  async #authority({ ca: pem, source }: Access): Promise<string | undefined> {
    const ca = pem === undefined ? undefined : await read(pem)
    const isOther = ca !== undefined && ca !== this.#held?.credentials.tls.ca
    const problem = isOther ? authorityProblem(ca) : undefined
    if (problem !== undefined)
      throw new KubeError('NoCredentials', `${source}: ${problem} in the certificate authority`)
    this.#ca = ca
    return ca
  }

  /** Resolves when `work` has settled, or after `patienceMs`. Never rejects. */
  #atMost(patienceMs: number, work: Promise<unknown>): Promise<void> {
    const ignored = (): void => {}
    return within(this.#options.clock, patienceMs, undefined, () => work).then(ignored, ignored)
  }
}

function keyOf({ user, cluster }: Access): string {
  const { exec, authProvider, name } = user ?? {}
  const isGiven = user !== undefined && hasOwnAuthorization(user)
  return JSON.stringify([name, isGiven, authProvider, exec, exec?.provideClusterInfo === true ? cluster : null])
}

/** Whether the user has a token or password. If so, no plugin or provider is asked, as in client-go. */
function hasOwnAuthorization({ tokenFile, token, username }: NonNullable<Access['user']>): boolean {
  return Boolean(tokenFile || token || username)
}

/** `held`: the pair in use. It is not checked again, because a check at each reading, every second, would be costly. */
async function readPair(
  { clientCertificate: pair, source }: Access,
  held: Pick<ClientTls, 'cert' | 'key'> | undefined,
): Promise<Parts['clientCertificate']> {
  if (pair === undefined) return undefined
  // The files are read one after the other, so that files that hang take only one of Node's threads for files.
  const cert = await read(pair.cert)
  const key = await read(pair.key)
  if (cert === held?.cert && key === held.key) return { cert, key }
  // Two files cannot be replaced in one step, so for a moment they may not match.
  const problem = keyPairProblem(cert, key)
  if (problem !== undefined) throw new KubeError('NoCredentials', `${source}: ${problem}`)
  return { cert, key }
}

function assemble(access: Access, parts: Parts): Credentials {
  const { authorization } = parts
  return {
    headers: { ...(authorization === undefined ? {} : { authorization }), ...impersonationHeaders(access.user) },
    tls: {
      ca: parts.ca,
      cert: parts.clientCertificate?.cert,
      key: parts.clientCertificate?.key,
      serverName: access.serverName,
      serverNames: access.serverNames,
      skipVerify: access.skipVerify,
    },
  }
}

async function read(pem: Pem): Promise<string> {
  if ('text' in pem) return pem.text
  try {
    return await readText(pem.file)
  } catch (error) {
    throw new KubeError('NoCredentials', `${pem.file}: ${unreadableReason(error)}`)
  }
}

async function readToken(file: string): Promise<string> {
  const token = (await read({ file })).trim()
  const problem = token === '' ? 'is empty' : tokenProblem(token)
  if (problem !== undefined) throw new KubeError('NoCredentials', `token file ${file} ${problem}`)
  return token
}

function noCredentials(error: unknown): KubeError {
  if (error instanceof KubeError) return error
  return new KubeError('NoCredentials', oneLine(messageOf(error), 300))
}
