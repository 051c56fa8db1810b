import type { createMaster } from '../bootstrap/master.ts'
import { formatDuration } from '../documents/duration.ts'
import { didYouMean, show } from '../documents/validation.ts'
import { membershipTimings } from '../kubernetes-service/membership/timings.ts'
import { seededRandom } from '../runtime/random.ts'
import { FleetChecker, type Violation } from '../verify/fleet-checker.ts'
import { condenseServed, inOrder, simulateClients } from './clients.ts'
import { Conductor } from './conductor.ts'
import type { DrillEvent } from './event.ts'
import { drawSteps } from './random/random-scenario.ts'
import { DrillRecorder } from './recorder.ts'
import { computeFigures } from './report/figures.ts'
import type { DrillReport, Figures, RunReport, VariantReport } from './report/report.ts'
import { longestTtlMs, whyUnchecked } from './scenario/duration.ts'
import { isMapping } from './scenario/mapping-reader.ts'
import type { FleetPlan, Scenario } from './scenario/scenario.ts'
import { actionNames } from './scenario/step-schema.ts'
import { simulatedLatency } from './simulator/etcd-link.ts'
import { masterDefaults } from './simulator/master.ts'
import { SimulatedTarget } from './simulator/target.ts'
import type { DrillTarget } from './target.ts'

/** The result of one run. */
interface RunOutcome {
  /** In the order of time, including the connections of clients: served ones as counts. */
  readonly events: readonly DrillEvent[]
  readonly violations: readonly Violation[]
  /** The end of the run, from time 0. */
  readonly untilMs: number
  /** The greatest lateness of the host's timers, in milliseconds. */
  readonly latenessMs: number
}

/**
 * Drills a fleet with a scenario, and reports. Without a target in the simulator: the shipped code, in simulated time,
 * the same for the same seed. Rejects with a {@link DrillError} when a fleet does not start or a step is impossible,
 * with the signal's reason when it is aborted; every process has ended then, and the objects are restored. Rejects with
 * a RangeError that names an invalid argument.
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
    unchecked: variants.map((variant) => whyUnchecked(vary(scenario, variant))).find((why) => why !== undefined),
    hostLate: hostLate(latenessMs, scenario),
    variants: reports,
  }
}

/** A note for a host that was later than the invariants, or a renewal of a lease, tolerate; undefined for any other. */
function hostLate(latenessMs: number, { bounds, fleet }: Scenario): string | undefined {
  const { attemptMs } = membershipTimings({ ...fleet, readinessProbePeriodMs: masterDefaults.readinessProbePeriodMs })
  const boundMs = Math.min(bounds.removalMarginMs, bounds.listedMs, bounds.agreementMs, attemptMs)
  if (latenessMs <= boundMs) return undefined
  const seconds = (latenessMs / 1000).toFixed(1)
  return `This host was up to ${seconds} s late for its own timers, where the invariants and the leases allow ${formatDuration(boundMs)}: violations, and times in the figures, may be caused by the host. Drill again on a host with less load.`
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
  const recorder = new DrillRecorder(target, new FleetChecker({ bounds: scenario.bounds }), onEvent)
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

/** The variant in which a fleet already is. */
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
  // A kube-apiserver only has leases in etcd.
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
    const recorded = index === 0 || violations.length > 0
    return { seed: seed + index, violations, events: recorded ? events : undefined }
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

/** One way of maintaining the list, drilled beside others. */
export interface Variant {
  readonly name: string
  /** The differences from the scenario's fleet. */
  readonly fleet: Partial<Pick<FleetPlan, 'reconciler' | 'leaseStore'>>
  /** All masters are kube-apiservers, with upstream's own reconciler. */
  readonly kubeApiservers?: boolean
}

export interface DrillOptions {
  /**
   * Determines everything in the simulator, and the choices of clients. Each further run takes the next one. @default 1
   */
  readonly seed?: number
  /** How often each variant is drilled. @default 1 */
  readonly runs?: number
  /** Left out: the scenario as it is. */
  readonly variants?: readonly Variant[]
  /**
   * Composes each simulated sidecar, at each of its starts: for a server with its own leases, reconciler or hooks.
   * @default createMaster
   */
  readonly createMaster?: typeof createMaster
  /** Opens the fleet of one run. Left out: simulated. */
  readonly openTarget?: (scenario: Scenario, seed: number) => Promise<DrillTarget>
  /** The command line that repeats the report. */
  readonly command?: string
  readonly version?: string
  readonly signal?: AbortSignal
  /** Called with each event of each run as it happens. */
  readonly onEvent?: (event: DrillEvent, run: { readonly variant: string; readonly index: number }) => void
}

/** The expected form of a value, in words, and its check. */
type Form = readonly [form: string, is: (value: unknown) => boolean]

const text: Form = ['text', (value) => typeof value === 'string']
const func: Form = ['a function', (value) => typeof value === 'function']
const mapping: Form = ['an object', isMapping]

const optionForms: Readonly<Record<keyof DrillOptions, Form>> = {
  seed: ['a whole number from 0 on', (value) => Number.isInteger(value) && Number(value) >= 0],
  runs: ['a whole number from 1 on', (value) => Number.isInteger(value) && Number(value) >= 1],
  variants: ['a list of at least one variant, each with name and fleet', isEachOf(isVariant)],
  createMaster: func,
  openTarget: func,
  command: text,
  version: text,
  // An AbortSignal of another realm is no instance of this one's.
  signal: ['an AbortSignal', (value) => isMapping(value) && typeof value.addEventListener === 'function'],
  onEvent: func,
}

const scenarioForms: Readonly<Record<keyof Scenario, Form>> = {
  name: text,
  description: text,
  fleet: ['an object with masters', (value) => isMapping(value) && isEachOf(isMapping)(value.masters)],
  clients: mapping,
  bounds: mapping,
  steps: ['a list of steps, each with atMs and action', (value) => Array.isArray(value) && value.every(isStep)],
  durationMs: ['a number from 0 on', isTime],
}

/**
 * Refuses invalid arguments of a caller without a compiler: a RangeError that names the argument. `parseScenario`
 * checks the parts of a scenario.
 */
function checkArguments(scenario: Scenario, options: DrillOptions): void {
  checkForm('scenario', scenario, ['a scenario, as parseScenario reads it', isMapping])
  for (const [key, form] of Object.entries(scenarioForms)) {
    checkForm(`scenario.${key}`, scenario[key as keyof Scenario], form)
  }
  checkForm('options', options, mapping)
  const names = Object.keys(optionForms)
  const unknown = Object.keys(options).find((key) => !names.includes(key))
  if (unknown !== undefined) {
    const meant = didYouMean(unknown, names)
    const rest = meant === undefined ? `it takes ${names.join(', ')}` : `did you mean ${meant}?`
    throw new RangeError(`options has no ${JSON.stringify(unknown)}; ${rest}`)
  }
  for (const [key, form] of Object.entries(optionForms)) {
    const value = options[key as keyof DrillOptions]
    if (value !== undefined) checkForm(key, value, form)
  }
}

function checkForm(name: string, value: unknown, [form, is]: Form): void {
  if (is(value)) return
  // Within an object, a part is invalid.
  const isWithin = typeof value === 'object' && value !== null
  throw new RangeError(`${name} must be ${form}${isWithin ? '' : `, not ${show(value)}`}`)
}

function isEachOf(is: (value: unknown) => boolean): (value: unknown) => boolean {
  return (value) => Array.isArray(value) && value.length > 0 && value.every(is)
}

function isVariant(value: unknown): boolean {
  return isMapping(value) && typeof value.name === 'string' && isMapping(value.fleet)
}

function isStep(value: unknown): boolean {
  return isMapping(value) && isTime(value.atMs) && actionNames.some((name) => name === value.action)
}

function isTime(value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value < Number.POSITIVE_INFINITY
}

interface KnownFailure {
  readonly sentence: string
  /** How often it was seen. */
  readonly count: number
}

type Reconciler = 'lease' | 'master-count' | 'none'

interface Known {
  readonly reconciler: Reconciler
  readonly sentence: string
  readonly count: (figures: Figures) => number
}

const neverAdded =
  (wanted: (cause: string) => boolean) =>
  ({ timeToAddAgain }: Figures): number =>
    timeToAddAgain.samples.filter(({ cause, tookMs }) => tookMs === undefined && wanted(cause)).length

/** In the order of the report. */
const known: readonly Known[] = [
  {
    reconciler: 'master-count',
    sentence:
      'a dead master stays listed: master-count has no leases, and takes addresses away only when there are more than --apiserver-count',
    count: ({ deadListedTooLong }) => deadListedTooLong,
  },
  {
    reconciler: 'master-count',
    sentence:
      'a living master is taken off the list: master-count makes room for one at the cost of another, and takes out an address that others share',
    count: ({ flaps }) => flaps,
  },
  {
    reconciler: 'none',
    sentence: 'a dead master stays listed: none keeps no list, its author must remove dead masters',
    count: ({ deadListedTooLong }) => deadListedTooLong,
  },
  {
    reconciler: 'none',
    sentence: 'connections to a stopped master fail: none does not remove it from the list before it ends',
    count: ({ connections }) => connections.notServedAfterStop,
  },
  {
    reconciler: 'none',
    sentence: 'a master that serves is not listed: none keeps no list, its author must add new masters',
    count: neverAdded((cause) => cause !== 'damage'),
  },
  {
    reconciler: 'none',
    sentence: 'an address that another writer removed stays out: none maintains no list',
    count: neverAdded((cause) => cause === 'damage'),
  },
]

/** The known failures of a reconciler, as far as these figures show them. `lease` has none. */
export function knownFailures(reconciler: Reconciler, figures: Figures): readonly KnownFailure[] {
  return known
    .filter((one) => one.reconciler === reconciler)
    .map(({ sentence, count }) => ({ sentence, count: count(figures) }))
    .filter(({ count }) => count > 0)
}
