import { type ApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import type { Transport } from '../../src/kube/transport.ts'

/**
 * Sends requests to an embedded server and returns copies of its answers, as a connection does: no two of them share a
 * part. With {@link byReference} a program must get the same result; otherwise it depends on something that no real
 * server provides.
 */
export function byCopy(server: ApiServer): Transport {
  return passing(server, (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value))))
}

/** Takes exactly as many turns as {@link byCopy}, and returns the server's own objects. */
export function byReference(server: ApiServer): Transport {
  return passing(server, (value) => value)
}

function passing(server: ApiServer, pass: (value: unknown) => unknown): Transport {
  const inner = inProcessTransport(server)
  return {
    async send(request, signal) {
      const response = await inner.send(request, signal)
      return 'stream' in response
        ? { ...response, stream: passedOn(response.stream, pass) }
        : { ...response, body: pass(response.body) }
    },
    close: () => inner.close(),
  }
}

function passedOn(events: AsyncIterable<unknown>, pass: (value: unknown) => unknown): AsyncIterable<unknown> {
  return {
    [Symbol.asyncIterator]() {
      const inner = events[Symbol.asyncIterator]()
      const end = inner.return?.bind(inner)
      return {
        next: () => inner.next().then(({ done, value }) => ({ done, value: pass(value) }) as IteratorResult<unknown>),
        ...(end && { return: end }),
      }
    },
  }
}
