import { writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Access, Pem } from '../../kube/kube-config-access.ts'

/**
 * The context that `access` is, as a kubeconfig of its own in which the API server is at a port of 127.0.0.1. TLS goes on to verify the server by
 * the name that it had.
 */
export function kubeconfigCopy(access: Access, port: number): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'drill',
    contexts: [{ name: 'drill', context: { cluster: 'drill', ...(access.user !== undefined && { user: 'drill' }) } }],
    clusters: [{ name: 'drill', cluster: clusterOf(access, port) }],
    users: access.user === undefined ? [] : [{ name: 'drill', user: userOf(access) }],
  }
}

/** Writes it, for this user alone: credentials may be in it. */
export async function writeKubeconfigCopy(file: string, access: Access, port: number): Promise<void> {
  // JSON is YAML.
  await writeFile(file, `${JSON.stringify(kubeconfigCopy(access, port), undefined, 2)}\n`, { mode: 0o600 })
}

function clusterOf({ server, serverName, skipVerify, ca, cluster }: Access, port: number): object {
  const { protocol, hostname, pathname } = server
  const name = serverName ?? hostname.replace(/^\[|\]$/g, '')
  const verified = protocol === 'https:' && !skipVerify && name !== '127.0.0.1'
  return {
    server: `${protocol}//127.0.0.1:${port}${pathname.replace(/\/+$/, '')}`,
    ...(verified && { 'tls-server-name': name }),
    ...(skipVerify && { 'insecure-skip-tls-verify': true }),
    ...pem('certificate-authority', ca),
    ...(cluster.execConfig !== undefined && {
      extensions: [{ name: 'client.authentication.k8s.io/exec', extension: cluster.execConfig }],
    }),
  }
}

function userOf({ user, clientCertificate }: Access): object {
  const fields = {
    ...pem('client-certificate', clientCertificate?.cert),
    ...pem('client-key', clientCertificate?.key),
    token: user?.token,
    tokenFile: user?.tokenFile && resolve(user.tokenFile),
    username: user?.username,
    password: user?.password,
    exec: user?.exec,
    'auth-provider': user?.authProvider,
    as: user?.impersonateUser,
    'as-uid': user?.impersonateUid,
    'as-groups': user?.impersonateGroups,
    'as-user-extra': user?.impersonateExtra,
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** A file stays a file, which may be rotated. */
function pem(field: string, content: Pem | undefined): Readonly<Record<string, string>> {
  if (content === undefined) return {}
  if ('file' in content) return { [field]: resolve(content.file) }
  return { [`${field}-data`]: Buffer.from(content.text).toString('base64') }
}
