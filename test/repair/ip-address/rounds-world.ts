import { KubeError, type KubeErrorCode } from '../../../src/kube/errors.ts'
import type { EventToRecord } from '../../../src/kube/event-object.ts'
import { Informer } from '../../../src/kube/informer.ts'
import { type IpAddress, ipAddresses, type Service, services } from '../../../src/kube/resources.ts'
import { keyOf, keyOfObject } from '../../../src/kube/store.ts'
import { newIpAddress } from '../../../src/repair/ip-address/ip-address.ts'
import { IpAddressRounds } from '../../../src/repair/ip-address/rounds.ts'
import { IpAddressSchedule, type Work } from '../../../src/repair/ip-address/schedule.ts'
import { holdersIn } from '../../../src/repair/ip-address/service-ips.ts'
import { RepairReporter } from '../../../src/repair/reporter.ts'
import { trimService } from '../../../src/repair/service-claims.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'
import { type Asked, listOf, ScriptedApi } from '../../kube/scripted-api.ts'

export const full: Work = { full: true, regular: true, all: true, names: new Set() }
export const all: Work = { full: false, regular: false, all: true, names: new Set() }
export const only = (...names: readonly string[]): Work => ({ ...all, all: false, names: new Set(names) })

export function service(name: string, clusterIP: string, uid = `uid of ${name}`): Service {
  const metadata = { namespace: 'default', name, uid, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' }
  return { metadata, spec: { type: 'ClusterIP', clusterIP, clusterIPs: [clusterIP] } } as unknown as Service
}

/** An IPAddress that refers to a Service. */
export function ip(name: string, parent: string, resourceVersion = '1', labels?: Record<string, string>): IpAddress {
  const made = newIpAddress(name, { namespace: 'default', name: parent })
  const metadata = { ...made.metadata, uid: `uid of ${name}`, resourceVersion, ...(labels !== undefined && { labels }) }
  return { ...made, metadata } as IpAddress
}

export function refusal(code: KubeErrorCode): KubeError {
  return new KubeError(code, `${code} it is`)
}

/**
 * {@link IpAddressRounds} alone. The test decides what the copies hold, what the server answers, and when each round
 * runs. Every request that is not refused succeeds. `live` has the Services of the server.
 */
export function openRounds() {
  const time = new VirtualClock()
  const clock = time.view()
  const logger = memoryLogger()
  const api = new ScriptedApi()
  const random = { next: () => 0 }
  const known = {
    services: new Informer<Service>({ api, clock, random, logger, resource: services, transform: trimService }),
    ips: new Informer<IpAddress>({ api, clock, random, logger, resource: ipAddresses }),
  }
  const live = new Map<string, Service>()
  const world = {
    mode: 'repair' as 'repair' | 'report',
    granted: async (): Promise<boolean> => true,
    /** Throws an error or waits before a request is carried out. */
    before: async (_request: string): Promise<void> => {},
    /** How long IPAddresses have existed, by name. @default for ever */
    ages: new Map<string, number>(),
    outOfRange: new Set<string>(),
  }
  const requests: string[] = []
  api.answer = async (asked) => {
    const request = textOf(asked)
    requests.push(request)
    await world.before(request)
    const { call, of } = asked
    if (call === 'list') return listOf('9', [...live.values()])
    if (call === 'create') return { ...of, metadata: { ...(of as IpAddress).metadata, uid: `made at ${time.nowMs}` } }
    const found = call === 'get' ? live.get(keyOf(of as { name: string })) : of
    if (found === undefined) throw refusal('NotFound')
    return found
  }
  const events: EventToRecord[] = []
  const metrics = prometheusMetrics()
  const availability: string[] = []
  const schedule = new IpAddressSchedule({ clock, random, intervalMs: 180_000 })
  const rounds = new IpAddressRounds({
    ...{ api, clock, random, logger, schedule },
    availability: {
      failed: (source) => availability.push(`failed ${source}`),
      succeeded: (source) => availability.push(`succeeded ${source}`),
      interrupted() {},
      forget() {},
    },
    reporter: new RepairReporter({
      ...{ kind: 'cluster-ip', logger, metrics, clock },
      events: { record: (event) => void events.push(event) },
    }),
    permit: {
      get mode() {
        return world.mode
      },
      granted: () => world.granted(),
    },
    services: known.services,
    ipAddresses: known.ips,
    intervalMs: 180_000,
    view: {
      holdersOf: (name) => holdersIn(known.services.store, name),
      serviceOf: (ref) => known.services.store.get(ref),
      ipAddressOf: (name) => known.ips.store.get({ name }),
      ageMs: ({ metadata }) => world.ages.get(metadata?.name ?? '') ?? Number.POSITIVE_INFINITY,
      inRange: (name) => !world.outOfRange.has(name),
    },
  })
  let settled = false
  void rounds.settled.then(() => {
    settled = true
  })
  const stop = new AbortController()

  /** Applies a change to the copy of Services. */
  const applyChange = (type: 'ADDED' | 'DELETED', object: Service): void => {
    known.services.store.apply({ type, object })
  }
  return Object.assign(world, {
    ...{ time, clock, api, rounds, schedule, requests, live, events, logger, availability, stop },
    settled: () => settled,
    /** Adds these Services to the server and to the copy. */
    store(...objects: readonly Service[]): void {
      for (const object of objects) live.set(keyOfObject(object), object)
      for (const object of objects) applyChange('ADDED', object)
    },
    /** Removes the Service from the copy; with `server`, from the server too. */
    forget(object: Service, where: 'copy' | 'server'): void {
      if (where === 'server') live.delete(keyOfObject(object))
      applyChange('DELETED', object)
    },
    hear(object: IpAddress): void {
      known.ips.store.apply({ type: 'MODIFIED', object })
    },
    unhear(object: IpAddress): void {
      known.ips.store.apply({ type: 'DELETED', object })
    },
    /** Carries out a round. */
    async round(work: Work): Promise<void> {
      const [ended] = await Promise.all([rounds.round(work, stop.signal), time.advance(0)])
      return ended
    },
    /** The requests since the last call. */
    sent: () => requests.splice(0),
    /** The events since the last call, as their notes. */
    notes: () => events.splice(0).map(({ note }) => note),
    /** The next round that is scheduled within ten minutes, and the milliseconds until then. */
    async next(): Promise<readonly [string, number] | undefined> {
      const giveUp = new AbortController()
      const fromMs = time.nowMs
      let found: readonly [string, number] | undefined
      const ended = schedule.next(giveUp.signal).then(
        (work) => {
          const scope = work.full ? `full${work.regular ? ', regular' : ''}` : work.all ? 'all' : [...work.names].join()
          found = [scope, time.nowMs - fromMs - 10]
        },
        () => {},
      )
      await time.runUntil(() => found !== undefined, 600_000)
      giveUp.abort()
      await ended
      return found
    },
    async counted(metric: string): Promise<number> {
      return Number(new RegExp(`^${metric} (.*)$`, 'm').exec(await metrics.expose())?.[1] ?? 0)
    },
  })
}

function textOf({ call, of, resource }: Asked): string {
  const { name, metadata } = of as { readonly name?: string; readonly metadata?: { readonly name?: string } }
  return [call, ...(call === 'list' ? [resource.plural] : [name ?? metadata?.name])].join(' ')
}
