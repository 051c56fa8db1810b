import type { AuditTrail, AuditUser } from '../kube/audit.ts'
import { type EventSink, referenceTo } from '../kube/event-object.ts'
import type { KubeObject } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Counter, Gauge, Metrics } from '../telemetry/metrics.ts'

/** The kind of a finding, as in the label `type` of upstream's metrics. */
export type FindingType = 'leak' | 'repair' | 'outOfRange' | 'duplicate' | 'unknown' | 'invalid'

export interface Finding {
  readonly type: FindingType
  /** The reason of the Event: `ClusterIPNotAllocated`, `PortOutOfRange`. See {@link repairReasons}. */
  readonly reason: RepairReason
  /** The note of the Event: one line for people, in upstream's words where upstream has the same finding. */
  readonly note: string
  /** The object of the Event; undefined if no Event is recorded, as for a leaked bit. */
  readonly regarding: KubeObject | undefined
  /** The address, port or range, as text. Together with the reason and the object it identifies a finding. */
  readonly item: string
}

/**
 * The reasons of Events, each with its action. Upstream has no reasons that end with `Leaked` or begin with
 * `ServiceRange`.
 */
export const repairReasons = {
  ClusterIPNotValid: 'ClusterIPValidation',
  ClusterIPNotAllocated: 'ClusterIPAllocation',
  ClusterIPAlreadyAllocated: 'ClusterIPAllocation',
  ClusterIPOutOfRange: 'ClusterIPAllocation',
  ClusterIPLeaked: 'ClusterIPAllocation',
  IPAddressNotAllocated: 'IPAddressAllocation',
  IPAddressWrongReference: 'IPAddressAllocation',
  PortNotAllocated: 'PortAllocation',
  PortAlreadyAllocated: 'PortAllocation',
  PortOutOfRange: 'PortAllocation',
  PortLeaked: 'PortAllocation',
  ServiceRangeMismatch: 'RangeAllocation',
  ServiceRangeMissing: 'RangeAllocation',
  ServiceRangeUnreadable: 'RangeAllocation',
} as const

type RepairReason = keyof typeof repairReasons

/** The object of Events about a range: the Service that every cluster has, because a range is not an API object. */
export const aboutRanges: KubeObject = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'default', name: 'kubernetes' },
}

export type RepairKind = 'cluster-ip' | 'node-port'

/** The names of upstream's metrics: metrics.go beside each repair, and {ipallocator,portallocator}/metrics.go. */
const upstream = {
  'cluster-ip': {
    errors: 'apiserver_clusterip_repair_ip_errors_total',
    failures: 'apiserver_clusterip_repair_reconcile_errors_total',
    allocated: 'kube_apiserver_clusterip_allocator_allocated_ips',
    available: 'kube_apiserver_clusterip_allocator_available_ips',
    items: 'ClusterIPs',
  },
  'node-port': {
    errors: 'apiserver_nodeport_repair_port_errors_total',
    failures: 'apiserver_nodeport_repair_reconcile_errors_total',
    allocated: 'kube_apiserver_nodeport_allocator_allocated_ports',
    available: 'kube_apiserver_nodeport_allocator_available_ports',
    items: 'NodePorts',
  },
} as const

export class RepairMetrics {
  readonly #kind: RepairKind
  readonly #clock: Clock
  readonly #errors: Counter<'type'>
  readonly #failures: Counter<never>
  readonly #repairs: Counter<'repair' | 'reason'>
  readonly #allocated: Gauge<'cidr'> | Gauge<never>
  readonly #available: Gauge<'cidr'> | Gauge<never>
  readonly #withheld: Gauge<'range' | 'reason'>
  /**
   * When each running repair last completed a full pass, in monotonic time. IPAddresses and bitmaps have a repair each.
   */
  readonly #lastPasses = new Map<object, number>()
  #report: (() => void) | undefined

  constructor({
    kind,
    metrics,
    clock,
  }: { readonly kind: RepairKind; readonly metrics: Metrics; readonly clock: Clock }) {
    const names = upstream[kind]
    const { items } = names
    this.#kind = kind
    this.#clock = clock
    this.#errors = metrics.counter({
      name: names.errors,
      help: `Errors that the repair of ${items} found: each when it is new, and again in each full pass of the interval.`,
      labels: ['type'],
    })
    this.#failures = metrics.counter({
      name: names.failures,
      help: `Failed passes, checks and writes of the repair of ${items}.`,
    })
    this.#repairs = metrics.counter({
      name: 'apiserver_bootstrap_repairs_total',
      help: 'Repaired allocations, by the reason in Events.',
      labels: ['repair', 'reason'],
    })
    const labels = kind === 'cluster-ip' ? (['cidr'] as const) : []
    this.#allocated = metrics.gauge({ name: names.allocated, help: `Number of allocated ${items}.`, labels })
    this.#available = metrics.gauge({ name: names.available, help: `Number of free ${items}.`, labels })
    // A gauge without labels begins with 0, which would mean that no port is free.
    if (kind === 'node-port') for (const gauge of [this.#allocated, this.#available] as Gauge<never>[]) gauge.remove({})
    this.#withheld = metrics.gauge({
      name: 'apiserver_bootstrap_range_withheld',
      help: 'Whether a stored range is left alone (1), because it differs from the flag (mismatch) or cannot be decoded (unreadable).',
      labels: ['range', 'reason'],
    })
    const age = metrics.gauge({
      name: 'apiserver_bootstrap_repair_last_pass_age_seconds',
      help: 'Time since the last successful full pass of a repair; of the older one, if it repairs IPAddresses and a bitmap. Absent before the first.',
      labels: ['repair'],
    })
    metrics.onCollect(() => {
      if (this.#lastPasses.size === 0) age.remove({ repair: kind })
      else age.set({ repair: kind }, (this.#clock.monotonicMs() - Math.min(...this.#lastPasses.values())) / 1000)
      this.#report?.()
    })
  }

  found({ type }: { readonly type: FindingType }): void {
    this.#errors.add({ type })
  }

  repaired({ reason }: Pick<Finding, 'reason'>): void {
    this.#repairs.add({ repair: this.#kind, reason })
  }

  passed(repair: object): void {
    this.#lastPasses.set(repair, this.#clock.monotonicMs())
  }

  /** Call this when a repair has ended. Its last pass does not count any more. */
  ended(repair: object): void {
    this.#lastPasses.delete(repair)
  }

  failed(): void {
    this.#failures.add({})
  }

  /**
   * Calls `report` before each scrape, instead of the function of an earlier call. For gauges that are costly to
   * update.
   */
  onCollect(report: () => void): void {
    this.#report = report
  }

  /** Sets the gauges that show how full a range is; `range` as text. */
  usage(range: string, { allocated, size }: { readonly allocated: number; readonly size: number }): void {
    const labels = (this.#kind === 'cluster-ip' ? { cidr: range } : {}) as { readonly cidr: string }
    ;(this.#allocated as Gauge<'cidr'>).set(labels, allocated)
    ;(this.#available as Gauge<'cidr'>).set(labels, size - allocated)
  }

  /** Removes the gauges of a range of ClusterIPs that may no longer exist. */
  unused(range: string): void {
    for (const gauge of [this.#allocated, this.#available] as Gauge<'cidr'>[]) gauge.remove({ cidr: range })
  }

  /** Sets the gauges that show whether a stored range is withheld, and why. `range` is its name: `servicenodeports`. */
  withheld(range: string, reason: 'mismatch' | 'unreadable' | undefined): void {
    for (const one of ['mismatch', 'unreadable'] as const)
      this.#withheld.set({ range, reason: one }, reason === one ? 1 : 0)
  }
}

/**
 * One call of {@link RepairReporter.report} logs at most this many findings, except in a dry run, and records at most
 * this many Events. The metrics count all findings.
 */
const MAX_SINGLE_REPORTS = 20

interface RepairReporterOptions {
  readonly kind: RepairKind
  readonly events: EventSink
  readonly logger: Logger
  readonly metrics: Metrics
  readonly clock: Clock
  /** The user who writes; undefined in a dry run. @default undefined */
  readonly user?: AuditUser | undefined
  /** Whether to log every finding, and to count none as repaired. @default false */
  readonly dryRun?: boolean | undefined
}

/** Reports the findings and writes of one repair: log, Events, metrics. */
export class RepairReporter {
  readonly #options: RepairReporterOptions
  readonly metrics: RepairMetrics
  /** The identities of the findings that exist, as far as is known. */
  #reported = new Set<string>()

  /** Records the writes that a person requested. */
  readonly audit: AuditTrail

  constructor(options: RepairReporterOptions, metrics = new RepairMetrics(options)) {
    this.#options = options
    this.audit = options
    this.metrics = metrics
  }

  /** The reporter of another repair with the same metrics, such as that of bitmaps beside that of IPAddresses. */
  beside(): RepairReporter {
    return new RepairReporter(this.#options, this.metrics)
  }

  /**
   * Logs a finding once. Logs it again if a full pass without it came between, or if it was repaired or forgotten.
   * Every full pass records the Event of a finding again, because clusters delete Events. `full`: whether `findings`
   * are all findings of a full pass.
   */
  report(findings: readonly Finding[], { full }: { readonly full: boolean }): void {
    const { events } = this.#options
    const reported = full ? new Set<string>() : this.#reported
    const fresh: Finding[] = []
    const recordable: Finding[] = []
    for (const finding of findings) {
      const identity = identityOf(finding)
      const known = this.#reported.has(identity)
      if (!known) fresh.push(finding)
      if (full || !known) {
        this.metrics.found(finding)
        if (finding.regarding !== undefined) recordable.push(finding)
      }
      reported.add(identity)
    }
    this.#reported = reported
    this.#log(fresh)
    for (const { reason, note, regarding } of recordable.slice(0, MAX_SINGLE_REPORTS)) {
      if (regarding === undefined) continue
      events.record({ regarding: referenceTo(regarding), type: 'Warning', reason, action: repairReasons[reason], note })
    }
  }

  /** Counts a finding as repaired, except in a dry run. If it occurs again, it is a new finding. */
  repaired(finding: Finding): void {
    if (this.#options.dryRun === true) return
    this.forget(finding)
    this.metrics.repaired(finding)
  }

  /** Call this when a finding no longer exists. If it occurs again, it is a new finding. */
  forget(finding: Finding): void {
    this.#reported.delete(identityOf(finding))
  }

  #log(findings: readonly Finding[]): void {
    const { logger, dryRun = false } = this.#options
    const shown = dryRun ? findings : findings.slice(0, MAX_SINGLE_REPORTS)
    for (const { type, reason, item, note, regarding } of shown) {
      const object = regarding === undefined ? {} : { object: keyOfObject(regarding) }
      logger.warn({ type, reason, item, ...object }, note)
    }
    const more = findings.length - shown.length
    if (more > 0) logger.warn({ more }, 'further findings are not logged; the metrics count them all')
  }
}

function identityOf({ reason, item, regarding }: Finding): string {
  const { uid } = regarding?.metadata ?? {}
  return `${reason} ${item} ${uid ?? (regarding === undefined ? '' : keyOfObject(regarding))}`
}
