import type { AuditTrail, AuditUser } from '../kube/audit.ts'
import { type EventSink, referenceTo } from '../kube/event-object.ts'
import { keyOfObject } from '../kube/store.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { type Finding, repairReasons } from './finding.ts'
import { type RepairKind, RepairMetrics } from './repair-metrics.ts'

/** So many findings of one look are logged and told as events one by one; of the others only how many there are, lest a mass of them be a load of its own. */
const toldOneByOne = 20

export interface RepairReporterOptions {
  readonly kind: RepairKind
  readonly events: EventSink
  readonly logger: Logger
  readonly metrics: Metrics
  readonly clock: Clock
  /** Who writes; undefined in a dry run. @default undefined */
  readonly user?: AuditUser | undefined
  /** A dry run lists everything. @default false */
  readonly dryRun?: boolean | undefined
}

/** Tells what one repair finds and does: log, events, metrics. */
export class RepairReporter {
  readonly #options: RepairReporterOptions
  readonly metrics: RepairMetrics
  /** What was told and still stands. */
  #standing = new Set<string>()

  /** For writes that somebody asked for. */
  readonly audit: AuditTrail

  constructor(options: RepairReporterOptions) {
    this.#options = options
    this.audit = options
    this.metrics = new RepairMetrics(options)
  }

  /**
   * Tells of everything that a look found wrong. What was told before is logged again only after it had gone; events are given again
   * in every full pass, because clusters forget them. In a full pass `findings` are all that there are.
   */
  tell(findings: readonly Finding[], { full }: { readonly full: boolean }): void {
    const { events } = this.#options
    const standing = full ? new Set<string>() : this.#standing
    const fresh: Finding[] = []
    const tellable: Finding[] = []
    for (const finding of findings) {
      const identity = identityOf(finding)
      const known = this.#standing.has(identity)
      if (!known) fresh.push(finding)
      if (full || !known) {
        this.metrics.found(finding)
        if (finding.regarding !== undefined) tellable.push(finding)
      }
      standing.add(identity)
    }
    this.#standing = standing
    this.#log(fresh)
    for (const { reason, note, regarding } of tellable.slice(0, toldOneByOne)) {
      if (regarding === undefined) continue
      events.record({ regarding: referenceTo(regarding), type: 'Warning', reason, action: repairReasons[reason], note })
    }
  }

  /** Tells that a finding was put right; when it comes back it is news again. */
  repaired(finding: Finding): void {
    // In a dry run it is as wrong as before.
    if (this.#options.dryRun === true) return
    this.#standing.delete(identityOf(finding))
    this.metrics.repaired(finding)
  }

  #log(findings: readonly Finding[]): void {
    const { logger, dryRun = false } = this.#options
    const shown = dryRun ? findings : findings.slice(0, toldOneByOne)
    for (const { type, reason, item, note, regarding } of shown) {
      const object = regarding === undefined ? {} : { object: keyOfObject(regarding) }
      logger.warn({ type, reason, item, ...object }, note)
    }
    const more = findings.length - shown.length
    if (more > 0) logger.warn({ more }, 'more of the same; the metrics count them all')
  }
}

function identityOf({ reason, item, regarding }: Finding): string {
  const { uid } = regarding?.metadata ?? {}
  return `${reason} ${item} ${uid ?? (regarding === undefined ? '' : keyOfObject(regarding))}`
}
