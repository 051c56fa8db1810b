import { Code, ConnectError } from '@connectrpc/connect'
import type { WatchResponse } from '../protobuf/gen/etcd/api/etcdserverpb/rpc_pb.ts'
import { type Event, Event_EventType } from '../protobuf/gen/etcd/api/mvccpb/kv_pb.ts'
import { exponentialBackoff } from '../runtime/backoff.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { aborted, linkedController } from '../runtime/signals.ts'
import { requestFailure, withRight } from './connect-failure.ts'
import type { EndpointPool, Server } from './connect-pool.ts'
import { EtcdError, type EtcdErrorCode, type KeyChange, type WatchOptions } from './kv.ts'
import { getRequest, keyBytes, keyText, requireLeader, watchRequest } from './requests.ts'

export interface WatchTools {
  readonly pool: EndpointPool
  readonly clock: Clock
  readonly random: Random
  /**
   * How long it may take to open a watch, in milliseconds: a read of the present revision, then the server's
   * confirmation of the watch.
   */
  readonly requestTimeoutMs: number
}

/** The pauses before attempts to reopen a watch, in milliseconds. */
const pauses = { firstMs: 100, maxMs: 3_000, jitter: 'full' } as const
/** If a watch lasted this long before it broke, in milliseconds, the back-off is reset. */
const PROVEN_MS = 5_000

interface OpenWatch {
  readonly server: Server
  readonly responses: AsyncIterator<WatchResponse>
  readonly end: () => void
}

/**
 * Watches a prefix until `signal` is aborted or the pool is closed, and then resolves. The watch starts after the
 * revision of a read on the same server. Otherwise the watch could miss changes, because kine confirms a watch before
 * it is active. If the server of the watch loses its leader, the watch ends and another one is opened.
 */
export async function watchPrefix(tools: WatchTools, prefix: string, options: WatchOptions): Promise<void> {
  const { controller, unlink } = linkedController(options.signal, tools.pool.closing)
  try {
    const { signal } = controller
    for await (const changes of changesUnder(tools, prefix, { ...options, signal })) {
      if (changes === undefined) options.report(undefined)
      options.onChange(changes)
    }
  } finally {
    unlink()
  }
}

/**
 * Yields the arguments of `onChange`: undefined each time the watch has opened, then the changes of each response. This
 * is a generator, so that an error that `onChange` throws is not taken for an error of the watch.
 */
async function* changesUnder(
  tools: WatchTools,
  prefix: string,
  { report, signal }: Omit<WatchOptions, 'onChange'>,
): AsyncGenerator<readonly KeyChange[] | undefined, void> {
  const { pool, clock, random } = tools
  const backoff = exponentialBackoff(pauses, random)
  let reported: EtcdErrorCode | undefined
  while (!signal.aborted) {
    let stoodMs: number | undefined
    let watch: OpenWatch | undefined
    try {
      watch = await pool.ask('repeatable', signal, (server) => open(tools, server, keyBytes(prefix), signal))
      stoodMs = clock.monotonicMs()
      reported = undefined
      yield undefined
      for (;;) yield (await next(watch)).events.flatMap(changeOf)
    } catch (error) {
      if (signal.aborted) return
      const failure = explained(prefix, watch?.server, error)
      if (watch !== undefined && failure.nature === 'away') pool.leave(watch.server, failure)
      if (stoodMs !== undefined && clock.monotonicMs() - stoodMs >= PROVEN_MS) backoff.reset()
      if (failure.code !== reported) report(failure)
      reported = failure.code
    } finally {
      watch?.end()
    }
    await sleep(clock, backoff.next(), signal).catch(() => {})
  }
}

async function open(
  { clock, requestTimeoutMs }: WatchTools,
  server: Server,
  prefix: Uint8Array,
  outer: AbortSignal,
): Promise<OpenWatch> {
  const { controller, unlink } = linkedController(outer)
  const { signal } = controller
  const end = (): void => {
    unlink()
    controller.abort()
  }
  const cancel = clock.schedule(requestTimeoutMs, () =>
    controller.abort(new ConnectError('the watch did not open in time', Code.DeadlineExceeded)),
  )
  try {
    const { header } = await server.kv.range(getRequest(prefix), { signal, headers: requireLeader })
    const from = (header?.revision ?? 0n) + 1n
    const requests = async function* () {
      yield watchRequest(prefix, from)
      // The request stream must stay open, because its end would end the watch.
      await aborted(signal)
    }
    const stream = server.watch.watch(requests(), { signal, headers: requireLeader, timeoutMs: 0 })
    const watch = { server, responses: stream[Symbol.asyncIterator](), end }
    await next(watch)
    return watch
  } catch (error) {
    end()
    throw error
  } finally {
    cancel()
  }
}

/** The next response. Rejects when the server has ended or canceled the watch. */
async function next({ responses }: OpenWatch): Promise<WatchResponse> {
  const { done, value } = await responses.next()
  if (done) throw new EtcdError('Unreachable', 'the server ended the watch')
  if (!value.canceled) return value
  if (value.compactRevision > 0n)
    throw new EtcdError('Compacted', 'the watch fell behind and its revision was compacted')
  throw new ConnectError(
    value.cancelReason === '' ? 'the server ended the watch' : value.cancelReason,
    Code.Unavailable,
  )
}

function explained(prefix: string, server: Server | undefined, error: unknown): EtcdError {
  const known = server === undefined ? error : requestFailure(server.endpoint, server.connection.failure, error).error
  const described = withRight(`read all of ${prefix}`, known)
  return described instanceof EtcdError ? described : new EtcdError('Unreachable', String(error), error)
}

function changeOf({ type, kv, prevKv }: Event): readonly KeyChange[] {
  if (kv === undefined) return []
  const key = keyText(kv.key)
  const { modRevision } = kv
  if (type === Event_EventType.DELETE) {
    return [{ type: 'deleted', key, value: new Uint8Array(), previousValue: prevKv?.value, modRevision }]
  }
  const created = kv.createRevision === modRevision
  return [
    {
      type: created ? 'created' : 'modified',
      key,
      value: kv.value,
      previousValue: created ? undefined : prevKv?.value,
      modRevision,
    },
  ]
}
