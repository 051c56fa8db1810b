import { KubeError } from '../kube/errors.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import type { WritePermit } from '../repair/repair.ts'
import type { ControllerName, ControllerSelection } from './controller-selection.ts'
import { decideDuty } from './duties.ts'

/**
 * Lets a repair write as long as no server says in its `/readyz?verbose` that it does that repair itself, or always when the repair was
 * asked for by name.
 *
 * It asks anew before each round of writes. A kube-apiserver with a repair of its own exits when somebody creates the IPAddresses that its
 * first pass is about to create, and the server that answered a second ago may have been replaced by such a one.
 */
export class RepairPermit implements WritePermit {
  readonly #name: ControllerName
  readonly #selection: ControllerSelection
  readonly #monitor: Pick<ReadinessMonitor, 'probe'>
  #mode: WritePermit['mode'] = 'repair'

  constructor(
    name: ControllerName,
    options: { readonly selection: ControllerSelection; readonly monitor: Pick<ReadinessMonitor, 'probe'> },
  ) {
    this.#name = name
    this.#selection = options.selection
    this.#monitor = options.monitor
  }

  get mode(): WritePermit['mode'] {
    return this.#mode
  }

  async granted(signal: AbortSignal): Promise<boolean> {
    if (this.#mode === 'report') return false
    if (this.#selection.on.includes(this.#name)) return true
    const answer = await this.#monitor.probe(signal)
    if (!answer.answered) throw new KubeError('Unreachable', `GET /readyz: ${answer.reason}`)
    // It may well do the repair itself: without its list of checks nothing is written.
    if (answer.refused !== undefined) throw new KubeError('Forbidden', `GET ${answer.refused}`)
    if (decideDuty(this.#name, this.#selection, answer).type === 'left-to-server') this.leaveToServer()
    return this.mode === 'repair'
  }

  /** A server does the repair itself. */
  leaveToServer(): void {
    this.#mode = 'report'
  }
}
