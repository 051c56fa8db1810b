import { type Clock, sleep } from '../../runtime/clock.ts'
import { type CheckId, checkTexts } from './check-ids.ts'
import { chosenChecks, evaluate, partsFor } from './evaluate.ts'
import type { Finding, Verdict } from './finding.ts'
import { type ClusterSource, readCluster } from './read-cluster.ts'
import type { About, Expectations } from './state.ts'

/** The result of one check, with its texts. */
export type CheckResult = Verdict & { readonly id: CheckId; readonly title: string; readonly why: string }

/** The results of all chosen checks, in the order of reports. */
export interface VerifyReport {
  readonly results: readonly CheckResult[]
  /** Whether no check failed. */
  readonly holds: boolean
}

export interface VerifyOptions {
  readonly source: ClusterSource
  readonly clock: Clock
  readonly expect?: Expectations | undefined
  /** @default all */
  readonly only?: readonly CheckId[] | undefined
  readonly skip?: readonly CheckId[] | undefined
  /** A finding counts once it is still there after this time, in milliseconds: objects are read one after the other. */
  readonly confirmAfterMs: number
  readonly signal: AbortSignal
}

/**
 * Checks a cluster once, and writes nothing. A finding about an object counts if a second reading shows one about the
 * same object: in between a controller may have been at work.
 *
 * Rejects with a KubeError if the cluster cannot be asked, and with the reason of the signal.
 */
export async function checkCluster(options: VerifyOptions): Promise<VerifyReport> {
  const { clock, confirmAfterMs, signal } = options
  const chosen = chosenChecks(options)
  const first = await evaluateAll(chosen, options)
  const failed = chosen.filter((id) => first.get(id)?.status === 'failed')
  if (failed.length === 0) return reportOf(first)
  await sleep(clock, confirmAfterMs, signal)
  const second = await evaluateAll(failed, options)
  return reportOf(new Map([...first].map(([id, verdict]) => [id, confirmed(verdict, second.get(id))])))
}

async function evaluateAll(ids: readonly CheckId[], options: VerifyOptions): Promise<ReadonlyMap<CheckId, Verdict>> {
  const { source, clock, expect = {}, signal } = options
  const state = await readCluster({ ...source, clock }, partsFor(ids), signal)
  const about: About = { state, expect, nowMs: clock.wallMs() }
  return new Map(ids.map((id) => [id, evaluate(id, about)]))
}

function confirmed(first: Verdict, second: Verdict | undefined): Verdict {
  if (first.status !== 'failed' || second === undefined) return first
  if (second.status !== 'failed') return second
  const before = new Set(first.findings.map(({ object }) => object))
  const findings = second.findings.filter(({ object }) => before.has(object))
  return findings.length === 0
    ? { status: 'held', found: 'what differed was corrected meanwhile' }
    : { ...second, findings }
}

function reportOf(verdicts: ReadonlyMap<CheckId, Verdict>): VerifyReport {
  const results = [...verdicts].map(([id, verdict]): CheckResult => ({ id, ...checkTexts[id], ...verdict }))
  return { results, holds: results.every(({ status }) => status !== 'failed') }
}

/** Every finding of a report. */
export function findingsOf({ results }: VerifyReport): readonly Finding[] {
  return results.flatMap((result) => (result.status === 'failed' ? result.findings : []))
}
