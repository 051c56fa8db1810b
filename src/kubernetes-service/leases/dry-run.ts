import type { Logger } from '../../telemetry/logger.ts'
import { masterKey } from '../members.ts'
import { addressOf, type Holder, type MasterLease, type MasterLeases } from './master-leases.ts'

/**
 * Leases as they would be: those of the others, and this master's own, which is written nowhere. When this master leaves, the others that are
 * ready appear to have confirmed it: they never see its record, and would be waited for in vain.
 */
export class DryRunLeases implements MasterLeases {
  readonly #inner: MasterLeases
  readonly #logger: Logger
  readonly #own = new Map<string, MasterLease>()

  constructor(inner: MasterLeases, logger: Logger) {
    this.#inner = inner
    this.#logger = logger
  }

  async list(signal: AbortSignal): Promise<readonly MasterLease[]> {
    const others = (await this.#inner.list(signal)).filter(
      ({ holder }) => holder === undefined || !this.#own.has(masterKey(holder)),
    )
    const own = [...this.#own.values()]
    const departures = own.flatMap(({ holder }) => (holder?.state === 'leaving' ? (holder.departure ?? []) : []))
    return [...others.map((lease) => confirming(lease, departures)), ...own]
  }

  async update(holder: Holder): Promise<void> {
    this.#logger.info({ address: addressOf(holder), host: holder.host }, 'dry run: would make and renew a lease')
    this.#own.set(masterKey(holder), { address: addressOf(holder), holder })
  }

  async mark(holder: Holder): Promise<void> {
    if (!this.#own.has(masterKey(holder))) return
    this.#own.set(masterKey(holder), { address: addressOf(holder), holder })
  }

  async remove(holder: Holder): Promise<void> {
    this.#own.delete(masterKey(holder))
  }

  watch(look: () => void, signal: AbortSignal): Promise<void> {
    return this.#inner.watch(look, signal)
  }
}

function confirming(lease: MasterLease, departures: readonly string[]): MasterLease {
  const { holder } = lease
  if (holder?.state !== 'ready' || departures.length === 0) return lease
  return { ...lease, holder: { ...holder, confirms: [...(holder.confirms ?? []), ...departures] } }
}
