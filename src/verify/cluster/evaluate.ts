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
  readonly uses?: readonly PartName[]
  /** Whether the check runs if the caller names no checks. @default always */
  isAsked?(asked: Asked): boolean
  /**
   * Whether a finding counts without a second reading, because the first takes so long that it shows no transient
   * state.
   */
  readonly needsNoSecondReading?: true
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
  'system-namespaces': define({ needs: ['namespaces'], uses: ['nodesServed'], judge: judgeNamespaces }),
  'kubernetes-service': define({
    needs: ['kubernetesService'],
    uses: [...relatedObjects, 'services', 'masterLeases'],
    judge: judgeService,
  }),
  'kubernetes-endpoints': define({
    needs: ['kubernetesEndpoints'],
    uses: [...relatedObjects, 'masterLeases'],
    judge: judgeEndpoints,
  }),
  'kubernetes-endpointslice': define({
    needs: ['kubernetesSlices', 'kubernetesEndpoints'],
    uses: [...relatedObjects, 'masterLeases'],
    judge: judgeSlice,
  }),
  'expected-masters': define({
    needs: ['kubernetesEndpoints'],
    uses: ['kubernetesSlices'],
    isAsked: ({ expect: { addresses, masters } }) => addresses !== undefined || masters !== undefined,
    judge: judgeExpected,
  }),
  'master-leases': define({
    needs: ['masterLeases', 'kubernetesEndpoints'],
    uses: relatedObjects,
    judge: judgeLeases,
  }),
  'shared-addresses': define({ needs: ['masterLeases'], uses: ['kubernetesEndpoints'], judge: judgeShared }),
  'server-answers': define({ ...probed, uses: [...relatedObjects, 'masterLeases'], judge: judgeAnswers }),
  'server-certificate': define({ ...probed, judge: judgeCertificates }),
  'server-ready': define({ ...probed, judge: judgeReadiness }),
  'clock-skew': define({
    needs: [],
    uses: ['serverProbes', 'masterLeases'],
    // Without probes only the renew times of Lease objects show a clock. Leases in etcd contain no renew time.
    isAsked: ({ source }) =>
      source.probe !== undefined || source.etcd === undefined || source.leaseStore === 'kubernetes',
    judge: judgeClocks,
  }),
  'single-writer': define({
    needs: ['objectWrites'],
    isAsked: ({ source }) => source.watchMs !== undefined,
    needsNoSecondReading: true,
    judge: judgeWriters,
  }),
  'service-cidr': define({ needs: ['serviceCidrs'], uses: ['kubernetesService'], judge: judgeServiceCidr }),
  'cluster-ips': define({ needs: ['services'], uses: ['serviceCidrs', 'ipAddresses'], judge: judgeClusterIps }),
  'ip-addresses': define({ needs: ['services', 'ipAddresses'], judge: judgeIpAddresses }),
  'node-ports': define({ needs: ['services'], judge: judgeNodePorts }),
  'range-allocations': define({
    needs: ['services', 'rangeAllocations'],
    uses: ['serviceCidrs', 'ipAddresses'],
    isAsked: ({ source }) => source.etcd !== undefined,
    judge: judgeRangeAllocations,
  }),
  'cluster-ip-available': define({
    needs: ['clusterIpDryRun'],
    uses: ['serviceCidrs', 'kubernetesService'],
    judge: judgeClusterIpDryRun,
  }),
  'node-port-available': define({
    needs: ['nodePortDryRun'],
    uses: ['clusterIpDryRun', 'serviceCidrs', 'rangeAllocations', 'readinessChecks'],
    judge: judgeNodePortDryRun,
  }),
  'service-endpoints': define({ needs: ['services', 'pods', 'endpoints'], judge: judgeServiceEndpoints }),
  'service-endpointslices': define({
    needs: ['services', 'pods', 'nodes', 'endpointSlices'],
    judge: judgeServiceSlices,
  }),
  'orphan-slices': define({ needs: ['services', 'endpointSlices'], uses: ['endpoints'], judge: judgeOrphans }),
  'duplicate-slices': define({ needs: ['endpointSlices'], uses: ['services'], judge: judgeDuplicates }),
}

export function partsFor(ids: readonly CheckId[]): readonly PartName[] {
  return [...new Set(ids.flatMap((id) => [...checks[id].needs, ...(checks[id].uses ?? [])]))]
}

export function needsConfirmation(id: CheckId): boolean {
  return checks[id].needsNoSecondReading !== true
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
