import type { Service } from '../../kube/resources.ts'
import { keyOfObject } from '../../kube/store.ts'
import { parseCidr } from '../../net/cidr.ts'
import { parsePortRange } from '../../net/host-port.ts'
import { clusterIpClaims, nodePortClaims, type RangeClaims } from '../../repair/bitmap/claims.ts'
import { claimantsOf, surveyServices } from '../../repair/bitmap/holdings.ts'
import { readRange } from '../../repair/bitmap/plan.ts'
import { atOnce } from '../../runtime/steps.ts'
import { byHand, type Command, type Finding, runControllers, skipped, type Verdict, verdictOf } from './finding.ts'
import { flagCheck, readRanges, serviceRanges } from './ranges.ts'
import type { CheckContext, Parts, StoredBitmap } from './state.ts'

type Stored = StoredBitmap & { readonly stored: Exclude<StoredBitmap['stored'], { readonly type: 'absent' }> }

function isPresent(one: StoredBitmap): one is Stored {
  return one.stored.type !== 'absent'
}

/** The stored bitmaps of one kind of allocation, and what repairs them. */
interface Group {
  /** `NodePort` or `ClusterIP`, for messages. */
  readonly item: string
  readonly controller: 'cluster-ip-repair' | 'node-port-repair'
  readonly stored: readonly Stored[]
  /** The ranges in which Services hold these allocations; undefined if no usable range is known. */
  readonly claims: RangeClaims | undefined
  readonly flags: readonly string[]
  /** See {@link flagCheck}. */
  readonly flagFirst?: Command | undefined
}

/**
 * Checks bitmaps of ClusterIPs only if the server is known to lack IPAddresses. On a server with IPAddresses nobody
 * updates these bitmaps, which remain from an earlier version.
 */
export function judgeRangeAllocations(
  { services, rangeAllocations }: Pick<Parts, 'services' | 'rangeAllocations'>,
  context: CheckContext,
): Verdict {
  const { ipAddresses } = context.state
  const checksClusterIps = ipAddresses?.type === 'unread' && ipAddresses.isServed === false
  const groups = [
    ...(checksClusterIps ? [clusterIpGroup(rangeAllocations, services, context)] : []),
    nodePortGroup(rangeAllocations, context),
  ].filter(({ stored }) => stored.length > 0)
  if (groups.length === 0) {
    return skipped(`there is no ${rangeAllocations.at(-1)?.where}: see node-port-available, and --etcd-prefix`)
  }
  const findings = groups.flatMap((group) => findingsIn(group, services))
  return verdictOf(findings, groups.flatMap(({ stored }) => stored.map(({ name }) => name)).join(', '))
}

function clusterIpGroup(all: readonly StoredBitmap[], services: readonly Service[], context: CheckContext): Group {
  const stored = all.filter(isPresent).filter(({ name }) => name !== 'servicenodeports')
  const cidrs = serviceRanges(context) ?? textsOf(stored).flatMap((text) => readRanges(text, parseCidr))
  const families = new Set(cidrs.map(({ family }) => family))
  return {
    item: 'ClusterIP',
    controller: 'cluster-ip-repair',
    stored,
    claims: cidrs.length === 0 || families.size < cidrs.length ? undefined : clusterIpClaims(cidrs),
    flagFirst: flagCheck(context, services),
    flags: [`--service-cluster-ip-range=${cidrs.map(({ text }) => text).join(',')}`],
  }
}

function nodePortGroup(all: readonly StoredBitmap[], { expect }: CheckContext): Group {
  const stored = all.filter(isPresent).filter(({ name }) => name === 'servicenodeports')
  const range = expect.serviceNodePortRange ?? textsOf(stored).flatMap((text) => readRanges(text, parsePortRange))[0]
  return {
    item: 'NodePort',
    controller: 'node-port-repair',
    stored,
    claims: range === undefined ? undefined : nodePortClaims(range),
    flags: range === undefined ? [] : [`--service-node-port-range=${range.text}`],
  }
}

/** Undefined if the bitmap of NodePorts is missing. */
export function judgeFreeNodePorts(
  rangeAllocations: readonly StoredBitmap[],
  context: CheckContext,
): Verdict | undefined {
  const { claims, stored } = nodePortGroup(rangeAllocations, context)
  const [range] = claims?.ranges ?? []
  const [one] = stored
  if (one === undefined) return undefined
  const reading =
    claims === undefined || range === undefined
      ? undefined
      : readRange(range, one.stored, { claims, where: one.where, adopt: false })
  if (range === undefined || reading?.type !== 'taken')
    return skipped(`${one.where} differs from the flags or cannot be decoded: see range-allocations`)
  const free = range.size - reading.set.count
  const full: Finding = {
    object: one.where,
    expected: 'a free NodePort',
    found: `all ${range.size} of ${range.text} are allocated`,
    remedy: [byHand('delete a Service with a NodePort, or give the API servers a larger --service-node-port-range')],
  }
  return verdictOf(free > 0 ? [] : [full], `${free} of ${range.size} NodePorts in ${range.text} are free`)
}

/** What writes the bitmap from which API servers allocate NodePorts. */
export function nodePortRepair(
  rangeAllocations: readonly StoredBitmap[] | undefined,
  context: CheckContext,
): readonly Command[] {
  const group = nodePortGroup(rangeAllocations ?? [], context)
  return repairOf(group, group.stored[0])
}

function textsOf(bitmaps: readonly Stored[]): readonly string[] {
  return bitmaps.flatMap(({ stored }) => (stored.type === 'range' ? [stored.range] : []))
}

function findingsIn(group: Group, services: readonly Service[]): readonly Finding[] {
  const { claims, flagFirst, item, stored } = group
  if (claims === undefined) {
    return stored.map((one) =>
      unreadable(one, `${one.where} ${one.stored.type === 'unreadable' ? one.stored.reason : 'has no valid range'}`),
    )
  }
  const { held } = atOnce(surveyServices(services, claims))
  return stored.flatMap((one): readonly Finding[] => {
    const place = claims.ranges.findIndex(({ name }) => name === one.name)
    const range = claims.ranges[place]
    // No server uses a bitmap for which there is no range, such as the second bitmap in a cluster with one range.
    if (range === undefined) return []
    const reading = readRange(range, one.stored, { claims, where: one.where, adopt: false })
    if (reading.type === 'withheld') {
      if (reading.reason === 'unreadable') return [unreadable(one, reading.finding.note)]
      const remedy = flagFirst === undefined ? repairOf(group, one, '--adopt-range') : [flagFirst]
      return [{ object: one.where, expected: `is of ${range.text}`, found: `is of ${reading.finding.item}`, remedy }]
    }
    const used = held[place] ?? reading.set
    const missing = used.minus(reading.set)
    const wanted = claims.ranges.map((_, index) => (index === place ? missing : undefined))
    const users = atOnce(claimantsOf(services, claims, wanted))
    const unallocated = [...missing].map((offset): Finding => {
      const [user] = users[place]?.get(offset) ?? []
      return {
        object: `${item} ${range.textAt(offset)}`,
        expected: `allocated, as Service ${user === undefined ? '' : keyOfObject(user)} uses it`,
        found: 'not allocated',
        remedy: repairOf(group, one),
      }
    })
    const leaked = [...reading.set.minus(used)].map(
      (offset): Finding => ({
        object: `${item} ${range.textAt(offset)}`,
        expected: 'free, as no Service uses it',
        found: 'allocated',
        remedy: repairOf(group, one, '--repair-interval=1m'),
      }),
    )
    return [...unallocated, ...leaked]
  })
}

function unreadable(one: Stored, found: string): Finding {
  return { object: one.where, expected: 'a RangeAllocation', found, remedy: [recreation(one)] }
}

function recreation({ name, where }: Stored): Command {
  return byHand(
    `save and delete the key ${where}; the API servers, or apiserver-bootstrap run, then create ${name} again`,
  )
}

/**
 * What repairs a stored bitmap, or writes a missing one. The repair changes no bitmap that cannot be decoded or is
 * read-only. It frees a leaked number in its third full pass, two minutes after the first one or later.
 */
function repairOf(
  { controller, flags }: Group,
  one: Stored | undefined,
  ...more: readonly string[]
): readonly Command[] {
  const isLeftAlone = one !== undefined && (one.stored.type === 'unreadable' || one.stored.fixed !== undefined)
  return [isLeftAlone ? recreation(one) : runControllers(controller, ...flags, ...more)]
}
