import { observerRules } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import { type Flags, type Resolved, takeOwnOptions } from '../config/resolve.ts'
import { flagOf } from '../documents/option.ts'
import { printable, RemoteError } from '../runtime/errors.ts'
import { systemClock, systemRandom } from '../runtime/system-clock.ts'
import { limitHeap } from '../runtime/system-heap.ts'
import { silentLogger } from '../telemetry/logger.ts'
import { prometheusMetrics } from '../telemetry/prometheus-metrics.ts'
import type { CommandFlags } from '../verify/cluster/finding.ts'
import { CONFIRM_AFTER_MS, verifyUntil } from '../verify/cluster/verify-cluster.ts'
import { openApiServer } from './api-server.ts'
import { openEtcd } from './etcd-store.ts'
import { verifyOptions } from './options.ts'
import { print } from './output.ts'
import { stopSignals } from './stop-signals.ts'
import { renderGithub, renderJson, renderJunit, renderTable } from './verify-output.ts'

/** The exit code if the cluster could not be asked. */
const NOT_ASKED = 3

const renderers = { table: renderTable, json: renderJson, junit: renderJunit, github: renderGithub } as const

/**
 * Checks a cluster and prints the report. Resolves with 0 if no check failed, with 1 if one did, and with 3 and one
 * line if the cluster could not be asked. Throws, before anything is contacted, an InvalidInputError with the mistakes
 * of the command line.
 */
export async function execute(flags: Flags): Promise<number> {
  const { own, rest } = takeOwnOptions(verifyOptions, flags)
  const resolved = await loadConfiguration(rest, observerRules)
  limitHeap()
  const clock = systemClock
  const surroundings = { clock, random: systemRandom(), logger: silentLogger, metrics: prometheusMetrics() }
  const { leaseNamespace, etcdPrefix } = resolved.configuration
  const server = await openApiServer(resolved, surroundings, { gated: false })
  const store = await openEtcd(resolved, surroundings)
  const etcd = store === undefined ? undefined : { kv: store.kv, prefix: etcdPrefix }
  const stop = stopSignals()
  try {
    const report = await verifyUntil({
      source: { api: server.api, etcd, leaseNamespace },
      clock,
      only: own.only,
      skip: own.skip,
      expect: {
        addresses: own.expectAddresses?.map(({ text }) => text),
        masters: own.expectMasters,
        serviceClusterIpRange: own.serviceClusterIpRange,
        serviceNodePortRange: own.serviceNodePortRange,
      },
      confirmAfterMs: CONFIRM_AFTER_MS,
      waitMs: own.wait,
      onProgress: (line) => process.stderr.write(`${printable(line)}\n`),
      signal: stop.signal,
    })
    await print(renderers[own.output](report, commandFlags(resolved)))
    return report.holds ? 0 : 1
  } catch (error) {
    if (!(error instanceof RemoteError)) throw error
    process.stderr.write(`${printable(`apiserver-bootstrap: ${error.message}`)}\n`)
    return NOT_ASKED
  } finally {
    await Promise.all([server.close(), store?.kv.close()])
    stop.release()
  }
}

const etcdFlags = ['etcdServers', 'etcdPrefix', 'etcdCafile', 'etcdCertfile', 'etcdKeyfile'] as const

/** The flags with which a command reaches the cluster that was checked. */
function commandFlags({ settings }: Resolved): CommandFlags {
  const given = (keys: readonly string[]): readonly string[] =>
    settings
      .filter(({ key, source }) => keys.includes(key) && (source.type === 'flag' || source.type === 'file'))
      .map(({ key, value }) => `--${flagOf(key)}=${value}`)
  return {
    kubectl: given(['kubeconfig', 'context']),
    'apiserver-bootstrap': given(['kubeconfig', 'context', 'inCluster', 'leaseNamespace', ...etcdFlags]),
  }
}
