import type { HostPort } from '../../net/host-port.ts'
import { type StatusPage, serveStatusPage } from './http-status-page.ts'
import type { StatusSource } from './status-source.ts'

export interface OpenedStatusPage extends StatusPage {
  /** Begins to observe. Requests before that wait. To be called once. */
  start(load: () => Promise<StatusSource>): void
}

/**
 * Listens for browsers; what the page shows is loaded when it is started, so that a command can do first what it is
 * for. Failures of the observed servers are shown on the page.
 * @param address - on loopback; port 0 selects a free one.
 * @throws ListenError
 */
export async function openStatusPage(address: HostPort): Promise<OpenedStatusPage> {
  const source = Promise.withResolvers<StatusSource>()
  const page = await serveStatusPage(address, source.promise)
  const end = new AbortController()
  let running: Promise<void> | undefined
  return {
    url: page.url,
    start(load) {
      running = load().then((loaded) => {
        source.resolve(loaded)
        return loaded.run(end.signal)
      })
    },
    async close() {
      end.abort()
      await page.close()
      await running
    },
  }
}
