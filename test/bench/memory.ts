import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster } from '../peers/cluster.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { residentMib } from '../peers/footprint.ts'
import { startHole } from './hole.ts'
import { type Report, shown } from './report.ts'

const address = '192.0.2.1'
const sampleEveryMs = 5000

/** Resident memory after quiet minutes, beside the same bundle that has read its kubeconfig and reaches nobody. */
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
    const last = samples.at(-1) ?? { working: Number.NaN, idling: Number.NaN }
    const row = (name: string, kind: 'working' | 'idling'): readonly string[] => [
      name,
      shown(samples[0]?.[kind] ?? Number.NaN),
      shown(Math.max(...samples.map((sample) => sample[kind]))),
      shown(last[kind]),
    ]
    return {
      title: 'Memory',
      method: `VmRSS over ${minutes} quiet minutes, side by side. "Idling": the same bundle on a server that accepts its connection and never answers.`,
      header: ['MiB', 'first', 'most', 'last'],
      rows: [row('keeping a cluster', 'working'), row('idling after it has read its kubeconfig', 'idling')],
      bounds: [
        { name: 'resident', value: last.working, limit: 120, unit: 'MiB' },
        { name: 'above the idling bundle', value: last.working - last.idling, limit: 25, unit: 'MiB' },
      ],
    }
  } finally {
    await owner.close()
  }
}
