import { stepEndMs } from '../scenario/duration.ts'
import { type Action, type DamageName, damages, type FleetPlan, type Part, type Step } from '../scenario/scenario.ts'
import type { AvailableMasters, Draw } from './available-masters.ts'

export interface FaultContext {
  readonly draw: Draw
  readonly fleet: FleetPlan
  readonly available: AvailableMasters
  /** Faults are drawn so that they end by this time. Only a clock that was set stays set. */
  readonly untilMs: number
}

/** Creates a fault that begins at `atMs`; undefined if it is impossible at that time. */
type Fault = (context: FaultContext, atMs: number) => readonly Step[] | undefined

type RequestsFail = Extract<Action, { readonly action: 'requests-fail' }>

const OURS = 'apiserver-bootstrap'

/** Draws a fault, as one or more steps. Returns no step if 20 draws give no possible fault. */
export function makeFault(context: FaultContext, atMs: number): readonly Step[] {
  for (let tries = 0; tries < 20; tries++) {
    const steps = context.draw.pick(faultsByWeight)(context, atMs)
    if (steps !== undefined) return steps
  }
  return []
}

/** Draws how long a fault lasts, from 500 to `longestMs` milliseconds; undefined if less than 500 ms are left. */
function lasting({ draw, untilMs }: FaultContext, atMs: number, longestMs: number): number | undefined {
  const toMs = Math.min(longestMs, untilMs - atMs)
  if (toMs < 500) return undefined
  // At least half of the faults are short, because a fault that ends before anybody reacts has other consequences.
  return draw.chance(0.5) ? draw.ms(500, Math.min(toMs, 8_000)) : draw.ms(500, toMs)
}

/**
 * A fault of one master's processes. The next fault that is drawn for these processes begins at least 0.5 s after the
 * end of this one.
 */
function ofProcess(action: 'kill' | 'terminate' | 'freeze', longestMs: number, parts: readonly Part[]): Fault {
  return (context, atMs) => {
    const { draw, available } = context
    const free = available.free(atMs)
    const forMs = lasting(context, atMs, longestMs)
    if (free.length === 0 || forMs === undefined) return undefined
    const master = draw.pick(free)
    available.occupy([master], atMs + forMs + 500)
    return [{ atMs, action, masters: [master], part: draw.pick(parts), forMs }]
  }
}

/** A fault of the connections, or of the /readyz, of one or two masters. */
function ofSome(
  longestMs: number,
  make: (context: FaultContext, masters: readonly string[], forMs: number) => Action,
): Fault {
  return (context, atMs) => {
    const { draw, available } = context
    const forMs = lasting(context, atMs, longestMs)
    if (forMs === undefined) return undefined
    const action = make(context, draw.some(available.names(atMs), draw.chance(0.75) ? 1 : 2), forMs)
    return [{ atMs, ...action }]
  }
}

function ofAll(longestMs: number, make: (context: FaultContext, forMs: number, atMs: number) => Action): Fault {
  return (context, atMs) => {
    const forMs = lasting(context, atMs, longestMs)
    return forMs === undefined ? undefined : [{ atMs, ...make(context, forMs, atMs) }]
  }
}

const usesEtcd = ({ fleet: { leaseStore } }: FaultContext): boolean => leaseStore === 'etcd' || leaseStore === 'kine'

const kill = ofProcess('kill', 40_000, ['sidecar', 'sidecar', 'sidecar', 'server', 'both', 'both'])
const terminate = ofProcess('terminate', 40_000, ['sidecar', 'sidecar', 'sidecar', 'server', 'both'])
const freeze = ofProcess('freeze', 45_000, ['sidecar', 'sidecar', 'sidecar', 'server', 'both'])

/** Kills a sidecar and starts it again at most a second later, sometimes while the etcd check of its server fails. */
const crash: Fault = ({ draw, available, untilMs }, atMs) => {
  const free = available.free(atMs)
  if (free.length === 0 || untilMs - atMs < 5_000) return undefined
  const masters = [draw.pick(free)]
  const pauseMs = draw.pick([0, 500, 1_000])
  available.occupy(masters, atMs + pauseMs + 1_000)
  const restart: Step = { atMs, action: 'restart', masters, part: 'sidecar', signal: 'kill', pauseMs }
  if (!draw.chance(0.25)) return [restart]
  return [{ atMs, action: 'readyz-fails', masters, how: 'etcd', forMs: draw.ms(2_000, 5_000) }, restart]
}

/** Stops several sidecars at the same moment and starts them again. */
const stopTogether: Fault = ({ draw, available, untilMs }, atMs) => {
  const free = available.free(atMs, OURS)
  if (free.length < 2 || untilMs - atMs < 5_000) return undefined
  const masters = draw.some(free, draw.integer(2, free.length))
  const pauseMs = draw.ms(500, 3_000)
  available.occupy(masters, atMs + pauseMs + 3_000)
  return [{ atMs, action: 'restart', masters, part: 'sidecar', signal: 'terminate', pauseMs }]
}

/** Starts the next process of a sidecar before the current process stops. */
const overlap: Fault = ({ draw, available, untilMs }, atMs) => {
  const free = available.free(atMs, OURS)
  if (free.length === 0 || untilMs - atMs < 6_000) return undefined
  const masters = [draw.pick(free)]
  const overlapMs = draw.ms(500, 4_000)
  available.occupy(masters, atMs + overlapMs + 1_500)
  const pauseMs = 0
  return [{ atMs, action: 'restart', masters, part: 'sidecar', signal: 'terminate', pauseMs, overlapMs }]
}

/** Restarts some or all of the sidecars whose masters are {@link AvailableMasters.free}, one after the other. */
const roll =
  (make: (context: FaultContext, masters: readonly string[], pauseMs: number) => Action): Fault =>
  (context, atMs) => {
    const { draw, available, untilMs, fleet } = context
    const free = available.free(atMs, OURS)
    const pauseMs = draw.ms(0, 3_000)
    const masters = draw.any(free)
    const step: Step = { atMs, ...make(context, masters, pauseMs) }
    const endMs = stepEndMs(step, fleet)
    if (masters.length === 0 || endMs > untilMs) return undefined
    available.occupy(masters, endMs)
    return [step]
  }

const rollingRestart = roll((_, masters, pauseMs) => ({ action: 'rolling-restart', masters, part: 'sidecar', pauseMs }))

const rollConfig = roll(({ draw, fleet }, masters, pauseMs) => {
  const settings = draw.pick([
    // TTL minus interval is at least that of the fleet or 5 s, so a master can renew its lease in spite of the delays
    // of `slow`.
    { leaseTtlMs: fleet.leaseTtlMs + 5_000, reconcileIntervalMs: fleet.reconcileIntervalMs },
    { leaseTtlMs: 15_000, reconcileIntervalMs: 10_000 },
    { readinessGate: draw.pick(['continuous', 'startup'] as const) },
    { onShutdown: draw.pick(['withdraw', 'always', 'keep'] as const) },
    { securePort: 6444 },
  ])
  return { action: 'roll-config', masters, settings, pauseMs }
})

/** The machine of a master dies, and another machine with the same address replaces it. */
const replace: Fault = ({ draw, fleet, available, untilMs }, atMs) => {
  const free = available.free(atMs, OURS).filter((name) => !available.isReplacement(name))
  const pauseMs = draw.ms(0, fleet.leaseTtlMs + 4_000)
  if (free.length === 0 || available.replaced >= 2 || untilMs - atMs < pauseMs + 1_000) return undefined
  const master = draw.pick(free)
  available.replace(master, atMs + pauseMs + 1_000)
  return [{ atMs, action: 'replace', masters: [master], pauseMs }]
}

/** Adds one or two masters, and later returns to the former number. */
const scale: Fault = ({ draw, fleet, available, untilMs }, atMs) => {
  const count = fleet.masters.length
  if (available.replaced > 0 || available.scaled || untilMs - atMs < 40_000) return undefined
  available.scaled = true
  const backMs = atMs + draw.ms(5_000, Math.min(60_000, untilMs - atMs - 35_000))
  return [
    { atMs, action: 'scale', to: count + draw.integer(1, 2) },
    { atMs: backMs, action: 'scale', to: count },
  ]
}

const clockSkew: Fault = ({ draw, available }, atMs) => {
  const byMs = draw.chance(0.5) ? 0 : draw.integer(-3_600_000, 3_600_000)
  return [{ atMs, action: 'clock-skew', masters: [draw.pick(available.names(atMs))], byMs }]
}

const partition = ofSome(40_000, ({ draw }, masters, forMs) => {
  const from = draw.pick(['api', 'api', 'api', 'store', 'store', 'store', 'clients', 'all', 'all'] as const)
  return { action: 'partition', masters, from, forMs }
})

const partitionAll = ofAll(40_000, ({ draw }, forMs) => {
  return { action: 'partition', masters: 'all', from: draw.pick(['store', 'store', 'api', 'all'] as const), forMs }
})

/** The delay is limited. Otherwise the four round trips of a renewal could outlast the lease, which would expire. */
const slow = ofSome(30_000, (context, masters, forMs) => {
  const { leaseTtlMs, reconcileIntervalMs } = context.fleet
  const mostMs = Math.max(100, Math.min(500, (leaseTtlMs - reconcileIntervalMs) / 10))
  const from = usesEtcd(context) ? context.draw.pick(['api', 'store'] as const) : 'api'
  return { action: 'slow', masters, from, byMs: context.draw.ms(100, mostMs), forMs }
})

const readyz = ofSome(40_000, ({ draw }, masters, forMs) => {
  const how = draw.pick(['unready', 'unready', 'unready', 'hangs', 'hangs', 'etcd'] as const)
  return { action: 'readyz-fails', masters, how, forMs }
})

const readyzAll = ofAll(40_000, ({ draw }, forMs) => {
  return { action: 'readyz-fails', masters: 'all', how: draw.pick(['unready', 'etcd', 'hangs'] as const), forMs }
})

const flapping: Fault = ({ draw, available, untilMs }, atMs) => {
  if (untilMs - atMs < 10_000) return undefined
  const masters = [draw.pick(available.names(atMs))]
  return [0, 3_000, 6_000].map((laterMs) => {
    return { atMs: atMs + laterMs, action: 'readyz-fails', masters, how: 'unready', forMs: 1_500 }
  })
}

/** An empty filter selects all requests. */
const filters: readonly Pick<RequestsFail, 'only' | 'resource' | 'verb'>[] = [
  {},
  {},
  { only: 'probe' },
  { only: 'api' },
  { resource: 'leases' },
  { resource: 'leases', verb: 'update' },
  { resource: 'leases', verb: 'delete' },
  { resource: 'endpoints' },
  { resource: 'endpointslices' },
  { resource: 'services', verb: 'get' },
]

const requestsFail: Fault = (context, atMs) => {
  const { draw, available } = context
  const forMs = lasting(context, atMs, 30_000)
  const ours = available.names(atMs, OURS)
  if (forMs === undefined || ours.length === 0) return undefined
  const masters = [draw.pick(ours)]
  return [{ atMs, action: 'requests-fail', masters, ...failure(draw), forMs }]
}

function failure(draw: Draw): Pick<RequestsFail, 'how'> & Partial<RequestsFail> {
  const how = draw.pick([
    'status',
    'status',
    'status',
    'hang',
    'delay',
    'cut-watches',
    'lose-event',
    'expired',
  ] as const)
  const filter = draw.pick(filters)
  const count = draw.chance(0.4) ? { requests: draw.integer(1, 2) } : {}
  switch (how) {
    case 'status': {
      const status = draw.pick([401, 403, 429, 500, 503])
      const hasRetryAfter = (status === 429 || status === 503) && draw.chance(0.5)
      return { how, status, ...(hasRetryAfter && { retryAfterMs: 1_000 * draw.integer(1, 8) }), ...filter, ...count }
    }
    case 'hang':
      return { how, ...filter, ...count }
    case 'delay':
      return { how, byMs: draw.ms(100, 4_000), ...filter, ...count }
    case 'cut-watches':
      return { how, ...(draw.chance(0.5) && { everyMs: draw.ms(2_000, 12_000) }) }
    case 'lose-event':
    case 'expired':
      return { how }
  }
}

const ownEtcdDead: Fault = (context, atMs) => {
  const { draw, available } = context
  const forMs = lasting(context, atMs, 40_000)
  if (forMs === undefined) return undefined
  const masters = [draw.pick(available.names(atMs))]
  return [{ atMs, action: 'own-etcd-dead', masters, how: draw.pick(['fails', 'hangs'] as const), forMs }]
}

const resetConnections: Fault = ({ draw, available }, atMs) => [
  { atMs, action: 'reset-connections', masters: draw.any(available.names(atMs)) },
]

const datastoreOutage = ofAll(45_000, (context, forMs) => {
  const how = usesEtcd(context) ? context.draw.pick(['away', 'full'] as const) : 'away'
  return { action: 'datastore-outage', how, forMs }
})

const apiserverOutage = ofAll(40_000, ({ draw, available }, forMs, atMs) => {
  const masters = draw.chance(0.6) ? 'all' : draw.any(available.names(atMs))
  return { action: 'apiserver-outage', masters, forMs }
})

const compact: Fault = (context, atMs) => (usesEtcd(context) ? [{ atMs, action: 'compact' }] : undefined)

const damage: Fault = ({ draw }, atMs) => [
  { atMs, action: 'damage', damage: draw.pick(Object.keys(damages) as DamageName[]) },
]

/** How often each fault is drawn, relative to the others. */
const weighted: readonly (readonly [weight: number, fault: Fault])[] = [
  [6, kill],
  [5, terminate],
  [5, freeze],
  [4, crash],
  [3, stopTogether],
  [4, overlap],
  [2, rollingRestart],
  [2, rollConfig],
  [2, replace],
  [1, scale],
  [3, clockSkew],
  [8, partition],
  [2, partitionAll],
  [2, slow],
  [6, readyz],
  [3, readyzAll],
  [2, flapping],
  [8, requestsFail],
  [3, ownEtcdDead],
  [4, resetConnections],
  [5, datastoreOutage],
  [2, apiserverOutage],
  [2, compact],
  [10, damage],
]

const faultsByWeight: readonly Fault[] = weighted.flatMap(([weight, fault]) =>
  Array.from({ length: weight }, () => fault),
)
