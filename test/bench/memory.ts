import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster } from '../peers/cluster.ts'
import { residentMib } from '../peers/footprint.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { startHole } from './hole.ts'
import { type Report, shown } from './report.ts'

const address = '192.0.2.1'
const sampleEveryMs = 5000

/**
 * Resident memory after quiet minutes, compared with the same bundle when it has read its kubeconfig but gets no
 * answer.
 */
export async function measureMemory({ minutes }: { readonly minutes: number }): Promise<Report> {
  const owner = openOwner()
  try {
    const { server } = await startCluster(owner, { kind: 'bare' })
    const hole = await startHole(owner)
    const working = await startMaster(owner, server, { address })
    const connected = hole.nextConnection()
    const idling = await startMaster(owner, hole, { address })
    await connected
    await whenRight(server.api, { addresses: [address], port: server.port }, 60_000)

    const samples: { working: number; idling: number }[] = []
    const endAtMs = performance.now() + minutes * 60_000
    do {
      await sleep(Math.min(sampleEveryMs, Math.max(0, endAtMs - performance.now())))
      working.assertRunning()
      idling.assertRunning()
      samples.push({ working: residentMib(working.process.pid), idling: residentMib(idling.process.pid) })
    } while (performance.now() < endAtMs)
    const of = (kind: 'working' | 'idling'): readonly number[] => samples.map((sample) => sample[kind])
    const row = (name: string, kind: 'working' | 'idling'): readonly string[] =>
      [name, Math.min(...of(kind)), Math.max(...of(kind)), of(kind).at(-1) ?? Number.NaN].map((cell) =>
        typeof cell === 'number' ? shown(cell) : cell,
      )
    const last = of('working').at(-1) ?? Number.NaN
    return {
      title: 'Memory',
      method: `VmRSS over ${minutes} quiet minutes, side by side. "Idling": the same bundle on a server that accepts its connection and never answers.`,
      header: ['MiB', 'least', 'most', 'last'],
      rows: [row('keeping a cluster', 'working'), row('idling after it has read its kubeconfig', 'idling')],
      bounds: [
        { name: 'resident', value: last, limit: 95, unit: 'MiB' },
        // Compared with the idling bundle's minimum: when it retries from time to time, it is not idle.
        { name: 'above the idling bundle', value: last - Math.min(...of('idling')), limit: 25, unit: 'MiB' },
      ],
    }
  } finally {
    await owner.close()
  }
}
