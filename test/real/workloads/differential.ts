import type { CompareOptions, Difference } from './compare.ts'
import { type HistoryName, histories } from './history.ts'
import { compareSides, describeDifferences } from './run.ts'
import { shrink } from './shrink.ts'
import type { Livable } from './side.ts'
import { describeStep, type Step } from './steps.ts'

/** While a history is shrunk, a difference counts if it is still present so long after all is quiet. */
const shrinkingPatienceMs = 3000

export interface ExpectOptions {
  /** `one-at-a-time` also compares which objects carry a trigger time. */
  readonly history?: HistoryName
  readonly steps: number
  readonly shrinkMs: number
  readonly maxEndpointsPerSlice: number
}

/**
 * Fails unless both sides make the same of the history of a seed. The error has the differences, the smallest history
 * that still causes some, as far as it is found within `shrinkMs`, and the command that replays that one.
 */
export async function expectSame(
  sides: readonly [Livable, Livable],
  seed: number,
  { history = 'plain', steps: count, shrinkMs, maxEndpointsPerSlice }: ExpectOptions,
): Promise<void> {
  const steps = histories[history](seed, { steps: count })
  const triggerTimes = history === 'one-at-a-time'
  const { differences } = await compareSides(sides, steps, { triggerTimes, maxEndpointsPerSlice })
  if (differences.length === 0) return
  const shortest = await smallest(sides, steps, differences, { shrinkMs, triggerTimes, maxEndpointsPerSlice })
  const command = `node_modules/.bin/node test/real/workloads/replay.ts --history ${history} --seed ${seed} --steps ${count} --max ${maxEndpointsPerSlice} --right ${sides[1].controllers} --keep ${shortest.join(',')}`
  throw new Error(
    [
      `seed ${seed}: ${differences.length} differences`,
      describeDifferences(differences),
      `The smallest history that makes some, ${shortest.length} of ${steps.length} steps:`,
      ...shortest.map((index) => `${index}: ${describeStep(steps[index] as Step)}`),
      `To live it again: ${command}`,
      `The end of the log of ${sides[1].controllers}:`,
      sides[1].tail(),
    ].join('\n'),
  )
}

/** The indices of the remaining steps. */
async function smallest(
  sides: readonly [Livable, Livable],
  steps: readonly Step[],
  differences: readonly Difference[],
  { shrinkMs, ...options }: { readonly shrinkMs: number } & CompareOptions,
): Promise<readonly number[]> {
  const now = (): number => performance.now()
  const deadline = now() + shrinkMs
  const differ = async (indices: readonly number[]): Promise<boolean> => {
    const some = indices.map((index) => steps[index] as Step)
    try {
      const outcome = await compareSides(sides, some, { patienceMs: shrinkingPatienceMs, ...options })
      return outcome.differences.length > 0
    } catch {
      // The sides accepted different steps, or did not come to rest: this is not the failure that is being shrunk.
      return false
    }
  }
  const all = [...steps.keys()]
  const concerned = all.filter((index) => concerns(steps[index] as Step, differences[0] as Difference))
  const begin = (await differ(concerned)) ? concerned : all
  return shrink(begin, differ, { deadline, now })
}

/** Whether a step can concern the Service whose Endpoints or slices differ. */
function concerns(step: Step, { what }: Difference): boolean {
  const [, letter, name] = /([ab])\/([\w.-]+)/.exec(what) ?? []
  if (!('namespace' in step) || step.namespace === undefined) return true
  if ('ab'[step.namespace] !== letter) return false
  if (step.type === 'terminate') return true
  if (step.type === 'spoil') return step.service === name
  if (step.plural === 'services' || step.plural === 'endpoints') {
    return (step.type === 'create' ? step.object.metadata?.name : step.name) === name
  }
  return true
}
