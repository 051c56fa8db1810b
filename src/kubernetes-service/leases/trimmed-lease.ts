import type { Lease } from '../../kube/resources.ts'
import { MAX_RECORD } from './master-leases.ts'

/** Must not be kube-apiserver's identity label, because kube-apiserver deletes Leases with that label. */
export const LEASE_LABEL = 'apiserver-bootstrap/lease'
export const HOLDER_ANNOTATION = 'apiserver-bootstrap/holder'

/** The longest holderIdentity that counts, in characters. A master's has a host and an instance id, each up to 300. */
const MAX_IDENTITY = 1_000

/**
 * The fields of a Lease that readers need. The result references nothing else of the Lease: somebody may have forged
 * thousands with megabytes in other fields. A text that no master writes, because it is too long, is left out.
 *
 * Not for a Lease that is written back, whose other fields must survive.
 */
export function trimLease({ metadata, spec }: Lease): Lease {
  return {
    metadata: {
      name: metadata?.name,
      namespace: metadata?.namespace,
      uid: metadata?.uid,
      resourceVersion: metadata?.resourceVersion,
      creationTimestamp: metadata?.creationTimestamp,
      labels: only(LEASE_LABEL, metadata?.labels, MAX_IDENTITY),
      annotations: only(HOLDER_ANNOTATION, metadata?.annotations, MAX_RECORD),
    },
    spec: {
      holderIdentity: ifShort(spec?.holderIdentity, MAX_IDENTITY),
      leaseDurationSeconds: spec?.leaseDurationSeconds,
      renewTime: ifShort(spec?.renewTime, MAX_IDENTITY),
    },
  } as Lease
}

function only(
  key: string,
  values: Readonly<Record<string, string>> | undefined,
  most: number,
): Readonly<Record<string, string>> {
  const value = ifShort(values?.[key], most)
  return value === undefined ? {} : { [key]: value }
}

/** The server sends null for a time of zero. */
function ifShort(text: unknown, most: number): string | undefined {
  return typeof text === 'string' && text.length <= most ? text : undefined
}
