import type { RequestOptions } from 'node:https'
import { dirname, isAbsolute, join, resolve, sep } from 'node:path'
import type { Cluster, Context, User } from '@kubernetes/client-node/dist/config_types.js'
import { LineCounter, parseDocument } from 'yaml'
import { firstSyntaxMistake } from '../documents/yaml.ts'
import { isRecord } from './resources.ts'

export interface ClusterEntry extends Cluster {
  /** The extension `client.authentication.k8s.io/exec`, for exec plugins that ask for cluster information. */
  readonly execConfig?: unknown
}

export interface UserEntry extends User {
  readonly tokenFile?: string | undefined
  readonly impersonateGroups?: readonly string[] | undefined
  readonly impersonateUid?: string | undefined
  readonly impersonateExtra?: Readonly<Record<string, readonly string[] | null>> | undefined
}

/**
 * The part of client-node's `KubeConfig` that this program uses. We declare it here because the declarations of that
 * class import those of `ws`, which a program that embeds this library may not have.
 */
export interface KubeConfig {
  readonly clusters: readonly Cluster[]
  readonly users: readonly User[]
  readonly contexts: readonly Context[]
  readonly currentContext: string
  getCurrentUser(): User | null
  applyToHTTPSOptions(options: RequestOptions): Promise<void>
}

/** The contents of one or several kubeconfig files. Of entries with the same name the first counts, as in kubectl. */
export interface KubeConfigEntries {
  readonly clusters: readonly ClusterEntry[]
  readonly users: readonly UserEntry[]
  readonly contexts: readonly Context[]
  readonly currentContext: string | undefined
}

/** One entry of a list: the fields under `cluster`, `user` or `context`. */
interface Entry {
  readonly fields: Readonly<Record<string, unknown>>
  /** A field that must be text; undefined if it is empty or missing. */
  text(field: string): string | undefined
  /** The name of a file. A relative one is resolved against the directory of the kubeconfig. */
  path(field: string): string | undefined
}

/**
 * Parses the text of the kubeconfig `file` and checks its structure. It does not resolve a context. Throws a
 * KubeConfigError that names the file and mostly the line. Its message quotes names of entries but no values, which may
 * be credentials.
 *
 * We do not use client-node's parser: test/kube/client-node.test.ts shows what it loses.
 */
export function readKubeConfig(file: string, text: string): KubeConfigEntries {
  const lines = new LineCounter()
  // Merge keys are part of YAML 1.1, which Go's parser of kubeconfig files supports.
  const document = parseDocument(text, {
    merge: true,
    // The parser's check takes quadratic time.
    uniqueKeys: false,
    lineCounter: lines,
    prettyErrors: false,
    logLevel: 'silent',
  })
  const mistake = firstSyntaxMistake(document)
  if (mistake !== undefined) {
    throw new KubeConfigError(`kubeconfig ${file}, line ${lines.linePos(mistake.offset).line}: ${mistake.message}`)
  }
  const fail = (path: readonly (string | number)[], words: string): never => {
    const node = document.getIn(path, true) as { readonly range?: readonly number[] } | undefined
    const line = node?.range?.[0] === undefined ? '' : `, line ${lines.linePos(node.range[0]).line}`
    throw new KubeConfigError(`kubeconfig ${file}${line}: ${words}`)
  }
  const root = rootOf(document, fail)
  const directory = dirname(resolve(file))

  const readList = <Kind>(list: string, key: string, make: (entry: Entry) => object): Kind[] => {
    const entries = root[list] ?? []
    if (!Array.isArray(entries)) return fail([list], `${list} is not a list`)
    return entries.map((entry: unknown, index) => {
      if (!isRecord(entry)) return fail([list, index], `${list}[${index}] is not a mapping`)
      const { name } = entry
      if (typeof name !== 'string' || name === '') return fail([list, index], `${list}[${index}] has no name`)
      const fields = entry[key] ?? {}
      if (!isRecord(fields)) return fail([list, index, key], `${key} of ${JSON.stringify(name)} is not a mapping`)
      const text = (field: string): string | undefined => {
        const value = fields[field] ?? ''
        if (typeof value === 'string') return value === '' ? undefined : value
        return fail([list, index, key, field], `${field} of ${key} ${JSON.stringify(name)} is not a string; quote it`)
      }
      const path = (field: string): string | undefined => absolute(directory, text(field))
      const given = Object.entries({ name, ...make({ fields, text, path }) }).filter(([, value]) => value !== undefined)
      return Object.fromEntries(given) as Kind
    })
  }
  const currentContext = root['current-context'] ?? ''
  if (typeof currentContext !== 'string') return fail(['current-context'], 'current-context is not a string; quote it')
  return {
    clusters: readList('clusters', 'cluster', ({ fields, text, path }) => ({
      server: text('server') ?? '',
      caFile: path('certificate-authority'),
      caData: text('certificate-authority-data'),
      tlsServerName: text('tls-server-name'),
      proxyUrl: text('proxy-url'),
      skipTLSVerify: fields['insecure-skip-tls-verify'] === true,
      execConfig: execConfig(fields.extensions),
    })),
    users: readList('users', 'user', ({ fields, text, path }) => ({
      certFile: path('client-certificate'),
      certData: text('client-certificate-data'),
      keyFile: path('client-key'),
      keyData: text('client-key-data'),
      token: text('token'),
      tokenFile: path('tokenFile'),
      username: text('username'),
      password: text('password'),
      exec: execOf(fields.exec, directory),
      authProvider: fields['auth-provider'] ?? undefined,
      impersonateUser: text('as'),
      impersonateUid: text('as-uid'),
      impersonateGroups: fields['as-groups'] ?? undefined,
      impersonateExtra: fields['as-user-extra'] ?? undefined,
    })),
    contexts: readList('contexts', 'context', ({ text }) => ({
      cluster: text('cluster') ?? '',
      user: text('user') ?? '',
      namespace: text('namespace'),
    })),
    currentContext: currentContext === '' ? undefined : currentContext,
  }
}

function rootOf(
  document: ReturnType<typeof parseDocument>,
  fail: (path: readonly string[], words: string) => never,
): Readonly<Record<string, unknown>> {
  let root: unknown
  try {
    root = document.toJS({ maxAliasCount: 100 })
  } catch {
    return fail([], 'it has circular or too many YAML aliases')
  }
  if (root === null || root === undefined) return fail([], 'the file is empty')
  if (!isRecord(root)) return fail([], 'not a kubeconfig: the top level is not a mapping')
  if (root.kind !== undefined && root.kind !== 'Config')
    return fail(['kind'], 'not a kubeconfig: its kind is not Config')
  return root
}

/** A command with a slash is a path like any other; one without a slash is searched for in PATH. */
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

function absolute(directory: string, file: string | undefined): string | undefined {
  return file === undefined || isAbsolute(file) ? file : join(directory, file)
}

/**
 * A kubeconfig that cannot be used. The message is one line, which names the file or context and, where one is known,
 * the correction.
 */
export class KubeConfigError extends Error {
  override readonly name = 'KubeConfigError'
  readonly code = 'InvalidKubeConfig'
}
