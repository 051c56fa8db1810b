import type { KeyValue as StoredKeyValue } from '../protobuf/gen/etcd/api/mvccpb/kv_pb.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { systemRandom } from '../runtime/system-clock.ts'
import { expiryReporter } from '../telemetry/expiry.ts'
import { type Logger, silentLogger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { oneLine } from '../telemetry/secrets.ts'
import { defaultTimes } from './connect-connection.ts'
import { type CredentialFiles, EtcdCredentials } from './connect-credentials.ts'
import { withRight } from './connect-failure.ts'
import { EndpointPool, type RequestKind, type Server } from './connect-pool.ts'
import { type WatchTools, watchPrefix } from './connect-watch.ts'
import {
  EtcdError,
  type EtcdKv,
  type KeyValue,
  type LeaseGrant,
  type LeaseTimes,
  type PrefixSnapshot,
  type PutOptions,
  type WatchOptions,
} from './kv.ts'
import type { EtcdEndpoint } from './options.ts'
import {
  createRequest,
  deleteRequest,
  getRequest,
  keyBytes,
  keyText,
  listRequest,
  requireLeader,
  updateRequest,
} from './requests.ts'

export interface ConnectEtcdOptions extends CredentialFiles {
  /** At least one. Requests go to the first until it fails, then to the next, and after the last to the first again. */
  readonly endpoints: readonly EtcdEndpoint[]
  readonly clock: Clock
  readonly logger?: Logger | undefined
  /** For the metric that shows when the certificates expire. @default none */
  readonly metrics?: Metrics | undefined
  /** For the jitter of the pauses between attempts to reopen a watch. @default {@link systemRandom} */
  readonly random?: Random | undefined
  /** How long one server may take to answer one request, in milliseconds. @default 3000 */
  readonly requestTimeoutMs?: number | undefined
}

/**
 * A client of etcd or kine over gRPC. It opens no connection before the first call. Then it has a connection to the
 * endpoint in use, and closes a connection that has had no request and no watch for 55 s.
 *
 * An endpoint fails when it cannot be reached within 2 s, when its connection is found dead (within 3 s), when it does
 * not answer within `requestTimeoutMs`, or when it answers that it cannot serve, such as without a leader. The client
 * then tries the next endpoint. So a lease of 15 s that is renewed every 10 s survives if one server is gone, or hangs.
 * Reads, grants and watches are repeated. A write that may have happened is not repeated: it rejects, and the caller
 * must read. A write that certainly had no effect goes to the next endpoint. With the default timeout, no call but
 * `watch` takes longer than 12 s, or 16 s before the certificate files have been read.
 */
export function connectEtcd(options: ConnectEtcdOptions): EtcdKv {
  return new ConnectedEtcd(options)
}

class ConnectedEtcd implements EtcdKv {
  readonly #tools: WatchTools
  readonly #pool: EndpointPool

  constructor({
    endpoints,
    clock,
    logger = silentLogger,
    metrics,
    random,
    requestTimeoutMs = 3_000,
    ...files
  }: ConnectEtcdOptions) {
    const onExpiry = metrics && expiryReporter({ metrics, clock, logger })
    const credentials = new EtcdCredentials(files, { clock, logger, onExpiry })
    this.#pool = new EndpointPool({ endpoints, credentials, clock, logger, times: defaultTimes, requestTimeoutMs })
    this.#tools = { pool: this.#pool, clock, random: random ?? systemRandom(), requestTimeoutMs }
  }

  get(key: string, signal: AbortSignal): Promise<KeyValue | undefined> {
    return this.#ask('repeatable', `read ${key}`, signal, async ({ kv }, signal) => {
      const { kvs } = await kv.range(getRequest(keyBytes(key)), { signal, headers: requireLeader })
      return kvs[0] === undefined ? undefined : keyValueOf(kvs[0])
    })
  }

  list(prefix: string, { revision = 0n, signal }: Parameters<EtcdKv['list']>[1]): Promise<PrefixSnapshot> {
    return this.#ask('repeatable', `read all of ${prefix}`, signal, async ({ kv }, signal) => {
      const request = listRequest(keyBytes(prefix), revision)
      const { header, kvs } = await kv.range(request, { signal, headers: requireLeader })
      const items = kvs.map(keyValueOf).sort((a, b) => (a.key < b.key ? -1 : 1))
      return { revision: revision === 0n ? (header?.revision ?? 0n) : revision, items }
    })
  }

  create(key: string, value: Uint8Array, { lease = 0n, signal }: PutOptions): Promise<bigint | undefined> {
    return this.#put(key, createRequest(keyBytes(key), { value, lease }), signal)
  }

  update(
    key: string,
    value: Uint8Array,
    modRevision: bigint,
    { lease = 0n, signal }: PutOptions,
  ): Promise<bigint | undefined> {
    return this.#put(key, updateRequest(keyBytes(key), { value, lease }, modRevision), signal)
  }

  delete(key: string, modRevision: bigint, signal: AbortSignal): Promise<boolean> {
    return this.#ask('once', `read and write ${key}`, signal, async ({ kv }, signal) => {
      const request = deleteRequest(keyBytes(key), modRevision)
      const { succeeded, responses } = await kv.txn(request, { signal, headers: requireLeader })
      // kine answers the deletion of a missing key with success and no deleted key.
      const response = responses[0]?.response
      return succeeded && response?.case === 'responseDeleteRange' && response.value.deleted > 0n
    })
  }

  grantLease(ttlSeconds: number, signal: AbortSignal): Promise<LeaseGrant> {
    return this.#pool.ask('repeatable', signal, async ({ lease }, signal) => {
      const granted = await lease.leaseGrant({ TTL: BigInt(ttlSeconds) }, { signal, headers: requireLeader })
      if (granted.error !== '') throw new EtcdError('Refused', oneLine(granted.error, 200))
      return { id: granted.ID, grantedSeconds: granted.TTL }
    })
  }

  timeToLive(lease: bigint, signal: AbortSignal): Promise<LeaseTimes | undefined> {
    return this.#ask('repeatable', `read every key of lease ${lease}`, signal, async (server, signal) => {
      const times = await server.lease.leaseTimeToLive({ ID: lease }, { signal, headers: requireLeader })
      // etcd answers -1 for a missing lease.
      return times.TTL < 0n ? undefined : { grantedSeconds: times.grantedTTL, leftSeconds: times.TTL }
    })
  }

  watch(prefix: string, options: WatchOptions): Promise<void> {
    return watchPrefix(this.#tools, prefix, options)
  }

  close(): Promise<void> {
    return this.#pool.close()
  }

  #put(key: string, request: ReturnType<typeof createRequest>, signal: AbortSignal): Promise<bigint | undefined> {
    return this.#ask('once', `read and write ${key}`, signal, async ({ kv }, signal) => {
      const { succeeded, header } = await kv.txn(request, { signal, headers: requireLeader })
      return succeeded ? header?.revision : undefined
    })
  }

  /** `right` is the permission that the call needs on an etcd with authentication enabled. */
  #ask<T>(
    kind: RequestKind,
    right: string,
    signal: AbortSignal,
    send: (server: Server, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#pool.ask(kind, signal, send).catch((error: unknown) => {
      throw withRight(right, error)
    })
  }
}

function keyValueOf({ key, value, modRevision, lease }: StoredKeyValue): KeyValue {
  return { key: keyText(key), value, modRevision, lease }
}
