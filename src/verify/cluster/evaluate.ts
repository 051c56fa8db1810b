import {
  judgeClusterIpDryRun,
  judgeClusterIps,
  judgeIpAddresses,
  judgeNodePortDryRun,
  judgeNodePorts,
  judgeServiceCidr,
} from './allocations.ts'
import { type CheckId, checkIds } from './check-ids.ts'
import { skipped, type Verdict } from './finding.ts'
import { judgeEndpoints, judgeSlice } from './kubernetes-endpoints.ts'
import { judgeNamespaces, judgeService } from './kubernetes-service.ts'
import { judgeExpected, judgeLeases, judgeShared } from './masters.ts'
import { judgeRangeAllocations } from './range-allocations.ts'
import type { ClusterSource } from './read-cluster.ts'
import { judgeAnswers, judgeCertificates, judgeClocks, judgeReadiness } from './servers.ts'
import type { CheckContext, Expectations, Part, PartName, Parts } from './state.ts'
import { judgeDuplicates, judgeOrphans, judgeServiceEndpoints, judgeServiceSlices } from './workloads.ts'
import { judgeWriters } from './writers.ts'

/** The expectations and sources of the caller, which decide which checks run by default. */
interface Asked {
  readonly expect: Expectations
  readonly source: Pick<ClusterSource, 'etcd' | 'leaseStore' | 'probe' | 'watchMs'>
}

interface Check<Need extends PartName> {
  /** If one of these parts was not read, the check is skipped. */
  readonly needs: readonly Need[]
  /** The check, or the remedy of a finding, also uses these parts if they were read. */
  readonly wants?: readonly PartName[]
  /** Whether the check runs if the caller names no checks. @default always */
  isAsked?(asked: Asked): boolean
  /**
   * Whether a finding counts without a second reading, because the first takes so long that it shows no transient
   * state.
   */
  readonly isConfirmed?: true
  /** Pure. */
  judge(parts: Pick<Parts, Need>, context: CheckContext): Verdict
}

type AnyCheck = Omit<Check<PartName>, 'judge'> & {
  judge(parts: Partial<Parts>, context: CheckContext): Verdict
}

function define<Need extends PartName>(check: Check<Need>): AnyCheck {
  return check as unknown as AnyCheck
}

/** The three objects `default/kubernetes` and the range of Services, which must agree. */
const relatedObjects: readonly PartName[] = [
  'kubernetesService',
  'kubernetesEndpoints',
  'kubernetesSlices',
  'serviceCidrs',
]

const probed = {
  needs: ['serverProbes'] as const,
  isAsked: ({ source }: Asked): boolean => source.probe !== undefined,
}

const checks: Readonly<Record<CheckId, AnyCheck>> = {
  'system-namespaces': define({ needs: ['namespaces'], wants: ['nodesServed'], judge: judgeNamespaces }),
  'kubernetes-service': define({ needs: ['kubernetesService'], wants: relatedObjects, judge: judgeService }),
  'kubernetes-endpoints': define({ needs: ['kubernetesEndpoints'], wants: relatedObjects, judge: judgeEndpoints }),
  'kubernetes-endpointslice': define({
    needs: ['kubernetesSlices', 'kubernetesEndpoints'],
    wants: [...relatedObjects, 'masterLeases'],
    judge: judgeSlice,
  }),
  'expected-masters': define({
    needs: ['kubernetesEndpoints'],
    wants: ['kubernetesSlices'],
    isAsked: ({ expect: { addresses, masters } }) => addresses !== undefined || masters !== undefined,
    judge: judgeExpected,
  }),
  'master-leases': define({
    needs: ['masterLeases', 'kubernetesEndpoints'],
    wants: relatedObjects,
    judge: judgeLeases,
  }),
  'shared-addresses': define({ needs: ['masterLeases'], wants: ['kubernetesEndpoints'], judge: judgeShared }),
  'server-answers': define({ ...probed, wants: [...relatedObjects, 'masterLeases'], judge: judgeAnswers }),
  'server-certificate': define({ ...probed, judge: judgeCertificates }),
  'server-ready': define({ ...probed, judge: judgeReadiness }),
  'clock-skew': define({
    needs: [],
    wants: ['serverProbes', 'masterLeases'],
    // Without probes only the renew times of Lease objects show a clock. Leases in etcd contain no renew time.
    isAsked: ({ source }) =>
      source.probe !== undefined || source.etcd === undefined || source.leaseStore === 'kubernetes',
    judge: judgeClocks,
  }),
  'single-writer': define({
    needs: ['objectWrites'],
    isAsked: ({ source }) => source.watchMs !== undefined,
    isConfirmed: true,
    judge: judgeWriters,
  }),
  'service-cidr': define({ needs: ['serviceCidrs'], wants: ['kubernetesService'], judge: judgeServiceCidr }),
  'cluster-ips': define({ needs: ['services'], wants: ['serviceCidrs', 'ipAddresses'], judge: judgeClusterIps }),
  'ip-addresses': define({ needs: ['services', 'ipAddresses'], judge: judgeIpAddresses }),
  'node-ports': define({ needs: ['services'], judge: judgeNodePorts }),
  'range-allocations': define({
    needs: ['services', 'rangeAllocations'],
    wants: ['serviceCidrs', 'ipAddresses'],
    isAsked: ({ source }) => source.etcd !== undefined,
    judge: judgeRangeAllocations,
  }),
  'cluster-ip-available': define({
    needs: ['clusterIpDryRun'],
    wants: ['serviceCidrs', 'kubernetesService'],
    judge: judgeClusterIpDryRun,
  }),
  'node-port-available': define({
    needs: ['nodePortDryRun'],
    wants: ['clusterIpDryRun', 'serviceCidrs', 'rangeAllocations', 'readinessChecks'],
    judge: judgeNodePortDryRun,
  }),
  'service-endpoints': define({ needs: ['services', 'pods', 'endpoints'], judge: judgeServiceEndpoints }),
  'service-endpointslices': define({
    needs: ['services', 'pods', 'nodes', 'endpointSlices'],
    judge: judgeServiceSlices,
  }),
  'orphan-slices': define({ needs: ['services', 'endpointSlices'], wants: ['endpoints'], judge: judgeOrphans }),
  'duplicate-slices': define({ needs: ['endpointSlices'], wants: ['services'], judge: judgeDuplicates }),
}

export function partsFor(ids: readonly CheckId[]): readonly PartName[] {
  return [...new Set(ids.flatMap((id) => [...checks[id].needs, ...(checks[id].wants ?? [])]))]
}

export function needsConfirmation(id: CheckId): boolean {
  return checks[id].isConfirmed !== true
}

/** The verdict of a check: `skipped` if a part that the check needs was not read. Pure. */
export function evaluate(id: CheckId, context: CheckContext): Verdict {
  const { needs, judge } = checks[id]
  const parts: Record<string, unknown> = {}
  for (const name of needs) {
    const part = context.state[name] as Part<unknown> | undefined
    if (part?.type !== 'read') return skipped(part?.reason ?? `${name} was not read`)
    parts[name] = part.value
  }
  return judge(parts as Partial<Parts>, context)
}

export function chosenChecks(choice: {
  readonly only?: readonly CheckId[] | undefined
  readonly skip?: readonly CheckId[] | undefined
  readonly expect?: Expectations | undefined
  readonly source?: Asked['source'] | undefined
}): readonly CheckId[] {
  const { only, skip = [], expect = {}, source = {} } = choice
  const isChosen = (id: CheckId): boolean => only?.includes(id) ?? checks[id].isAsked?.({ expect, source }) ?? true
  return checkIds.filter((id) => isChosen(id) && !skip.includes(id))
}
