import type { KubeObject } from './json.ts'

/**
 * Whether `a` is a later state of the same object than `b`, by their resourceVersions (KEP-5504: decimal numbers that only grow).
 * False where either says nothing, or something else.
 */
export function isNewer(a: KubeObject | undefined, b: KubeObject | undefined): boolean {
  const [later = '', earlier = ''] = [a?.metadata?.resourceVersion, b?.metadata?.resourceVersion]
  if (!/^[1-9]\d*$/.test(later) || !/^[1-9]\d*$/.test(earlier)) return false
  return later.length === earlier.length ? later > earlier : later.length > earlier.length
}
