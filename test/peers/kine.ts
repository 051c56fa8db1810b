import { connect } from 'node:net'
import { join } from 'node:path'
import { binary } from './binaries.ts'
import { dataDirectory, type Owner } from './owner.ts'
import { freePort } from './ports.ts'
import { RunningProcess, startOnFreePorts } from './process.ts'

/** A kine on loopback, with its SQLite in a temporary directory. */
export interface Kine {
  /** The URL of a Unix socket, if one was requested. */
  readonly url: string
  /** 0 with a Unix socket. */
  readonly port: number
  readonly process: RunningProcess
  /** SIGKILL; the data stays. */
  kill(): Promise<void>
  /** Starts it again on the same data and port, and waits until it accepts connections. */
  start(): Promise<void>
}

export interface KineOptions {
  /** Listens on a Unix socket, as inside k3s. */
  readonly unixSocket?: boolean
}

const readyWithinMs = 30_000

export function startKine(owner: Owner, { unixSocket = false }: KineOptions = {}): Promise<Kine> {
  const cwd = dataDirectory(owner, 'kine')
  return startOnFreePorts(async () => {
    const port = unixSocket ? 0 : await freePort()
    const path = join(cwd, 'kine.sock')
    const launch = async (): Promise<RunningProcess> => {
      const running = await RunningProcess.start(owner, {
        name: 'kine',
        command: binary('kine'),
        args: [
          `--listen-address=${unixSocket ? `unix://${path}` : `127.0.0.1:${port}`}`,
          '--metrics-bind-address=0',
          // Allows compaction of a revision that fewer than a thousand others follow.
          '--compact-min-retain=0',
        ],
        cwd,
      })
      try {
        await running.whenReady(
          () => takesConnections(unixSocket ? { path } : { host: '127.0.0.1', port }),
          readyWithinMs,
        )
      } catch (error) {
        await running.kill()
        throw error
      }
      return running
    }
    let running = await launch()
    return {
      url: unixSocket ? `unix://${path}` : `http://127.0.0.1:${port}`,
      port,
      get process() {
        return running
      },
      kill: () => running.kill(),
      async start() {
        running = await launch()
      },
    }
  })
}

export function takesConnections(
  where: { readonly path: string } | { readonly host: string; readonly port: number },
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(where)
    const settle = (taken: boolean): void => {
      socket.destroy()
      resolve(taken)
    }
    socket.once('connect', () => settle(true)).once('error', () => settle(false))
  })
}
