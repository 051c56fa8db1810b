import { createServer, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { peakResidentMib } from '../peers/footprint.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { listenOnLoopback } from '../support/loopback-server.ts'
import type { Report } from './report.ts'

const MB = 1_000_000
/**
 * What an API server answers to every request except /readyz. The first answer is the one with which the others are
 * compared.
 */
const answers = [
  { name: 'HTTP 503', bytes: 0 },
  { name: '60 MB', bytes: 60 * MB },
  { name: '600 MB', bytes: 600 * MB },
]

/** How much memory the program uses while its API server gives very long answers. */
export async function measureEndlessAnswers({ seconds }: { readonly seconds: number }): Promise<Report> {
  const found: { readonly name: string; readonly peakMib: number; readonly sentMb: number; readonly lines: number }[] =
    []
  for (const answer of answers) {
    const owner = openOwner()
    try {
      let sent = 0
      const server = createServer((request, response) => {
        if (request.url?.startsWith('/readyz')) response.end('[+]ping ok\n')
        else if (answer.bytes === 0) response.writeHead(503).end()
        else
          writeMuch(response.writeHead(200, { 'content-type': 'application/json' }), answer.bytes, (bytes) => {
            sent += bytes
          })
      })
      const { port } = await listenOnLoopback(owner, server)
      const kubeconfig = join(temporaryDirectory(owner, 'endless'), 'kubeconfig')
      writeKubeconfig(kubeconfig, { server: `http://127.0.0.1:${port}` })
      const program = await startMaster(owner, { kubeconfig, port }, { address: '192.0.2.1' })
      await sleep(seconds * 1000)
      program.assertRunning()
      const peakMib = peakResidentMib(program.process.pid)
      found.push({ name: answer.name, peakMib, sentMb: sent / MB, lines: program.logged(/./).length })
    } finally {
      await owner.close()
    }
  }
  const [usual, ...long] = found.map(({ peakMib }) => peakMib)
  return {
    title: 'Endless answers',
    method: `An API server that answers every request but /readyz with a list of this size, for ${seconds} s each. Longer answers are cut off by their limit (SECURITY.md) and requested again. Without limits: 286 MiB with 60 MB, 2,015 MiB with 600 MB.`,
    header: ['answers', 'most resident, MiB', 'sent, MB', 'lines in the log'],
    rows: found.map(({ name, peakMib, sentMb, lines }) => [name, peakMib.toFixed(0), sentMb.toFixed(0), `${lines}`]),
    bounds: [
      {
        name: 'most resident, above that of a server that answers 503',
        value: Math.max(...long) - (usual ?? Number.NaN),
        limit: 150,
        unit: 'MiB',
      },
    ],
  }
}

/** Writes a list of ConfigMaps of about `bytes` bytes, which the reader cuts off. */
function writeMuch(response: ServerResponse, bytes: number, wrote: (bytes: number) => void): void {
  const object = `${JSON.stringify({ metadata: { name: 'x'.repeat(200) }, data: { key: 'x'.repeat(60_000) } })},`
  let left = bytes
  const write = (): void => {
    while (left > 0 && !response.destroyed) {
      left -= object.length
      wrote(object.length)
      if (!response.write(object)) return
    }
    if (left <= 0) response.end('{}]}')
  }
  response
    .on('error', () => {})
    .on('drain', write)
    .write('{"kind":"List","apiVersion":"v1","metadata":{},"items":[')
  write()
}
