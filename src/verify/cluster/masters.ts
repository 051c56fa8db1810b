import { leases as leaseResource } from '../../kube/resources.ts'
import { addressesIn } from '../../kubernetes-service/identity.ts'
import type { InspectedLease } from '../../kubernetes-service/masters/inspection.ts'
import type { MasterRow } from '../../kubernetes-service/masters/masters.ts'
import { byHand, type Command, type Finding, kubectl, skipped, type Verdict, verdictOf } from './finding.ts'
import { relist } from './kubernetes-endpoints.ts'
import { leasedAddresses, rowsOf } from './live-masters.ts'
import type { CheckContext, Parts } from './state.ts'

/** Checks the listed addresses against the expected ones. */
export function judgeExpected(
  { kubernetesEndpoints }: Pick<Parts, 'kubernetesEndpoints'>,
  { expect }: CheckContext,
): Verdict {
  const { addresses, masters } = expect
  if (addresses === undefined && masters === undefined) return skipped('give --expect-addresses or --expect-masters')
  const listed = [...new Set(addressesIn(kubernetesEndpoints))]
  const missing = (addresses ?? []).filter((address) => !listed.includes(address))
  const unknown = addresses === undefined ? [] : listed.filter((address) => !addresses.includes(address))
  const found = listed.join(', ') || 'nobody'
  const finding = (expected: string, remedy: readonly Command[]): Finding => ({
    object: 'Endpoints default/kubernetes',
    expected,
    found: `lists ${found}`,
    remedy,
  })
  const wrongCount = masters !== undefined && masters !== listed.length
  const show = { tool: 'apiserver-bootstrap', args: ['masters'] } as const
  return verdictOf(
    [
      ...missing.map((address) => finding(`lists ${address}`, [byHand(seekMaster(address))])),
      ...unknown.map((address) => finding(`does not list ${address}`, [evict(address)])),
      ...(wrongCount ? [finding(`lists ${masters} addresses`, [show])] : []),
    ],
    found,
  )
}

/** Not a command, because a sidecar that runs here would hold the address without an API server behind it. */
function seekMaster(address: string): string {
  const questions = `is its API server ready, is its sidecar running, and does it advertise ${address}?`
  return `on the master that should be listed: ${questions} Its log says why it is not listed`
}

/** Removes the leases of an address, unless somebody renews them. */
export function evict(address: string): Command {
  return { tool: 'apiserver-bootstrap', args: ['masters', 'evict', address, '--yes'] }
}

/** Checks the leases against the list. */
export function judgeLeases(
  { masterLeases, kubernetesEndpoints }: Pick<Parts, 'masterLeases' | 'kubernetesEndpoints'>,
  context: CheckContext,
): Verdict {
  const { leases, store } = masterLeases
  if (leases.length === 0 && store === 'kubernetes') {
    return skipped('there are no Leases of masters; with --etcd-servers those in etcd are checked')
  }
  if (addressesIn(kubernetesEndpoints).length === 0) return skipped('the Endpoints are empty: see kubernetes-endpoints')
  const rows = rowsOf(context)
  const right = leasedAddresses(rows)
  const findings = rows.flatMap((row) => leaseFindings(row, right, context))
  return verdictOf(findings, right.join(', '))
}

function leaseFindings(row: MasterRow, right: readonly string[], context: CheckContext): readonly Finding[] {
  const { address, conflicts, id = '', listed, verdict } = row
  const object = address === undefined ? `lease ${id}` : `master ${address}`
  const afterwards = listed === true ? relist(right, context) : []
  const away: readonly Command[] = address === undefined ? deletion(id) : [evict(address), ...afterwards]
  const stale: Finding = { object, expected: 'a lease that is renewed', found: 'it is not renewed', remedy: away }
  const noted = conflicts.flatMap(({ code, message }): readonly Finding[] => {
    switch (code) {
      case 'listed-without-lease':
        return [{ object, expected: 'a live lease', found: message, remedy: relist(right, context) }]
      // A record outlives its lease, so only a listed master needs both.
      case 'no-lease':
        if (listed !== true) return []
        return [{ object, expected: 'a live lease', found: message, remedy: relist(right, context) }]
      case 'not-listed':
        return [{ object, expected: 'listed', found: message, remedy: relist(right, context) }]
      case 'never-ends':
      case 'unreadable-value':
      case 'misplaced-value':
      case 'unlistable-value':
        return [{ object, expected: 'the lease of a master', found: message, remedy: away }]
      // Other conflicts are no fault: a kube-apiserver has no record, and an old cluster's JSON counts by its key.
      default:
        return []
    }
  })
  return verdict === 'stale' && noted.length === 0 ? [stale] : noted
}

/** Deletes a Lease by its name. One without an address cannot be evicted by address. */
function deletion(id: string): readonly Command[] {
  const [, namespace, name] = /^Lease ([^/]+)\/(.+)$/.exec(id) ?? []
  if (namespace === undefined || name === undefined) return [byHand(`delete the key ${id} in etcd`)]
  return [kubectl('delete', leaseResource.plural, name, `--namespace=${namespace}`)]
}

/** Checks that no two hosts hold the same address. */
export function judgeShared({ masterLeases: { leases } }: Pick<Parts, 'masterLeases'>, context: CheckContext): Verdict {
  if (leases.length === 0) return skipped('there are no leases of masters')
  const shared = rowsOf(context).filter(({ conflicts }) => conflicts.some(({ code }) => code === 'shared-address'))
  const addresses = [...new Set(shared.flatMap(({ address }) => address ?? []))]
  const findings = addresses.map((address): Finding => {
    const hosts = shared.filter((row) => row.address === address).map(({ holder }) => holder?.host ?? '')
    const found = `held by ${[...new Set(hosts)].join(', ')}`
    const [, ...older] = leases.filter((lease) => lease.address === address).sort(byRenewal)
    const remedy = older.length === 0 ? [byHand(separation(address))] : older.flatMap(({ id }) => deletion(id))
    return { object: `master ${address}`, expected: 'held by one host', found, remedy }
  })
  return verdictOf(findings, 'each address is held by one')
}

/** In etcd the hosts share one lease, which can only be removed with all of their records. */
function separation(address: string): string {
  const evict = `apiserver-bootstrap masters evict ${address} --yes --force`
  return `give one of them another --advertise-address; if it is gone, ${evict} removes the records of both`
}

/** The latest renewal first. */
function byRenewal(a: InspectedLease, b: InspectedLease): number {
  const leftOf = ({ life }: InspectedLease): number => (life.type === 'never' ? 0 : (life.leftMs ?? 0))
  return leftOf(b) - leftOf(a)
}
