import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { seededRandom } from '../../runtime/random.ts'
import { DrillError } from '../drill-error.ts'
import type { Scenario } from '../scenario.ts'
import type { DrillTarget } from '../target.ts'
import { liveFaults } from './live-faults.ts'
import type { LiveOptions } from './live-options.ts'
import { ClusterStage } from './live-stage.ts'
import { LiveTarget } from './live-target.ts'

export type { LiveOptions } from './live-options.ts'

/**
 * A fleet of real processes on the API server of a kubeconfig: sidecars of this very program, each with an API server's front of its own, and
 * kube-apiservers. It changes `default/kubernetes`, and puts back what it found when it is closed; its processes do not outlive this one,
 * whatever ends it. The seed decides what clients pick.
 *
 * Contacts nobody before `open`. Rejects with a KubeConfigError, or a {@link DrillError} of one line; so does `open`, before it has changed
 * anything, where others keep `default/kubernetes`.
 */
export async function openLiveTarget(scenario: Scenario, seed: number, options: LiveOptions): Promise<DrillTarget> {
  const [fault] = liveFaults(scenario)
  if (fault !== undefined) throw new DrillError(fault)
  const stage = await ClusterStage.prepare(options, scenario.fleet)
  return new LiveTarget(scenario, { stage, random: seededRandom(seed, 'clients') })
}

/** The kube-apiserver that `npm run peers` has built beside a program, if it has. */
export function builtKubeApiserver(program: readonly string[]): string | undefined {
  const file = join(dirname(program.at(-1) ?? ''), '..', 'test', 'peers', 'bin', 'kube-apiserver')
  return existsSync(file) ? file : undefined
}
