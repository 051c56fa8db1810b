import type { AvailabilityReporter } from '../kube/availability.ts'
import { isKubeError } from '../kube/errors.ts'
import { Informer, type InformerContext } from '../kube/informer.ts'
import { ReconcileLoop } from '../kube/reconcile-loop.ts'
import { type Namespace, namespaces } from '../kube/resources.ts'
import { abortable, allEnded } from '../runtime/signals.ts'

/** How often to reconcile without a change; upstream's interval. */
const INTERVAL_MS = 60_000

interface SystemNamespacesOptions extends InformerContext {
  readonly availability: AvailabilityReporter
  /** @default {@link SYSTEM_NAMESPACES} */
  readonly names?: readonly string[] | undefined
  /** Namespaces are created only after this promise resolves; until then they are only read. @default at once */
  readonly mayWrite?: Promise<void> | undefined
}

/**
 * Creates the system namespaces, and creates them again after a deletion. Nothing else about them is changed. Upstream:
 * pkg/controlplane/controller/systemnamespaces.
 */
export class SystemNamespacesController {
  readonly #options: SystemNamespacesOptions
  readonly #names: readonly string[]
  readonly #loop: ReconcileLoop<'deleted'>
  readonly #informer: Informer<Namespace>

  constructor(options: SystemNamespacesOptions) {
    this.#options = options
    this.#names = options.names ?? SYSTEM_NAMESPACES
    this.#informer = new Informer({ ...options, resource: namespaces, transform: identityOnly })
    this.#loop = new ReconcileLoop({
      ...options,
      source: 'system-namespaces',
      severalObjects: true,
      intervalMs: INTERVAL_MS,
      reconcile: (_reasons, signal) => this.reconcile(signal),
    })
    this.#informer.subscribe((change) => {
      if (change.type === 'deleted' && this.#names.includes(change.old.metadata?.name ?? ''))
        this.#loop.trigger('deleted')
    })
  }

  /** Resolves after the first successful reconciliation: all system namespaces then exist. */
  get settled(): Promise<void> {
    return this.#loop.settled
  }

  /** Runs until the signal is aborted; then rejects with its reason. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#informer.run(signal), this.#reconcileUntilAborted(signal)])
  }

  async #reconcileUntilAborted(signal: AbortSignal): Promise<void> {
    await this.#informer.whenSynced(signal)
    await abortable(this.#options.mayWrite ?? Promise.resolve(), signal)
    await this.#loop.run(signal)
  }

  /** Tries to create all missing namespaces, and then rejects with the first error, if any. */
  async reconcile(signal: AbortSignal): Promise<void> {
    // A namespace that is being deleted still exists; it is created again when it is gone.
    const missing = this.#names.filter((name) => this.#informer.store.get({ name }) === undefined)
    await allEnded(missing.map((name) => this.#create(name, signal)))
  }

  async #create(name: string, signal: AbortSignal): Promise<void> {
    const { api, logger } = this.#options
    try {
      await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }, { signal })
      logger.info({ namespace: name }, 'created a system namespace')
    } catch (error) {
      if (!isKubeError(error, 'AlreadyExists')) throw error
      // Another client was faster, or the watch has missed the creation. In the second case each reconciliation would
      // try to create the namespace until the informer restarts.
      this.#informer.restart()
    }
  }
}

/** A cluster may have thousands of namespaces, so only their identity is stored. */
function identityOnly(namespace: Namespace): Namespace {
  const { name, uid, resourceVersion } = namespace.metadata ?? {}
  return { metadata: { name, uid, resourceVersion } } as Namespace
}

/** The namespaces that a cluster cannot do without, in upstream's order (pkg/controlplane, `SystemNamespaces`). */
export const SYSTEM_NAMESPACES: readonly string[] = ['kube-system', 'kube-public', 'default', 'kube-node-lease']
