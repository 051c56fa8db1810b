import { setTimeout as sleep } from 'node:timers/promises'
import { type CompareOptions, type Difference, differencesBetween } from './compare.ts'
import type { Livable } from './side.ts'
import { describeStep, type Step } from './steps.ts'

/** The result of a history on both sides. */
export interface Outcome {
  /** Empty if both sides made the same of it. */
  readonly differences: readonly Difference[]
  /** The steps that a server refused; the other one refused them too. */
  readonly refused: readonly string[]
}

/**
 * Runs a history on two sides at the same time, and compares their final states. If they differ when all is quiet, it
 * compares again until `patienceMs` have passed, because a controller repeats a failed sync after a time that doubles.
 */
export async function compareSides(
  [left, right]: readonly [Livable, Livable],
  steps: readonly Step[],
  { patienceMs = 40_000, ...options }: { readonly patienceMs?: number } & CompareOptions = {},
): Promise<Outcome> {
  const lives = await Promise.all([left.live(steps), right.live(steps)])
  try {
    const refused = refusedOf(steps, lives[0].answers, lives[1].answers)
    const deadline = performance.now() + patienceMs
    for (;;) {
      const differences = differencesBetween(await lives[0].state(), await lives[1].state(), options)
      if (differences.length === 0 || performance.now() > deadline) return { differences, refused }
      await sleep(500)
    }
  } finally {
    await Promise.all(lives.map((life) => life.end()))
  }
}

/** The history must be the same on both sides: a step that only one server accepts makes the comparison worthless. */
function refusedOf(steps: readonly Step[], lefts: readonly string[], rights: readonly string[]): readonly string[] {
  const refused: string[] = []
  for (const [index, step] of steps.entries()) {
    const [left = '', right = ''] = [lefts[index], rights[index]]
    if (left !== '' && right !== '' && left.slice(0, 3) !== right.slice(0, 3)) {
      throw new Error(`step ${index} was answered ${left} here and ${right} there: ${describeStep(step)}`)
    }
    if (left > '300') refused.push(`step ${index}: ${left}: ${describeStep(step)}`)
  }
  return refused
}

/** As text for people. */
export function describeDifferences(differences: readonly Difference[]): string {
  return differences
    .map(
      ({ what, left, right }) =>
        `${what}\n  left:  ${left.replaceAll('\n', '\n         ')}\n  right: ${right.replaceAll('\n', '\n         ')}`,
    )
    .join('\n')
}
