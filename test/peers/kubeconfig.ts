import { writeFileSync } from 'node:fs'

/**
 * The server, and how to authenticate: not at all, by a token, by a token file, or by any other `user` of a kubeconfig.
 */
export type KubeconfigContent = { readonly server: string; readonly ca?: string } & (
  | { readonly user?: undefined }
  | { readonly token: string }
  | { readonly tokenFile: string }
  | { readonly user: Readonly<Record<string, unknown>> }
)

/** Writes a kubeconfig of one cluster, one user and one context; returns its path. */
export function writeKubeconfig(path: string, content: KubeconfigContent): string {
  const authority = content.ca === undefined ? undefined : Buffer.from(content.ca).toString('base64')
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    clusters: [{ name: 'test', cluster: { server: content.server, 'certificate-authority-data': authority } }],
    users: [{ name: 'test', user: userOf(content) }],
  }
  // JSON is YAML.
  writeFileSync(path, JSON.stringify(kubeconfig, undefined, 2), { mode: 0o600 })
  return path
}

function userOf(content: KubeconfigContent): unknown {
  if ('token' in content) return { token: content.token }
  if ('tokenFile' in content) return { tokenFile: content.tokenFile }
  return content.user ?? {}
}
