import type { SecondClusterIp } from './service-families-plan.ts'

/** So many refusals in a row are more than the moment that the address of a deleted Service needs to be free. */
const PATIENCE = 10

/**
 * Remembers how much of a second address a server can be asked for: less after each refusal, until it takes the Service.
 *
 * An address may be refused because it belongs to somebody else, or to nobody any more: an API server that has one family itself does
 * not give back those of the other. The family may be refused because the server has only one.
 */
export class SecondClusterIpDemand {
  #present: SecondClusterIp = 'configured'
  #refusals = 0

  get present(): SecondClusterIp {
    return this.#present
  }

  /** To be called when a write that asked for a second address was refused. Whether less is asked for from now on. */
  refused(): boolean {
    this.#refusals += 1
    if (this.#present === 'configured' && this.#refusals < PATIENCE) return false
    if (this.#present === 'if-possible') return false
    this.#present = this.#present === 'configured' ? 'any' : 'if-possible'
    return true
  }

  /** Asks for everything, with all patience: the Service has got its second address, or the server may be another one now. */
  reset(): void {
    this.#present = 'configured'
    this.#refusals = 0
  }

  /** Asks for everything once more: somebody may have given the address back. */
  renew(): void {
    if (this.#present !== 'configured') this.#refusals = PATIENCE - 1
    this.#present = 'configured'
  }
}
