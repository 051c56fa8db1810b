import { median, type Report } from './report.ts'
import { type ChangesRun, type Cost, type Latencies, runChanges } from './workload-changes-run.ts'
import { compared, limits, type Measure, percentile, runBoth } from './workload-comparison.ts'
import type { WorkloadShape } from './workload-objects.ts'
import { pace, podsPerShard } from './workload-rollout.ts'
import { managers } from './workload-run.ts'
import { makeWorkloadTemplate } from './workload-store.ts'

const shape: WorkloadShape = { namespaces: 20, services: 200, podsPerService: 50, nodes: 100 }
const newServices = 500
const idleMinutes = 2

const cpu: Measure<Cost> = middle('CPU, ms', ({ cpuMs }) => cpuMs, limits.cost)
const busy: Measure<Cost> = middle('CPU of the machine in use, %', ({ busy }) => 100 * busy)
const resident: Measure<Cost> = middle('resident, MiB', ({ residentMib }) => residentMib, limits.cost)
const mostResident: Measure<Cost> = middle('resident, the most, MiB', (cost) => cost.peakResidentMib, limits.cost)
const requests: Measure<Cost> = middle('requests', ({ requests }) => requests.all, limits.requests)
const requestsByKind: readonly Measure<Cost>[] = [
  requests,
  middle('those for Endpoints', ({ requests }) => requests.endpoints),
  middle('those for EndpointSlices', ({ requests }) => requests.slices),
]
const latencies = (name: string): readonly Measure<Latencies>[] =>
  [0.5, 0.99].map((share) => ({
    name: `${name}, p${100 * share}, ms`,
    limit: limits.latency,
    of: (parts) =>
      percentile(
        parts.flatMap(({ latenciesMs }) => latenciesMs),
        share,
      ),
  }))

/** In the order in which they happen. */
const measures: { readonly [Situation in keyof ChangesRun]: readonly Measure<ChangesRun[Situation]>[] } = {
  'settled start': [
    middle('exec to all right, ms', ({ rightMs }) => rightMs, limits.time),
    cpu,
    requests,
    middle('those that write', ({ requests }) => requests.writes),
    resident,
    mostResident,
  ],
  idle: [
    cpu,
    middle('requests, probes included', (cost) => cost.requests.all + cost.requests.probes, limits.requests),
    resident,
  ],
  'Node lost': [
    ...latencies('Pod to slice event'),
    middle('last Pod to last slice, ms', ({ slicesMs }) => slicesMs, limits.time),
    middle('last Pod to last Endpoints, ms', ({ endpointsMs }) => endpointsMs, limits.time),
    cpu,
    ...requestsByKind,
  ],
  'rolling update': [
    ...latencies('Pod to slice event'),
    middle('last Pod to all right, ms', ({ rightMs }) => rightMs, limits.time),
    cpu,
    ...requestsByKind,
    mostResident,
    busy,
  ],
  'new Services': [
    middle('first create to all right, ms', ({ allMs }) => allMs, limits.time),
    middle('last create to all right, ms', ({ rightMs }) => rightMs, limits.time),
    ...latencies('Service to both right'),
    cpu,
    ...requestsByKind,
    busy,
  ],
}

/**
 * Compares the controllers of Endpoints and EndpointSlices with those of kube-controller-manager while a cluster
 * changes.
 */
export async function measureWorkloadChanges({ rounds }: { readonly rounds: number }): Promise<Report> {
  const template = await makeWorkloadTemplate()
  const situations = Object.keys(measures) as (keyof ChangesRun)[]
  const all = situations.flatMap((situation) =>
    measuresOf(situation).map((measure) => ({ ...measure, name: `${situation}: ${measure.name}` })),
  )
  const options = { shape, newServices, idleMs: idleMinutes * 60_000 }
  const runs = await runBoth('changes', rounds, all, (manager) => runChanges(managers[manager], template, options))
  const found = situations.map((situation) => compared(situation, measuresOf(situation), runs))
  return {
    title: 'Endpoints and EndpointSlices: changes',
    method:
      `${rounds === 1 ? 'One round' : `${rounds} rounds`} of both managers in turn, as above, with ${shape.services} Services × ${shape.podsPerService} Pods in ${shape.namespaces} namespaces on ${shape.nodes} Nodes. Medians, and percentiles of all rounds. ` +
      'Each manager settles and ends. "Settled start": a Pod has become unready meanwhile, and all else is right. ' +
      `"Idle": ${idleMinutes} minutes in which nothing happens. ` +
      '"Node lost": a Node becomes NotReady, and all its Pods unready at once. ' +
      `"Rolling update": all Pods are replaced, ${pace.changesPerSecond / 2} a second, in ${pace.servicesAtOnce} Services at the same time, a quarter of each at a time: an old Pod is terminating for ${pace.terminationMs / 1000} s, a new one is created, then ready. ` +
      `"New Services": ${newServices} at once, each of which selects ${podsPerShard} of the new Pods. ` +
      'Times of Pods and Services are from the server’s answer to a write until a watcher sees the event that shows it. ' +
      'CPU is the manager’s, from /proc, until 3 s after the last event; requests are from the server’s own metrics, without those of the bench and, except where a row says so, probes of /readyz. ' +
      // From a profile (--cpu-prof) of five lost Nodes.
      'Why bounds are missed: "Node lost" and "new Services" are bursts in which the API server uses most of the machine, and the program is one thread. Of its time in "Node lost" 40 % is collecting garbage, because its heap is small (docs/decisions/small-heap.md): its memory is half of the peer’s for that; 15 % is syncs, 14 % sending requests, 8 % reading watches. ' +
      'In "settled start" Node’s start and the loading of the code take 155 ms. The requests in "idle" are probes of /readyz, which kube-controller-manager does not make; the CPU is counted in ticks of 10 ms, and the memory begins with the 85 MiB that Node and the loaded code need. In "rolling update" both mostly wait for the API server.',
    header: ['', '', 'kube-controller-manager', 'program', 'of it'],
    rows: found.flatMap(({ rows }) => rows),
    bounds: found.flatMap(({ bounds }) => bounds),
  }
}

function middle<Part>(name: string, of: (part: Part) => number, limit?: number): Measure<Part> {
  return { name, ...(limit !== undefined && { limit }), of: (parts) => median(parts.map(of)) }
}

function measuresOf<Situation extends keyof ChangesRun>(situation: Situation): readonly Measure<ChangesRun>[] {
  return measures[situation].map((measure) => ({
    ...measure,
    of: (runs) => measure.of(runs.map((run) => run[situation])),
  }))
}
