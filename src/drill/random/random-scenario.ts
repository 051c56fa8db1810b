import { type Random, randomInteger, seededRandom } from '../../runtime/random.ts'
import {
  defaultBounds,
  defaultClients,
  type FleetPlan,
  type MasterPlan,
  type Scenario,
  type Step,
} from '../scenario/scenario.ts'
import { AvailableMasters, Draw } from './available-masters.ts'
import { type FaultContext, makeFault } from './random-faults.ts'

const DURATION_MS = 600_000
/** The length of the last part of a schedule, in milliseconds. This part has no faults, so that the fleet recovers. */
const QUIET_MS = 65_000

/**
 * The scenario of a seed: a fleet of 3 to 7 masters, and a schedule of ten minutes. No step ends the fault of another
 * step, so each step can be omitted. The bound on writes grows with the fleet, because each master writes when another
 * master comes or goes. Pure.
 */
export function randomScenario(seed: number): Scenario {
  const fleet = randomFleet(seededRandom(seed, 'random fleet'))
  const masters = fleet.masters.length
  return {
    name: `random-${seed}`,
    description: `What seed ${seed} does to a fleet of ${masters} in ten minutes.`,
    fleet,
    clients: defaultClients,
    steps: randomSteps(seededRandom(seed, 'random steps'), fleet, { fromMs: 2_000, untilMs: DURATION_MS - QUIET_MS }),
    durationMs: DURATION_MS,
    bounds: { ...defaultBounds, writesPerTenSeconds: Math.max(defaultBounds.writesPerTenSeconds, 8 * masters) },
  }
}

/**
 * Draws the random parts of a scenario. `seed` decides the times of steps with a jitter. Drawn steps replace each
 * `random` step. The seed of the `random` step, or else `seed`, decides the drawn steps. Their faults end at the latest
 * when the `random` step ends; changes of clocks and of the fleet stay. Pure.
 */
export function drawSteps(scenario: Scenario, seed: number): Scenario {
  const steps = scenario.steps.flatMap((given, index): readonly Step[] => {
    const step = withoutJitter(given, seededRandom(seed, `jitter of step ${index + 1}`))
    if (step.action !== 'random') return [step]
    const random = seededRandom(step.seed ?? seed, `random step ${index + 1}`)
    return randomSteps(random, scenario.fleet, { fromMs: step.atMs, untilMs: step.atMs + step.forMs })
  })
  return { ...scenario, steps: steps.sort((a, b) => a.atMs - b.atMs) }
}

function withoutJitter({ jitterMs, ...step }: Step, random: Random): Step {
  return jitterMs === undefined ? step : { ...step, atMs: step.atMs + randomInteger(random, jitterMs + 1) }
}

const HOUR_MS = 3_600_000

/** Short times are drawn rarely, because they are expensive to simulate. */
const leaseTimes = [
  { leaseTtlMs: 3_000, reconcileIntervalMs: 1_000 },
  { leaseTtlMs: 6_000, reconcileIntervalMs: 4_000 },
  ...[1, 2].map(() => ({ leaseTtlMs: 10_000, reconcileIntervalMs: 5_000 })),
  ...[1, 2, 3, 4, 5, 6].map(() => ({ leaseTtlMs: 15_000, reconcileIntervalMs: 10_000 })),
]
/** Usual sizes are drawn most often. */
const sizes = [3, 3, 3, 3, 3, 4, 4, 5, 6, 7] as const

/** Sometimes two masters are behind one address, and sometimes one or two masters are kube-apiservers. */
function randomFleet(random: Random): FleetPlan {
  const draw = new Draw(random)
  const leaseStore = draw.pick(['kubernetes', 'kubernetes', 'etcd', 'etcd', 'etcd', 'kine', 'kine', 'memory'] as const)
  const count = draw.pick(sizes)
  const withPeers = (leaseStore === 'etcd' || leaseStore === 'kine') && draw.chance(0.3)
  const peers = withPeers ? draw.integer(1, Math.min(2, count - 2)) : 0
  const shared = draw.chance(0.3)
  const skewMs = draw.chance(0.5) ? 10_000 : 3 * HOUR_MS
  const driftPpm = draw.chance(0.5) ? 0 : 200
  const around = (limit: number): number => draw.integer(-limit, limit)
  const ours = Array.from({ length: count - peers }, (_, index): MasterPlan => {
    const name = `master-${index + 1}`
    const addresses = [`192.0.2.${shared && index === 1 ? 1 : index + 1}`]
    const kind = 'apiserver-bootstrap'
    return { name, addresses, kind, skewMs: around(skewMs), driftPpm: around(driftPpm), settings: {} }
  })
  const theirs = Array.from({ length: peers }, (_, index): MasterPlan => {
    const addresses = [`198.51.100.${index + 1}`]
    return { name: `upstream-${index + 1}`, addresses, kind: 'kube-apiserver', skewMs: 0, driftPpm: 0, settings: {} }
  })
  const times = draw.pick(leaseTimes)
  return {
    masters: [...ours, ...theirs],
    reconciler: 'lease',
    apiserverCount: count,
    leaseStore,
    ...times,
    readinessGate: draw.chance(0.2) ? 'startup' : 'continuous',
    onShutdown: draw.pick(['withdraw', 'withdraw', 'withdraw', 'withdraw', 'keep', 'always'] as const),
    spikes: draw.chance(0.5),
  }
}

/**
 * The faults of a fleet between two moments, in the order of their times. Several faults of a wave may last at the same
 * time. In the pauses between waves the fleet may recover. Faults end as {@link FaultContext.untilMs} describes.
 */
function randomSteps(
  random: Random,
  fleet: FleetPlan,
  { fromMs, untilMs }: { readonly fromMs: number; readonly untilMs: number },
): readonly Step[] {
  const draw = new Draw(random)
  const context: FaultContext = { draw, fleet, available: new AvailableMasters(fleet.masters), untilMs }
  const steps: Step[] = []
  let atMs = fromMs
  while (atMs < untilMs) {
    const waveEndMs = Math.min(atMs + draw.ms(15_000, 50_000), untilMs)
    for (; atMs < waveEndMs; atMs += draw.ms(300, 12_000)) steps.push(...makeFault(context, atMs))
    atMs += draw.ms(20_000, 90_000)
  }
  return steps.sort((a, b) => a.atMs - b.atMs)
}
