import type { Fault, FaultRule, Verb } from '../peers/fault-rules.ts'
import { addresses, type LeaseStore, type LifeOptions } from './fault-fleet.ts'

/** One fault between masters and their servers, and its permitted consequences. */
export interface FaultCell {
  readonly store: LeaseStore
  /** The name of the fault: a column of the table. */
  readonly fault: string
  /** What it happens to: a row of the table. */
  readonly resource: string
  readonly rule: FaultRule
  /** To one master only, or to every one. */
  readonly at: 'one' | 'all'
  readonly lengthMs: number
  /**
   * The master may be off the list: the fault cannot be distinguished from a dead server, or prevents renewals for
   * longer than the lease lasts.
   */
  readonly mayLeave?: boolean
  /** The master must be off the list before the fault ends, while the others serve. */
  readonly mustLeave?: boolean
  /** What is damaged meanwhile, besides Endpoints, which get a foreign address. */
  readonly damage?: Damage
  /** Another master is killed meanwhile. */
  readonly kill?: boolean
  /**
   * The fault meets requests in any case. Other faults do so if a closed watch is requested again in time, or if a
   * write is needed.
   */
  readonly certain?: boolean
  /** The time from the end of the fault until all is right, if it is not the usual time. */
  readonly rightWithinMs?: number
  /** The master begins a new life while the fault lasts. */
  readonly restart?: LifeOptions
}

export type Damage = 'foreign endpoint' | 'Service ports' | 'Namespace' | 'IPAddress' | 'ServiceCIDR'

const reads: readonly Verb[] = ['get', 'list', 'watch']
const writes: readonly Verb[] = ['create', 'update', 'patch', 'delete']

interface Row {
  readonly resource: string
  readonly resources?: readonly string[]
  readonly verbs?: readonly Verb[]
  readonly faults: readonly string[]
  readonly lengthMs: number
  /** The length of a fault that refuses requests at once and leaves nothing behind, if it is shorter. */
  readonly refusedMs?: number
  /** The delay of delayed requests and late answers. */
  readonly lateMs: number
  /** The fault meets only this many requests in a row. */
  readonly times?: number
  /** The lease depends on this resource: there are requests for it in any case. */
  readonly vital?: boolean
  readonly kill?: boolean
  readonly mayLeave?: readonly string[]
  readonly damage?: Damage
}

const client = ['401', '403', '429']
const server = ['500', '503']
const statuses = [...client, ...server]
const silent = ['hang', 'lost answer']
const slow = ['hang', 'delay', 'late answer', 'lost answer']
const watched = ['cut watches', 'lost event']
const all = [...statuses, ...slow, 'writes refused', ...watched]
/** For resources on which only a separate duty depends: one fault of each kind. */
const some = ['403', '429', '503', 'hang', 'late answer', 'lost answer', 'writes refused', 'cut watches']

const short = { lengthMs: 2_000, lateMs: 1_500 }
/** Longer than a lease. */
const long = { lengthMs: 3_500, refusedMs: 2_000, lateMs: 1_500 }
/** Two requests in a row, and then as long as a lease. */
const twice = { lengthMs: 4_000, times: 2, lateMs: 2_500, vital: true }

const rows: readonly Row[] = [
  { resource: 'endpoints', faults: all, ...long },
  { resource: 'endpointslices', faults: all, damage: 'foreign endpoint', ...long },
  { resource: 'services', faults: [...some, 'lost event'], damage: 'Service ports', ...short },
  { resource: 'namespaces', faults: some, damage: 'Namespace', ...short },
  { resource: 'servicecidrs', faults: some, damage: 'ServiceCIDR', ...short },
  { resource: 'ipaddresses', faults: some, damage: 'IPAddress', ...short },
  { resource: 'events', faults: ['403', '429', 'hang', 'lost answer'], kill: true, lengthMs: 5_000, lateMs: 0 },
  ...health('readyz', {}),
]

/**
 * The requests that show whether the server lives. A server that does not answer for the length of a lease may be dead.
 */
function health(resource: string, options: Partial<Row>): readonly Row[] {
  const row = { resource, mayLeave: silent, vital: true, ...options }
  return [
    { ...row, faults: client, lengthMs: 4_000, lateMs: 0 },
    // Shorter than the time that a server must be unready before its master leaves.
    { ...row, faults: server, lengthMs: 3_000, lateMs: 0 },
    // So short that two requests in a row are answered in time although every answer is late.
    { ...row, faults: slow, lengthMs: 3_500, lateMs: 400 },
  ]
}

const rowsOf: Readonly<Record<LeaseStore, readonly Row[]>> = {
  etcd: [
    ...rows,
    ...health('everything', {}),
    { resource: 'LeaseGrant', faults: [...statuses, ...slow], ...twice },
    { resource: 'Txn', faults: [...statuses, ...slow], ...twice },
    { resource: 'Range', faults: [...statuses, ...slow], ...long },
    { resource: 'Watch', faults: [...statuses, ...slow, 'cut watches'], ...long },
  ],
  kubernetes: [
    ...rows,
    ...health('everything', { mayLeave: [...statuses, ...silent] }),
    {
      resource: 'leases (renewed)',
      resources: ['leases'],
      verbs: ['create', 'update', 'patch'],
      faults: [...statuses, ...slow],
      ...twice,
    },
    {
      resource: 'leases (read)',
      resources: ['leases'],
      verbs: reads,
      faults: [...statuses, ...slow, ...watched],
      ...long,
    },
  ],
}

/**
 * Every fault of every resource; or an eighth, which differs between the stores. The eighths of both stores together
 * have each fault and each resource.
 */
export function matrixCells(store: LeaseStore, part: 'all' | 'eighth'): readonly FaultCell[] {
  const first = store === 'etcd' ? 1 : 2
  return rowsOf[store].flatMap((row, at) =>
    row.faults
      .filter((_, index) => part === 'all' || (at + index) % 8 === first)
      .map((fault) => cellOf(store, row, fault)),
  )
}

function cellOf(store: LeaseStore, row: Row, name: string): FaultCell {
  const { resource, damage, times } = row
  const refusedAtOnce = name !== '429' && (statuses.includes(name) || name === 'writes refused')
  const resources = row.resources ?? (resource === 'everything' ? undefined : [resource])
  const verbs = name === 'writes refused' ? writes : row.verbs
  // Other masters correct what one master misses or may not write, and only the master that removes a dead one reports
  // it, once.
  const toAll = ['lost event', 'writes refused'].includes(name)
  const at = toAll || resource === 'events' ? 'all' : 'one'
  return {
    store,
    fault: name,
    resource,
    rule: { fault: faultOf(name, row.lateMs), resources, verbs, times: name === 'lost event' ? 1 : times },
    at,
    lengthMs: (refusedAtOnce ? row.refusedMs : undefined) ?? row.lengthMs,
    certain: row.vital === true || toAll,
    mayLeave: row.mayLeave?.includes(name) ?? false,
    ...(row.kill && { kill: true }),
    ...(damage !== undefined && { damage }),
  }
}

function faultOf(name: string, ms: number): Fault {
  switch (name) {
    case 'hang':
      return { type: 'hang' }
    case 'delay':
      return { type: 'delay', ms }
    case 'late answer':
      return { type: 'late-answer', ms }
    case 'lost answer':
      return { type: 'lost-answer' }
    case 'cut watches':
      return { type: 'cut-watches', everyMs: 2_000 }
    case 'lost event':
      return { type: 'lost-event' }
    case 'writes refused':
      return { type: 'answer', status: 403 }
    case '429':
      return { type: 'answer', status: 429, retryAfterSeconds: 6 }
    default:
      return { type: 'answer', status: Number(name) }
  }
}

const refused: Fault = { type: 'answer', status: 403 }
const unauthorized: Fault = { type: 'answer', status: 401 }
const cut: Fault = { type: 'cut-watches', everyMs: 2_000 }
/** The answer of an API server whose own etcd member is dead. */
const etcdDead: Fault = { type: 'answer', status: 500, failing: ['etcd', 'etcd-readiness'] }
const killed = { lengthMs: 5_000, kill: true } as const

/** Faults that last longer, happen to all masters, or meet the death of another master. */
export function specialCells(store: LeaseStore): readonly FaultCell[] {
  const one = { store, at: 'one' } as const
  const each = { store, at: 'all' } as const
  const common: readonly FaultCell[] = [
    {
      ...one,
      fault: '401 for 30 s',
      resource: 'everything',
      rule: { fault: unauthorized },
      lengthMs: 30_000,
      mayLeave: store === 'kubernetes',
    },
    { ...each, fault: '401 for 8 s', resource: 'everything', rule: { fault: unauthorized }, lengthMs: 8_000 },
    {
      ...each,
      fault: '403 for 8 s',
      resource: 'readyz',
      rule: { fault: refused, resources: ['readyz'] },
      lengthMs: 8_000,
    },
    {
      ...each,
      fault: 'writes refused for longer than --repair-startup-timeout',
      resource: 'ipaddresses',
      rule: { fault: refused, resources: ['ipaddresses'], verbs: writes },
      lengthMs: 9_000,
      damage: 'IPAddress',
      restart: { repairStartupTimeout: '5s' },
      // A refused repair retries with back-off.
      rightWithinMs: 12_000,
    },
    {
      ...one,
      fault: 'hang',
      resource: 'endpoints',
      rule: { fault: { type: 'hang' }, resources: ['endpoints'] },
      ...killed,
    },
    {
      ...one,
      fault: '403',
      resource: 'endpointslices',
      rule: { fault: refused, resources: ['endpointslices'] },
      ...killed,
    },
    { ...one, fault: '401', resource: 'readyz', rule: { fault: unauthorized, resources: ['readyz'] }, ...killed },
    { ...each, fault: 'cut watches', resource: 'everything', rule: { fault: cut }, ...killed },
  ]
  if (store === 'etcd') {
    return [
      ...common,
      // The sidecar reaches another member.
      {
        ...one,
        fault: 'its own etcd is dead',
        resource: 'everything',
        rule: { fault: etcdDead },
        lengthMs: 8_000,
        mustLeave: true,
      },
      { ...each, fault: 'its own etcd is dead', resource: 'everything', rule: { fault: etcdDead }, lengthMs: 8_000 },
      { ...one, fault: 'hang', resource: 'Range', rule: { fault: { type: 'hang' }, resources: ['Range'] }, ...killed },
      { ...each, fault: 'hang', resource: 'Watch', rule: { fault: { type: 'hang' }, resources: ['Watch'] }, ...killed },
      { ...each, fault: 'cut watches', resource: 'Watch', rule: { fault: cut, resources: ['Watch'] }, ...killed },
    ]
  }
  const leases = ['leases']
  return [
    ...common,
    {
      ...one,
      fault: '429',
      resource: 'leases (read)',
      rule: { fault: faultOf('429', 0), resources: leases, verbs: reads },
      ...killed,
    },
    {
      ...each,
      fault: 'DELETE refused',
      resource: 'leases',
      rule: { fault: refused, resources: leases, verbs: ['delete'] },
      ...killed,
    },
    { ...each, fault: 'cut watches', resource: 'leases', rule: { fault: cut, resources: leases }, ...killed },
    {
      ...each,
      fault: 'lost event',
      resource: 'leases',
      rule: { fault: { type: 'lost-event' }, resources: leases },
      ...killed,
    },
  ]
}

/** The index of the master that a cell happens to: each master in turn. */
export function victimOf(index: number): number {
  return index % addresses.length
}
