import type { EndpointSlice } from '../../kube/resources.ts'
import type { HintedSlices, SliceInfo } from '../slice-info.ts'
import type { HintsByZone } from './allocations.ts'

export type SliceEndpoint = NonNullable<EndpointSlice['endpoints']>[number]

/** What the hints of a slice amount to. */
export interface HintsSummary {
  readonly readyEndpoints: number
  /** How many hints of ready endpoints name each zone; undefined where a ready endpoint has none. */
  readonly hints: HintsByZone | undefined
}

const summaries = new WeakMap<EndpointSlice, HintsSummary>()
const withoutHints = new WeakSet<EndpointSlice>()

export function isReady(endpoint: SliceEndpoint): boolean {
  return endpoint.conditions?.ready === true
}

/** A list that a server has stored empty may come back as null. */
export function endpointsOf(slice: EndpointSlice): readonly SliceEndpoint[] {
  return slice.endpoints ?? []
}

/** Counted once for each slice object. */
export function summaryOf(slice: EndpointSlice): HintsSummary {
  let summary = summaries.get(slice)
  if (summary === undefined) {
    summary = summarize(slice)
    summaries.set(slice, summary)
  }
  return summary
}

function summarize(slice: EndpointSlice): HintsSummary {
  const hints = new Map<string, number>()
  let readyEndpoints = 0
  let complete = true
  for (const endpoint of endpointsOf(slice)) {
    if (!isReady(endpoint)) continue
    readyEndpoints++
    const zones = endpoint.hints?.forZones ?? []
    if (zones.length === 0) complete = false
    for (const { name } of zones) hints.set(name, (hints.get(name) ?? 0) + 1)
  }
  return { readyEndpoints, hints: complete ? hints : undefined }
}

/** The slice with `change` made to each endpoint; itself when none changes. */
export function mapEndpoints(slice: EndpointSlice, change: (endpoint: SliceEndpoint) => SliceEndpoint): EndpointSlice {
  let changed = false
  const endpoints = endpointsOf(slice).map((endpoint) => {
    const next = change(endpoint)
    if (next !== endpoint) changed = true
    return next
  })
  return changed ? { ...slice, endpoints } : slice
}

/** The endpoint with other hints; itself where they say the same. */
export function withHints(
  endpoint: SliceEndpoint,
  zone: string | undefined,
  node: string | undefined = undefined,
): SliceEndpoint {
  if (namesOnly(endpoint.hints?.forZones, zone) && namesOnly(endpoint.hints?.forNodes, node)) return endpoint
  const { hints: _hints, ...rest } = endpoint
  if (zone === undefined && node === undefined) return rest
  return {
    ...rest,
    hints: {
      ...(zone === undefined ? {} : { forZones: [{ name: zone }] }),
      ...(node === undefined ? {} : { forNodes: [{ name: node }] }),
    },
  }
}

function namesOnly(hints: readonly { readonly name: string }[] | null | undefined, name: string | undefined): boolean {
  const count = hints?.length ?? 0
  return name === undefined ? count === 0 : count === 1 && hints?.[0]?.name === name
}

/** Takes all hints away. */
export function removeHintsFromSlices(info: SliceInfo): HintedSlices {
  const bare = (slice: EndpointSlice): EndpointSlice => mapEndpoints(slice, withoutHint)
  return {
    create: info.toCreate.map(bare),
    update: [...info.toUpdate.map(bare), ...info.unchanged.filter(hasHints).map(bare)],
    events: [],
  }
}

function hasHints(slice: EndpointSlice): boolean {
  if (withoutHints.has(slice)) return false
  if (endpointsOf(slice).some((endpoint) => withoutHint(endpoint) !== endpoint)) return true
  withoutHints.add(slice)
  return false
}

function withoutHint(endpoint: SliceEndpoint): SliceEndpoint {
  if (endpoint.hints === undefined || endpoint.hints === null) return endpoint
  const { hints: _hints, ...rest } = endpoint
  return rest
}
