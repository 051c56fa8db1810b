import type { Address } from '../net/address.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import { RemoteError } from '../runtime/errors.ts'
import { linkedController } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { KubernetesServiceController } from './controller.ts'
import { conflictPause } from './guarded-writes/object-writer.ts'
import { endpointPorts } from './identity.ts'
import { MembershipRunner } from './membership/runner.ts'
import type { OnShutdown } from './membership/state.ts'
import type { ReadinessMonitor } from './readiness-monitor.ts'
import type { EndpointReconciler } from './reconcilers/endpoint-reconciler.ts'

/** The pause between two attempts to remove the address of an earlier life. */
const CLEARING_RETRY_MS = 500
/** The pause between two attempts to leave. */
const LEAVING_RETRY_MS = 200

export interface KubernetesServiceDutyOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly monitor: ReadinessMonitor
  readonly controller: KubernetesServiceController
  /** A MembershipRunner if masters have leases. */
  readonly reconciler: EndpointReconciler | MembershipRunner
  readonly address: Address | undefined
  readonly securePort: number
}

/** Everything that one master does for `default/kubernetes`, from its start to its departure. */
export class KubernetesServiceDuty {
  readonly #options: KubernetesServiceDutyOptions
  readonly #stopping = new AbortController()
  #loops: Promise<unknown> = Promise.resolve()

  constructor(options: KubernetesServiceDutyOptions) {
    this.#options = options
  }

  /** Runs until the signal is aborted. {@link stop} ends the reconciliations; watches and leases continue. */
  async run(signal: AbortSignal): Promise<void> {
    const { controller, reconciler } = this.#options
    const { controller: loops, unlink } = linkedController(signal, this.#stopping.signal)
    const watching = controller.watch(signal)
    const membership = reconciler instanceof MembershipRunner ? reconciler.run(signal) : undefined
    this.#loops = this.#reconcile(loops.signal).catch((error: unknown) => {
      if (!loops.signal.aborted) throw error
    })
    try {
      // The watches end only with the signal.
      await Promise.all([watching, membership, this.#loops])
    } finally {
      unlink()
    }
  }

  /**
   * Stops reconciling, then handles this master's address as `mode` demands. Retries until the signal is aborted, and
   * gives up earlier if no server answers.
   */
  async stop(mode: OnShutdown, signal: AbortSignal): Promise<void> {
    this.#stopping.abort(new Error('stopping'))
    await this.#loops.catch(() => {})
    const { reconciler } = this.#options
    if (reconciler instanceof MembershipRunner) {
      await reconciler.stop(this.#withLease(mode), signal)
      return
    }
    reconciler.stopReconciling()
    await this.#leaveOrGiveUp(reconciler, mode, signal).finally(() => reconciler.destroy?.())
  }

  /**
   * How a master with a lease leaves. A sidecar joins only if its server reports that it is ready, or while an earlier
   * life's lease is live. If the server refuses to report that, this master leaves its lease, because otherwise a
   * rolling restart would remove all addresses but one.
   */
  #withLease(mode: OnShutdown): OnShutdown {
    const { monitor, logger, address } = this.#options
    const { refusal } = monitor
    if (mode !== 'withdraw' || refusal === undefined) return mode
    logger.warn(
      { address: address?.text, reason: refusal },
      'leaving the address on the list until its lease expires, because a restarted sidecar could not join',
    )
    return 'keep'
  }

  async #leaveOrGiveUp(reconciler: EndpointReconciler, mode: OnShutdown, signal: AbortSignal): Promise<void> {
    const { clock, monitor, logger } = this.#options
    const pause = conflictPause(clock)
    let reported: string | undefined
    for (;;) {
      try {
        return await this.#leave(reconciler, mode, signal)
      } catch (error) {
        if (signal.aborted || !(error instanceof RemoteError)) throw error
        // Departing masters write the same objects, so each may have to repeat its write after a conflict.
        if (error.nature === 'conflict') {
          await pause(signal)
          continue
        }
        const { answered } = await monitor.probe(signal)
        const { message: reason } = error
        if (reason !== reported || !answered)
          logger.warn({ reason, tryingAgain: answered }, 'could not withdraw the address')
        reported = reason
        if (!answered) return
        await sleep(clock, LEAVING_RETRY_MS, signal)
      }
    }
  }

  async #leave(reconciler: EndpointReconciler, mode: OnShutdown, signal: AbortSignal): Promise<void> {
    const { logger, address, securePort } = this.#options
    const ports = endpointPorts(securePort)
    if (address === undefined) return
    let message = 'withdrew the address, if it was listed'
    if (mode === 'keep') {
      message = 'leaving the address on the list'
    } else if (mode === 'withdraw' && reconciler.leave !== undefined) {
      // Also if the API server does not respond: it may only be slow, and then an empty list would cut off its clients.
      const departure = await reconciler.leave(address, ports, signal)
      if (departure !== 'left') message = 'leaving the address on the list: no other address is listed'
    } else {
      await reconciler.removeEndpoints(address, ports, signal)
    }
    logger.info({ address: address.text }, message)
  }

  async #reconcile(signal: AbortSignal): Promise<void> {
    const { controller, monitor, reconciler } = this.#options
    if (!(reconciler instanceof MembershipRunner)) await this.#clearAway(reconciler, signal)
    await monitor.untilFirstReady(signal)
    await controller.run(signal)
  }

  /**
   * Removes the address that an earlier life of this master has listed: that address leads clients to a server that is
   * not ready. The address stays if no other is listed, if the server is ready, or while its readiness is unknown.
   */
  async #clearAway(reconciler: EndpointReconciler, signal: AbortSignal): Promise<void> {
    const { address, monitor, clock, logger, securePort } = this.#options
    if (reconciler.clearAway === undefined || address === undefined) return
    await monitor.untilKnown(signal)
    while (monitor.state.phase === 'starting') {
      try {
        const left = await reconciler.clearAway(address, endpointPorts(securePort), signal)
        if (left)
          logger.info({ address: address.text }, 'removed the address of a previous run: the API server is not ready')
        return
      } catch (error) {
        signal.throwIfAborted()
        logger.debug({ error }, 'could not remove the address of a previous run')
        await sleep(clock, CLEARING_RETRY_MS, signal)
      }
    }
  }
}
