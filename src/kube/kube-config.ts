import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import { homedir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileProblem, type ResolvedKubeConfig, resolveAccess } from './kube-config-access.ts'
import { parseKubeConfig } from './kube-config-document.ts'
import { entriesOf, type KubeConfigEntries, mergeEntries } from './kube-config-entries.ts'
import { KubeConfigError } from './kube-config-error.ts'

export interface LoadKubeConfigOptions {
  /** A kubeconfig file. @default the files of $KUBECONFIG, ~/.kube/config, or the account of the Pod, the first that is there */
  readonly kubeconfig?: string | undefined
  /** @default the current-context of the file */
  readonly context?: string | undefined
  /** The service account of the Pod that this program runs in, and nothing else. @default false */
  readonly inCluster?: boolean | undefined
  /** @default process.env */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined
  /** @default the user's */
  readonly homeDirectory?: string | undefined
  /** Where a Pod finds its account. @default '/var/run/secrets/kubernetes.io/serviceaccount' */
  readonly serviceAccountDirectory?: string | undefined
}

export interface LoadedKubeConfig extends ResolvedKubeConfig {
  /**
   * Reads the same files again and resolves the same context; gives the same object while their text is the same. Rejects with a
   * KubeConfigError when they cannot be used, or name another server.
   */
  reload(): Promise<ResolvedKubeConfig>
}

/**
 * Finds, reads, merges and checks a kubeconfig as kubectl does, and contacts nobody. Of several files in $KUBECONFIG the first to
 * name a cluster, user, context or current-context wins, and those that do not exist are passed over. Relative paths are relative
 * to the file that holds them. Rejects with a KubeConfigError of one line.
 */
export async function loadKubeConfig(options: LoadKubeConfigOptions = {}): Promise<LoadedKubeConfig> {
  const environment = options.environment ?? process.env
  const origin = findOrigin(options, environment)
  // client-node takes a third of a second to load from its own files: only who reads a kubeconfig shall pay for it.
  const { KubeConfig } = await import('@kubernetes/client-node/dist/config.js')
  const resolveEntries = (entries: KubeConfigEntries, context: string | undefined): ResolvedKubeConfig => {
    const config = new KubeConfig()
    config.loadFromOptions({ ...entries, currentContext: context ?? entries.currentContext })
    const source = origin === 'in-cluster' ? 'of the Pod' : origin.join(delimiter)
    return { config, access: resolveAccess(config, source, environment) }
  }
  if (origin === 'in-cluster') {
    // All that changes in a Pod is in files of its own.
    const resolved = resolveEntries(serviceAccount(options, environment), options.context)
    return { ...resolved, reload: async () => resolved }
  }
  const merged = (texts: readonly string[]): KubeConfigEntries =>
    mergeEntries(origin.map((file, index) => entriesIn(file, texts[index] ?? '')))
  let texts = await readTexts(origin)
  let last = resolveEntries(merged(texts), options.context)
  const { server } = last.access
  const context = last.config.currentContext
  return {
    ...last,
    async reload() {
      const next = await readTexts(origin)
      if (next.every((text, index) => text === texts[index])) return last
      // The context of the start, as `kubectl config use-context` must not lead a running program to another cluster.
      const resolved = resolveEntries(merged(next), context)
      // Nor may a file for another cluster: its credentials would go to this one.
      if (resolved.access.server.href !== server.href) {
        throw new KubeConfigError(
          `kubeconfig ${resolved.access.source}: it names another server now, ${resolved.access.server.origin}; start anew to use that`,
        )
      }
      texts = next
      last = resolved
      return last
    },
  }
}

type Environment = Readonly<Record<string, string | undefined>>

function findOrigin(options: LoadKubeConfigOptions, environment: Environment): 'in-cluster' | readonly string[] {
  if (options.inCluster === true) return 'in-cluster'
  if (options.kubeconfig !== undefined) return [options.kubeconfig]
  const listed = (environment.KUBECONFIG ?? '').split(delimiter).filter((file) => file !== '')
  if (listed.length > 0) {
    const present = listed.filter((file) => existsSync(file))
    if (present.length === 0)
      throw new KubeConfigError(`kubeconfig ${listed.join(delimiter)} (from $KUBECONFIG): no such file`)
    return present
  }
  const own = join(options.homeDirectory ?? homedir(), '.kube', 'config')
  if (existsSync(own)) return [own]
  if (existsSync(join(accountDirectory(options), 'token'))) return 'in-cluster'
  throw new KubeConfigError(
    'no cluster is named: give --kubeconfig FILE or set KUBECONFIG (there is no ~/.kube/config)',
  )
}

function readTexts(files: readonly string[]): Promise<string[]> {
  return Promise.all(
    files.map(async (file) => {
      try {
        return await readFile(file, 'utf8')
      } catch (error) {
        throw new KubeConfigError(`kubeconfig ${file}: ${fileProblem(error)}`)
      }
    }),
  )
}

function entriesIn(file: string, text: string): KubeConfigEntries {
  return entriesOf(parseKubeConfig(file, text), dirname(resolve(file)))
}

/** As client-go's `rest.InClusterConfig`. */
function serviceAccount(options: LoadKubeConfigOptions, environment: Environment): KubeConfigEntries {
  const host = environment.KUBERNETES_SERVICE_HOST ?? ''
  const port = environment.KUBERNETES_SERVICE_PORT ?? ''
  const directory = accountDirectory(options)
  if (host === '' || port === '') {
    throw new KubeConfigError('not in a Pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set')
  }
  const tokenFile = join(directory, 'token')
  if (!existsSync(tokenFile)) {
    throw new KubeConfigError(`this Pod has no service account token: ${tokenFile}: no such file`)
  }
  const server = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`
  const namespaceFile = join(directory, 'namespace')
  const namespace = existsSync(namespaceFile) ? readFileSync(namespaceFile, 'utf8').trim() : 'default'
  return {
    clusters: [{ name: 'in-cluster', server, caFile: join(directory, 'ca.crt'), skipTLSVerify: false }],
    users: [{ name: 'service-account', tokenFile, authProvider: { name: 'tokenFile', config: { tokenFile } } }],
    contexts: [{ name: 'in-cluster', cluster: 'in-cluster', user: 'service-account', namespace }],
    currentContext: 'in-cluster',
  }
}

function accountDirectory(options: LoadKubeConfigOptions): string {
  return options.serviceAccountDirectory ?? '/var/run/secrets/kubernetes.io/serviceaccount'
}

export { fromKubeConfig, type KubeConfigTransportOptions } from './kube-config-transport.ts'
