import { takesConnections } from './kine.ts'
import { dataDirectory, type Owner } from './owner.ts'
import { freePort } from './ports.ts'
import { RunningProcess, startOnFreePorts } from './process.ts'

/** A redis-server on loopback that stores nothing on disk. */
export interface Redis {
  readonly port: number
  readonly process: RunningProcess
}

export function startRedis(owner: Owner): Promise<Redis> {
  const cwd = dataDirectory(owner, 'redis')
  return startOnFreePorts(async () => {
    const port = await freePort()
    const running = await RunningProcess.start(owner, {
      name: 'redis-server',
      command: 'redis-server',
      args: ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', cwd],
    })
    await running.whenReady(() => takesConnections({ host: '127.0.0.1', port }), 30_000)
    return { port, process: running }
  })
}
