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
import type { About, Expectations, Part, PartName, Parts } from './state.ts'
import { judgeDuplicates, judgeOrphans, judgeServiceEndpoints, judgeServiceSlices } from './workloads.ts'

/** A check: what it needs of the cluster's state, and its verdict on that. */
interface Check<Need extends PartName> {
  /** Without these it is skipped. */
  readonly needs: readonly Need[]
  /** It is stricter with these. */
  readonly wants?: readonly PartName[]
  /** Whether it is among the checks when none is named. @default always */
  isAsked?(expect: Expectations): boolean
  /** Pure. */
  judge(parts: Pick<Parts, Need>, about: About): Verdict
}

type AnyCheck = Omit<Check<PartName>, 'judge'> & {
  judge(parts: Partial<Parts>, about: About): Verdict
}

function define<Need extends PartName>(check: Check<Need>): AnyCheck {
  return check as unknown as AnyCheck
}

/** The three objects and the range that belong together. */
const beside: readonly PartName[] = ['kubernetesService', 'kubernetesEndpoints', 'kubernetesSlices', 'serviceCidrs']

const checks: Readonly<Record<CheckId, AnyCheck>> = {
  'system-namespaces': define({ needs: ['namespaces'], wants: ['nodesServed'], judge: judgeNamespaces }),
  'kubernetes-service': define({ needs: ['kubernetesService'], wants: beside, judge: judgeService }),
  'kubernetes-endpoints': define({ needs: ['kubernetesEndpoints'], wants: beside, judge: judgeEndpoints }),
  'kubernetes-endpointslice': define({
    needs: ['kubernetesSlices', 'kubernetesEndpoints'],
    wants: beside,
    judge: judgeSlice,
  }),
  'expected-masters': define({
    needs: ['kubernetesEndpoints'],
    isAsked: ({ addresses, masters }) => addresses !== undefined || masters !== undefined,
    judge: judgeExpected,
  }),
  'master-leases': define({ needs: ['masterLeases', 'kubernetesEndpoints'], wants: beside, judge: judgeLeases }),
  'shared-addresses': define({ needs: ['masterLeases'], wants: ['kubernetesEndpoints'], judge: judgeShared }),
  'service-cidr': define({ needs: ['serviceCidrs'], judge: judgeServiceCidr }),
  'cluster-ips': define({ needs: ['services'], wants: ['serviceCidrs', 'ipAddresses'], judge: judgeClusterIps }),
  'ip-addresses': define({ needs: ['services', 'ipAddresses'], judge: judgeIpAddresses }),
  'node-ports': define({ needs: ['services'], judge: judgeNodePorts }),
  'cluster-ip-available': define({ needs: ['clusterIpDryRun'], wants: ['serviceCidrs'], judge: judgeClusterIpDryRun }),
  'node-port-available': define({
    needs: ['nodePortDryRun'],
    wants: ['clusterIpDryRun', 'serviceCidrs'],
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

/** The parts of the state that these checks read. */
export function partsFor(ids: readonly CheckId[]): readonly PartName[] {
  return [...new Set(ids.flatMap((id) => [...checks[id].needs, ...(checks[id].wants ?? [])]))]
}

/** The verdict of one check. Pure. */
export function evaluate(id: CheckId, about: About): Verdict {
  const { needs, judge } = checks[id]
  const parts: Record<string, unknown> = {}
  for (const name of needs) {
    const part = about.state[name] as Part<unknown> | undefined
    if (part?.type !== 'read') return skipped(part?.reason ?? `${name} was not read`)
    parts[name] = part.value
  }
  return judge(parts as Partial<Parts>, about)
}

/** The checks that were chosen, in the order of reports. */
export function chosenChecks(choice: {
  readonly only?: readonly CheckId[] | undefined
  readonly skip?: readonly CheckId[] | undefined
  readonly expect?: Expectations | undefined
}): readonly CheckId[] {
  const { only, skip = [], expect = {} } = choice
  const isChosen = (id: CheckId): boolean => only?.includes(id) ?? checks[id].isAsked?.(expect) ?? true
  return checkIds.filter((id) => isChosen(id) && !skip.includes(id))
}
