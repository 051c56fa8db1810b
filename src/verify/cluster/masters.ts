import { leases as leaseResource } from '../../kube/resources.ts'
import { secondSliceName } from '../../kubernetes-service/endpoints-plan.ts'
import { addressesIn, addressesInSlice } from '../../kubernetes-service/identity.ts'
import type { InspectedLease } from '../../kubernetes-service/masters/inspection.ts'
import type { MasterRow } from '../../kubernetes-service/masters/masters.ts'
import { familyOf } from '../../net/address.ts'
import { byHand, type Command, type Finding, kubectlDelete, skipped, type Verdict, verdictOf } from './finding.ts'
import { ENDPOINTS, relist } from './kubernetes-endpoints.ts'
import { leasedAddresses, rowsOf } from './live-masters.ts'
import type { CheckContext, Parts } from './state.ts'

interface ExpectedList {
  readonly object: string
  readonly listed: readonly string[]
  /** The expected addresses; undefined if only their number is checked. */
  readonly wanted: readonly string[] | undefined
  /** What to do about a listed address that is not wanted. */
  remove(address: string): Command
}

/**
 * If the expected addresses have two families, compares those of the first family with the Endpoints, and the others
 * with the second slice. Expected addresses of one family are compared with the Endpoints only. The first family is
 * that of the Endpoints or, if these are empty, of the first expected address.
 */
export function judgeExpected(
  { kubernetesEndpoints }: Pick<Parts, 'kubernetesEndpoints'>,
  { expect: { addresses, masters }, state: { kubernetesSlices } }: CheckContext,
): Verdict {
  if (addresses === undefined && masters === undefined) return skipped('give --expect-addresses or --expect-masters')
  const listed = [...new Set(addressesIn(kubernetesEndpoints))]
  const [first = ''] = [...listed, ...(addresses ?? [])]
  const ofSecond = (addresses ?? []).filter((address) => familyOf(address) !== familyOf(first))
  const ofFirst = addresses?.filter((address) => !ofSecond.includes(address))
  const hasTwoFamilies = ofSecond.length > 0 && ofFirst?.length !== 0
  const lists: ExpectedList[] = [
    {
      object: ENDPOINTS,
      listed,
      wanted: hasTwoFamilies ? ofFirst : addresses,
      remove: (address) => (listed.length > 1 ? evictCommand(address) : byHand(listAnother(address))),
    },
  ]
  if (hasTwoFamilies) {
    if (kubernetesSlices?.type !== 'read') return skipped(kubernetesSlices?.reason ?? 'the slices were not read')
    const name = secondSliceName(familyOf(first) === 'IPv6' ? 'IPv4' : 'IPv6')
    const slice = kubernetesSlices.value.find(({ metadata }) => metadata?.name === name)
    lists.push({
      object: `EndpointSlice default/${name}`,
      listed: [...new Set(addressesInSlice(slice))],
      wanted: ofSecond,
      remove: (address) => byHand(removeSecond(address, name)),
    })
  }
  const wrongCount = masters !== undefined && masters !== listed.length
  const show = { tool: 'apiserver-bootstrap', args: ['masters'] } as const
  return verdictOf(
    [
      ...lists.flatMap(listFindings),
      ...(wrongCount ? [listFinding(ENDPOINTS, listed, `lists ${masters} addresses`, show)] : []),
    ],
    lists.flatMap((list) => list.listed).join(', ') || 'nobody',
  )
}

function listFindings({ object, listed, wanted, remove }: ExpectedList): readonly Finding[] {
  if (wanted === undefined) return []
  const missing = wanted.filter((address) => !listed.includes(address))
  const unknown = listed.filter((address) => !wanted.includes(address))
  return [
    ...missing.map((address) => listFinding(object, listed, `lists ${address}`, byHand(seekMaster(address)))),
    ...unknown.map((address) => listFinding(object, listed, `does not list ${address}`, remove(address))),
  ]
}

function listFinding(object: string, listed: readonly string[], expected: string, remedy: Command): Finding {
  return { object, expected, found: `lists ${listed.join(', ') || 'nobody'}`, remedy: [remedy] }
}

/** An instruction, not a command, because a running master that advertises the address would list it again. */
function removeSecond(address: string, slice: string): string {
  const others = 'masters that all have two addresses create it again'
  return `if a master advertises ${address}, correct its --advertise-address; otherwise delete EndpointSlice default/${slice}: ${others}`
}

/** An instruction, not a command, because a sidecar on this machine would hold the address without an API server. */
function seekMaster(address: string): string {
  const questions = `is its API server ready, is its sidecar running, and does it advertise ${address}?`
  return `on the master that should be listed: ${questions} Its log says why it is not listed`
}

/** `masters evict` refuses the last address, so this is an instruction. */
function listAnother(address: string): string {
  return `first start the sidecar of a master that should be listed: ${address} is the last one, which masters evict refuses`
}

/** The command that removes the leases of an address, except those that a master renews. */
export function evictCommand(address: string): Command {
  return { tool: 'apiserver-bootstrap', args: ['masters', 'evict', address, '--yes'] }
}

const withoutLeases: Finding = {
  object: 'leases of masters',
  expected: 'one for each listed address',
  found: 'none in etcd',
  remedy: [
    byHand(
      'check --etcd-prefix, --lease-store, and whether the sidecars run; leave out master-leases if no API server has --endpoint-reconciler-type=lease',
    ),
  ],
}

export function judgeLeases(
  { masterLeases, kubernetesEndpoints }: Pick<Parts, 'masterLeases' | 'kubernetesEndpoints'>,
  context: CheckContext,
): Verdict {
  const { leases, store } = masterLeases
  if (leases.length === 0 && store === 'kubernetes') {
    return skipped('there are no Leases of masters; with --etcd-servers those in etcd are checked')
  }
  if (addressesIn(kubernetesEndpoints).length === 0) return skipped('the Endpoints are empty: see kubernetes-endpoints')
  // A lease in etcd disappears when it expires. So all sidecars may be down, or the prefix may be wrong.
  if (leases.length === 0) return verdictOf([withoutLeases], '')
  const rows = rowsOf(context)
  const right = leasedAddresses(rows)
  const findings = rows.flatMap((row) => {
    const start = isLast(row, rows) ? [byHand(startSidecar(row, store))] : undefined
    return leaseFindings(row, right, context, start)
  })
  return verdictOf(findings, right.join(', '))
}

/** Whether `masters evict` refuses the row because no other address is listed, and no other lease is live. */
function isLast(row: MasterRow, rows: readonly MasterRow[]): boolean {
  return !rows.some((one) => {
    const isElsewhere = one.listed === true && one.address !== row.address
    return isElsewhere || (one !== row && one.leased && one.verdict !== 'stale')
  })
}

function startSidecar({ address }: MasterRow, store: 'etcd' | 'kubernetes'): string {
  const elsewhere = store === 'etcd' ? '' : '; if its leases are in etcd, verify again with --etcd-servers'
  return `start the sidecar of ${address}, which is the last master${elsewhere}`
}

/** `start`: what to do instead of an eviction that would be refused. */
function leaseFindings(
  row: MasterRow,
  right: readonly string[],
  context: CheckContext,
  start: readonly Command[] | undefined,
): readonly Finding[] {
  const { address, conflicts, id = '', listed, verdict } = row
  const object = address === undefined ? `lease ${id}` : `master ${address}`
  const afterwards = listed === true ? relist(right, context) : []
  const evict = start ?? [evictCommand(address ?? ''), ...afterwards]
  const away: readonly Command[] = address === undefined ? deletionCommands(id) : evict
  const stale: Finding = { object, expected: 'a lease that is renewed', found: 'it is not renewed', remedy: away }
  const noted = conflicts.flatMap(({ code, message }): readonly Finding[] => {
    switch (code) {
      case 'listed-without-lease':
      case 'no-lease':
        // A record outlives its lease. So a record without a lease is a fault only if the address is listed.
        if (listed !== true) return []
        return [{ object, expected: 'a live lease', found: message, remedy: relist(right, context) }]
      case 'not-listed':
        return [{ object, expected: 'listed', found: message, remedy: relist(right, context) }]
      case 'never-ends':
      case 'unreadable-value':
      case 'misplaced-value':
      case 'unlistable-value':
        return [{ object, expected: 'the lease of a master', found: message, remedy: away }]
      // The check `shared-addresses` judges `shared-address`, and the finding `stale` below stands for `not-renewed`.
      // `no-holder` and `json-value` are no faults: a kube-apiserver writes no record, and the address is in the key.
      default:
        return []
    }
  })
  return verdict === 'stale' && noted.length === 0 ? [stale] : noted
}

/** What deletes one lease by its id. {@link evictCommand} needs an address, and removes all leases of that address. */
function deletionCommands(id: string): readonly Command[] {
  const [, namespace, name] = /^Lease ([^/]+)\/(.+)$/.exec(id) ?? []
  if (namespace === undefined || name === undefined) return [byHand(`delete the key ${id} in etcd`)]
  return [kubectlDelete(leaseResource, { namespace, name })]
}

export function judgeShared({ masterLeases: { leases } }: Pick<Parts, 'masterLeases'>, context: CheckContext): Verdict {
  if (leases.length === 0) return skipped('there are no leases of masters')
  const shared = rowsOf(context).filter(({ conflicts }) => conflicts.some(({ code }) => code === 'shared-address'))
  const addresses = [...new Set(shared.flatMap(({ address }) => address ?? []))]
  const findings = addresses.map((address): Finding => {
    const hosts = shared.filter((row) => row.address === address).map(({ holder }) => holder?.host ?? '')
    const found = `held by ${[...new Set(hosts)].join(', ')}`
    const [, ...older] = leases.filter((lease) => lease.address === address).sort(byRenewal)
    const remedy = older.length === 0 ? [byHand(separation(address))] : older.flatMap(({ id }) => deletionCommands(id))
    return { object: `master ${address}`, expected: 'held by one host', found, remedy }
  })
  return verdictOf(findings, 'each address is held by one')
}

/** In etcd all hosts with this address share one lease. It can only be removed with the records of all of them. */
function separation(address: string): string {
  const evict = `apiserver-bootstrap masters evict ${address} --yes --force`
  return `give one of them another --advertise-address; if it is gone, ${evict} removes the records of both`
}

/**
 * The lease that was renewed last comes first, even if it ends before another: the lease of a dead host may have a
 * longer TTL.
 */
function byRenewal(a: InspectedLease, b: InspectedLease): number {
  const renewedMs = ({ life }: InspectedLease): number =>
    life.type === 'renewed' && life.leftMs !== undefined ? life.leftMs - life.ttlMs : Number.NEGATIVE_INFINITY
  return renewedMs(b) - renewedMs(a) || 0
}
