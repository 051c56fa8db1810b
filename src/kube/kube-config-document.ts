import { isAbsolute, join, sep } from 'node:path'
import type { Cluster, Context, User } from '@kubernetes/client-node'
import { LineCounter, parseDocument } from 'yaml'
import { isRecord } from './resources.ts'

/** One kubeconfig file after parsing: its shape is checked, nothing is resolved. */
interface KubeConfigDocument {
  readonly clusters: readonly NamedFields<ClusterField>[]
  readonly users: readonly NamedFields<UserField>[]
  readonly contexts: readonly NamedFields<ContextField>[]
  readonly currentContext: string | undefined
}

/** An entry of one of the lists: its name and the fields under `cluster`, `user` or `context`. */
interface NamedFields<Text extends string> {
  readonly name: string
  readonly text: { readonly [Field in Text]?: string | undefined }
  /** All fields, those of other types included. */
  readonly fields: Fields
}

type Fields = Readonly<Record<string, unknown>>
type ClusterField = (typeof clusterFields)[number]
type UserField = (typeof userFields)[number]
type ContextField = (typeof contextFields)[number]

const clusterFields = [
  'server',
  'certificate-authority',
  'certificate-authority-data',
  'tls-server-name',
  'proxy-url',
] as const
const userFields = [
  'client-certificate',
  'client-certificate-data',
  'client-key',
  'client-key-data',
  'token',
  'tokenFile',
  'username',
  'password',
  'as',
  'as-uid',
] as const
const contextFields = ['cluster', 'user', 'namespace'] as const

/**
 * Reads the text of the kubeconfig `file`. Throws a KubeConfigError that names the file and the line; its message never
 * quotes the text, which may hold credentials.
 */
export function parseKubeConfig(file: string, text: string): KubeConfigDocument {
  const lines = new LineCounter()
  // Merge keys are YAML 1.1, which is what Go's reader of kubeconfig files understands.
  const document = parseDocument(text, { merge: true, lineCounter: lines, prettyErrors: false, logLevel: 'silent' })
  const [problem] = document.errors
  if (problem !== undefined) {
    const reason = problem.code.toLowerCase().replaceAll('_', ' ')
    throw new KubeConfigError(`kubeconfig ${file}, line ${lines.linePos(problem.pos[0]).line}: not YAML (${reason})`)
  }
  const fail = (path: readonly (string | number)[], words: string): never => {
    const node = document.getIn(path, true) as { readonly range?: readonly number[] } | undefined
    const line = node?.range?.[0] === undefined ? '' : `, line ${lines.linePos(node.range[0]).line}`
    throw new KubeConfigError(`kubeconfig ${file}${line}: ${words}`)
  }
  const root = toFields(document, fail)

  const readList = <Text extends string>(list: string, key: string, names: readonly Text[]): NamedFields<Text>[] => {
    const entries = root[list] ?? []
    if (!Array.isArray(entries)) return fail([list], `${list} is not a list`)
    return entries.map((entry: unknown, index) => {
      if (!isFields(entry)) return fail([list, index], `${list}[${index}] is not a mapping`)
      const { name } = entry
      if (typeof name !== 'string' || name === '') return fail([list, index], `${list}[${index}] has no name`)
      const fields = entry[key] ?? {}
      if (!isFields(fields)) return fail([list, index, key], `${key} of ${JSON.stringify(name)} is not a mapping`)
      const strings: { [Field in Text]?: string } = {}
      for (const field of names) {
        const value = fields[field] ?? ''
        if (typeof value !== 'string') {
          return fail([list, index, key, field], `${field} of ${key} ${JSON.stringify(name)} is not a string; quote it`)
        }
        if (value !== '') strings[field] = value
      }
      return { name, text: strings, fields }
    })
  }
  const currentContext = root['current-context'] ?? ''
  if (typeof currentContext !== 'string') return fail(['current-context'], 'current-context is not a string; quote it')
  return {
    clusters: readList('clusters', 'cluster', clusterFields),
    users: readList('users', 'user', userFields),
    contexts: readList('contexts', 'context', contextFields),
    currentContext: currentContext === '' ? undefined : currentContext,
  }
}

function toFields(
  document: ReturnType<typeof parseDocument>,
  fail: (path: readonly string[], words: string) => never,
): Fields {
  let root: unknown
  try {
    root = document.toJS({ maxAliasCount: 100 })
  } catch {
    return fail([], 'its aliases are circular or too many')
  }
  if (root === null || root === undefined) return fail([], 'the file is empty')
  if (!isFields(root)) return fail([], 'not a kubeconfig: the top level is not a mapping')
  if (root.kind !== undefined && root.kind !== 'Config')
    return fail(['kind'], 'not a kubeconfig: its kind is not Config')
  return root
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Fields of a user that `KubeConfig` of client-node lacks; `loadKubeConfig` adds them to its users. */
export interface UserExtras {
  readonly tokenFile?: string | undefined
  readonly impersonateGroups?: readonly string[] | undefined
  readonly impersonateUid?: string | undefined
  readonly impersonateExtra?: Readonly<Record<string, readonly string[]>> | undefined
}

/** Fields of a cluster that it lacks. */
export interface ClusterExtras {
  /** The extension `client.authentication.k8s.io/exec`, for exec plugins that ask for cluster information. */
  readonly execConfig?: unknown
}

/** The clusters, users and contexts of one kubeconfig file, or of several merged, as client-node holds them. */
export interface KubeConfigEntries {
  readonly clusters: readonly (Cluster & ClusterExtras)[]
  readonly users: readonly (User & UserExtras)[]
  readonly contexts: readonly Context[]
  readonly currentContext: string | undefined
}

/**
 * The entries of a file; relative paths in it are relative to `directory`.
 *
 * client-node's own reading of a file is not used: it omits half of a user's fields, refuses a file for a mistake in an
 * unused entry, and cannot merge two files that name the same entry.
 */
export function entriesOf(document: KubeConfigDocument, directory: string): KubeConfigEntries {
  return {
    clusters: document.clusters.map((entry) => clusterOf(entry, directory)),
    users: document.users.map((entry) => userOf(entry, directory)),
    contexts: document.contexts.map(({ name, text }) => ({
      name,
      cluster: text.cluster ?? '',
      user: text.user ?? '',
      ...(text.namespace === undefined ? {} : { namespace: text.namespace }),
    })),
    currentContext: document.currentContext,
  }
}

/** As kubectl merges the files of $KUBECONFIG: the first entry of a name wins. */
export function mergeEntries(files: readonly KubeConfigEntries[]): KubeConfigEntries {
  return {
    clusters: firstByName(files.flatMap((file) => file.clusters)),
    users: firstByName(files.flatMap((file) => file.users)),
    contexts: firstByName(files.flatMap((file) => file.contexts)),
    currentContext: files.find((file) => file.currentContext !== undefined)?.currentContext,
  }
}

function clusterOf(
  { name, text, fields }: KubeConfigDocument['clusters'][number],
  directory: string,
): Cluster & ClusterExtras {
  return set({
    name,
    server: text.server ?? '',
    caFile: absolute(directory, text['certificate-authority']),
    caData: text['certificate-authority-data'],
    tlsServerName: text['tls-server-name'],
    proxyUrl: text['proxy-url'],
    skipTLSVerify: fields['insecure-skip-tls-verify'] === true,
    execConfig: execConfig(fields.extensions),
  }) as Cluster & ClusterExtras
}

function userOf({ name, text, fields }: KubeConfigDocument['users'][number], directory: string): User & UserExtras {
  return set({
    name,
    certFile: absolute(directory, text['client-certificate']),
    certData: text['client-certificate-data'],
    keyFile: absolute(directory, text['client-key']),
    keyData: text['client-key-data'],
    token: text.token,
    tokenFile: absolute(directory, text.tokenFile),
    username: text.username,
    password: text.password,
    exec: execOf(fields.exec, directory),
    authProvider: fields['auth-provider'] ?? undefined,
    impersonateUser: text.as,
    impersonateUid: text['as-uid'],
    impersonateGroups: strings(fields['as-groups']),
    impersonateExtra: extraOf(fields['as-user-extra']),
  }) as User & UserExtras
}

/** A command with a slash is a path like any other; one without is searched in the PATH. */
function execOf(exec: unknown, directory: string): unknown {
  if (!isRecord(exec)) return exec ?? undefined
  const { command } = exec
  const isPath = typeof command === 'string' && (command.includes('/') || command.includes(sep))
  return isPath ? { ...exec, command: absolute(directory, command) } : exec
}

function execConfig(extensions: unknown): unknown {
  if (!Array.isArray(extensions)) return undefined
  return extensions.find((entry) => isRecord(entry) && entry.name === 'client.authentication.k8s.io/exec')?.extension
}

function extraOf(extra: unknown): Readonly<Record<string, readonly string[]>> | undefined {
  if (!isRecord(extra)) return undefined
  return Object.fromEntries(Object.entries(extra).map(([key, values]) => [key, strings(values) ?? []]))
}

function strings(values: unknown): readonly string[] | undefined {
  return Array.isArray(values) ? values.map(String) : undefined
}

function absolute(directory: string, file: string | undefined): string | undefined {
  return file === undefined || isAbsolute(file) ? file : join(directory, file)
}

function set<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>
}

function firstByName<T extends { readonly name: string }>(entries: readonly T[]): T[] {
  const byName = new Map<string, T>()
  for (const entry of entries) if (!byName.has(entry.name)) byName.set(entry.name, entry)
  return [...byName.values()]
}

/**
 * A kubeconfig that cannot be used. The message is one line that names the file and the correction; nothing was
 * contacted.
 */
export class KubeConfigError extends Error {
  override readonly name = 'KubeConfigError'
  readonly code = 'InvalidKubeConfig'
}
