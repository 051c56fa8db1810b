import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DrillReport } from '../../src/drill/report/report.ts'
import { type Apiserver, serviceRange } from '../peers/apiserver.ts'
import type { Cluster } from '../peers/cluster.ts'
import { type Owner, temporaryDirectory } from '../peers/owner.ts'
import { Program } from '../peers/program.ts'

/** Begins a live drill of a scenario, by its name or as YAML. */
export function startDrill(
  owner: Owner,
  { etcd, server }: Pick<Cluster, 'etcd' | 'server'>,
  scenario: string,
  flags: readonly string[],
  nodeArgs: readonly string[] = [],
): Promise<Program> {
  const file = scenario.includes('\n') ? join(temporaryDirectory(owner, 'scenario'), 'scenario.yaml') : scenario
  if (file !== scenario) writeFileSync(file, scenario)
  const where = [`--kubeconfig=${server.kubeconfig}`, `--etcd-servers=${etcd.url}`]
  const range = `--service-cluster-ip-range=${serviceRange}`
  const args = ['drill', file, '--target=live', ...where, range, ...flags]
  return Program.start(owner, args, undefined, nodeArgs)
}

export interface DrillOutcome {
  readonly code: number | null
  /** Undefined if the drill did not reach its end. */
  readonly report: DrillReport | undefined
  /** The end of its output. */
  readonly output: string
  /** The output of each process, by the name of its file. */
  readonly logs: Readonly<Record<string, string>>
}

const MOST_REPEATS = 2

/** Runs a drill to its end. */
export async function drill(
  owner: Owner,
  cluster: Pick<Cluster, 'etcd' | 'server'>,
  scenario: string,
  flags: readonly string[] = [],
): Promise<DrillOutcome> {
  for (let again = 0; ; again++) {
    const outcome = await drillOnce(owner, cluster, scenario, flags)
    const { report } = outcome
    // The report itself states that pauses of this machine may be the cause.
    if (report === undefined || report.held || report.hostLate === undefined || again === MOST_REPEATS) return outcome
    console.log(`once more: ${report.hostLate}`)
  }
}

async function drillOnce(
  owner: Owner,
  cluster: Pick<Cluster, 'etcd' | 'server'>,
  scenario: string,
  flags: readonly string[],
): Promise<DrillOutcome> {
  const directory = temporaryDirectory(owner, 'report')
  const program = await startDrill(owner, cluster, scenario, ['--yes', `--report=${directory}`, ...flags])
  const { code } = await program.process.exited
  const output = program.process.tail(60)
  let report: DrillReport | undefined
  try {
    report = JSON.parse(readFileSync(join(directory, 'report.json'), 'utf8')) as DrillReport
  } catch {
    // The output shows why.
  }
  const logs = join(directory, 'logs')
  const names = existsSync(logs) ? readdirSync(logs) : []
  const read = (name: string): readonly [string, string] => [name, readFileSync(join(logs, name), 'utf8')]
  return { code, report, output, logs: Object.fromEntries(names.map(read)) }
}

/** The processes that a drill runs at this moment. */
export function childrenOf({ process: { pid } }: Program): readonly number[] {
  const text = execFileSync('ps', ['-o', 'pid=', '--ppid', `${pid}`], { encoding: 'utf8' })
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(Number)
}

/** The objects of `default/kubernetes`. */
export const kinds = [
  '/api/v1/namespaces/default/services/kubernetes',
  '/api/v1/namespaces/default/endpoints/kubernetes',
  '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes',
]

/** A drill that found none of the objects leaves none. */
export async function nothingIsLeft({ api }: Apiserver): Promise<void> {
  for (const path of kinds) assert.equal((await api.send('GET', path)).status, 404, path)
}
