import type { KubeApi } from '../../kube/api.ts'
import type { IpAddress, Service } from '../../kube/resources.ts'
import type { Finding } from '../finding.ts'
import { readServices } from '../live-services.ts'
import { isManagedByAllocator, refersTo } from './ip-address-object.ts'
import { planAddress, planExisting, type ServiceIpView, servicesInvolved, withServices } from './ip-address-view.ts'
import type { IpAddressWrite } from './ip-address-writer.ts'

/** So long, in milliseconds, every watch has surely told what it has to tell, and a server has released what a deleted Service had. */
export const catchUpMs = 5_000

/** What a look found. */
export interface Look {
  /** All that is wrong. */
  readonly findings: readonly Finding[]
  readonly writes: readonly IpAddressWrite[]
  /** IPAddresses of the allocator that no Service has, young ones among them. */
  readonly strays: readonly IpAddress[]
  /** When to look again at what may belong to a Service in the making, in milliseconds; undefined when there is none. */
  readonly againMs: number | undefined
}

/** What to look at. */
export interface LookScope {
  /** The addresses whose Services are looked at. */
  readonly names: Iterable<string>
  /** The IPAddresses that may be nobody's. */
  readonly existing: Iterable<IpAddress>
  /** Whether those that are nobody's are to be deleted; if not, `againMs` says that there are some. */
  readonly deleting: boolean
}

/** What the copies say. Pure. */
export function look(scope: LookScope, view: ServiceIpView): Look {
  const findings: Finding[] = []
  const writes: IpAddressWrite[] = []
  const busy = new Set<string>()
  for (const name of scope.names) {
    for (const action of planAddress(name, view)) {
      if (action.type === 'none') continue
      findings.push(action.finding)
      if (action.type === 'tell') continue
      writes.push(action)
      busy.add(name)
    }
  }
  const strays: IpAddress[] = []
  let againMs: number | undefined
  for (const ipAddress of scope.existing) {
    // What a Service gets anew, or keeps with other labels, is not for deletion.
    const { name = '' } = ipAddress.metadata ?? {}
    if (!isManagedByAllocator(ipAddress) || busy.has(name)) continue
    // As a rule the Service that has the address is the one that is referred to.
    if (view.holdersOf(name).some(({ metadata }) => isParent(ipAddress, metadata))) continue
    const action = planExisting(ipAddress, view)
    if (action.type === 'keep') continue
    strays.push(ipAddress)
    const waitMs = action.type === 'wait' ? action.forMs : catchUpMs - view.strayMs(ipAddress)
    if (action.type === 'delete' && waitMs <= 0 && scope.deleting) {
      findings.push(action.finding)
      writes.push(action)
    } else againMs = soonest(againMs, Math.max(waitMs, 0))
  }
  return { findings, writes, strays, againMs }
}

/**
 * Looks once more at what `seen` wants written, at the Services themselves. The IPAddresses are those of before that read: an IPAddress that is
 * still the same when it is deleted has been so while the Services were read. Rejects with a KubeError.
 */
export async function lookAgainLive(
  seen: Look,
  { deleting }: LookScope,
  view: ServiceIpView,
  { api, signal }: { readonly api: KubeApi; readonly signal: AbortSignal },
): Promise<Look> {
  const names = new Set(seen.writes.map(({ ipAddress }) => ipAddress.metadata?.name ?? ''))
  const before = new Map<string, IpAddress>()
  for (const name of names) {
    const ipAddress = view.ipAddressOf(name)
    if (ipAddress !== undefined) before.set(name, ipAddress)
  }
  const involved = [...names].flatMap((name) => servicesInvolved(name, view))
  const live = await readServices(api, involved, signal)
  const existing = deleting ? before.values() : []
  const checked = look({ names, existing, deleting }, withServices(view, live, before))
  return {
    findings: [...seen.findings.filter(({ item }) => !names.has(item)), ...checked.findings],
    writes: checked.writes,
    strays: seen.strays,
    againMs: soonest(seen.againMs, checked.againMs),
  }
}

function isParent(ipAddress: IpAddress, metadata: Service['metadata']): boolean {
  return refersTo(ipAddress, { namespace: metadata?.namespace, name: metadata?.name ?? '' })
}

function soonest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}
