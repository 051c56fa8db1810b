import { hashText } from '../../runtime/random.ts'
import { masterKey } from '../members.ts'
import type { Holder } from './master-leases.ts'

/**
 * The name of a master's Lease object: readable, valid, and the same for each life of the same master (see {@link masterKey}).
 * `apiserver-bootstrap-192-0-2-1-5b1cd2f0`.
 */
export function leaseName(holder: Holder): string {
  const address = (holder.addresses[0] ?? '').replace(/[.:]+/g, '-').replace(/^-|-$/g, '')
  return `apiserver-bootstrap-${address}-${hashText(masterKey(holder)).toString(16).padStart(8, '0')}`
}
