import { formatDuration } from '../../documents/duration.ts'
import type { Membership } from './state.ts'
import type { MembershipTimings } from './timings.ts'

/**
 * Why a master that was listed is not as it should be, as one line; undefined while all is well, before it is listed and while it leaves. Pure.
 * A lease that was not renewed for a TTL has ended for all others.
 */
export function membershipFault(
  { phase, self, lease }: Membership,
  nowMs: number,
  { ttlMs }: Pick<MembershipTimings, 'ttlMs'>,
): string | undefined {
  switch (phase.type) {
    case 'starting':
    case 'joining':
    case 'leaving':
      return undefined
    case 'listed': {
      if (lease.missing || lease.renewedAtMs === undefined) return 'the lease of this master is missing'
      const oldMs = nowMs - lease.renewedAtMs
      if (oldMs >= ttlMs) {
        return `the lease of this master was not renewed for ${formatDuration(Math.floor(oldMs / 1_000) * 1_000)}`
      }
      return self.state === 'unready' ? 'the record of this master says unready' : undefined
    }
    case 'out':
      return phase.why === 'withdrawn' ? 'this master was withdrawn; it stays out until it is started again' : undefined
  }
}
