import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { observerRules } from '../config/configuration.ts'
import { type Flags, resolveConfiguration } from '../config/resolve.ts'
import { InvalidInputError, unreadableReason } from '../documents/validation.ts'
import type { LiveOptions } from '../drill/live/cluster.ts'
import { type DrillOptions, variantName } from '../drill/run-drill.ts'
import type { Scenario } from '../drill/scenario/scenario.ts'
import { loadAccess } from './api-server.ts'
import type { VariedScenario } from './drill-request.ts'
import { checkCertificates, etcdFiles } from './etcd-store.ts'
import type { DrillValues } from './options.ts'
import { presentable } from './output.ts'

/**
 * Resolves with the function that opens the fleet of one run of a live drill. Contacts no server itself. Throws an
 * {@link InvalidInputError} for mistakes of the flags or certificates, and for scenarios that are impossible with real
 * processes.
 */
export async function liveTargets(
  varied: readonly VariedScenario[],
  { rest, values }: { readonly rest: Flags; readonly values: DrillValues },
): Promise<NonNullable<DrillOptions['createTarget']>> {
  const resolved = resolveConfiguration(rest, undefined, observerRules)
  await checkCertificates(resolved, etcdFiles)
  const kubeApiserver = values.kubeApiserver && (await programIn(values.kubeApiserver, '--kube-apiserver'))
  const { kubeconfig = '', context, etcdServers, etcdPrefix } = resolved.configuration
  const { etcdCafile: cafile, etcdCertfile: certfile, etcdKeyfile: keyfile } = resolved.configuration
  const { createLiveTarget } = await import('../drill/live/live-target.ts')
  const { builtKubeApiserver } = await import('../drill/live/live-stage.ts')
  const program = [process.execPath, ...process.execArgv, process.argv[1] ?? '']
  const options: LiveOptions = {
    kubeconfig,
    context,
    etcdServers: etcdServers?.map(({ text }) => text),
    etcdPrefix,
    etcdFiles: { cafile, certfile, keyfile },
    kubeApiserver: kubeApiserver ?? builtKubeApiserver(program),
    serviceClusterIpRange: values.serviceClusterIpRange?.map(({ text }) => text).join(),
    program,
    log: (line) => process.stderr.write(`${presentable(line)}\n`),
  }
  const { liveFaults } = await import('../drill/live/cluster.ts')
  refuseFaults(varied, options, liveFaults)
  // Each run reads the kubeconfig again. If the first reading hangs, a signal still ends the process at once.
  await loadAccess(resolved, false)
  return (scenario, seed) => {
    const logs = values.report === undefined ? undefined : logsOf(values.report, scenario, seed)
    return createLiveTarget(scenario, seed, { ...options, logs })
  }
}

/** Where the logs of one run are stored, below the directory of the report. */
function logsOf(directory: string, { fleet }: Scenario, seed: number): LiveOptions['logs'] {
  const variant = variantName(fleet).replace(/\W+/g, '-').replace(/-$/, '')
  return { directory: join(directory, 'logs'), prefix: `${variant}-seed-${seed}` }
}

/** The full path of a program. Throws an {@link InvalidInputError} for a file that is not executable. */
async function programIn(file: string, where: string): Promise<string> {
  try {
    await access(file, constants.X_OK)
    // `access` also succeeds for a directory.
    if ((await stat(file)).isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    return resolve(file)
  } catch (cause) {
    const message = `cannot run ${file}: ${unreadableReason(cause as NodeJS.ErrnoException)}`
    throw new InvalidInputError([{ where, message }], { cause })
  }
}

function refuseFaults(
  varied: readonly VariedScenario[],
  { etcdServers, kubeApiserver }: LiveOptions,
  liveFaults: (scenario: VariedScenario['scenario']) => readonly string[],
): void {
  const mistakes = varied.flatMap(({ variant, scenario }) => {
    const { masters, leaseStore } = scenario.fleet
    const upstream = masters.find(({ kind }) => kind === 'kube-apiserver')
    const etcd = upstream !== undefined || leaseStore === 'etcd' || leaseStore === 'kine'
    return [
      ...liveFaults(scenario).map((message) => ({ where: variant.name, message })),
      ...(upstream !== undefined && kubeApiserver === undefined
        ? [{ where: '--kube-apiserver', message: `is required for ${upstream.name}, a kube-apiserver` }]
        : []),
      ...(etcd && etcdServers === undefined
        ? [{ where: '--etcd-servers', message: `is required for ${variant.name}` }]
        : []),
    ]
  })
  const lines = new Map(mistakes.map((mistake) => [`${mistake.where} ${mistake.message}`, mistake]))
  if (lines.size > 0) throw new InvalidInputError([...lines.values()])
}
