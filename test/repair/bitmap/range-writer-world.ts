import { Informer } from '../../../src/kube/informer.ts'
import { type Service, services } from '../../../src/kube/resources.ts'
import { Bitmap } from '../../../src/net/bitmap.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { nodePortClaims } from '../../../src/repair/bitmap/claims.ts'
import { RangeHoldings } from '../../../src/repair/bitmap/holdings.ts'
import { RangeWriter } from '../../../src/repair/bitmap/range-writer.ts'
import type { RangeRegistry, StoredRange } from '../../../src/repair/registries/range-registry.ts'
import { RepairReporter } from '../../../src/repair/reporter.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'
import { passedOn } from '../../kube/passed-on.ts'
import { portsText, RangeWorld, TriedRegistry } from './world.ts'

interface WriterOptions {
  readonly registry?: (inner: RangeRegistry) => RangeRegistry
  readonly adoptRange?: boolean
}

/** A {@link RangeWriter} alone, with a watch of its range and one of Services. Only the test calls it. */
export async function openWriter({ registry: around = (inner) => inner, adoptRange = false }: WriterOptions = {}) {
  const world = await RangeWorld.start()
  const { time } = world
  const clock = time.view()
  const logger = memoryLogger()
  const random = seededRandom(1, 'writer')
  const registry = new TriedRegistry(around(world.registry))
  const claims = nodePortClaims(parsePortRange(portsText))
  const holdings = new RangeHoldings(claims)
  const requests: string[] = []
  const api = passedOn(world.api, {
    get: (resource, ref, options) => {
      requests.push('get')
      return world.api.get(resource, ref, options)
    },
    list: (resource, options) => {
      requests.push('list')
      return world.api.list(resource, options)
    },
  })
  const informer = new Informer<Service>({ api: world.api, clock, random, logger, resource: services })
  informer.subscribe((change) => holdings.apply(change))
  const permit = { mode: 'repair' as 'repair' | 'report', granted: async () => true, asked: 0 }
  const metrics = prometheusMetrics()
  const recorded: string[] = []
  const reporter = new RepairReporter({
    ...{ kind: claims.kind, logger, metrics, clock, user: { host: 'host-1' } },
    events: { record: ({ reason, note }) => void recorded.push(`${reason} ${note}`) },
  })
  const writer = new RangeWriter({
    ...{ api, clock, random, logger, registry, claims, adoptRange, holdings, index: 0 },
    services: informer,
    permit: {
      get mode() {
        return permit.mode
      },
      granted() {
        permit.asked++
        return permit.granted()
      },
    },
    reporter,
  })
  const stop = new AbortController()
  const informerStop = new AbortController()
  const { signal } = stop
  const runs = [
    informer.run(AbortSignal.any([signal, informerStop.signal])),
    registry.watch({
      onChange: (change) => (change === undefined ? writer.state.interrupted() : writer.state.watched(change.stored)),
      report() {},
      signal,
    }),
  ]
  await time.advance(1_000)
  return {
    ...{ world, time, writer, registry, logger, permit, signal, claims, reporter },
    /** Lets time pass until `work` has ended. */
    async done<T>(work: Promise<T>): Promise<T> {
      let ended = false
      const settled = work.finally(() => {
        ended = true
      })
      settled.catch(() => {})
      if (!(await time.runUntil(() => ended, 60_000))) throw new Error('it did not end in a minute')
      return settled
    },
    /** Lets both watches catch up. */
    catchUp: () => time.advance(10),
    /** From now on the writer receives no change of a Service. */
    async stopInformer(): Promise<void> {
      informerStop.abort()
      await runs[0]
    },
    /** The requests to the API server, then those to the registry, since the last call. */
    sent: () => [...requests.splice(0), ...registry.calls.splice(0).map((call) => call.replace(/ .*/, ''))],
    /** The Events since the last call. */
    recorded: () => recorded.splice(0),
    taken: () => world.taken(),
    repaired: async () =>
      Number(/^apiserver_bootstrap_repairs_total\{.*\} (\d+)$/m.exec(await metrics.expose())?.[1] ?? 0),
    set: () => {
      const { reading } = writer.state
      return reading?.type === 'taken' ? [...reading.set].map((offset) => 30_000 + offset) : reading?.type
    },
    async end(): Promise<void> {
      stop.abort()
      await Promise.all(runs)
    },
  }
}

/** A registry whose ranges were written by an old server, and are not rewritten. */
export function readOnly(inner: RangeRegistry): RangeRegistry {
  const fixed = (stored: StoredRange): StoredRange =>
    stored.type === 'range' ? { ...stored, fixed: 'is JSON' } : stored
  return {
    writable: true,
    where: (name) => inner.where(name),
    read: async (name, signal) => fixed(await inner.read(name, signal)),
    write: () => Promise.reject(new Error('written')),
    watch: ({ onChange, ...options }) =>
      inner.watch({
        ...options,
        onChange: (change) => onChange(change && { ...change, stored: fixed(change.stored) }),
      }),
  }
}

export function bitsOf(...ports: readonly number[]): Uint8Array {
  const bitmap = new Bitmap(100)
  for (const port of ports) bitmap.add(port - 30_000)
  return bitmap.toBytes()
}
