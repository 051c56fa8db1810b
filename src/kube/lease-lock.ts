import type { Clock } from '../runtime/clock.ts'
import { formatMicroTime } from '../runtime/time-format.ts'
import type { CallOptions, KubeApi } from './api.ts'
import { ifFound } from './errors.ts'
import { apiVersionOf, type Lease, leases } from './resources.ts'

interface LeaseLockOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly namespace: string
  readonly name: string
  readonly identity: string
  /** A whole number of seconds, in milliseconds. */
  readonly leaseDurationMs: number
}

/**
 * One process's view of a Lease for which several processes compete. Every update is guarded by the resourceVersion of
 * the Lease as last read or written, and preserves unknown fields.
 */
export class LeaseLock {
  readonly #options: LeaseLockOptions
  /** The Lease as last read or written. The next update is based on it. */
  #lease: Lease | undefined
  /** When we saw the last renewal, on our own monotonic clock, because we do not trust the clocks of others. */
  #observedMs = 0

  constructor(options: LeaseLockOptions) {
    this.#options = options
  }

  /** The holder of the Lease, as last observed; undefined if there is none. */
  get holder(): string | undefined {
    return this.#lease?.spec?.holderIdentity || undefined
  }

  /**
   * Renews our Lease from the last known state: one request. Rejects with Conflict or NotFound if that state is
   * outdated.
   */
  async renew(signal: AbortSignal): Promise<void> {
    await this.#claim(this.#lease, { urgent: true, signal })
  }

  /** Reads the Lease and takes it. Returns false, without a write, while another process holds it. */
  async take(signal: AbortSignal): Promise<boolean> {
    const { clock, identity, leaseDurationMs } = this.#options
    const options = { urgent: true, signal }
    const lease = await this.#read(options)
    if (this.holder !== undefined && this.holder !== identity) {
      // A deleted Lease also counts as held, because its holder may need this time to notice the deletion.
      const claimedMs = (this.#lease?.spec?.leaseDurationSeconds ?? leaseDurationMs / 1000) * 1000
      if (clock.monotonicMs() < this.#observedMs + claimedMs) return false
    }
    await this.#claim(lease, options)
    return true
  }

  /** Leaves the Lease without a holder, if it is still ours. */
  async release(signal: AbortSignal): Promise<void> {
    const lease = await this.#read({ signal })
    if (lease === undefined || this.holder !== this.#options.identity) return
    const now = formatMicroTime(this.#options.clock.wallMs())
    await this.#put(
      lease,
      { holderIdentity: '', leaseDurationSeconds: 1, acquireTime: now, renewTime: now },
      { signal },
    )
  }

  async #read(options: CallOptions): Promise<Lease | undefined> {
    const { api, namespace, name } = this.#options
    const lease = await ifFound(api.get(leases, { namespace, name }, options))
    if (lease !== undefined) this.#observe(lease)
    return lease
  }

  async #claim(lease: Lease | undefined, options: CallOptions): Promise<void> {
    const { clock, identity, leaseDurationMs } = this.#options
    await this.#put(lease, claimedSpec(lease, identity, leaseDurationMs / 1000, clock), options)
  }

  async #put(lease: Lease | undefined, spec: NonNullable<Lease['spec']>, options: CallOptions): Promise<void> {
    const { api, namespace, name } = this.#options
    const head = { apiVersion: apiVersionOf(leases), kind: leases.kind, metadata: { namespace, name } }
    const written =
      lease === undefined
        ? await api.create(leases, { ...head, spec }, options)
        : await api.update(leases, { ...lease, spec: { ...lease.spec, ...spec } }, options)
    this.#observe(written)
  }

  #observe(lease: Lease): void {
    if (claimOf(lease) !== claimOf(this.#lease)) this.#observedMs = this.#options.clock.monotonicMs()
    this.#lease = lease
  }
}

/** The spec with which a holder takes or renews a Lease. `lease`: the current one; undefined if there is none. */
export function claimedSpec(lease: Lease | undefined, identity: string, durationSeconds: number, clock: Clock) {
  const now = formatMicroTime(clock.wallMs())
  const { acquireTime, leaseTransitions = 0 } = lease?.spec ?? {}
  const renewed = lease?.spec?.holderIdentity === identity
  return {
    holderIdentity: identity,
    leaseDurationSeconds: durationSeconds,
    acquireTime: (renewed ? acquireTime : undefined) ?? now,
    renewTime: now,
    leaseTransitions: renewed || lease === undefined ? leaseTransitions : leaseTransitions + 1,
  }
}

/** The fields of the holder's claim. A change of other fields of the Lease does not prolong the claim. */
function claimOf(lease: Lease | undefined): string {
  const { holderIdentity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions } = lease?.spec ?? {}
  return JSON.stringify([holderIdentity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions])
}
