import { setTimeout as sleep } from 'node:timers/promises'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { type Etcd, startEtcd } from '../peers/etcd.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { fillStore, type MassOptions, makeTemplate, type StoreTemplate } from './mass-services.ts'
import { readyProgram } from './ready-program.ts'
import { type Report, shown } from './report.ts'
import { callsOf, cpuMs, type RequestCounts, requestsFor } from './server-cost.ts'

const address = '192.0.2.1'
const mass: MassOptions = { services: 10_000, nodePorts: 1000 }
/** By then the first pass is over, whichever process does it. */
const firstMs = 60_000
const resources = ['services', 'ipaddresses']

/** Which process repairs. `program without`: none, but the program runs with its other duties. */
const repairers = ['nobody', 'kube-apiserver', 'program without', 'program'] as const

interface Subject {
  readonly etcd: Etcd
  readonly server: Apiserver
  readonly program: Program | undefined
  readonly before: { readonly etcdCpuMs: number; readonly etcdCalls: number }
  /** The start of the server, on the clock of `performance.now()`. */
  readonly startedAtMs: number
}

/** What one subject cost in the same minutes. */
interface Cost {
  readonly requests: RequestCounts
  readonly etcdCalls: number
  readonly cpuMs: Cpu
  /** The CPU of all processes in the first minute, which includes the first pass. */
  readonly firstCpuMs: number
}

type Cpu = Readonly<Record<'server' | 'etcd' | 'program', number>>

/**
 * What it costs to keep the allocations of 10,000 Services correct, compared with a kube-apiserver that does it itself.
 */
export async function measureRepairMass({ minutes }: { readonly minutes: number }): Promise<Report> {
  const owner = openOwner()
  try {
    const template = await makeTemplate()
    const costs: Promise<Cost>[] = []
    for (const repairer of repairers) {
      const cost = costOf(await startSubject(owner, repairer, template), minutes)
      // The first failure is reported below.
      cost.catch(() => {})
      costs.push(cost)
    }
    return reportOn((await Promise.all(costs)) as unknown as Costs, minutes)
  } finally {
    await owner.close()
  }
}

async function startSubject(
  owner: Owner,
  repairer: (typeof repairers)[number],
  template: StoreTemplate,
): Promise<Subject> {
  // As kubeadm sets it. Without this flag the watch of a collection at rest gets no bookmarks.
  const etcd = await startEtcd(owner, { flags: ['--watch-progress-notify-interval=5s'] })
  await fillStore(etcd, template, mass)
  const before = { etcdCpuMs: cpuMs(etcd.process.pid), etcdCalls: await callsOf(etcd) }
  const startedAtMs = performance.now()
  const kind = repairer === 'kube-apiserver' ? 'stock' : 'bare'
  const server = await startApiserver(owner, { kind, etcd, flags: ['--endpoint-reconciler-type=none'] })
  const program = repairer.startsWith('program')
    ? await startProgram(owner, { etcd, server, repairing: repairer === 'program' })
    : undefined
  return { etcd, server, program, before, startedAtMs }
}

async function startProgram(
  owner: Owner,
  { etcd, server, repairing }: Pick<Subject, 'etcd' | 'server'> & { readonly repairing: boolean },
): Promise<Program> {
  const controllers = repairing ? 'auto' : 'auto,-cluster-ip-repair,-node-port-repair'
  const flags = [`--etcd-servers=${etcd.url}`, `--controllers=${controllers}`]
  return readyProgram(await startMaster(owner, server, { address, flags }))
}

/** The cost in these minutes from the start of its server, including the first pass. */
async function costOf(subject: Subject, minutes: number): Promise<Cost> {
  const { etcd, server, program, before, startedAtMs } = subject
  const untilMs = (sinceStartMs: number): number => Math.max(0, startedAtMs + sinceStartMs - performance.now())
  await sleep(untilMs(firstMs))
  const firstCpuMs = sum(cpuOf(subject))
  await sleep(untilMs(minutes * 60_000))
  program?.assertRunning()
  const cpu = cpuOf(subject)
  const etcdCalls = (await callsOf(etcd)) - before.etcdCalls
  return { cpuMs: cpu, firstCpuMs, etcdCalls, requests: await requestsFor(server.api, resources) }
}

function cpuOf({ etcd, server, program, before }: Subject): Cpu {
  return {
    server: cpuMs(server.process.pid),
    etcd: cpuMs(etcd.process.pid) - before.etcdCpuMs,
    program: program === undefined ? 0 : cpuMs(program.process.pid),
  }
}

function sum({ server, etcd, program }: Cpu): number {
  return server + etcd + program
}

type Costs = readonly [nobody: Cost, own: Cost, without: Cost, ours: Cost]

function reportOn(costs: Costs, minutes: number): Report {
  const [nobody, own, without, ours] = costs
  const row = (name: string, of: (cost: Cost) => number): readonly string[] => [
    name,
    ...costs.map((cost) => shown(of(cost))),
    shown(of(own) - of(nobody)),
    shown(of(ours) - of(without)),
  ]
  const requestsOf = ({ requests }: Cost): number => requests.list + requests.watch + requests.other
  const total = (cost: Cost): number => sum(cost.cpuMs)
  const cpuRatio = (total(ours) - total(without)) / (total(own) - total(nobody))
  return {
    title: 'Repair: 10,000 Services at rest',
    method:
      `${mass.services} Services, ${mass.nodePorts} of them with a NodePort, all in sync, on four API servers with an etcd each, side by side, for ${minutes} minutes from the start of each server. ` +
      '"Nobody": a bare kube-apiserver. "Own": a stock one, without an endpoint reconciler. "Without": the bare one beside this program without its repairs. "Ours": with them. The last two columns are what each repair adds. ' +
      'Requests are those for Services and IPAddresses, from the server’s own metrics, its own clients included; a WATCH counts when it starts, and a streaming list is one WATCH. ' +
      'The bare server’s clients watch Services and IPAddresses although its repair is disabled, so the first bound is against all requests of a stock one. CPU is from /proc.',
    header: ['', 'nobody', 'own', 'without', 'ours', 'own adds', 'ours adds'],
    rows: [
      row('LISTs', ({ requests }) => requests.list),
      row('WATCHes', ({ requests }) => requests.watch),
      row('other requests', ({ requests }) => requests.other),
      row('calls to etcd', ({ etcdCalls }) => etcdCalls),
      row('CPU of the API server, ms', ({ cpuMs }) => cpuMs.server),
      row('CPU of etcd, ms', ({ cpuMs }) => cpuMs.etcd),
      row('CPU of the program, ms', ({ cpuMs }) => cpuMs.program),
      row('CPU in the first minute, ms', ({ firstCpuMs }) => firstCpuMs),
      row('CPU after it, ms', (cost) => total(cost) - cost.firstCpuMs),
      row('CPU, ms', total),
    ],
    bounds: [
      {
        name: 'requests: ours adds / all of own',
        value: (requestsOf(ours) - requestsOf(without)) / requestsOf(own),
        limit: 1,
        unit: '',
      },
      { name: 'CPU: ours adds / own adds', value: cpuRatio, limit: 1, unit: '' },
    ],
  }
}
