import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { startEtcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { programPath } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'
import { median, type Report, shown } from './report.ts'
import type { WorkloadShape } from './workload-objects.ts'
import { managers } from './workload-run.ts'
import { fillWorkload, makeWorkloadTemplate } from './workload-store.ts'
import { WorkloadWatch } from './workload-watch.ts'

const shape: WorkloadShape = { namespaces: 200, services: 5_000, podsPerService: 4, nodes: 100 }
/** Writes what the process has used as the last line of its standard error. */
const meter = `data:text/javascript,${encodeURIComponent(`process.on('exit', () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
  process.stderr.write(JSON.stringify({ cpuMs: (userCPUTime + systemCPUTime) / 1000, peakMib: maxRSS / 1024 }))
})`)}`

interface Run {
  readonly tookMs: number
  readonly cpuMs: number
  readonly peakMib: number
}

/** Runs all checks on a large cluster that is correct. */
export async function measureVerify({ rounds }: { readonly rounds: number }): Promise<Report> {
  const template = await makeWorkloadTemplate()
  const owner = openOwner()
  try {
    const etcd = await startEtcd(owner)
    await fillWorkload(etcd, template, shape)
    const server = await startApiserver(owner, { kind: 'stock', etcd })
    await correctPort(server)
    const watch = new WorkloadWatch(owner, server, shape)
    watch.followEndpoints()
    const manager = await managers.program(owner, server)
    await watch.whenRight(180_000)
    await manager.stop()
    watch.leaveEndpoints()
    const runs: Run[] = []
    for (let round = 0; round < rounds; round++) runs.push(await verifyOnce(server.kubeconfig))
    const of = (figure: keyof Run): number => median(runs.map((run) => run[figure]))
    const row = (name: string, figure: keyof Run): readonly string[] => {
      const values = runs.map((run) => run[figure])
      return [name, shown(of(figure)), shown(Math.min(...values)), shown(Math.max(...values))]
    }
    return {
      title: 'verify',
      method:
        `${rounds} runs of \`verify\` without further flags on a stock kube-apiserver with ${shape.services} Services, ${shape.services * shape.podsPerService} Pods ` +
        `of ${shown(template.podJsonBytes / 1000)} kB of JSON on ${shape.nodes} Nodes, their Endpoints and EndpointSlices, where everything holds. From exec to exit, the server on the same cores.`,
      header: ['', 'median', 'least', 'most'],
      rows: [row('took, ms', 'tookMs'), row('CPU, ms', 'cpuMs'), row('resident, the most, MiB', 'peakMib')],
      bounds: [
        { name: 'took', value: of('tookMs'), limit: 5_000, unit: 'ms' },
        { name: 'resident, the most', value: of('peakMib'), limit: 200, unit: 'MiB' },
      ],
    }
  } finally {
    await owner.close()
  }
}

/** The store comes from another server, and kube-apiserver does not correct the port of its Service. */
async function correctPort({ api, port }: Apiserver): Promise<void> {
  const path = '/api/v1/namespaces/default/services/kubernetes'
  const read = () => api.get<{ spec: { ports: object[] } }>(path)
  const service = await untilPasses('the Service kubernetes', read, { withinMs: 30_000 })
  const ports = service.spec.ports.map((one) => ({ ...one, targetPort: port }))
  await api.update(path, { ...service, spec: { ...service.spec, ports } })
}

async function verifyOnce(kubeconfig: string): Promise<Run> {
  const startedMs = performance.now()
  const args = ['--import', meter, programPath(), 'verify', `--kubeconfig=${kubeconfig}`]
  // Rejects if a check fails.
  const { stderr } = await promisify(execFile)(process.execPath, args)
  const tookMs = performance.now() - startedMs
  return { tookMs, ...(JSON.parse(stderr.split('\n').at(-1) ?? '') as Omit<Run, 'tookMs'>) }
}
