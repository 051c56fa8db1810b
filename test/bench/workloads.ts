import { type Bound, median, type Report, shown } from './report.ts'
import type { WorkloadShape } from './workload-objects.ts'
import { type ManagerName, managers, runWorkload, type WorkloadRun } from './workload-run.ts'
import { makeWorkloadTemplate } from './workload-store.ts'

/** A manager's own figures, of all rounds together. */
interface Measure {
  readonly name: string
  /** How many of the peer's the program may need, at most. */
  readonly limit?: number
  of(runs: readonly WorkloadRun[]): number
}

interface Scenario {
  readonly name: string
  readonly shape: WorkloadShape
  /** Whether limits are kept in it; the others say how it is where namespaces are many, in which a program that looks through all of one finds less. */
  readonly isBound: boolean
}

const flips = 1000
const order: readonly ManagerName[] = ['kube-controller-manager', 'program']
const nodes = 100
const scenarios: readonly Scenario[] = [
  { name: '200 × 50', shape: { namespaces: 1, services: 200, podsPerService: 50, nodes }, isBound: true },
  { name: '1 × 5,000', shape: { namespaces: 1, services: 1, podsPerService: 5000, nodes }, isBound: true },
  { name: '2,000 × 5', shape: { namespaces: 1, services: 2000, podsPerService: 5, nodes }, isBound: true },
  {
    name: '200 × 50 in 20 namespaces',
    shape: { namespaces: 20, services: 200, podsPerService: 50, nodes },
    isBound: false,
  },
  {
    name: '2,000 × 5 in 200 namespaces',
    shape: { namespaces: 200, services: 2000, podsPerService: 5, nodes },
    isBound: false,
  },
]

const limit = 0.8
const measures: readonly Measure[] = [
  { name: 'converged, ms', limit, of: (runs) => median(runs.map(({ convergedMs }) => convergedMs)) },
  { name: 'from its first write, ms', of: (runs) => median(runs.map(({ wroteMs }) => wroteMs)) },
  { name: 'CPU to converge, ms', limit, of: (runs) => median(runs.map(({ convergeCpuMs }) => convergeCpuMs)) },
  { name: 'status to slice event, p50, ms', limit, of: (runs) => percentile(latencies(runs), 0.5) },
  { name: 'status to slice event, p99, ms', limit, of: (runs) => percentile(latencies(runs), 0.99) },
  { name: 'CPU a flip, ms', limit, of: (runs) => median(runs.map(({ flipsCpuMs }) => flipsCpuMs / flips)) },
  { name: 'resident, MiB', limit, of: (runs) => median(runs.map(({ residentMib }) => residentMib)) },
  { name: 'resident, the most, MiB', limit, of: (runs) => median(runs.map(({ peakResidentMib }) => peakResidentMib)) },
  { name: 'requests to converge', of: (runs) => median(runs.map((run) => run.convergeRequests.all)) },
  { name: 'requests for the flips', of: (runs) => median(runs.map((run) => run.flipsRequests.all)) },
  { name: 'those for Endpoints', of: (runs) => median(runs.map((run) => run.flipsRequests.endpoints)) },
  { name: 'those for EndpointSlices', of: (runs) => median(runs.map((run) => run.flipsRequests.slices)) },
  {
    name: 'requests in all',
    limit,
    of: (runs) => median(runs.map((run) => run.convergeRequests.all + run.flipsRequests.all)),
  },
  { name: 'CPU of the machine in use during the flips, %', of: (runs) => median(runs.map(({ busy }) => 100 * busy)) },
]

/** The Endpoints and EndpointSlices controllers beside those of kube-controller-manager. */
export async function measureWorkloads({ rounds }: { readonly rounds: number }): Promise<Report> {
  const template = await makeWorkloadTemplate()
  const rows: (readonly string[])[] = []
  const bounds: Bound[] = []
  for (const { name, shape, isBound } of scenarios) {
    const runs = await runBoth(name, rounds, (manager, round) =>
      runWorkload(managers[manager], template, { shape, flips, seed: round }),
    )
    for (const measure of measures) {
      const [peer, ours] = order.map((manager) => measure.of(runs[manager])) as [number, number]
      rows.push([name, measure.name, shown(peer), shown(ours), shown(ours / peer)])
      if (measure.limit === undefined || !isBound) continue
      bounds.push({
        name: `${name}, ${measure.name}, of the peer’s`,
        value: ours / peer,
        limit: measure.limit,
        unit: '',
      })
    }
  }
  return {
    title: 'Endpoints and EndpointSlices',
    method:
      `${rounds} rounds, the two managers in turn, each with a stock kube-apiserver and an etcd of its own, all on the same cores. ` +
      'The peer: kube-controller-manager with endpoints-controller and endpointslice-controller alone, qps 1000, burst 2000; ours: the program with the same two. ' +
      `The store has Services × Pods on ${nodes} Nodes, in one namespace unless a row names more, each Pod ${shown(template.podJsonBytes / 1000)} kB of JSON, and no Endpoints or EndpointSlices. ` +
      '"Converged": from exec until a watcher has seen all of both. ' +
      `Then ${flips} random Pods become unready, 100 a second: from the server’s answer to the event of the EndpointSlice that shows it. ` +
      'CPU is the manager’s, from /proc, until 3 s after convergence; requests are from the server’s own metrics, without those of the bench.',
    header: ['Services × Pods', '', 'kube-controller-manager', 'program', 'of it'],
    rows,
    bounds,
  }
}

async function runBoth(
  scenario: string,
  rounds: number,
  run: (manager: ManagerName, round: number) => Promise<WorkloadRun>,
): Promise<Readonly<Record<ManagerName, readonly WorkloadRun[]>>> {
  const runs: Record<ManagerName, WorkloadRun[]> = { 'kube-controller-manager': [], program: [] }
  for (let round = 1; round <= rounds; round++) {
    for (const manager of round % 2 === 1 ? order : order.toReversed()) {
      const found = await run(manager, round)
      runs[manager].push(found)
      console.error(`${scenario}, round ${round}/${rounds}, ${manager}: ${told(found)}`)
    }
  }
  return runs
}

function told(run: WorkloadRun): string {
  return measures.map(({ name, of }) => `${name} ${shown(of([run]))}`).join('; ')
}

function latencies(runs: readonly WorkloadRun[]): readonly number[] {
  return runs.flatMap(({ latenciesMs }) => latenciesMs)
}

function percentile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? Number.NaN
}

/** Growing numbers of Pods, in ever more Services, namespaces and Nodes. */
const growth = [1000, 10_000, 50_000] as const
const grown = (pods: number): WorkloadShape => {
  return { namespaces: pods / 100, services: pods / 10, podsPerService: 10, nodes: pods / 50 }
}
/** Of the largest number of Pods, in MiB. */
const mostResident = 300
const growthMeasures = {
  'CPU to converge, ms': (run: WorkloadRun) => run.convergeCpuMs,
  'CPU a flip, ms': (run: WorkloadRun) => run.flipsCpuMs / flips,
  'resident, the most, MiB': (run: WorkloadRun) => run.peakResidentMib,
} as const

/** What the program needs for ever more Pods. */
export async function measureWorkloadGrowth({ rounds }: { readonly rounds: number }): Promise<Report> {
  const template = await makeWorkloadTemplate()
  const found = new Map<number, WorkloadRun[]>(growth.map((pods) => [pods, []]))
  for (let round = 1; round <= rounds; round++) {
    for (const [pods, runs] of found) {
      const run = await runWorkload(managers.program, template, { shape: grown(pods), flips, seed: round })
      runs.push(run)
      console.error(`growth ${round}/${rounds}: ${pods} Pods: ${told(run)}`)
    }
  }
  const lines = Object.entries(growthMeasures).map(([name, of]) => ({
    name,
    values: growth.map((pods) => median((found.get(pods) ?? []).map(of))),
  }))
  const [from, , to] = growth
  const ratio = ([first = Number.NaN, , last = Number.NaN]: readonly number[]): number => last / first
  return {
    title: 'Endpoints and EndpointSlices: growth',
    method: `${rounds === 1 ? 'One round' : `${rounds} rounds`} of the bench above for the program alone, with 10 Pods a Service, 10 Services a namespace and 50 Pods a Node. Medians.`,
    header: ['Pods', ...growth.map((pods) => String(pods)), `${to} / ${from}`],
    rows: lines.map(({ name, values }) => [name, ...values.map(shown), shown(ratio(values))]),
    bounds: [
      ...lines.map(({ name, values }) => ({
        name: `${name}: ${to} Pods / ${from} Pods`,
        value: ratio(values),
        limit: to / from,
        unit: '',
      })),
      {
        name: `resident with ${to} Pods, the most`,
        value: Math.max(...(found.get(to) ?? []).map(({ peakResidentMib }) => peakResidentMib)),
        limit: mostResident,
        unit: 'MiB',
      },
    ],
  }
}
