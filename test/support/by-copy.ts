import { type ApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import type { Transport } from '../../src/kube/transport.ts'

/**
 * Sends requests to an embedded server, and hands over copies of its answers, as a connection does: no two of them have a part in common.
 * With {@link byReference} a program must come to the same, or it rests on what no real server gives.
 */
export function byCopy(server: ApiServer): Transport {
  return passing(server, (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value))))
}

/** Takes exactly as many turns as {@link byCopy}, and hands over the objects of the server. */
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
