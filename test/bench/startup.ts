import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Namespace, ServiceCidr } from '../../src/kube/resources.ts'
import type { ApiClient } from '../peers/api-client.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { paths, problemsOf, readState, type Transition, watchState } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { programPath, startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'
import { startHole } from './hole.ts'
import { median, type Report, shown } from './report.ts'

const address = '192.0.2.1'

/**
 * The time from exec to the last object on an empty server, compared with the sum of the parts that are unavoidable.
 */
export async function measureStartup({ rounds }: { readonly rounds: number }): Promise<Report> {
  const owner = openOwner()
  try {
    const cluster = await startCluster(owner, { kind: 'bare' })
    const objects = await watchObjects(owner, cluster)
    const samples: { node: number; load: number; calls: number; program: number }[] = []
    for (let round = 0; round <= rounds; round++) {
      const node = await timeNodeStart()
      const load = await timeLoad()
      await emptyStore(cluster)
      const calls = await timeBareCalls(cluster)
      await emptyStore(cluster)
      const program = await timeProgram(cluster, objects)
      // The first round fills the page cache and the compile cache.
      if (round > 0) samples.push({ node, load, calls, program })
      console.error(
        `startup ${round}/${rounds}: node ${shown(node)}, load ${shown(load)}, calls ${shown(calls)}, program ${shown(program)} ms`,
      )
    }
    return reportOn(samples)
  } finally {
    await owner.close()
  }
}

function reportOn(samples: readonly Readonly<Record<'node' | 'load' | 'calls' | 'program', number>>[]): Report {
  const of = (part: 'node' | 'load' | 'calls' | 'program'): number[] => samples.map((sample) => sample[part])
  const floor = samples.map(({ load, calls }) => load + calls)
  const row = (name: string, values: readonly number[]): readonly string[] => [
    name,
    shown(median(values)),
    shown(Math.min(...values)),
    shown(Math.max(...values)),
  ]
  return {
    title: 'Startup',
    method:
      `${samples.length} rounds, interleaved, on one bare kube-apiserver whose store is emptied before each. "Loads": from exec to the first ` +
      'connection, Node’s own start included. "Calls": a script that makes the necessary calls over a keep-alive connection. "Program": from exec ' +
      'until a watcher has seen all objects in their desired state.',
    header: ['ms', 'median', 'least', 'most'],
    rows: [
      row('Node starts', of('node')),
      row('Node starts and the bundle loads its kubeconfig', of('load')),
      row('the calls from a bare script', of('calls')),
      row('floor: both', floor),
      row('program', of('program')),
    ],
    bounds: [{ name: 'program / floor, medians', value: median(of('program')) / median(floor), limit: 1.25, unit: '' }],
  }
}

/** How long a Node process that does nothing takes: what the machine currently adds to every start. */
export async function timeNodeStart(): Promise<number> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' })
  await once(child, 'exit')
  return performance.now() - startedAt
}

async function timeLoad(): Promise<number> {
  const owner = openOwner()
  try {
    const hole = await startHole(owner)
    const connected = hole.nextConnection()
    const startedAt = performance.now()
    await startMaster(owner, hole, { address })
    return (await connected) - startedAt
  } finally {
    await owner.close()
  }
}

async function timeBareCalls({ server }: Cluster): Promise<number> {
  const owner = openOwner()
  try {
    const ca = join(temporaryDirectory(owner, 'bench'), 'ca.crt')
    writeFileSync(ca, server.authority.certificate)
    const script = fileURLToPath(new URL('bare-calls.ts', import.meta.url))
    const child = spawn(process.execPath, [script, server.url, ca, server.token, String(server.port)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
    const [code] = await once(child, 'close')
    if (code !== 0) throw new Error('the bare script failed')
    const problems = problemsOf(await readState(server.api), { addresses: [address], port: server.port })
    if (problems.length > 0) throw new Error(`the bare script left ${problems.join('; ')}`)
    return Number(output)
  } finally {
    await owner.close()
  }
}

/** When a watcher saw all objects in their desired state. */
interface Objects {
  readonly history: readonly Transition[]
  readonly others: readonly { readonly atMs: number; readonly complete: boolean }[]
}

async function watchObjects(owner: Owner, { server }: Cluster): Promise<Objects> {
  const { history } = await watchState(owner, server.api)
  const others: { atMs: number; complete: boolean }[] = []
  const namespaces = new Set<string>()
  let rangeReady = false
  const stop = new AbortController()
  owner.after(() => stop.abort())
  const note = (): void => {
    others.push({ atMs: performance.now(), complete: rangeReady && namespaces.size === 4 })
  }
  void server.api.watch<Namespace>(
    paths.namespaces,
    ({ type, object }) => {
      if (type === 'DELETED') namespaces.delete(object.metadata?.name ?? '')
      else namespaces.add(object.metadata?.name ?? '')
      note()
    },
    stop.signal,
  )
  void server.api.watch<ServiceCidr>(
    '/apis/networking.k8s.io/v1/servicecidrs',
    ({ type, object }) => {
      rangeReady = type !== 'DELETED' && (object.status?.conditions ?? []).some(({ status }) => status === 'True')
      note()
    },
    stop.signal,
  )
  return { history, others }
}

async function timeProgram({ server }: Cluster, objects: Objects): Promise<number> {
  const owner = openOwner()
  const since = { history: objects.history.length, others: objects.others.length }
  try {
    const startedAt = performance.now()
    await startMaster(owner, server, { address })
    return await untilPasses(
      'the last object',
      () => {
        const right = objects.history
          .slice(since.history)
          .find(({ state }) => problemsOf(state, { addresses: [address], port: server.port }).length === 0)
        const others = objects.others.slice(since.others).find(({ complete }) => complete)
        if (right === undefined || others === undefined) throw new Error('not all objects are there')
        return Math.max(right.atMs, others.atMs) - startedAt
      },
      { withinMs: 30_000, everyMs: 20 },
    )
  } finally {
    await owner.close()
  }
}

const emptied = [
  'namespaces',
  'services/specs',
  'services/endpoints',
  'endpointslices',
  'servicecidrs',
  'ipaddresses',
  'leases/kube-system',
  'events',
]

/**
 * Removes everything that a bootstrap creates from the store of the running server. Then waits until the server has
 * seen this and is idle.
 */
async function emptyStore({ etcd, server }: Cluster): Promise<void> {
  for (const kind of emptied) await etcd.deletePrefix(`/registry/${kind}/`)
  await untilPasses('the server to see its store empty', () => assertEmpty(server.api), {
    withinMs: 20_000,
    everyMs: 20,
  })
  await sleep(1000)
}

async function assertEmpty(api: ApiClient): Promise<void> {
  // Reads the server's caches, because its admission and allocators use them.
  for (const path of [paths.namespaces, paths.slices, paths.services, '/apis/networking.k8s.io/v1/servicecidrs']) {
    const { items } = await api.get<{ readonly items: readonly unknown[] }>(`${path}?resourceVersion=0`)
    if (items.length > 0) throw new Error(`${path} still has ${items.length}`)
  }
}

/** Throws if there is no build: the speed and memory of the sources are of no interest. */
export function requireBuild(): void {
  if (!programPath().endsWith('dist/cli.js')) throw new Error('dist/cli.js is missing: run "npm run build"')
}
