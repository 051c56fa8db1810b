import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import type { Context } from '@kubernetes/client-node/dist/config_types.js'
import { unreadableReason } from '../documents/validation.ts'
import { certificatesIn, opensslReason } from '../runtime/system-pem.ts'
import { addSecret } from '../telemetry/secrets.ts'
import { type ProxyEnvironment, ProxyError, parseProxy, proxyFromEnvironment } from './http-proxy.ts'
import type { ExtraHeaders } from './http-transport.ts'
import { type ClusterEntry, type KubeConfig, KubeConfigError, type UserEntry } from './kube-config-document.ts'
import { isAbsentOr, isListOf, isRecord, isText } from './resources.ts'

/** PEM text: given inline, or in a file that may be rotated while the program runs. */
export type Pem = { readonly file: string } | { readonly text: string }

/** One context of a kubeconfig, resolved and checked: the address of the API server and the credentials for it. */
export interface Access {
  /** For messages: the file and the context. */
  readonly source: string
  readonly server: URL
  readonly serverName: string | undefined
  /** The server certificate must be valid for one of these names (see `readyzAccess`). */
  readonly serverNames?: readonly string[] | undefined
  readonly skipVerify: boolean
  readonly ca: Pem | undefined
  readonly clientCertificate: { readonly cert: Pem; readonly key: Pem } | undefined
  readonly proxy: URL | undefined
  readonly namespace: string | undefined
  readonly cluster: ClusterEntry
  /** Undefined for anonymous requests. */
  readonly user: UserEntry | undefined
  /** Warnings for whoever wrote the kubeconfig, each logged once. */
  readonly warnings: readonly string[]
}

export interface ResolvedKubeConfig {
  /** client-node's own API classes can use it too. The entries in `users` also have the fields of {@link UserEntry}. */
  readonly config: KubeConfig
  /** The current context of `config`, resolved and checked. */
  readonly access: Access
}

/**
 * Resolves the current context of `config` and checks it offline: by most rules of client-go's
 * `clientcmd/validation.go`, and whether token files, certificates and keys can be read and used. An exec plugin must
 * not require a terminal. Throws a KubeConfigError.
 *
 * `checkedFiles`: a check reads its file synchronously, so a file that hangs blocks the program. A program that runs
 * for long reads its files again anyway. So it checks only the file of the certificate authority at the start
 * (`authority`), and no file at a reload (`none`).
 */
export function resolveAccess(
  config: KubeConfig,
  source: string,
  environment: ProxyEnvironment,
  checkedFiles: 'all' | 'authority' | 'none' = 'all',
): Access {
  const fail = (words: string): never => {
    throw new KubeConfigError(`kubeconfig ${source}: ${words}`)
  }
  const context = currentContext(config, fail)
  if (!context.cluster) return fail(`context ${quote(context.name)} has no cluster`)
  const where = `${source}, context ${quote(context.name)}`
  const entry = <Entry extends Named>(kind: string, list: readonly Entry[], name: string): Entry =>
    named(list, name) ??
    fail(
      `context ${quote(context.name)} refers to the ${kind} ${quote(name)}, which does not exist; ${known(`${kind}s`, list)}`,
    )
  const cluster: ClusterEntry = entry('cluster', config.clusters, context.cluster)
  const user: UserEntry | undefined = context.user ? entry('user', config.users, context.user) : undefined
  for (const secret of [user?.token, user?.password]) addSecret(secret)
  if (user !== undefined) checkUser(user, fail)
  if (user?.tokenFile && checkedFiles === 'all') checkTokenFile(user.tokenFile, user.name, fail)
  const server = serverUrl(cluster, fail)
  const ofCluster = `of cluster ${quote(cluster.name)}`
  const ca = pem('certificate-authority', cluster.caFile, cluster.caData, ofCluster, fail)
  if (ca !== undefined) {
    if (cluster.skipTLSVerify)
      fail(`insecure-skip-tls-verify and a certificate authority ${ofCluster} are mutually exclusive; remove one`)
    if (server.protocol === 'http:')
      fail(`the certificate authority ${ofCluster} has no effect with ${server.origin}; use https:// or remove it`)
    if ('text' in ca || checkedFiles !== 'none') checkCertificates(ca, `certificate authority ${ofCluster}`, fail)
  }
  const access: Access = {
    source: where,
    server,
    serverName: cluster.tlsServerName || undefined,
    skipVerify: cluster.skipTLSVerify === true,
    ca,
    clientCertificate: user === undefined ? undefined : clientCertificate(user, checkedFiles !== 'all', fail),
    proxy: proxyOf(cluster, server, environment, fail),
    namespace: context.namespace || undefined,
    cluster,
    user,
    warnings: [],
  }
  if (server.protocol === 'http:') return withoutCredentials(access)
  if (!access.skipVerify) return access
  const warning = `insecure-skip-tls-verify ${ofCluster}: the certificate is not verified, so anyone on the path to ${server.origin} can read and change all traffic, including credentials; set certificate-authority instead`
  return { ...access, warnings: [warning] }
}

/** The access to a server without TLS: the user to impersonate, but no credentials, as in client-go's `clientcmd`. */
function withoutCredentials(access: Access): Access {
  const { user, server, cluster } = access
  if (user === undefined) return access
  const { name, impersonateUser, impersonateUid, impersonateGroups, impersonateExtra } = user
  const impersonation = { name, impersonateUser, impersonateUid, impersonateGroups, impersonateExtra }
  const { tokenFile, token, username, password, exec, authProvider } = user
  const withheld = [tokenFile, token, username, password, exec, authProvider, access.clientCertificate].some(Boolean)
  const warning = `the credentials of user ${quote(name)} are not sent to ${server.origin} without TLS; use https:// in the server of cluster ${quote(cluster.name)}`
  return {
    ...access,
    clientCertificate: undefined,
    user: impersonation as UserEntry,
    warnings: withheld ? [warning] : [],
  }
}

/** How to replace credentials that the server does not accept, by their source: `write a newer token to /run/token`. */
export function remedyOf({ user, clientCertificate }: Access): string {
  const { tokenFile, token, username, exec, authProvider } = user ?? {}
  if (tokenFile) return `write a newer token to ${tokenFile}`
  if (token) return 'write a newer token into the kubeconfig'
  if (username) return 'write the right username and password into the kubeconfig'
  if (exec) return `check that the exec plugin ${exec.command} returns valid credentials`
  if (authProvider) return `log in again with the auth-provider ${authProvider.name}`
  if (clientCertificate === undefined)
    return 'no credentials are configured; add some for the user of the context to the kubeconfig'
  const { cert } = clientCertificate
  return `write a newer client certificate ${'file' in cert ? `to ${cert.file}` : 'into the kubeconfig'}`
}

export function impersonationHeaders(user: UserEntry | undefined): ExtraHeaders {
  const { impersonateUser, impersonateUid, impersonateGroups, impersonateExtra } = user ?? {}
  const headers: Record<string, string | readonly string[]> = {}
  if (impersonateUser) headers['impersonate-user'] = impersonateUser
  if (impersonateUid) headers['impersonate-uid'] = impersonateUid
  if (impersonateGroups?.length) headers['impersonate-group'] = impersonateGroups
  for (const [key, values] of Object.entries(impersonateExtra ?? {})) {
    headers[`impersonate-extra-${escapeHeaderKey(key)}`] = values ?? []
  }
  return headers
}

/** Percent-encodes `%`, and bytes that a header name cannot contain, like client-go's `transport.headerKeyEscape`. */
export function escapeHeaderKey(key: string): string {
  let escaped = ''
  for (const byte of Buffer.from(key)) {
    const character = String.fromCharCode(byte)
    escaped += /[A-Za-z0-9!#$&'*+.^_`|~-]/.test(character)
      ? character
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return escaped
}

export function readPem(pem: Pem): string {
  return 'text' in pem ? pem.text : readFileSync(pem.file, 'utf8')
}

type Fail = (words: string) => never

function currentContext(config: KubeConfig, fail: Fail): Context {
  const name = config.currentContext
  if (name === undefined || name === null || name === '') {
    return fail(`no current-context is set; name a context with --context (${known('contexts', config.contexts)})`)
  }
  return (
    named(config.contexts, name) ?? fail(`context ${quote(name)} does not exist; ${known('contexts', config.contexts)}`)
  )
}

function serverUrl(cluster: ClusterEntry, fail: Fail): URL {
  const of = `server of cluster ${quote(cluster.name)}`
  if ((cluster.server ?? '') === '') return fail(`cluster ${quote(cluster.name)} has no server`)
  // Like kubectl, we use plain HTTP if the server has no scheme.
  const text = cluster.server.includes('://') ? cluster.server : `http://${cluster.server}`
  const url = URL.parse(text)
  if (url === null || url.hostname === '') return fail(`${of} is not a URL such as https://192.0.2.1:6443`)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return fail(`${of} is neither an https nor an http URL`)
  if (url.username !== '' || url.password !== '') return fail(`${of} contains credentials; move them to users`)
  if (url.search !== '' || url.hash !== '') return fail(`${of} has a query or fragment; remove it`)
  return url
}

function proxyOf(cluster: ClusterEntry, server: URL, environment: ProxyEnvironment, fail: Fail): URL | undefined {
  try {
    if (cluster.proxyUrl) return parseProxy(`proxy-url of cluster ${quote(cluster.name)}`, cluster.proxyUrl)
    return proxyFromEnvironment(server, environment)
  } catch (error) {
    if (error instanceof ProxyError) return fail(error.message)
    throw error
  }
}

/**
 * The auth-providers that client-go has removed, and the exec plugins that it names instead. client-node's own
 * providers with these names block the process while they run a shell, so we do not use them.
 */
const removedProviders: ReadonlyMap<string | undefined, string> = new Map([
  ['gcp', 'gke-gcloud-auth-plugin'],
  ['azure', 'kubelogin'],
])

function checkUser(user: UserEntry, fail: Fail): void {
  const of = `user ${quote(user.name)}`
  if (user.token && (user.username || user.password))
    fail(`${of} has both a token and a user name or password; only one is allowed`)
  const replacement = removedProviders.get(user.authProvider?.name)
  if (replacement !== undefined) {
    fail(
      `the auth-provider ${user.authProvider.name} of ${of} is no longer supported; use the exec plugin ${replacement}`,
    )
  }
  if (user.exec && user.authProvider) fail(`${of} has both an exec plugin and an auth-provider; only one is allowed`)
  if (user.exec) {
    const { command, args, env } = user.exec as Readonly<Record<string, unknown>>
    if (!command) fail(`the exec plugin of ${of} has no command`)
    if (typeof command !== 'string') fail(`the command of the exec plugin of ${of} is not a string; quote it`)
    if (!isTextsOrAbsent(args)) fail(`args of the exec plugin of ${of} is not a list of strings; quote them`)
    if (!isAbsentOr(isListOf(isVariable))(env))
      fail(`env of the exec plugin of ${of} is not a list of a name and a value, quoted`)
    if (!/^client\.authentication\.k8s\.io\/v1(beta1)?$/.test(user.exec.apiVersion ?? '')) {
      fail(`the exec plugin of ${of} has no supported apiVersion; use client.authentication.k8s.io/v1 or v1beta1`)
    }
    // As kubectl, which has a default only for v1beta1.
    const mode = user.exec.interactiveMode || (user.exec.apiVersion?.endsWith('beta1') ? 'IfAvailable' : undefined)
    if (mode === 'Always') fail(`the exec plugin of ${of} requires a terminal (interactiveMode: Always)`)
    if (mode !== 'Never' && mode !== 'IfAvailable')
      fail(`the exec plugin of ${of} needs an interactiveMode: Never or IfAvailable`)
  }
  const extra: unknown = user.impersonateExtra ?? {}
  if (!isTextsOrAbsent(user.impersonateGroups)) fail(`as-groups of ${of} is not a list of strings; quote them`)
  if (!isRecord(extra) || !Object.values(extra).every(isTextsOrAbsent)) {
    fail(`as-user-extra of ${of} is not a mapping of lists of strings; quote them`)
  }
  const others = user.impersonateGroups?.length || user.impersonateUid || user.impersonateExtra
  if (others && !user.impersonateUser) fail(`${of} has as-groups, as-uid or as-user-extra, but no as`)
  // If a header cannot carry a value, no request with that value can be sent, not even a probe.
  const problem = user.token ? tokenProblem(user.token) : undefined
  if (problem !== undefined) fail(`the token of ${of} ${problem}`)
  for (const value of Object.values(impersonationHeaders(user)).flat()) {
    const unfit = tokenProblem(value)
    if (unfit !== undefined) fail(`a name under as, as-groups, as-uid or as-user-extra of ${of} ${unfit}`)
  }
}

const isTextsOrAbsent = isAbsentOr(isListOf(isText))

function isVariable(entry: unknown): boolean {
  return isRecord(entry) && isText(entry.name) && isText(entry.value ?? '')
}

function checkTokenFile(file: string, userName: string, fail: Fail): void {
  const what = `tokenFile ${file} of user ${quote(userName)}`
  if (readable(what, { file }, fail).trim() === '') fail(`${what} is empty`)
}

function clientCertificate(user: UserEntry, skipsFiles: boolean, fail: Fail): Access['clientCertificate'] {
  const of = `of user ${quote(user.name)}`
  const cert = pem('client-certificate', user.certFile, user.certData, of, fail)
  const key = pem('client-key', user.keyFile, user.keyData, of, fail)
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined) return fail(`client-key ${of} has no client-certificate`)
  if (key === undefined) return fail(`client-certificate ${of} has no client-key`)
  if (skipsFiles && ('file' in cert || 'file' in key)) return { cert, key }
  const problem = keyPairProblem(
    readable(`client certificate ${of}`, cert, fail),
    readable(`client key ${of}`, key, fail),
  )
  if (problem !== undefined) fail(`${problem} ${of}`)
  return { cert, key }
}

/** The problem of a client certificate (PEM) and its key (PEM); undefined if a connection can use them. */
export function keyPairProblem(cert: string, key: string): string | undefined {
  let certificate: X509Certificate
  try {
    certificate = new X509Certificate(cert)
  } catch {
    return 'no PEM certificate in the client certificate'
  }
  try {
    if (!certificate.checkPrivateKey(createPrivateKey(key)))
      return 'the client key does not match the client certificate'
  } catch {
    return 'no unencrypted PEM private key in the client key'
  }
  try {
    // A later certificate of the chain may be damaged, or the key too short for OpenSSL. Without `ca: []` this call
    // would read the system's authorities.
    createSecureContext({ cert, key, ca: [] })
    return undefined
  } catch (error) {
    return `the client certificate cannot be used (${opensslReason(error)})`
  }
}

/** Longer values are no tokens: kube-apiserver reads 1 MiB of headers, and other servers much less. */
const MAX_TOKEN_LENGTH = 65_536

/** The problem of a token or another header value; undefined if a request can carry it. */
export function tokenProblem(token: string): string | undefined {
  if (token.length > MAX_TOKEN_LENGTH) return `has more than ${MAX_TOKEN_LENGTH} characters`
  return /[^\x20-\x7e\x80-\xff]/.test(token) ? 'contains a character that no HTTP header may have' : undefined
}

function checkCertificates(ca: Pem, what: string, fail: Fail): void {
  const problem = authorityProblem(readable(what, ca, fail))
  if (problem !== undefined) fail(`${problem} in the ${what}`)
}

/** The problem of the PEM of certificate authorities; undefined if they can be used. */
export function authorityProblem(pem: string): string | undefined {
  const blocks = certificatesIn(pem)
  if (blocks.length === 0) return 'no PEM certificate'
  try {
    for (const block of blocks) new X509Certificate(block)
  } catch {
    return 'a damaged PEM certificate'
  }
  return undefined
}

/** The PEM in the file that `field` names, or in `field`-data; undefined if neither is set. */
function pem(
  field: string,
  file: string | undefined,
  data: string | undefined,
  of: string,
  fail: Fail,
): Pem | undefined {
  if (file && data) return fail(`${field} and ${field}-data ${of} are mutually exclusive; remove one`)
  if (file) return { file }
  if (!data) return undefined
  if (!/^[A-Za-z0-9+/]*=*$/.test(data.replace(/\s+/g, ''))) return fail(`${field}-data ${of} is not base64`)
  return { text: Buffer.from(data, 'base64').toString('utf8') }
}

function readable(what: string, pem: Pem, fail: Fail): string {
  try {
    return readPem(pem)
  } catch (error) {
    return fail(
      `${what}${'file' in pem && !what.includes(pem.file) ? ` (${pem.file})` : ''}: ${unreadableReason(error)}`,
    )
  }
}

interface Named {
  readonly name: string
}

function named<Entry extends Named>(list: readonly Entry[] | undefined, name: string): Entry | undefined {
  return list?.find((entry) => entry.name === name)
}

function known(what: string, list: readonly Named[] | undefined): string {
  const names = [...new Set(list?.map((entry) => entry.name))]
  return names.length === 0 ? `the kubeconfig has no ${what}` : `${what}: ${names.slice(0, 20).join(', ')}`
}

function quote(text: string | undefined): string {
  return JSON.stringify(text ?? '')
}
