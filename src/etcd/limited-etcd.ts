import type { RequestLimit } from '../runtime/request-limit.ts'
import type { EtcdKv } from './kv.ts'

/** The same store, whose requests are given up at the limit. Watches are not. */
export function limitedEtcd(etcd: EtcdKv, limit: RequestLimit): EtcdKv {
  return {
    get: (key, signal) => limit.run(signal, (limited) => etcd.get(key, limited)),
    list: (prefix, options) => limit.run(options.signal, (signal) => etcd.list(prefix, { ...options, signal })),
    create: (key, value, options) =>
      limit.run(options.signal, (signal) => etcd.create(key, value, { ...options, signal })),
    update: (key, value, modRevision, options) =>
      limit.run(options.signal, (signal) => etcd.update(key, value, modRevision, { ...options, signal })),
    delete: (key, modRevision, signal) => limit.run(signal, (limited) => etcd.delete(key, modRevision, limited)),
    grantLease: (ttlSeconds, signal) => limit.run(signal, (limited) => etcd.grantLease(ttlSeconds, limited)),
    timeToLive: (lease, signal) => limit.run(signal, (limited) => etcd.timeToLive(lease, limited)),
    watch: (prefix, options) => etcd.watch(prefix, options),
    close: () => etcd.close(),
  }
}
