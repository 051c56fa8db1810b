import { type Random, randomInteger, seededRandom } from '../../runtime/random.ts'
import { defaultBounds, defaultClients, type Scenario, type Step } from '../scenario.ts'
import { randomFleet } from './random-fleet.ts'
import { randomSteps } from './random-steps.ts'

/** How long a random schedule takes, in milliseconds. */
const DURATION_MS = 600_000
/** What is left at its end for everything to come right and to be quiet for a while, in milliseconds. */
const QUIET_MS = 65_000

/**
 * The scenario of a seed: a fleet of 3 to 7 masters, and ten minutes of steps. Every step is undone by itself, and the last one early
 * enough for everything to be right at the end, so that any of the steps alone are a scenario too. Pure.
 */
export function randomScenario(seed: number): Scenario {
  const fleet = randomFleet(seededRandom(seed, 'random fleet'))
  return {
    name: `random-${seed}`,
    description: `What seed ${seed} does to a fleet of ${fleet.masters.length} in ten minutes.`,
    fleet,
    clients: defaultClients,
    steps: randomSteps(seededRandom(seed, 'random steps'), fleet, { fromMs: 2_000, untilMs: DURATION_MS - QUIET_MS }),
    durationMs: DURATION_MS,
    bounds: defaultBounds,
  }
}

/**
 * Decides what a scenario leaves to chance: when a step with a jitter happens, and which steps a `random` one stands for, by its own seed
 * or `seed`; all of these are undone at its end. Pure.
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
