import { type Bound, median, type Report, shown } from './report.ts'
import { compared, figuresOf, limits, type Measure, percentile, runBoth } from './workload-comparison.ts'
import type { WorkloadShape } from './workload-objects.ts'
import { managers, runWorkload, type WorkloadRun } from './workload-run.ts'
import { makeWorkloadTemplate } from './workload-store.ts'

const flips = 1000
const nodes = 100
const shapes: Readonly<Record<string, WorkloadShape>> = {
  '200 × 50': { namespaces: 1, services: 200, podsPerService: 50, nodes },
  '1 × 5,000': { namespaces: 1, services: 1, podsPerService: 5000, nodes },
  '2,000 × 5': { namespaces: 1, services: 2000, podsPerService: 5, nodes },
  '200 × 50 in 20 namespaces': { namespaces: 20, services: 200, podsPerService: 50, nodes },
  '2,000 × 5 in 200 namespaces': { namespaces: 200, services: 2000, podsPerService: 5, nodes },
}

const measures: readonly Measure<WorkloadRun>[] = [
  { name: 'converged, ms', limit: limits.time, of: (runs) => median(runs.map(({ convergedMs }) => convergedMs)) },
  { name: 'from its first write, ms', of: (runs) => median(runs.map(({ wroteMs }) => wroteMs)) },
  {
    name: 'CPU to converge, ms',
    limit: limits.cost,
    of: (runs) => median(runs.map(({ convergeCpuMs }) => convergeCpuMs)),
  },
  { name: 'status to slice event, p50, ms', limit: limits.latency, of: (runs) => percentile(latencies(runs), 0.5) },
  { name: 'status to slice event, p99, ms', limit: limits.latency, of: (runs) => percentile(latencies(runs), 0.99) },
  {
    name: 'CPU a flip, ms',
    limit: limits.cost,
    of: (runs) => median(runs.map(({ flipsCpuMs }) => flipsCpuMs / flips)),
  },
  { name: 'resident, MiB', limit: limits.cost, of: (runs) => median(runs.map(({ residentMib }) => residentMib)) },
  {
    name: 'resident, the most, MiB',
    limit: limits.cost,
    of: (runs) => median(runs.map(({ peakResidentMib }) => peakResidentMib)),
  },
  { name: 'requests to converge', of: (runs) => median(runs.map((run) => run.convergeRequests.all)) },
  { name: 'requests for the flips', of: (runs) => median(runs.map((run) => run.flipsRequests.all)) },
  { name: 'those for Endpoints', of: (runs) => median(runs.map((run) => run.flipsRequests.endpoints)) },
  { name: 'those for EndpointSlices', of: (runs) => median(runs.map((run) => run.flipsRequests.slices)) },
  {
    name: 'requests in all',
    limit: limits.requests,
    of: (runs) => median(runs.map((run) => run.convergeRequests.all + run.flipsRequests.all)),
  },
  { name: 'CPU of the machine in use during the flips, %', of: (runs) => median(runs.map(({ busy }) => 100 * busy)) },
]

/** Compares the Endpoints and EndpointSlices controllers with those of kube-controller-manager. */
export async function measureWorkloads({ rounds }: { readonly rounds: number }): Promise<Report> {
  const template = await makeWorkloadTemplate()
  const rows: (readonly string[])[] = []
  const bounds: Bound[] = []
  for (const [name, shape] of Object.entries(shapes)) {
    const runs = await runBoth(name, rounds, measures, (manager, round) =>
      runWorkload(managers[manager], template, { shape, flips, seed: round }),
    )
    const found = compared(name, measures, runs)
    rows.push(...found.rows)
    bounds.push(...found.bounds)
  }
  return {
    title: 'Endpoints and EndpointSlices',
    method:
      `${rounds} rounds, the two managers in turn, each with a stock kube-apiserver and an etcd of its own, all on the same cores. ` +
      'The peer: kube-controller-manager with endpoints-controller and endpointslice-controller alone, qps 1000, burst 2000; ours: the program with the same two. ' +
      `The store has Services × Pods on ${nodes} Nodes, in one namespace unless a row names more, each Pod ${shown(template.podJsonBytes / 1000)} kB of JSON, and no Endpoints or EndpointSlices. ` +
      '"Converged": from exec until a watcher has seen all of both. ' +
      `Then ${flips} random Pods become unready, 100 a second: from the server’s answer to the event of the EndpointSlice that shows it. ` +
      'CPU is the manager’s, from /proc, until 3 s after convergence; requests are from the server’s own metrics, without those of the bench. ' +
      // From a profile (--cpu-prof) of that shape.
      'Why bounds are missed: with many namespaces, kube-controller-manager searches few objects for each Service, and both managers mostly wait for the API server. kube-controller-manager makes fewer requests where it lags so far that several changes merge into one write (200 × 50, 1 × 5,000). Of the program’s own time in 2,000 × 5 in 200 namespaces 16 % is sending requests, 14 % collecting garbage, 11 % reading watches, 10 % its start and 7 % planning. ' +
      'With 1 × 5,000 the start of Node and the reading of the Pods take most of the time. Its memory begins with the 85 MiB that Node and the loaded code need.',
    header: ['Services × Pods', '', 'kube-controller-manager', 'program', 'of it'],
    rows,
    bounds,
  }
}

function latencies(runs: readonly WorkloadRun[]): readonly number[] {
  return runs.flatMap(({ latenciesMs }) => latenciesMs)
}

/** Growing numbers of Pods, in ever more Services, namespaces and Nodes. */
const growth = [1000, 10_000, 50_000] as const
const grown = (pods: number): WorkloadShape => {
  return { namespaces: pods / 100, services: pods / 10, podsPerService: 10, nodes: pods / 50 }
}
/** For the largest number of Pods, in MiB. */
const mostResident = 300
const growthMeasures = {
  'CPU to converge, ms': (run: WorkloadRun) => run.convergeCpuMs,
  'CPU a flip, ms': (run: WorkloadRun) => run.flipsCpuMs / flips,
  'resident, the most, MiB': (run: WorkloadRun) => run.peakResidentMib,
} as const

/** What the program needs as the number of Pods grows. */
export async function measureWorkloadGrowth({ rounds }: { readonly rounds: number }): Promise<Report> {
  const template = await makeWorkloadTemplate()
  const found = new Map<number, WorkloadRun[]>(growth.map((pods) => [pods, []]))
  for (let round = 1; round <= rounds; round++) {
    for (const [pods, runs] of found) {
      const run = await runWorkload(managers.program, template, { shape: grown(pods), flips, seed: round })
      runs.push(run)
      console.error(`growth ${round}/${rounds}: ${pods} Pods: ${figuresOf(run, measures)}`)
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
