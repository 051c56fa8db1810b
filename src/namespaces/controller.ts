import type { KubeApi } from '../kube/api.ts'
import type { AvailabilityReporter } from '../kube/availability.ts'
import { isKubeError } from '../kube/errors.ts'
import { Informer } from '../kube/informer.ts'
import { LookLoop } from '../kube/look-loop.ts'
import { type Namespace, namespaces } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { allEnded } from '../runtime/together.ts'
import type { Logger } from '../telemetry/logger.ts'
import { planNamespaces, SYSTEM_NAMESPACES } from './namespaces-plan.ts'

/** How often everything is looked at when nothing seems to happen; upstream's interval. */
const INTERVAL_MS = 60_000

export interface SystemNamespacesOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  /** @default {@link SYSTEM_NAMESPACES} */
  readonly names?: readonly string[] | undefined
}

/**
 * Makes the system namespaces, and makes them again when they go. Nothing else about them is changed.
 * Upstream: pkg/controlplane/controller/systemnamespaces.
 */
export class SystemNamespacesController {
  readonly #options: SystemNamespacesOptions
  readonly #names: readonly string[]
  readonly #loop: LookLoop<'deleted'>
  readonly #informer: Informer<Namespace>

  constructor(options: SystemNamespacesOptions) {
    this.#options = options
    this.#names = options.names ?? SYSTEM_NAMESPACES
    this.#informer = new Informer({ ...options, resource: namespaces, transform: identityOnly })
    this.#loop = new LookLoop({
      ...options,
      source: 'system-namespaces',
      severalObjects: true,
      intervalMs: INTERVAL_MS,
      reconcile: (_reasons, signal) => this.reconcile(signal),
    })
    this.#informer.subscribe((change) => {
      if (change.type === 'deleted' && this.#names.includes(change.old.metadata?.name ?? '')) this.#loop.look('deleted')
    })
  }

  /** Resolves when all of them were there at once for the first time. */
  get settled(): Promise<void> {
    return this.#loop.settled
  }

  /** Runs until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([
      this.#informer.run(signal),
      this.#informer.whenSynced(signal).then(() => this.#loop.run(signal)),
    ])
  }

  /** Makes what is missing; rejects with the first error after trying all. */
  async reconcile(signal: AbortSignal): Promise<void> {
    const missing = planNamespaces(this.#names, (name) => this.#informer.store.get({ name }) !== undefined)
    await allEnded(missing.map((name) => this.#create(name, signal)))
  }

  async #create(name: string, signal: AbortSignal): Promise<void> {
    const { api, logger } = this.#options
    try {
      await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }, { signal })
      logger.info({ namespace: name }, 'created a system namespace')
    } catch (error) {
      if (!isKubeError(error, 'AlreadyExists')) throw error
      // Somebody was faster, or the watch has missed it: then it would be asked for again and again.
      this.#informer.restart()
    }
  }
}

/** A cluster may have thousands of namespaces; only who they are is needed here. */
function identityOnly(namespace: Namespace): Namespace {
  const { name, uid, resourceVersion } = namespace.metadata ?? {}
  return { metadata: { name, uid, resourceVersion } } as Namespace
}
