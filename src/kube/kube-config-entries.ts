import { isAbsolute, join, sep } from 'node:path'
import type { Cluster, Context, User } from '@kubernetes/client-node'
import type { KubeConfigDocument } from './kube-config-document.ts'

/** What `KubeConfig` of client-node has no field for in a user; `loadKubeConfig` adds it to its users. */
export interface UserExtras {
  readonly tokenFile?: string | undefined
  readonly impersonateGroups?: readonly string[] | undefined
  readonly impersonateUid?: string | undefined
  readonly impersonateExtra?: Readonly<Record<string, readonly string[]>> | undefined
}

/** What it has no field for in a cluster. */
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
 * The entries of a file in `directory`, which relative paths in it are relative to.
 *
 * client-node's own reading of a file is not used: it leaves out half of a user's fields, refuses a file for a mistake in an entry
 * that nobody uses, and cannot merge two files that name the same entry.
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

/** As kubectl merges the files of $KUBECONFIG: what is named first stays. */
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

/** A command with a slash is a file like any other; one without is looked for in the PATH. */
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

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
