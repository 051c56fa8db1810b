import type { ConfigMap } from '../../kube/resources.ts'
import type { RangeContent, RangeName, StoredRange } from './range-registry.ts'

export const ledgerNamespace = 'kube-system'

/** How the ConfigMap of a range is called. */
export function ledgerName(name: RangeName): string {
  return `apiserver-bootstrap-${name}`
}

/** Reads a ledger; what a read or a watch gave is its version. Pure. */
export function decodeLedger(object: ConfigMap): StoredRange {
  const range = object.data?.range
  // As a server may write an empty bitmap: null.
  const text: string | null | undefined = object.binaryData?.data
  if (typeof range !== 'string' || range === '' || text === undefined) {
    return { type: 'unreadable', reason: 'is not a ledger of ours: it has no data.range and binaryData.data' }
  }
  const data = Buffer.from(text ?? '', 'base64')
  if (data.toString('base64') !== (text ?? '')) {
    return { type: 'unreadable', reason: 'is not a ledger of ours: its binaryData.data is not base64' }
  }
  const revision = object.metadata?.resourceVersion ?? ''
  const found = { type: 'range', range, data, revision, version: object } as const
  return object.immutable === true ? { ...found, fixed: 'is marked immutable' } : found
}

/** The ledger with this content; what `previous` has beyond it stays. Pure. */
export function encodeLedger(name: RangeName, content: RangeContent, previous: ConfigMap | undefined): ConfigMap {
  return {
    ...previous,
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      ...previous?.metadata,
      name: ledgerName(name),
      namespace: ledgerNamespace,
      labels: { ...previous?.metadata?.labels, 'app.kubernetes.io/managed-by': 'apiserver-bootstrap' },
    },
    data: { ...previous?.data, range: content.range },
    binaryData: { ...previous?.binaryData, data: Buffer.from(content.data).toString('base64') },
  }
}
