import { EtcdError, type EtcdKv } from '../../../src/etcd/kv.ts'
import { MemoryEtcd, type MemoryEtcdOptions } from '../../../src/etcd/memory-etcd.ts'
import { type EtcdCall, faultyEtcd } from '../../../src/etcd/memory-etcd-faults.ts'
import { EtcdLeases } from '../../../src/kubernetes-service/leases/etcd/leases.ts'
import { abortable } from '../../../src/runtime/signals.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'

/** For calls that are never aborted. */
export const { signal } = new AbortController()
export const ttlMs = 15_000

/** The connection of one master to the store, and the calls over it. */
export interface Opened {
  readonly leases: EtcdLeases
  /** Each call except watches, as `method key`, without the prefix. */
  readonly calls: string[]
  /** Returns an error to throw before a call is made, or after it. It may take time. */
  fault: (call: EtcdCall, place: 'before' | 'after') => unknown
  readonly logger: ReturnType<typeof memoryLogger>
  /** The reports on the availability of the store: `failed` or `succeeded`, with the source. */
  readonly reports: string[]
  breakWatches(error: unknown): void
}

/** An empty etcd in simulated time. */
export function openWorld(flavour: 'etcd' | 'kine' = 'etcd', options: Pick<MemoryEtcdOptions, 'leastTtlSeconds'> = {}) {
  const time = new VirtualClock()
  const store = new MemoryEtcd({ clock: time.view(), flavour, ...options })
  const etcd: EtcdKv = store.client()
  const open = (own: { readonly ttlMs: number } = { ttlMs }): Opened => {
    const clock = time.view()
    const logger = memoryLogger()
    const calls: string[] = []
    const reports: string[] = []
    const at = (place: 'before' | 'after') => async (call: EtcdCall, given: AbortSignal) => {
      if (place === 'before' && call.method !== 'watch') {
        calls.push(`${call.method} ${call.key.replace('/registry/', '')}`.trim())
      }
      const error = await abortable(Promise.resolve(opened.fault(call, place)), given)
      if (error !== undefined) throw error
    }
    const faulty = faultyEtcd(store.client(), { clock, before: at('before'), after: at('after') })
    const availability = {
      failed: (source: string) => void reports.push(`failed ${source}`),
      interrupted: (source: string) => void reports.push(`interrupted ${source}`),
      succeeded: (source: string) => void reports.push(`succeeded ${source}`),
      forget: (source: string) => void reports.push(`forget ${source}`),
    }
    const leases = new EtcdLeases({ etcd: faulty, prefix: '/registry', clock, logger, availability, ttlMs: own.ttlMs })
    const opened: Opened = {
      leases,
      calls,
      fault: () => undefined,
      logger,
      reports,
      breakWatches: (error) => faulty.breakWatches(error),
    }
    return opened
  }
  return { time, store, etcd, open }
}

export function isWrite({ method }: EtcdCall): boolean {
  return method === 'create' || method === 'update' || method === 'grantLease'
}

export const noSpace = new EtcdError('NoSpace', 'etcdserver: mvcc: database space exceeded')
export const unreachable = new EtcdError('Unreachable', 'connection reset')
