import { InvalidInputError } from '../../documents/validation.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { RemoteError } from '../../runtime/errors.ts'
import { type CheckId, checkIds, checkTexts } from './check-ids.ts'
import { chosenChecks, evaluate, needsConfirmation, partsFor } from './evaluate.ts'
import type { Verdict } from './finding.ts'
import { type ClusterSource, readCluster } from './read-cluster.ts'
import type { ClusterState, Expectations, PartName } from './state.ts'

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
  /** The checks to run. @default all, except those for which `source` or `expect` lacks what they check */
  readonly only?: readonly CheckId[] | undefined
  readonly skip?: readonly CheckId[] | undefined
  /** A finding counts only if it still exists this much later, in milliseconds. @default 1000 */
  readonly confirmAfterMs?: number
  readonly signal: AbortSignal
}

/**
 * Checks a cluster once, and writes nothing. A finding about an object counts only if a second reading also shows one
 * about this object, because a controller may have been at work. (`single-writer`, which watches for long, needs no
 * second reading.) The second reading also repeats skipped checks, because an object that they need may have appeared.
 * If such a check then fails, its findings need a third reading.
 *
 * Rejects with a KubeError or an EtcdError if the cluster cannot be read, and with the reason of an aborted signal.
 */
export async function checkCluster(options: VerifyOptions): Promise<VerifyReport> {
  const { clock, confirmAfterMs = 1_000, signal } = options
  const chosen = chosenChecks(options)
  const first = await evaluateAll(chosen, options)
  const again = chosen.filter((id) => first.get(id)?.status !== 'held' && needsConfirmation(id))
  if (again.every((id) => first.get(id)?.status !== 'failed')) return reportOf(first)
  await sleep(clock, confirmAfterMs, signal)
  const second = await evaluateAll(again, options)
  const unconfirmed = again.filter((id) => first.get(id)?.status === 'skipped' && second.get(id)?.status === 'failed')
  const known = unite(first, second)
  if (unconfirmed.length === 0) return reportOf(known)
  await sleep(clock, confirmAfterMs, signal)
  return reportOf(unite(known, await evaluateAll(unconfirmed, options)))
}

type Verdicts = ReadonlyMap<CheckId, Verdict>

/** If the later reading has a verdict on the same check, the later verdict confirms or replaces the earlier one. */
function unite(earlier: Verdicts, later: Verdicts): Verdicts {
  return new Map([...earlier].map(([id, verdict]) => [id, confirmed(verdict, later.get(id))]))
}

/** The time between two attempts, in milliseconds. */
const ATTEMPTS_MS = 1_000

export interface WaitOptions extends VerifyOptions {
  /** No further attempt begins later than this after the call, in milliseconds; 0 for one attempt. */
  readonly waitMs: number
  /** Called with a line after the first failed attempt, and whenever the reason for waiting changes. */
  readonly onProgress?: ((line: string) => void) | undefined
}

/**
 * Checks a cluster until no check fails and at least one held, until `waitMs` has passed, or until the signal is
 * aborted. Resolves with the last report. Tries again while the cluster does not answer, and rejects with a RemoteError
 * if the last attempt got no answer. Rejects with the reason of the signal if that is aborted before the end of the
 * first attempt, and with an InvalidInputError if `only` and `skip` leave no check.
 */
export async function verifyUntil(options: WaitOptions): Promise<VerifyReport> {
  const { clock, waitMs, onProgress, signal } = options
  if (chosenChecks(options).length === 0) {
    throw new InvalidInputError([{ where: 'only, skip', message: 'no check is left to run' }])
  }
  const endMs = clock.monotonicMs() + waitMs
  let awaited = ''
  let attempt: VerifyReport | RemoteError | undefined
  try {
    for (;;) {
      attempt = await attemptOf(options)
      if (!(attempt instanceof RemoteError) && attempt.holds && !isUndecided(attempt)) break
      if (clock.monotonicMs() + ATTEMPTS_MS > endMs) break
      const now =
        attempt instanceof RemoteError ? attempt.message : failedIn(attempt).join(', ') || 'a check that can be decided'
      if (now !== awaited) onProgress?.(`waiting for ${now}`)
      awaited = now
      await sleep(clock, ATTEMPTS_MS, signal)
    }
  } catch (error) {
    if (!signal.aborted || attempt === undefined) throw error
  }
  if (attempt instanceof RemoteError) throw attempt
  return attempt
}

/** The report, or the error if the cluster did not answer. */
async function attemptOf(options: VerifyOptions): Promise<VerifyReport | RemoteError> {
  try {
    return await checkCluster(options)
  } catch (error) {
    if (error instanceof RemoteError && !options.signal.aborted) return error
    throw error
  }
}

/** Long lists. Each is read by itself before the first check that uses it, and dropped after the last one. */
const longParts: readonly PartName[] = ['pods', 'endpoints', 'endpointSlices']

async function evaluateAll(ids: readonly CheckId[], options: VerifyOptions): Promise<Verdicts> {
  const { source, clock, expect = {}, signal } = options
  const read = (names: readonly PartName[]): Promise<ClusterState> => readCluster({ ...source, clock }, names, signal)
  const state: { -readonly [Name in PartName]?: ClusterState[Name] } = await read(
    partsFor(ids).filter((name) => !longParts.includes(name)),
  )
  const verdicts = new Map<CheckId, Verdict>()
  const ordered = ids.toSorted((a, b) => rankOf(a) - rankOf(b))
  for (const [index, id] of ordered.entries()) {
    for (const name of partsFor([id]).filter((each) => !(each in state))) Object.assign(state, await read([name]))
    verdicts.set(id, evaluate(id, { state, expect, nowMs: clock.wallMs() }))
    const later = partsFor(ordered.slice(index + 1))
    for (const name of longParts) if (!later.includes(name)) delete state[name]
  }
  return new Map(ids.map((id) => [id, verdicts.get(id) as Verdict]))
}

/** Orders the checks so that only `orphan-slices` has all Endpoints and all slices in memory together. */
function rankOf(id: CheckId): number {
  const parts = partsFor([id])
  if (!parts.includes('endpoints')) return 0
  return parts.includes('endpointSlices') ? 1 : 2
}

function confirmed(first: Verdict, second: Verdict | undefined): Verdict {
  if (second === undefined) return first
  if (first.status !== 'failed' || second.status !== 'failed') return second
  const before = new Set(first.findings.map(({ object }) => object))
  const findings = second.findings.filter(({ object }) => before.has(object))
  return findings.length === 0
    ? { status: 'held', found: 'what differed was corrected meanwhile' }
    : { ...second, findings }
}

function reportOf(verdicts: Verdicts): VerifyReport {
  const results = [...verdicts].map(([id, verdict]): CheckResult => {
    const { title, why } = checkTexts[id]
    return { id, title, why, ...verdict }
  })
  return { results, holds: results.every(({ status }) => status !== 'failed') }
}

export function failedIn({ results }: VerifyReport): readonly CheckId[] {
  return results.filter(({ status }) => status === 'failed').map(({ id }) => id)
}

/** Whether every check was skipped, as for a user without rights. The report then proves nothing about the cluster. */
export function isUndecided({ results }: VerifyReport): boolean {
  return results.every(({ status }) => status === 'skipped')
}

/** The options of {@link verifyCluster}. Durations are in milliseconds. */
export interface VerifyClusterOptions extends Pick<VerifyOptions, 'only' | 'skip' | 'expect'> {
  /** Check again until everything holds; no further attempt begins later than this after the call. @default 0 */
  readonly waitMs?: number | undefined
  /** How long to watch for writers that overwrite each other. @default not at all */
  readonly watchMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Checks a cluster in tests, as the command `verify` does. The first argument is the connection from `connect`, or the
 * `api`, `clock` and `readiness` of an API server in this process. Writes nothing. Rejects with a KubeError if the
 * cluster does not answer, with a TypeError for an unknown check, with an InvalidInputError if `only` and `skip` leave
 * no check, and with the reason of the signal if that is aborted before the first report.
 */
export async function verifyCluster(
  { api, clock, readiness }: Pick<ClusterSource, 'api' | 'readiness'> & { readonly clock: Clock },
  options: VerifyClusterOptions = {},
): Promise<VerifyReport> {
  const { only = [], skip = [], waitMs = 0, watchMs, signal = new AbortController().signal } = options
  // No compiler checks tests in JavaScript. If `only` contained nothing but unknown checks, every cluster would pass.
  const unknown = [...only, ...skip].find((id) => !checkIds.includes(id))
  if (unknown !== undefined) throw new TypeError(`there is no check ${JSON.stringify(unknown)}: see docs/verify.md`)
  return verifyUntil({ ...options, source: { api, readiness, watchMs }, clock, waitMs, signal })
}
