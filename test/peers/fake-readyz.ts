import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Owner } from './owner.ts'
import { freePort } from './ports.ts'
import { startOnFreePorts } from './process.ts'

/** The health endpoint of an API server that does not exist otherwise. A master asks it through `--readyz-url`. */
export interface FakeReadyz {
  readonly url: string
  /** Answers 500 from now on, or 200 again. */
  setReady(ready: boolean): void
  /** Answers 500 from now on, because only these checks fail. */
  setFailing(...checks: readonly string[]): void
  /** Answers with this status and an empty body from now on. */
  refuse(status: number): void
  /** Stops listening. */
  stop(): Promise<void>
}

export async function startFakeReadyz(owner: Owner): Promise<FakeReadyz> {
  let failing: readonly string[] = []
  let refusal: number | undefined
  const server = createServer((_request, response) => {
    if (refusal !== undefined) return response.writeHead(refusal).end()
    const lines = ['[+]ping ok', ...failing.map((check) => `[-]${check} failed: reason withheld`)]
    return response.writeHead(failing.length === 0 ? 200 : 500, { 'content-type': 'text/plain' }).end(lines.join('\n'))
  })
  const url = await startOnFreePorts(async () => {
    const port = await freePort()
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return `http://127.0.0.1:${port}/readyz`
  })
  const stop = async (): Promise<void> => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  owner.after(stop)
  return {
    url,
    stop,
    setReady(ready) {
      failing = ready ? [] : ['storage']
      refusal = undefined
    },
    setFailing(...checks) {
      failing = checks
      refusal = undefined
    },
    refuse(status) {
      refusal = status
    },
  }
}
