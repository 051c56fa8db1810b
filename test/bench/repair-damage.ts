import { setTimeout as sleep } from 'node:timers/promises'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { type Etcd, startEtcd } from '../peers/etcd.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { storeValue } from '../peers/stored-values.ts'
import {
  clusterIpsTaken,
  fillStore,
  ipAddressPrefix,
  type MassOptions,
  makeTemplate,
  massAddressPrefix,
  massServices,
  nodePortsTaken,
  rangeKeys,
  type StoreTemplate,
} from './mass-services.ts'
import { readyProgram } from './ready-program.ts'
import { type AllocationPart, type AllocationWatch, watchAllocations } from './repair-watch.ts'
import { median, type Report, shown } from './report.ts'

const address = '192.0.2.1'
/** The allocations that each server stores. */
const parts = {
  stock: ['ipAddresses', 'nodePorts'],
  bare: ['ipAddresses', 'nodePorts'],
  'bare-1.32': ['clusterIps', 'nodePorts'],
} as const satisfies Record<string, readonly AllocationPart[]>
const mass: MassOptions = { services: 500, nodePorts: 200 }
const spacingMs = 1000
/** A stock server runs a pass every three minutes. */
const peerWithinMs = 240_000

interface Subject {
  readonly etcd: Etcd
  readonly server: Apiserver
  readonly allocations: AllocationWatch
}

interface Damage {
  readonly name: string
  apply(etcd: Etcd): Promise<void>
  /** The part of {@link AllocationWatch} that shows the damage. */
  readonly part: AllocationPart
}

const ipAddressesDeleted: Damage = {
  name: `${mass.services} of ${mass.services} IPAddresses deleted at once`,
  apply: (etcd) => etcd.deletePrefix(`${ipAddressPrefix}${massAddressPrefix}`),
  part: 'ipAddresses',
}
const nodePortsZeroed: Damage = {
  name: `NodePort bitmap zeroed under ${mass.nodePorts} Services`,
  apply: (etcd) => storeValue(etcd, rangeKeys.nodePorts, nodePortsTaken([])),
  part: 'nodePorts',
}
const clusterIpsZeroed: Damage = {
  name: `ClusterIP bitmap zeroed under ${mass.services} Services`,
  apply: (etcd) => storeValue(etcd, rangeKeys.clusterIps, clusterIpsTaken([])),
  part: 'clusterIps',
}

/** How long damaged allocations stay wrong, compared with a stock kube-apiserver that runs its own repair. */
export async function measureRepairDamage({ rounds }: { readonly rounds: number }): Promise<Report> {
  const owner = openOwner()
  try {
    const template = await makeTemplate()
    const stock = await startSubject(owner, 'stock', template)
    const peerDamages = [ipAddressesDeleted, nodePortsZeroed]
    // While the stock server waits for its next pass, the servers beside this program are damaged again and again.
    const peer = Promise.all(peerDamages.map((damage) => timeOnce(stock, damage)))
    const times = new Map<Damage, readonly number[]>()
    for (const [kind, damages] of [
      ['bare', peerDamages],
      ['bare-1.32', [clusterIpsZeroed]],
    ] as const) {
      const ours = await startSubject(owner, kind, template)
      for (const damage of damages) {
        times.set(damage, await timeRounds(ours, damage, rounds))
        console.error(`repair-damage: ${damage.name}: ${times.get(damage)?.map(shown).join(', ')} ms`)
      }
    }
    const peerTimes = await peer
    const peers = new Map(peerDamages.map((damage, index) => [damage, peerTimes[index]]))
    return {
      title: 'Repair: damage',
      method:
        `A bare kube-apiserver and its etcd with ${mass.services} Services, ${mass.nodePorts} of them with a NodePort. Each damage is done in etcd at one revision, ` +
        `${rounds} times. Milliseconds from before that write until a watcher has seen the last allocation corrected (IPAddresses with parent and labels). ` +
        'Beside it a stock kube-apiserver with its own repair, damaged once right after its first pass: the longest wait; the average is half of it. Under load a server closes watches, its own too, and its repair then misses changes. ClusterIPs ' +
        'are in a bitmap on a bare kube-apiserver 1.32.2.',
      header: ['ms', 'median', 'most', 'stock kube-apiserver'],
      rows: [...times].map(([damage, values]) => [
        damage.name,
        shown(median(values)),
        shown(Math.max(...values)),
        peers.get(damage) ?? '–',
      ]),
      bounds: [...times].map(([damage, values]) => ({
        name: `${damage.name}, most`,
        value: Math.max(...values),
        limit: 1000,
        unit: 'ms',
      })),
    }
  } finally {
    await owner.close()
  }
}

async function startSubject(owner: Owner, kind: keyof typeof parts, template: StoreTemplate): Promise<Subject> {
  const etcd = await startEtcd(owner)
  await fillStore(etcd, template, mass)
  if (kind === 'bare-1.32') await storeValue(etcd, rangeKeys.clusterIps, clusterIpsTaken(massServices(mass)))
  const server = await startApiserver(owner, { kind, etcd })
  const allocations = await watchAllocations(owner, { etcd, server }, { parts: parts[kind], mass })
  if (kind !== 'stock') await startProgram(owner, { etcd, server })
  return { etcd, server, allocations }
}

/** Resolves when it is ready. */
async function startProgram(owner: Owner, { etcd, server }: Omit<Subject, 'allocations'>): Promise<void> {
  await readyProgram(await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`] }))
}

async function timeRounds(subject: Subject, damage: Damage, rounds: number): Promise<readonly number[]> {
  const times: number[] = []
  for (let round = 0; round < rounds; round++) {
    times.push(await time(subject, damage, 20_000))
    await sleep(spacingMs)
  }
  return times
}

/** As the table shows it. */
async function timeOnce(subject: Subject, damage: Damage): Promise<string> {
  const ms = await time(subject, damage, peerWithinMs).catch(() => Number.NaN)
  return Number.isNaN(ms) ? `not within ${peerWithinMs}` : shown(ms)
}

async function time({ etcd, allocations }: Subject, damage: Damage, withinMs: number): Promise<number> {
  const startedAt = performance.now()
  await damage.apply(etcd)
  const rightAt = await allocations.rightAfter(damage.part, startedAt, withinMs)
  return rightAt - startedAt
}
