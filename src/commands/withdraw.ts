import { hostname } from 'node:os'
import pRetry from 'p-retry'
import { withdrawMaster } from '../bootstrap/master.ts'
import { withdrawRules } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import { masterOptionsOf } from '../config/master-options.ts'
import type { Flags } from '../config/resolve.ts'
import { formatDuration } from '../documents/duration.ts'
import { InvalidInputError } from '../documents/validation.ts'
import { membershipTimings } from '../kubernetes-service/membership/timings.ts'
import { RemoteError } from '../runtime/errors.ts'
import { auditUser, openApiServer, openSurroundings } from './api-server.ts'
import { openEtcd } from './etcd-store.ts'
import { presentable } from './output.ts'
import { dieOfUnhandled, stopSignals } from './stop-signals.ts'

/**
 * Withdraws the address of this master, and prints the result in one line. Resolves with 0 if the address is withdrawn,
 * or stays listed because no other master is ready. Resolves with 1 if nothing is withdrawn for another reason, for
 * example because this host has no lease. While the servers do not answer, retries for the time that a stop may take
 * (`leavingMs`), and then throws.
 */
export async function execute(flags: Flags): Promise<number> {
  const resolved = await loadConfiguration(flags, withdrawRules)
  const { configuration } = resolved
  if (configuration.leaseStore === 'memory') {
    const message = 'leases in memory are not accessible to other processes; stop the running process instead'
    throw new InvalidInputError([{ where: resolved.placeOf('leaseStore'), message }])
  }
  if (configuration.endpointReconcilerType === 'master-count') {
    const message =
      'master-count has no lease to mark as withdrawn: a running process would add itself again; stop it instead'
    throw new InvalidInputError([{ where: resolved.placeOf('endpointReconcilerType'), message }])
  }
  const surroundings = await openSurroundings(configuration)
  const server = await openApiServer(resolved, surroundings, { gated: false })
  const { api, readiness, close } = server
  const etcd = await openEtcd(resolved, surroundings)
  const stop = stopSignals()
  const user = auditUser(server, etcd)
  dieOfUnhandled((error) => surroundings.logger.error({ error }, 'unhandled error'))
  const options = masterOptionsOf(configuration, hostname())
  const { leavingMs: limitMs } = membershipTimings(options)
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(limitMs)])
  let lastFailure = 'the API server did not answer'
  try {
    const { type, reason } = await pRetry(
      () => withdrawMaster(options, { ...surroundings, api, readiness, etcd, user }, signal),
      {
        retries: Number.POSITIVE_INFINITY,
        minTimeout: 100,
        maxTimeout: 1000,
        signal,
        shouldRetry({ error }) {
          lastFailure = error.message
          return error instanceof RemoteError && error.nature === 'away'
        },
      },
    ).catch((error: unknown) => {
      if (!signal.aborted) throw error
      const bound = stop.signal.aborted ? `before ${stop.signal.reason.message}` : `within ${formatDuration(limitMs)}`
      throw new Error(`not withdrawn ${bound}: ${lastFailure}`, { cause: error })
    })
    process.stdout.write(`${type === 'nothing' ? 'nothing withdrawn' : type}: ${presentable(reason)}\n`)
    return type === 'nothing' ? 1 : 0
  } finally {
    await Promise.all([close(), etcd?.kv.close()])
    stop.release()
  }
}
