import { createServer } from 'node:http2'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { HandlerContext } from '@connectrpc/connect'
import { connectNodeAdapter } from '@connectrpc/connect-node'
import {
  KV,
  type RangeResponseSchema,
  Watch,
  type WatchResponseSchema,
} from '../../src/protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import { aborted } from '../../src/runtime/signals.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { listenOnLoopback } from '../support/loopback-server.ts'

type WatchAnswer = MessageInitShape<typeof WatchResponseSchema>

/** An etcd that serves only reads and watches, with the answers that the test sets. */
export interface FakeEtcd {
  readonly url: string
  /** The requests so far, in words. */
  readonly requests: readonly string[]
  /** All watches so far, including those that have ended. */
  readonly watches: readonly FakeWatch[]
  /** How many watch streams the client holds open. */
  readonly open: number
  /** The answer to a read; undefined for no answer. */
  read: () => MessageInitShape<typeof RangeResponseSchema> | undefined
  /** The first message of a watch; undefined for none. */
  first: WatchAnswer | undefined
}

export interface FakeWatch {
  send(...answers: readonly WatchAnswer[]): void
  /** Ends the stream, with or without an error. */
  end(error?: Error): void
}

export async function startFakeEtcd(t: Cleanup): Promise<FakeEtcd> {
  const requests: string[] = []
  const watches: FakeWatch[] = []
  const note = (words: string, { requestHeader }: HandlerContext): void => {
    const leader = requestHeader.get('hasleader') === 'true' ? '' : ', leader or not'
    requests.push(`${words}${leader}, within ${requestHeader.get('grpc-timeout') ?? 'any time'}`)
  }
  const routes = connectNodeAdapter({
    routes(router) {
      router.service(KV, {
        async range({ key, rangeEnd, limit }, context) {
          note(`read ${text(key)}${text(rangeEnd)} ${limit}`, context)
          const answer = etcd.read()
          if (answer === undefined) await aborted(context.signal)
          return answer ?? {}
        },
      })
      router.service(Watch, {
        async *watch(asked, context) {
          const requested = asked[Symbol.asyncIterator]()
          const { requestUnion } = (await requested.next()).value ?? {}
          if (requestUnion?.case !== 'createRequest') return
          const { key, rangeEnd, startRevision, prevKv } = requestUnion.value
          note(
            `watch ${text(key)} to ${text(rangeEnd)} from ${startRevision}${prevKv ? ' with what was' : ''}`,
            context,
          )
          const { watch, answers } = openWatch(context.signal)
          // The end of the requests ends the watch, as in etcd.
          void requested.next().then(
            () => watch.end(),
            () => watch.end(),
          )
          watches.push(watch)
          if (etcd.first !== undefined) watch.send(etcd.first)
          etcd.open++
          try {
            yield* answers
          } finally {
            etcd.open--
          }
        },
      })
    },
  })
  const { port } = await listenOnLoopback(t, createServer(routes))
  const etcd = {
    url: `http://127.0.0.1:${port}`,
    requests,
    watches,
    open: 0,
    read: (): ReturnType<FakeEtcd['read']> => ({ header: { revision: 7n } }),
    first: { created: true } as FakeEtcd['first'],
  }
  return etcd
}

function openWatch(signal: AbortSignal): { readonly watch: FakeWatch; readonly answers: AsyncIterable<WatchAnswer> } {
  const waiting: WatchAnswer[] = []
  let ended: { readonly error?: Error | undefined } | undefined
  let wake = (): void => {}
  signal.addEventListener('abort', () => watch.end(), { once: true })
  const watch: FakeWatch = {
    send(...answers) {
      waiting.push(...answers)
      wake()
    },
    end(error) {
      ended ??= { error }
      wake()
    },
  }
  async function* answers(): AsyncGenerator<WatchAnswer> {
    for (;;) {
      yield* waiting.splice(0)
      if (ended?.error !== undefined) throw ended.error
      if (ended !== undefined) return
      if (waiting.length === 0)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
    }
  }
  return { watch, answers: answers() }
}

function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes)
}
