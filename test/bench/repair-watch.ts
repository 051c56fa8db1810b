import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import type { IpAddress } from '../../src/kube/resources.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import { decodeRangeAllocation } from '../../src/protobuf/range-allocation.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import type { SeenEvent } from '../peers/api-client.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import type { Etcd } from '../peers/etcd.ts'
import type { Owner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'
import {
  clusterIpRange,
  clusterIpsTaken,
  type MassOptions,
  type MassService,
  massServices,
  nodePortRange,
  nodePortsTaken,
  rangeKeys,
} from './mass-services.ts'

export type AllocationPart = 'ipAddresses' | 'nodePorts' | 'clusterIps'

/** The allocations of Services, as a watcher of the API server and etcd sees them. */
export interface AllocationWatch {
  /**
   * Resolves to the time from which all allocations of a part stay correct, on the clock of `performance.now()`, after
   * the watcher has seen a wrong one at or after `sinceMs`. Rejects if they are not correct within `withinMs`.
   */
  rightAfter(part: AllocationPart, sinceMs: number, withinMs: number): Promise<number>
}

/** How long a part must stay correct to count as correct. */
const settleMs = 300

const ipAddressesPath = '/apis/networking.k8s.io/v1/ipaddresses'

/** How many allocations are missing, each time that this changes. */
type History = { readonly atMs: number; readonly missing: number }[]

/** Watches these parts until its owner closes. Resolves when all of them are correct. */
export async function watchAllocations(
  owner: Owner,
  { etcd, server }: { readonly etcd: Etcd; readonly server: Apiserver },
  { parts, mass }: { readonly parts: readonly AllocationPart[]; readonly mass: MassOptions },
): Promise<AllocationWatch> {
  const stop = new AbortController()
  owner.after(() => stop.abort())
  const services = massServices(mass)
  const histories: Readonly<Record<AllocationPart, History>> = {
    ipAddresses: parts.includes('ipAddresses') ? watchIpAddresses(server, services, stop.signal) : [],
    ...watchRanges(owner, etcd, services, stop.signal),
  }
  await untilPasses(
    'the allocations to be right',
    () => {
      for (const part of parts) {
        if (histories[part].at(-1)?.missing !== 0)
          throw new Error(`${part}: ${histories[part].at(-1)?.missing} missing`)
      }
    },
    { withinMs: 20_000 },
  )
  return {
    rightAfter: (part, sinceMs, withinMs) =>
      untilPasses(
        `${part} to be right again`,
        () => {
          const later = histories[part].filter(({ atMs }) => atMs >= sinceMs)
          const last = later.at(-1)
          if (last === undefined) throw new Error('the damage has not been seen yet')
          if (last.missing > 0) throw new Error(`${last.missing} are missing`)
          if (performance.now() - last.atMs < settleMs) throw new Error('right, but only just')
          const lastWrong = later.findLastIndex(({ missing }) => missing > 0)
          if (lastWrong < 0) throw new Error('the damage has not been seen yet')
          return (later[lastWrong + 1] as History[number]).atMs
        },
        { withinMs, everyMs: 20 },
      ),
  }
}

function watchIpAddresses(server: Apiserver, services: readonly MassService[], signal: AbortSignal): History {
  const owners = new Map(services.map(({ name, address }) => [address, name]))
  const history: History = []
  // A server under load ends watches that it cannot serve in time. The next watch begins with all existing objects.
  const watch = async (): Promise<void> => {
    const missing = new Set(owners.keys())
    const note = ({ type, object }: SeenEvent<IpAddress>): void => {
      const address = object.metadata?.name ?? ''
      const owner = owners.get(address)
      if (owner === undefined) return
      if (type !== 'DELETED' && isRight(object, owner)) missing.delete(address)
      else missing.add(address)
      history.push({ atMs: performance.now(), missing: missing.size })
    }
    await server.api.watch<IpAddress>(ipAddressesPath, note, signal).catch(() => {})
    if (!signal.aborted) await watch()
  }
  void watch()
  return history
}

function isRight({ metadata, spec }: IpAddress, owner: string): boolean {
  const { group = '', resource, namespace, name } = spec?.parentRef ?? {}
  const { labels = {} } = metadata ?? {}
  return (
    group === '' &&
    resource === 'services' &&
    namespace === 'default' &&
    name === owner &&
    labels['ipaddress.kubernetes.io/ip-family'] === 'IPv4' &&
    labels['ipaddress.kubernetes.io/managed-by'] === 'ipallocator.k8s.io'
  )
}

/** Watches the ranges in etcd, because the API server does not show them. */
function watchRanges(
  owner: Owner,
  etcd: Etcd,
  services: readonly MassService[],
  signal: AbortSignal,
): Readonly<Record<'nodePorts' | 'clusterIps', History>> {
  const histories = { nodePorts: [] as History, clusterIps: [] as History }
  const wanted = {
    nodePorts: bitmapIn(nodePortsTaken(services), nodePortRange.size),
    clusterIps: bitmapIn(clusterIpsTaken(services), clusterIpRange.size),
  }
  const note = (key: string, value: Uint8Array): void => {
    for (const part of ['nodePorts', 'clusterIps'] as const) {
      if (key !== rangeKeys[part]) continue
      const stored = bitmapIn(value, wanted[part].size)
      const missing = [...wanted[part]].filter((offset) => !stored.has(offset)).length
      histories[part].push({ atMs: performance.now(), missing })
    }
  }
  const kv = connectEtcd({ endpoints: [parseEndpoint(etcd.url)], clock: systemClock })
  owner.after(() => kv.close())
  void kv.watch('/registry/ranges/', {
    onChange: async (changes) => {
      if (changes !== undefined) for (const { key, value } of changes) note(key, value)
      else for (const { key, value } of (await kv.list('/registry/ranges/', { signal })).items) note(key, value)
    },
    report: () => {},
    signal,
  })
  return histories
}

function bitmapIn(value: Uint8Array, size: number): Bitmap {
  const stored = decodeRangeAllocation(value)
  if (stored.type === 'unreadable') throw new Error(`the range ${stored.reason}`)
  return Bitmap.fromBytes(size, stored.data) ?? new Bitmap(size)
}
