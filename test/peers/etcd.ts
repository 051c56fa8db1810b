import { join } from 'node:path'
import { binary } from './binaries.ts'
import { type Owner, temporaryDirectory } from './owner.ts'
import { freePort } from './ports.ts'
import { RunningProcess, startOnFreePorts } from './process.ts'

/** A single etcd member on loopback, without TLS. */
export interface Etcd {
  readonly url: string
  readonly process: RunningProcess
  /** SIGKILL; the data stays. */
  kill(): Promise<void>
  /** Starts it again on the same data and port, and waits until it takes requests. */
  start(): Promise<void>
  /** Removes every key that begins with `prefix`. */
  deletePrefix(prefix: string): Promise<void>
}

const readyWithinMs = 30_000

export function startEtcd(owner: Owner): Promise<Etcd> {
  const directory = temporaryDirectory(owner, 'etcd')
  return startOnFreePorts(async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const peerUrl = `http://127.0.0.1:${await freePort()}`
    let running = await launch(owner, directory, url, peerUrl)
    return {
      url,
      get process() {
        return running
      },
      kill: () => running.kill(),
      async start() {
        running = await launch(owner, directory, url, peerUrl)
      },
      async deletePrefix(prefix) {
        const end = Buffer.from(prefix)
        end[end.length - 1] = (end.at(-1) as number) + 1
        const key = Buffer.from(prefix).toString('base64')
        const response = await post(`${url}/v3/kv/deleterange`, { key, range_end: end.toString('base64') })
        if (!response.ok) throw new Error(`etcd refused to delete ${prefix}: ${await response.text()}`)
        await response.arrayBuffer()
      },
    }
  })
}

async function launch(owner: Owner, directory: string, url: string, peerUrl: string): Promise<RunningProcess> {
  const running = await RunningProcess.start(owner, {
    name: 'etcd',
    command: binary('etcd'),
    args: [
      '--name=test',
      `--data-dir=${join(directory, 'data')}`,
      `--listen-client-urls=${url}`,
      `--advertise-client-urls=${url}`,
      `--listen-peer-urls=${peerUrl}`,
      `--initial-advertise-peer-urls=${peerUrl}`,
      `--initial-cluster=test=${peerUrl}`,
      '--unsafe-no-fsync',
      '--log-level=warn',
    ],
  })
  try {
    await running.whenReady(async () => {
      // A read through the log: answered only once there is a leader.
      const response = await post(`${url}/v3/kv/range`, { key: Buffer.from('ready').toString('base64') })
      await response.arrayBuffer()
      return response.ok
    }, readyWithinMs)
  } catch (error) {
    await running.kill()
    throw error
  }
  return running
}

/** etcd's own JSON gateway; one connection per request, so that an etcd that was killed leaves nothing behind here. */
function post(url: string, body: unknown): Promise<Response> {
  const init = { method: 'POST', body: JSON.stringify(body), headers: { connection: 'close' } }
  return fetch(url, { ...init, signal: AbortSignal.timeout(5_000) })
}
