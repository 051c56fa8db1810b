import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startCluster } from '../peers/cluster.ts'
import { residentMib } from '../peers/footprint.ts'
import { openOwner } from '../peers/owner.ts'
import { RunningProcess } from '../peers/process.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { readyProgram } from './ready-program.ts'
import { median, type Report, shown } from './report.ts'

const script = fileURLToPath(new URL('../peers/health-flood.ts', import.meta.url))
const askEveryMs = 100

/** How long /livez takes, and how much memory the program uses, while a client floods the health address. */
export async function measureFlood({ seconds }: { readonly seconds: number }): Promise<Report> {
  const owner = openOwner()
  try {
    const { server } = await startCluster(owner, { kind: 'bare' })
    const master = await readyProgram(await startMaster(owner, server, { address: '192.0.2.1' }))
    const { health } = await master.waitForLog(/"health":"/, 1000)
    const url = `http://${health}`
    await (await fetch(`${url}/metrics`)).text()
    const quiet = await latencies(master, url, seconds)
    const beforeMib = residentMib(master.process.pid)
    const port = url.slice(url.lastIndexOf(':') + 1)
    const flood = await RunningProcess.start(owner, {
      name: 'flood',
      command: process.execPath,
      args: [script, port, '6', '4'],
    })
    await flood.whenReady(async () => flood.lines.length > 0, 10_000)
    const flooded = await latencies(master, url, seconds)
    const grownMib = residentMib(master.process.pid) - beforeMib
    const row = (name: string, values: readonly number[]): readonly string[] => [
      name,
      shown(median(values)),
      shown(Math.max(...values)),
    ]
    return {
      title: 'Flood',
      method: `/livez, requested every ${askEveryMs} ms for ${seconds} s over connections of its own, while another process pipelines 4 MB of \`GET /metrics\` over six connections, reads nothing, and starts again on each that is closed. Without bounds: 19 to 26 s, and 570 to 660 MiB resident.`,
      header: ['/livez, ms', 'median', 'most'],
      rows: [row('quiet', quiet), row('flooded', flooded)],
      bounds: [
        { name: '/livez at most', value: Math.max(...flooded), limit: 200, unit: 'ms' },
        { name: 'more resident', value: grownMib, limit: 20, unit: 'MiB' },
      ],
    }
  } finally {
    await owner.close()
  }
}

async function latencies(master: Program, url: string, seconds: number): Promise<readonly number[]> {
  const tookMs: number[] = []
  for (const endMs = performance.now() + seconds * 1000; performance.now() < endMs; await sleep(askEveryMs)) {
    master.assertRunning()
    const askedMs = performance.now()
    await (await fetch(`${url}/livez`, { headers: { connection: 'close' } })).text()
    tookMs.push(performance.now() - askedMs)
  }
  return tookMs
}
