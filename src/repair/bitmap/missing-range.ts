import { aboutRanges, type RepairKind, type RepairReporter } from '../reporter.ts'

/** kube-apiserver's message if an allocator has no bitmap: `…of type servicenodeportallocations at this time`. */
const NO_BITMAP = /cannot allocate resources of type service(ip|nodeport)allocations/

/**
 * Whether a server refused a Service because the bitmap of the server's allocator was never created. `reason`: the
 * message of the refusal.
 */
export function lacksBitmap(reason: string): boolean {
  return NO_BITMAP.test(reason)
}

export const BITMAP_HINT = 'set --etcd-servers to have the bitmap of the allocator created in etcd'

/**
 * Reports that a repair has no range registry, although its server may need a bitmap. Whether the server has a bitmap
 * is unknown: a create with `dryRun` proves nothing, because kube-apiserver needs no bitmap for an allocation that it
 * does not store.
 */
export function reportMissingRange(kind: RepairKind, reporter: RepairReporter): void {
  const items = kind === 'node-port' ? 'NodePorts' : 'ClusterIPs'
  const note = `the bitmap of ${items} is neither created nor repaired: ${BITMAP_HINT}, or turn the repair off: add -${kind}-repair to --controllers`
  const finding = { type: 'unknown', reason: 'ServiceRangeMissing', regarding: aboutRanges, item: items, note } as const
  reporter.report([finding], { full: false })
}
