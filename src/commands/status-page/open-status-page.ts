import type { HostPort } from '../../net/host-port.ts'
import { messageOf } from '../../runtime/errors.ts'
import type { Logger } from '../../telemetry/logger.ts'
import { type StatusPage, serveStatusPage } from './http-status-page.ts'
import type { StatusSource } from './status-source.ts'

export interface OpenedStatusPage extends StatusPage {
  /** Loads the source and starts to observe. Requests wait until the source is loaded. Call `start` once. */
  start(load: () => Promise<StatusSource>): void
}

/**
 * Listens for browsers. A command can do its own work before `start`. No failure of the observed servers ends the
 * command.
 * @param address - on loopback; port 0 selects a free one.
 * @throws ListenError
 */
export async function openStatusPage(address: HostPort, logger: Logger): Promise<OpenedStatusPage> {
  const source = Promise.withResolvers<StatusSource>()
  const page = await serveStatusPage({ ...address, source: source.promise, logger })
  const end = new AbortController()
  let running: Promise<void> | undefined
  return {
    url: page.url,
    start(load) {
      const run = async (): Promise<void> => {
        const loaded = await load()
        source.resolve(loaded)
        await loaded.run(end.signal)
      }
      running = run().catch((error: unknown) => {
        source.reject(error)
        logger.error({ error }, `the page at ${page.url} has ended: ${messageOf(error)}`)
      })
    },
    async close() {
      end.abort()
      source.reject(new Error('the page is closed'))
      await page.close()
      await running
    },
  }
}
