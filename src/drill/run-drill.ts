import { formatDuration } from '../documents/duration.ts'
import { membershipTimings } from '../kubernetes-service/membership/timings.ts'
import { seededRandom } from '../runtime/random.ts'
import { FleetJudge, type Violation } from '../verify/fleet-judge.ts'
import { condenseServed, inOrder, simulateClients } from './clients.ts'
import { Conductor } from './conductor.ts'
import { checkArguments, type DrillOptions, type Variant } from './drill-arguments.ts'
import type { DrillEvent } from './event.ts'
import { computeFigures } from './figures.ts'
import { knownFailures } from './known-failures.ts'
import { drawSteps } from './random/random-scenario.ts'
import { DrillRecorder } from './recorder.ts'
import type { DrillReport, RunReport, VariantReport } from './report.ts'
import type { FleetPlan, Scenario } from './scenario.ts'
import { longestTtlMs, whyUnjudged } from './scenario-duration.ts'
import { masterDefaults } from './simulator/master-defaults.ts'
import { simulatedLatency } from './simulator/route.ts'
import { SimulatedTarget } from './simulator/target.ts'
import type { DrillTarget } from './target.ts'

export type { DrillOptions, Variant } from './drill-arguments.ts'

/** How one run went. */
export interface RunOutcome {
  /** In the order of time, what clients met among them: served connections as counts. */
  readonly events: readonly DrillEvent[]
  readonly violations: readonly Violation[]
  /** Until when the run went, from time 0. */
  readonly untilMs: number
  /** How late the timers of the host were at most, in milliseconds. */
  readonly latenessMs: number
}

/**
 * Drills a fleet as a scenario says, and reports. In the simulator, where no target is given: the code that ships, in simulated time, the
 * same for the same seed. Rejects with a {@link DrillError} when a fleet does not come up or a step cannot be done, with the signal's
 * reason when it is aborted; every process has ended then, and what was found is put back. Rejects with a RangeError that names the
 * argument that is not of its form.
 */
export async function runDrill(scenario: Scenario, options: DrillOptions = {}): Promise<DrillReport> {
  checkArguments(scenario, options)
  const { seed = 1, runs = 1, openTarget, version = '', command = '', signal, onEvent } = options
  const variants = options.variants ?? [{ name: variantName(scenario.fleet), fleet: {} }]
  const reports: VariantReport[] = []
  let latenessMs = 0
  for (const variant of variants) {
    const varied = vary(scenario, variant)
    const outcomes: RunOutcome[] = []
    for (let index = 0; index < runs; index++) {
      const target =
        openTarget === undefined
          ? new SimulatedTarget(varied.fleet, seed + index, options.createMaster)
          : await openTarget(varied, seed + index)
      const outcome = await runOnce(drawSteps(varied, seed + index), {
        target,
        seed: seed + index,
        signal: signal ?? new AbortController().signal,
        onEvent: onEvent && ((event) => onEvent(event, { variant: variant.name, index })),
      })
      outcomes.push(outcome)
      latenessMs = Math.max(latenessMs, outcome.latenessMs)
    }
    reports.push(variantReport(variant, varied, outcomes, seed, openTarget === undefined))
  }
  return {
    apiVersion: 'apiserver-bootstrap/v1alpha1',
    kind: 'DrillReport',
    version,
    target: openTarget === undefined ? 'sim' : 'live',
    seed,
    command,
    scenario,
    held: reports.every(({ held }) => held),
    unjudged: variants.map((variant) => whyUnjudged(vary(scenario, variant))).find((why) => why !== undefined),
    hostLate: hostLate(latenessMs, scenario),
    variants: reports,
  }
}

/** Says of a host that was later than the judge, or a renewal of a lease, allows anybody to be that it was; undefined of any other. */
function hostLate(latenessMs: number, { bounds, fleet }: Scenario): string | undefined {
  const { attemptMs } = membershipTimings({ ...fleet, readinessProbePeriodMs: masterDefaults.readinessProbePeriodMs })
  const boundMs = Math.min(bounds.removalMarginMs, bounds.listedMs, bounds.agreementMs, attemptMs)
  if (latenessMs <= boundMs) return undefined
  const seconds = (latenessMs / 1000).toFixed(1)
  return `This host was up to ${seconds} s late for its own timers, where the judge and the leases allow ${formatDuration(boundMs)}: what did not hold, and times in the figures, may be the host's doing. Drill again on a host that has less to do.`
}

/** Drills one fleet once, and closes it. Rejects as {@link runDrill} does. */
export async function runOnce(
  scenario: Scenario,
  options: {
    readonly target: DrillTarget
    readonly seed: number
    readonly signal: AbortSignal
    readonly onEvent?: ((event: DrillEvent) => void) | undefined
  },
): Promise<RunOutcome> {
  const { target, seed, signal, onEvent } = options
  const recorder = new DrillRecorder(target, new FleetJudge({ bounds: scenario.bounds }), onEvent)
  try {
    await target.open(recorder, signal)
    await target.drive(new Conductor({ target, recorder, scenario, signal }).run())
  } finally {
    await target.close()
  }
  const { events, violations } = recorder
  const { latenessMs = 0 } = target
  const untilMs = scenario.durationMs
  if (target.kind === 'live') return { events: condenseServed(events), violations, untilMs, latenessMs }
  const met = simulateClients(events, scenario.clients, { random: seededRandom(seed, 'clients'), untilMs })
  return { events: inOrder([...events, ...met]), violations, untilMs, latenessMs }
}

/** The variant in which a fleet runs already. */
export function variantName({
  reconciler,
  leaseStore,
  masters,
}: Pick<FleetPlan, 'reconciler' | 'leaseStore' | 'masters'>): string {
  if (masters.every(({ kind }) => kind === 'kube-apiserver')) return 'kube-apiserver'
  return reconciler === 'lease' ? `lease (${leaseStore})` : reconciler
}

/** A scenario with the fleet of a variant. */
export function vary(scenario: Scenario, { fleet, kubeApiservers = false }: Variant): Scenario {
  const masters = scenario.fleet.masters.map((master) =>
    kubeApiservers ? { ...master, kind: 'kube-apiserver' as const } : master,
  )
  const varied = { ...scenario.fleet, ...fleet, masters }
  // A kube-apiserver knows no other leases than those in etcd.
  const leaseStore = kubeApiservers && varied.leaseStore !== 'kine' ? 'etcd' : varied.leaseStore
  return { ...scenario, fleet: { ...varied, leaseStore } }
}

function variantReport(
  { name }: Variant,
  { fleet, bounds, steps }: Scenario,
  outcomes: readonly RunOutcome[],
  seed: number,
  simulated: boolean,
): VariantReport {
  const runs = outcomes.map(({ events, violations }, index): RunReport => {
    const told = index === 0 || violations.length > 0
    return { seed: seed + index, violations, events: told ? events : undefined }
  })
  const figures = computeFigures(outcomes, { deadUntilMs: longestTtlMs(steps, fleet) + bounds.removalMarginMs })
  const upstream = fleet.masters.every(({ kind }) => kind === 'kube-apiserver')
  return {
    name,
    held: runs.every(({ violations }) => violations.length === 0),
    runs,
    figures,
    knownFailures: knownFailures(upstream ? 'lease' : fleet.reconciler, figures),
    latency: simulated ? { ...simulatedLatency, spikes: fleet.spikes } : undefined,
  }
}
