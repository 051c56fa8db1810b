import { type Configuration, observerRules } from '../config/configuration.ts'
import { loadConfiguration, loadYaml } from '../config/load-configuration.ts'
import { type Flags, type Resolved, readOptions, takeOwnOptions } from '../config/resolve.ts'
import { formatDuration } from '../documents/duration.ts'
import { flagOf, type ValuesOf } from '../documents/option.ts'
import { InvalidInputError } from '../documents/validation.ts'
import { serverProbe } from '../kube/http-probe.ts'
import { findOrigin, loadKubeConfig } from '../kube/kube-config.ts'
import { readPem } from '../kube/kube-config-access.ts'
import type { Clock } from '../runtime/clock.ts'
import { printable, RemoteError } from '../runtime/errors.ts'
import { limitHeap } from '../runtime/system-heap.ts'
import { checkIds } from '../verify/cluster/check-ids.ts'
import type { CommandFlags } from '../verify/cluster/finding.ts'
import type { Probing } from '../verify/cluster/probe-servers.ts'
import { isUndecided, verifyUntil } from '../verify/cluster/verify-cluster.ts'
import { openApiServer, silentSurroundings } from './api-server.ts'
import { openEtcd } from './etcd-store.ts'
import { expectationHead, expectationOptions, verifyOptions } from './options.ts'
import { print } from './output.ts'
import { stopSignals } from './stop-signals.ts'
import { renderGithub, renderJson, renderJunit, renderTable } from './verify-output.ts'

/** The exit code if nothing was verified. */
const NOTHING_VERIFIED = 3

const renderers = { table: renderTable, json: renderJson, junit: renderJunit, github: renderGithub } as const

/**
 * Checks a cluster and prints the report. Resolves with 0 if no check failed, and with 1 if a check failed. Resolves
 * with 3, after a line on standard error, if the cluster could not be queried or every check was skipped. After an
 * interruption, reports the last complete results, or resolves with 3 if there are none. Throws an InvalidInputError
 * for mistakes of the command line, before it contacts a server.
 */
export async function execute(flags: Flags): Promise<number> {
  const { own, rest } = takeOwnOptions(verifyOptions, flags)
  const resolved = await loadConfiguration(rest, observerRules)
  const expected = await readExpectations(own.expect)
  const skip = own.skip ?? expected.skip
  if (skip !== undefined && (own.only ?? checkIds).every((id) => skip.includes(id))) {
    const chosen = own.only === undefined ? 'all checks' : 'every check of --only'
    const where = own.skip === undefined ? 'skip in the file of --expect' : '--skip'
    throw new InvalidInputError([{ where, message: `excludes ${chosen}: no check is left to run` }])
  }
  limitHeap()
  const surroundings = silentSurroundings()
  const { clock } = surroundings
  const { leaseStore, leaseNamespace, etcdPrefix } = resolved.configuration
  const say = (line: string): void => void process.stderr.write(`${printable(line)}\n`)
  const server = await openApiServer(resolved, surroundings, { gated: false, patient: true })
  const probe = await probing(own, resolved, clock, say)
  const store = await openEtcd(resolved, surroundings)
  const etcd = store === undefined ? undefined : { kv: store.kv, prefix: etcdPrefix }
  const stop = stopSignals()
  if (own.watchWriters !== undefined) say(`watching default/kubernetes for ${formatDuration(own.watchWriters)}`)
  try {
    const report = await verifyUntil({
      source: {
        api: server.api,
        readiness: server.readiness,
        etcd,
        leaseStore: leaseStore === 'etcd' ? 'etcd' : 'kubernetes',
        leaseNamespace,
        probe,
        watchMs: own.watchWriters,
      },
      clock,
      only: own.only,
      skip,
      expect: {
        addresses: (own.expectAddresses ?? expected.expectAddresses)?.map(({ text }) => text),
        masters: own.expectMasters ?? expected.expectMasters,
        serviceClusterIpRange:
          own.serviceClusterIpRange ?? expected.serviceClusterIpRange ?? inFile(resolved, 'serviceClusterIpRange'),
        serviceNodePortRange:
          own.serviceNodePortRange ?? expected.serviceNodePortRange ?? inFile(resolved, 'serviceNodePortRange'),
      },
      waitMs: own.wait,
      onProgress: say,
      signal: stop.signal,
    })
    await print(renderers[own.output](report, commandFlags(resolved)))
    if (!isUndecided(report)) return report.holds ? 0 : 1
    say('apiserver-bootstrap: every check was skipped: nothing was verified')
    return NOTHING_VERIFIED
  } catch (error) {
    if (!(error instanceof RemoteError) && error !== stop.signal.reason) throw error
    say(
      `apiserver-bootstrap: ${error instanceof RemoteError ? error.message : 'interrupted before a report was complete'}`,
    )
    return NOTHING_VERIFIED
  } finally {
    await Promise.all([server.close(), store?.kv.close()])
    stop.release()
  }
}

async function readExpectations(
  file: string | undefined,
): Promise<ReturnType<typeof readOptions<typeof expectationOptions>>> {
  if (file === undefined) return {}
  return readOptions(await loadYaml(file, '--expect'), expectationHead, expectationOptions)
}

/**
 * The value in the file of `--config`. Undefined if the file has none: a default of `run` is no fact about the cluster.
 */
function inFile<Key extends keyof Configuration>(
  { configuration, settings }: Resolved,
  key: Key,
): Configuration[Key] | undefined {
  return settings.some((setting) => setting.key === key && setting.source.type === 'file')
    ? configuration[key]
    : undefined
}

/** The probe that `--probe` requests; undefined without it. Throws an InvalidInputError for a wrong `--probe-map`. */
async function probing(
  { probe, probeMap = [] }: Pick<ValuesOf<typeof verifyOptions>, 'probe' | 'probeMap'>,
  { configuration }: Resolved,
  clock: Clock,
  say: (line: string) => void,
): Promise<Probing | undefined> {
  const targets = new Map(probeMap.map(({ address, target }) => [address.text, target]))
  const mistake = (message: string): Error => new InvalidInputError([{ where: '--probe-map', message }])
  if (targets.size < probeMap.length) throw mistake('names an address twice')
  if (!probe && targets.size > 0) throw mistake('needs --probe')
  if (!probe) return undefined
  const { access } = await loadKubeConfig(configuration)
  const ca = access.ca === undefined ? undefined : readPem(access.ca)
  const unlisted = new Set<string>()
  const onUnlisted = (address: string): void => {
    if (!unlisted.has(address)) say(`--probe-map: ${address} is not listed, and is not probed`)
    unlisted.add(address)
  }
  return { ask: serverProbe({ ca, clock }), targets, onUnlisted }
}

const etcdFlags = ['etcdServers', 'etcdPrefix', 'etcdCafile', 'etcdCertfile', 'etcdKeyfile'] as const

/** The flag for the kubeconfig or the service account that the program uses by default. */
function unnamedAccess(): string {
  const origin = findOrigin({}, process.env)
  return origin === 'in-cluster' ? '--in-cluster' : `--kubeconfig=${origin[0]}`
}

/** The flags that a suggested command needs to reach the same cluster. */
function commandFlags({ settings }: Resolved): CommandFlags {
  const given = (keys: readonly string[]): readonly string[] =>
    settings
      .filter(({ key, source }) => keys.includes(key) && (source.type === 'flag' || source.type === 'file'))
      // `--in-cluster=false` names no cluster.
      .filter(({ value }) => value !== false)
      .map(({ key, value }) => `--${flagOf(key)}=${value}`)
  const access = given(['kubeconfig', 'inCluster'])
  return {
    kubectl: given(['kubeconfig', 'context']),
    'apiserver-bootstrap': [
      // `run` uses a kubeconfig only if it is named.
      ...(access.length > 0 ? access : [unnamedAccess()]),
      ...given(['context', 'leaseStore', 'leaseNamespace', ...etcdFlags]),
    ],
  }
}
