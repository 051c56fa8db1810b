import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import type { startApiServer } from '../../src/testing.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import type { RunningProcess } from '../peers/process.ts'
import { Program } from '../peers/program.ts'
import type { ServerAccess } from './embedded-client.ts'
import { timeNodeStart } from './startup.ts'

/** `serve` in a process of its own. */
export interface Served {
  readonly access: ServerAccess
  readonly process: RunningProcess
  /** From exec until it has printed that it listens. */
  readonly readyMs: number
}

export async function startServe(owner: Owner): Promise<Served> {
  const file = join(temporaryDirectory(owner, 'serve'), 'kubeconfig')
  const startedMs = performance.now()
  const { process } = await Program.start(owner, ['serve', '--port=0', `--write-kubeconfig=${file}`])
  const readyMs = await new Promise<number>((resolve, reject) => {
    process.onLine((line) => {
      if (line.includes(`KUBECONFIG=${file}`)) resolve(performance.now() - startedMs)
    })
    void process.exited.then(() => reject(new Error(`serve has ended\n${process.tail()}`)))
  })
  const { clusters, users } = parse(readFileSync(file, 'utf8')) as {
    readonly clusters: readonly [{ readonly cluster: Readonly<Record<string, string>> }]
    readonly users: readonly [{ readonly user: { readonly token: string } }]
  }
  const { server: url = '', 'certificate-authority-data': authority = '' } = clusters[0].cluster
  const ca = Buffer.from(authority, 'base64').toString('utf8')
  return { access: { url, ca, token: users[0].user.token }, process, readyMs }
}

/**
 * Times `serve` from exec until it listens and, in turns, a Node process that does nothing. The first start does not
 * count: it fills the compile cache.
 */
export async function timeServeStarts(
  count: number,
): Promise<{ readonly serve: readonly number[]; readonly node: readonly number[] }> {
  const [serve, node]: [number[], number[]] = [[], []]
  for (let round = 0; round <= count; round++) {
    const owner = openOwner()
    try {
      const nodeMs = await timeNodeStart()
      const { readyMs } = await startServe(owner)
      if (round === 0) continue
      serve.push(readyMs)
      node.push(nodeMs)
    } finally {
      await owner.close()
    }
  }
  return { serve, node }
}

const warmUps = 10

/** How long a test waits for its own server in this process, which has started servers before. */
export async function timeStartsInProcess(count: number): Promise<readonly number[]> {
  const built = new URL('../../dist/lib/testing.js', import.meta.url).href
  const library = (await import(built)) as { readonly startApiServer: typeof startApiServer }
  const times: number[] = []
  for (let round = -warmUps; round < count; round++) {
    const startedMs = performance.now()
    const server = await library.startApiServer()
    if (round >= 0) times.push(performance.now() - startedMs)
    await server.close()
  }
  return times
}
