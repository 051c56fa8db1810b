import { rename, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Access } from '../../kube/kube-config-access.ts'

/** Where a sidecar of a drill finds its API server. */
export interface SidecarAccess {
  /** Of 127.0.0.1. */
  readonly port: number
  /** The authority of what listens there, as PEM. */
  readonly authority: string
  /** What lets it in there; undefined: what the kubeconfig has. */
  readonly token: string | undefined
}

/**
 * The context that `access` is, as a kubeconfig of its own for a sidecar whose API server is a proxy of the drill. Client certificates stay
 * behind: no proxy can show them.
 */
export function kubeconfigCopy(access: Access, way: SidecarAccess): object {
  const user = way.token === undefined ? userOf(access) : { ...impersonation(access), token: way.token }
  return {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'drill',
    contexts: [{ name: 'drill', context: { cluster: 'drill', user: 'drill' } }],
    clusters: [{ name: 'drill', cluster: clusterOf(access, way) }],
    users: [
      { name: 'drill', user: Object.fromEntries(Object.entries(user).filter(([, value]) => value !== undefined)) },
    ],
  }
}

/** Writes it, for this user alone: credentials may be in it. Whoever reads it meanwhile finds the one before. */
export async function writeKubeconfigCopy(file: string, access: Access, way: SidecarAccess): Promise<void> {
  // JSON is YAML.
  await writeFile(`${file}.next`, `${JSON.stringify(kubeconfigCopy(access, way), undefined, 2)}\n`, { mode: 0o600 })
  await rename(`${file}.next`, file)
}

function clusterOf({ server, cluster }: Access, { port, authority }: SidecarAccess): object {
  return {
    server: `https://127.0.0.1:${port}${server.pathname.replace(/\/+$/, '')}`,
    'certificate-authority-data': Buffer.from(authority).toString('base64'),
    ...(cluster.execConfig !== undefined && {
      extensions: [{ name: 'client.authentication.k8s.io/exec', extension: cluster.execConfig }],
    }),
  }
}

function userOf(access: Access): Readonly<Record<string, unknown>> {
  const { user } = access
  return {
    token: user?.token,
    tokenFile: user?.tokenFile && resolve(user.tokenFile),
    username: user?.username,
    password: user?.password,
    exec: user?.exec,
    'auth-provider': user?.authProvider,
    ...impersonation(access),
  }
}

function impersonation({ user }: Access): Readonly<Record<string, unknown>> {
  return {
    as: user?.impersonateUser,
    'as-uid': user?.impersonateUid,
    'as-groups': user?.impersonateGroups,
    'as-user-extra': user?.impersonateExtra,
  }
}
