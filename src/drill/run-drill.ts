import type { createMaster } from '../bootstrap/master.ts'
import { formatDuration } from '../documents/duration.ts'
import { membershipTimings } from '../kubernetes-service/membership/timings.ts'
import { seededRandom } from '../runtime/random.ts'
import { FleetChecker, type Violation } from '../verify/fleet-checker.ts'
import { condenseServed, inOrder, simulateClients } from './clients.ts'
import { Conductor, ruleOf } from './conductor.ts'
import type { DrillEvent } from './event.ts'
import { drawSteps } from './random/random-scenario.ts'
import { DrillRecorder } from './recorder.ts'
import { knownFailures } from './report/failures.ts'
import { computeFigures } from './report/figures.ts'
import type { Distribution, DrillReport, Figures, RunReport, VariantReport } from './report/report.ts'
import type { RequestRule } from './request-faults.ts'
import { longestTtlMs, whyUnchecked } from './scenario/duration.ts'
import { describeStep } from './scenario/render.ts'
import type { FleetPlan, Scenario } from './scenario/scenario.ts'
import { simulatedLatency } from './simulator/etcd-link.ts'
import { masterDefaults } from './simulator/master.ts'
import { SimulatedTarget } from './simulator/target.ts'
import type { DrillTarget } from './target.ts'

/** The most samples of each measured time, for each variant of a report. */
const MOST_SAMPLES = 500
/** The most histories of failed runs, for each variant of a report. */
const MOST_FAILED_HISTORIES = 3

interface RunOutcome {
  /**
   * In the order of time, with the connections of clients. One `served` event counts the served connections of a
   * second.
   */
  readonly events: readonly DrillEvent[]
  readonly violations: readonly Violation[]
  /** The end of the scenario, in milliseconds from time 0. Steps may take longer. */
  readonly untilMs: number
  /** The dead addresses that are listed at the end, and that no invariant could judge. */
  readonly unjudged: readonly string[]
  /** The greatest lateness of the host's timers, in milliseconds; 0 for a simulated fleet. */
  readonly latenessMs: number
}

/**
 * Drills each variant of a scenario `runs` times, each time with a new fleet, and resolves with the report. Without
 * `createTarget` the fleets are simulated: the shipped code runs in simulated time, and the same seed always gives the
 * same report.
 *
 * Rejects with a {@link DrillError} if a fleet does not start, a step is impossible or the objects cannot be restored;
 * with a KubeError if the API server fails, or refuses a write by which a step damages an object; with the signal's
 * reason if the signal is aborted; and with a RangeError that names an invalid argument. Before runDrill rejects, it
 * ends every process and, if possible, restores the objects.
 */
export async function runDrill(scenario: Scenario, options: DrillOptions = {}): Promise<DrillReport> {
  const { seed = 1, runs = 1, createTarget, version = '', command = '', signal, onEvent } = options
  const variants = options.variants ?? [{ name: variantName(scenario.fleet), fleet: {} }]
  checkOptions({ seed, runs, variants })
  const reports: VariantReport[] = []
  const unjudged: string[] = []
  const idle: string[] = []
  let latenessMs = 0
  for (const variant of variants) {
    const varied = vary(scenario, variant)
    const outcomes: RunOutcome[] = []
    const hits = new StepHits(varied)
    for (let index = 0; index < runs; index++) {
      const target =
        createTarget === undefined
          ? new SimulatedTarget(varied.fleet, seed + index, { createMaster: options.createMaster })
          : await createTarget(varied, seed + index)
      const outcome = await runOnce(drawSteps(varied, seed + index), {
        target,
        seed: seed + index,
        signal: signal ?? new AbortController().signal,
        onEvent: onEvent && ((event) => onEvent(event, { variant: variant.name, index })),
      })
      outcomes.push(outcome)
      hits.add(target)
      unjudged.push(...outcome.unjudged)
      latenessMs = Math.max(latenessMs, outcome.latenessMs)
    }
    idle.push(...hits.missed.map((step) => `${step} hit no request with ${variant.name}`))
    reports.push(variantReport(variant, varied, outcomes, seed, createTarget === undefined))
  }
  return {
    apiVersion: 'apiserver-bootstrap/v1alpha1',
    kind: 'DrillReport',
    version,
    target: createTarget === undefined ? 'sim' : 'live',
    seed,
    command,
    scenario,
    held: reports.every(({ held }) => held),
    unchecked:
      variants.map((variant) => whyUnchecked(vary(scenario, variant))).find((why) => why !== undefined) ??
      withoutJudge(unjudged),
    idle: idle.length === 0 ? undefined : `${idle.join('; ')}.`,
    hostLate: hostLate(latenessMs, scenario),
    variants: reports,
  }
}

function withoutJudge(addresses: readonly string[]): string | undefined {
  if (addresses.length === 0) return undefined
  const dead = [...new Set(addresses)].sort()
  return `Not everything could be judged: dead at the end and still listed: ${dead.join(', ')}, but no running master counted as healthy, so dead-master-removed and in-sync-after-the-last-fault could not be judged; end the faults of the others with the key \`for\`, or with a \`heal\` step.`
}

/** How many requests the `requests-fail` steps of a scenario have hit, in all runs together. */
class StepHits {
  readonly #steps: readonly { readonly text: string; readonly rule: RequestRule; hits: number | undefined }[]

  constructor({ steps }: Scenario) {
    this.#steps = steps.flatMap((step) => {
      if (step.action !== 'requests-fail') return []
      const masters = step.masters === 'all' ? ['all'] : step.masters
      const text = `${describeStep(step, masters)} at ${formatDuration(step.atMs)}`
      return [{ text, rule: ruleOf(step), hits: undefined }]
    })
  }

  add(target: DrillTarget): void {
    for (const step of this.#steps) {
      const hits = target.hitsOf?.(step.rule)
      if (hits !== undefined) step.hits = (step.hits ?? 0) + hits
    }
  }

  /** The steps that hit nothing, in words. Without those of a target that does not count. */
  get missed(): readonly string[] {
    return this.#steps.filter(({ hits }) => hits === 0).map(({ text }) => text)
  }
}

/**
 * In a live drill, requests and answers pass through proxies in this process. One round trip may meet this many delays
 * of this process, so each delay may take only this fraction of an attempt.
 */
const WAITS_OF_A_REQUEST = 4

/**
 * A note if the host's timers fired later than the invariants or a renewal of a lease tolerate; undefined otherwise.
 */
function hostLate(latenessMs: number, { bounds, fleet }: Scenario): string | undefined {
  const { attemptMs } = membershipTimings({ ...fleet, readinessProbePeriodMs: masterDefaults.readinessProbePeriodMs })
  const boundMs = Math.min(
    bounds.removalMarginMs,
    bounds.listedMs,
    bounds.agreementMs,
    Math.floor(attemptMs / WAITS_OF_A_REQUEST),
  )
  if (latenessMs <= boundMs) return undefined
  const seconds = (latenessMs / 1000).toFixed(1)
  return `Timers on this host fired up to ${seconds} s late, but the invariants and the leases allow ${formatDuration(boundMs)}: violations, and times in the figures, may be caused by the host. Drill again on a host with less load.`
}

/**
 * Drills one fleet once: opens, drills and closes the target. {@link drawSteps} must have drawn the steps. `seed`
 * decides the choices of simulated clients. Rejects as {@link runDrill} does, but checks no arguments.
 */
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
  const recorder = new DrillRecorder(target, new FleetChecker({ bounds: scenario.bounds }), onEvent)
  try {
    await target.open(recorder, signal)
    await target.drive(new Conductor({ target, recorder, scenario, signal }).run())
  } finally {
    await target.close()
  }
  const { events, violations, unjudged } = recorder
  const { latenessMs = 0 } = target
  const untilMs = scenario.durationMs
  if (target.kind === 'live') return { events: condenseServed(events), violations, unjudged, untilMs, latenessMs }
  const met = simulateClients(events, scenario.clients, { random: seededRandom(seed, 'clients'), untilMs })
  return { events: inOrder([...events, ...met]), violations, unjudged, untilMs, latenessMs }
}

/** The name that reports give to a variant with this fleet. */
export function variantName({
  reconciler,
  leaseStore,
  masters,
}: Pick<FleetPlan, 'reconciler' | 'leaseStore' | 'masters'>): string {
  if (masters.every(({ kind }) => kind === 'kube-apiserver')) return 'kube-apiserver'
  return reconciler === 'lease' ? `lease (${leaseStore})` : reconciler
}

/** The scenario with the fleet of a variant. */
export function vary(scenario: Scenario, { fleet, kubeApiservers = false }: Variant): Scenario {
  const masters = scenario.fleet.masters.map((master) =>
    kubeApiservers ? { ...master, kind: 'kube-apiserver' as const } : master,
  )
  const varied = { ...scenario.fleet, ...fleet, masters }
  // A kube-apiserver can store its lease only in etcd or kine.
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
  const failed = outcomes.filter(({ violations }) => violations.length > 0)
  const recorded = new Set([...outcomes.slice(0, 1), ...failed.slice(0, MOST_FAILED_HISTORIES)])
  const runs = outcomes.map((outcome, index): RunReport => {
    const { events, violations } = outcome
    return { seed: seed + index, violations, events: recorded.has(outcome) ? events : undefined }
  })
  const figures = computeFigures(outcomes, { deadUntilMs: longestTtlMs(steps, fleet) + bounds.removalMarginMs })
  const upstream = fleet.masters.every(({ kind }) => kind === 'kube-apiserver')
  return {
    name,
    held: failed.length === 0,
    runs,
    figures: withFewerSamples(figures),
    knownFailures: knownFailures(upstream ? 'lease' : fleet.reconciler, figures),
    latency: simulated ? { ...simulatedLatency, spikes: fleet.spikes } : undefined,
  }
}

function withFewerSamples(figures: Figures): Figures {
  const bounded = (one: Distribution): Distribution => ({ ...one, samples: one.samples.slice(0, MOST_SAMPLES) })
  const { timeToDetect, timeToRemove, timeToAddAgain } = figures
  return {
    ...figures,
    timeToDetect: bounded(timeToDetect),
    timeToRemove: bounded(timeToRemove),
    timeToAddAgain: bounded(timeToAddAgain),
  }
}

/** One of the fleets that a drill compares. */
export interface Variant {
  readonly name: string
  /** The differences from the scenario's fleet. */
  readonly fleet: Partial<Pick<FleetPlan, 'reconciler' | 'leaseStore'>>
  /** Whether all masters are kube-apiservers, with upstream's own reconciler. @default false */
  readonly kubeApiservers?: boolean
}

export interface DrillOptions {
  /**
   * The seed of the first run, a whole number from 0 on; each further run takes the next number. The seed determines
   * everything in a simulated run. In a live run it decides the jitter of steps, the choices of clients, and how late
   * API servers recover from a datastore outage. @default 1
   */
  readonly seed?: number
  /** How often each variant is drilled, a whole number from 1 on. @default 1 */
  readonly runs?: number
  /** @default only the scenario's own fleet */
  readonly variants?: readonly Variant[]
  /**
   * Composes a simulated sidecar at each of its starts. Set it to drill your own leases, reconciler or hooks. Not used
   * with `createTarget`. @default createMaster
   */
  readonly createMaster?: typeof createMaster
  /**
   * Creates the target of one run from the scenario with the variant's fleet and the seed of the run. {@link runDrill}
   * opens and closes the target. @default a simulated fleet
   */
  readonly createTarget?: (scenario: Scenario, seed: number) => Promise<DrillTarget>
  /** The command line that repeats the drill, for the report. @default an empty text */
  readonly command?: string
  /** The version of the program, for the report. @default an empty text */
  readonly version?: string
  readonly signal?: AbortSignal
  /**
   * Called with each event of each run: at time 0 with all earlier events, and then with each event as it happens. Not
   * called for the connections of simulated clients, which are computed after the run. `index` counts the runs of the
   * variant from 0 on.
   */
  readonly onEvent?: (event: DrillEvent, run: { readonly variant: string; readonly index: number }) => void
}

function checkOptions({ seed, runs, variants }: Required<Pick<DrillOptions, 'seed' | 'runs' | 'variants'>>): void {
  if (!Number.isInteger(seed) || seed < 0) throw new RangeError(`seed must be a whole number from 0 on, not ${seed}`)
  if (!Number.isInteger(runs) || runs < 1) throw new RangeError(`runs must be a whole number from 1 on, not ${runs}`)
  if (variants.length === 0) throw new RangeError('variants must be a list of at least one variant')
}
