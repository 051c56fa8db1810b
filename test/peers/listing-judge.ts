import type { StoredVersion } from './stored-versions.ts'

/** The keys at which the list of masters in default/kubernetes is stored. */
export interface ListKeys {
  readonly endpoints: string
  readonly slice: string
}

export function listKeys(etcdPrefix = '/registry'): ListKeys {
  return {
    endpoints: `${etcdPrefix}/services/endpoints/default/kubernetes`,
    slice: `${etcdPrefix}/endpointslices/default/kubernetes`,
  }
}

/** A period in which a live master was missing in one of the two objects. */
export interface Gap {
  readonly address: string
  readonly key: string
  readonly revision: number
  readonly fromMs: number
  /** Undefined if it is still missing. */
  readonly toMs: number | undefined
}

export interface Judgement {
  readonly gaps: readonly Gap[]
  /** Versions that list no master. */
  readonly empty: readonly StoredVersion[]
}

/**
 * Finds the problems of the versions after the first `since`: masters of `addresses` that are missing although they
 * live at that time, and empty lists. No address may be a prefix of another one. Pure.
 */
export function judgeVersions(
  versions: readonly StoredVersion[],
  since: number,
  addresses: readonly string[],
  lives: (address: string, atMs: number) => boolean = () => true,
): Judgement {
  const later = versions.slice(since)
  const gaps: Gap[] = []
  for (const key of new Set(later.map((version) => version.key))) {
    const ofKey = later.filter((version) => version.key === key)
    for (const address of addresses) {
      let gap: Gap | undefined
      for (const version of ofKey) {
        const missing = !lists(version, address) && lives(address, version.atMs)
        if (missing) gap ??= { address, key, revision: version.revision, fromMs: version.atMs, toMs: undefined }
        else if (gap !== undefined) {
          gaps.push({ ...gap, toMs: version.atMs })
          gap = undefined
        }
      }
      if (gap !== undefined) gaps.push(gap)
    }
  }
  return { gaps, empty: later.filter((version) => !addresses.some((address) => lists(version, address))) }
}

/** Whether a stored object names an address. Endpoints and slices hold addresses as plain text, in protobuf too. */
export function lists(version: StoredVersion, address: string): boolean {
  return version.value?.includes(address) ?? false
}

/** One line; empty when nothing is wrong. */
export function explain({ gaps, empty }: Judgement): string {
  const where = (key: string): string => (key.includes('endpointslices') ? 'the slice' : 'Endpoints')
  return [
    ...gaps.map(({ address, key, revision, fromMs, toMs }) => {
      const lasted = toMs === undefined ? 'to the end' : `for ${((toMs - fromMs) / 1000).toFixed(1)} s`
      return `${address} off ${where(key)} ${lasted} (revision ${revision})`
    }),
    ...empty.map(({ key, revision }) => `${where(key)} empty (revision ${revision})`),
  ].join('; ')
}
