import type { IpAddress, Service } from '../../src/kube/resources.ts'
import { addressesOf, allocationPaths, portsOf } from '../peers/allocations.ts'
import type { ApiClient, SeenEvent } from '../peers/api-client.ts'
import type { Cluster } from '../peers/cluster.ts'
import type { Owner } from '../peers/owner.ts'
import { revisionOf, writesSince } from '../peers/stored-history.ts'
import { numberIn, rangeKey, type StoredRange, type StoredRangeName, storedRangeIn } from '../peers/stored-ranges.ts'
import { untilPasses } from '../peers/until.ts'

/** One stored change; steps are in the order in which they were stored. */
export type Step = { readonly revision: number } & (
  | { readonly type: 'service'; readonly name: string; readonly service: Service | undefined }
  | { readonly type: 'ipAddress'; readonly ip: string; readonly exists: boolean }
  | { readonly type: 'range'; readonly name: StoredRangeName; readonly range: StoredRange }
)

interface ListOf<T> {
  readonly items: readonly T[]
}

/** Follows, from now on and without a gap, what is stored of Services and of the allocations to them. */
export async function followAllocations(owner: Owner, { etcd, server }: Cluster) {
  const { api } = server
  const from = await revisionOf(etcd)
  const steps: Step[] = []
  const revision = from
  const at = `?resourceVersion=${from}`
  const ipAddresses = await api.find<ListOf<IpAddress>>(
    `${allocationPaths.ipAddresses}${at}&resourceVersionMatch=Exact`,
  )
  for (const { metadata } of ipAddresses?.items ?? [])
    steps.push({ revision, type: 'ipAddress', ip: metadata?.name ?? '', exists: true })
  const services = await api.get<ListOf<Service>>(`${allocationPaths.allServices}${at}&resourceVersionMatch=Exact`)
  for (const service of services.items) steps.push({ revision, type: 'service', name: keyOf(service), service })

  const followed: Step[] = []
  let seen = 0
  const stop = new AbortController()
  owner.after(() => stop.abort())
  const follow = <T extends Service | IpAddress>(path: string, stepOf: (event: SeenEvent<T>) => Step): void => {
    void api.watch<T>(`${path}${at}`, (event) => void followed.push(stepOf(event)), stop.signal)
  }
  follow<Service>(allocationPaths.allServices, ({ type, object }) => {
    seen = Math.max(seen, revisionIn(object))
    const service = type === 'DELETED' ? undefined : object
    return { revision: revisionIn(object), type: 'service', name: keyOf(object), service }
  })
  if (ipAddresses !== undefined) {
    follow<IpAddress>(allocationPaths.ipAddresses, ({ type, object }) => {
      const ip = object.metadata?.name ?? ''
      return { revision: revisionIn(object), type: 'ipAddress', ip, exists: type !== 'DELETED' }
    })
  }
  return {
    /** All steps until now. */
    async steps(): Promise<readonly Step[]> {
      await endOf(api, () => seen)
      stop.abort()
      for (const name of ['serviceips', 'servicenodeports'] as const) {
        for (const write of await writesSince(etcd, rangeKey(name), 0))
          followed.push({ revision: write.revision, type: 'range', name, range: storedRangeIn(write.value) })
      }
      const sorted = followed.sort((a, b) => a.revision - b.revision)
      return [
        ...sorted.filter((step) => step.revision <= from),
        ...steps,
        ...sorted.filter((step) => step.revision > from),
      ]
    },
  }
}

/**
 * Creates a last event and waits until the watch of Services delivers it. A moment later the watch of IPAddresses has
 * delivered it too.
 */
async function endOf(api: ApiClient, seen: () => number): Promise<void> {
  const mark = await api.create<Service>(allocationPaths.services, {
    metadata: { name: 'mark' },
    spec: { ports: [{ port: 80 }] },
  })
  await untilPasses(
    'the watch to have reported all changes',
    () => {
      if (seen() < revisionIn(mark)) throw new Error(`${seen()}`)
    },
    { withinMs: 20_000 },
  )
  await new Promise((resolve) => setTimeout(resolve, 1_000))
}

/**
 * What the history shows as wrongly freed: an address or port that an existing Service lost, or that was already
 * missing when the Service was stored. Removals at one of the revisions in `damages` do not count. After such damage, a
 * server may have given the item to another Service too, and then frees it with the first of the two. So from then on
 * the item does not count for the other Service. These items are `givenTwice`; if there are many, the check covered
 * little. Pure.
 */
export function wronglyFreed(
  steps: readonly Step[],
  damages: ReadonlySet<number>,
): { readonly wrong: readonly string[]; readonly givenTwice: readonly string[] } {
  const servesIpAddresses = steps.some(({ type }) => type === 'ipAddress')
  const wrong: string[] = []
  const services = new Map<string, Service>()
  const ipAddresses = new Set<string>()
  const ranges = new Map<StoredRangeName, StoredRange>()
  const lostBy = new Map<string, Set<string>>()
  const givenTwice = new Set<string>()
  const hasBit = (name: StoredRangeName, item: string | number): boolean => {
    const range = ranges.get(name)
    return range === undefined || range.taken.has(numberIn(range, item))
  }
  /** What is missing and of which Service, by its description. */
  const missing = (): ReadonlyMap<string, { readonly item: string; readonly of: string }> => {
    const found = new Map<string, { readonly item: string; readonly of: string }>()
    const lacks = (what: string, item: string, of: string) => found.set(`${what} ${item} of ${of}`, { item, of })
    for (const [name, service] of services) {
      for (const port of portsOf(service)) if (!hasBit('servicenodeports', port)) lacks('port', `${port}`, name)
      for (const ip of addressesOf(service)) {
        if (!hasBit('serviceips', ip)) lacks('bit', ip, name)
        if (servesIpAddresses && !ipAddresses.has(ip)) lacks('IPAddress', ip, name)
      }
    }
    return found
  }
  let before: ReturnType<typeof missing> = new Map()
  for (const step of steps) {
    switch (step.type) {
      case 'service':
        if (step.service === undefined) services.delete(step.name)
        else {
          services.set(step.name, step.service)
          for (const item of [...portsOf(step.service).map(String), ...addressesOf(step.service)]) {
            const losers = lostBy.get(item) ?? []
            if ([...losers].some((name) => name !== step.name)) givenTwice.add(item)
          }
        }
        break
      case 'ipAddress':
        if (step.exists) ipAddresses.add(step.ip)
        else ipAddresses.delete(step.ip)
        break
      case 'range':
        ranges.set(step.name, step.range)
    }
    const after = missing()
    for (const [text, { item, of }] of after) {
      if (before.has(text)) continue
      if (damages.has(step.revision)) lostBy.set(item, (lostBy.get(item) ?? new Set()).add(of))
      else if (!givenTwice.has(item)) wrong.push(`${text}, at revision ${step.revision} by the ${step.type}`)
    }
    before = after
  }
  return { wrong, givenTwice: [...givenTwice] }
}

function keyOf({ metadata }: Service): string {
  return `${metadata?.namespace}/${metadata?.name}`
}

function revisionIn({ metadata }: Service | IpAddress): number {
  return Number(metadata?.resourceVersion)
}
