import { KubeError } from '../kube/errors.ts'
import type { ReadinessMonitor } from '../kubernetes-service/readiness-monitor.ts'
import type { WritePermit } from '../repair/repair.ts'
import type { ControllerName } from './controller-selection.ts'
import type { DutyDecisions } from './duty-decisions.ts'

/**
 * Lets a repair write as long as no server says in its `/readyz?verbose` that it does that repair itself, or always when the repair was
 * asked for by name.
 *
 * It asks anew before each round of writes. A kube-apiserver with a repair of its own exits when somebody creates the IPAddresses that its
 * first pass is about to create, and the server that answered a second ago may have been replaced by such a one.
 */
export class RepairPermit implements WritePermit {
  readonly #name: ControllerName
  readonly #byName: boolean
  readonly #decisions: Pick<DutyDecisions, 'of'>
  readonly #monitor: Pick<ReadinessMonitor, 'probe'>

  constructor(
    name: ControllerName,
    options: {
      /** The repair was asked for by name. */
      readonly byName: boolean
      /** They hear what {@link monitor} is answered. */
      readonly decisions: Pick<DutyDecisions, 'of'>
      readonly monitor: Pick<ReadinessMonitor, 'probe'>
    },
  ) {
    this.#name = name
    this.#byName = options.byName
    this.#decisions = options.decisions
    this.#monitor = options.monitor
  }

  get mode(): WritePermit['mode'] {
    return this.#decisions.of(this.#name)?.type === 'left-to-server' ? 'report' : 'repair'
  }

  async granted(signal: AbortSignal): Promise<boolean> {
    if (this.#byName) return true
    if (this.mode === 'report') return false
    const answer = await this.#monitor.probe(signal)
    if (!answer.answered) throw new KubeError('Unreachable', `GET /readyz: ${answer.reason}`)
    // It may well do the repair itself: without its list of checks nothing is written.
    if (answer.refused !== undefined) throw new KubeError('Forbidden', `GET ${answer.refused}`)
    return this.mode === 'repair'
  }
}
