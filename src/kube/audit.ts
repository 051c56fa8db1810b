import { certificateFault, failureCode } from '../net/host-port.ts'
import { RemoteError } from '../runtime/errors.ts'
import type { Logger } from '../telemetry/logger.ts'
import { type EventReason, type EventSink, type EventToRecord, eventOf } from './event-object.ts'
import type { KubeObject, Resource } from './resources.ts'

/** Who writes, as far as this process knows. The server's own audit log has the user that the server saw. */
export interface AuditUser {
  /** The machine's name, from the program's options. */
  readonly host: string
  /** The name of the user in the kubeconfig; undefined for anonymous requests. */
  readonly kubeconfigUser?: string | undefined
  /** The common name in the client certificate for etcd. */
  readonly etcdUser?: string | undefined
  /** The operating system user of the process. */
  readonly localUser?: string | undefined
  readonly sudoUser?: string | undefined
}

export interface AuditTrail {
  readonly logger: Logger
  /** @default no Events */
  readonly events?: EventSink | undefined
  /** Undefined in a dry run. */
  readonly user?: AuditUser | undefined
}

/** One write: what, why, before and after. Fields that are not declared here go into the line under their own names. */
export interface AuditEntry {
  readonly message: string
  readonly verb: 'create' | 'update' | 'delete' | 'withdraw' | 'evict' | 'adopt'
  /** The written object, as `objectRef` in Kubernetes' audit log. */
  readonly objectRef: Readonly<Record<string, string | undefined>>
  /** Why, in stable words. */
  readonly reasons: readonly string[]
  readonly before: unknown
  readonly after: unknown
  /** Why no answer arrived: the write may or may not have happened. Undefined: it happened, or this is a dry run. */
  readonly error?: unknown
  /** The Event that is recorded after a successful write. */
  readonly event?: Pick<EventToRecord, 'regarding' | 'note'> & { readonly reason: EventReason }
  readonly [field: string]: unknown
}

/**
 * A line has at most this many entries of a list. Its field `omitted` has the number of omitted entries by the name of
 * the list.
 */
const MAX_LISTED = 32

/**
 * Records a write in one line of the log (docs/audit.md). Call it once for each write that succeeded or whose answer
 * was lost. In a dry run the line has no `audit`, `outcome` or `user`, and no Event is recorded.
 */
export function audit({ logger, events, user }: AuditTrail, entry: AuditEntry): void {
  const { message, error, event, ...fields } = entry
  const line = bounded(fields)
  if (user === undefined) logger.info(line, message)
  else if (error !== undefined)
    logger.info({ audit: true, ...line, outcome: 'unknown', error, user }, `${message}: no answer`)
  else {
    logger.info({ audit: true, ...line, outcome: 'written', user }, message)
    if (event === undefined) return
    const { kubeconfigUser, etcdUser, host } = user
    const by = [kubeconfigUser ?? etcdUser ?? [], host].flat().join(' on ')
    events?.record(eventOf(event.reason, { ...event, note: `${event.note} (by ${by})` }))
  }
}

/**
 * Makes a write and records it, unless `isDone` finds in the answer that nothing was written. Also records a write
 * without an answer, see {@link answered}.
 */
export async function audited<T>(
  trail: AuditTrail | undefined,
  entry: AuditEntry,
  write: () => Promise<T>,
  { signal, isDone = () => true }: { readonly signal: AbortSignal; readonly isDone?: (answer: T) => boolean },
): Promise<T> {
  const record = (error?: unknown): void => {
    if (trail !== undefined) audit(trail, { ...entry, error })
  }
  const answer = await answered(write, record, signal)
  if (isDone(answer)) record()
  return answer
}

export function objectRefOf(resource: Resource<KubeObject>, object: KubeObject | undefined): AuditEntry['objectRef'] {
  const { namespace, name, uid, resourceVersion } = object?.metadata ?? {}
  const { plural, group, version: apiVersion } = resource
  return {
    resource: plural,
    namespace,
    name,
    ...(group !== '' && { apiGroup: group }),
    apiVersion,
    uid,
    resourceVersion,
  }
}

/** Failures to open a connection: nothing was sent. */
const UNSENT: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
])
/** Error codes after which the server has certainly written nothing. */
const NOT_WRITTEN: ReadonlySet<string> = new Set(['AlreadyExists', 'Expired', 'TooManyRequests', 'NoCredentials'])

/**
 * Makes a write. If the write fails, rejects with its error. If a failed write may have happened, because no answer
 * arrived or because the abort of `signal` ended it, first calls `unanswered` with the error. Makes no write if
 * `signal` is aborted already.
 */
export async function answered<T>(
  write: () => Promise<T>,
  unanswered: (error: unknown) => void,
  signal: AbortSignal | undefined,
): Promise<T> {
  signal?.throwIfAborted()
  try {
    return await write()
  } catch (error) {
    // A refusal that arrived before the abort still shows that nothing was written.
    const wasCut = signal?.aborted === true && !(error instanceof RemoteError)
    if (wasCut || mayHaveHappened(error)) unanswered(error)
    throw error
  }
}

function mayHaveHappened(error: unknown): boolean {
  if (!(error instanceof RemoteError) || error.nature !== 'away' || NOT_WRITTEN.has(error.code)) return false
  let cause: unknown = error
  while (cause instanceof RemoteError) cause = cause.cause
  const code = failureCode(cause)
  return !UNSENT.has(code) && certificateFault(code) === undefined
}

function bounded(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const omitted: Record<string, number> = {}
  const shortened = Object.entries(fields).map(([name, value]) => {
    if (!Array.isArray(value) || value.length <= MAX_LISTED) return [name, value] as const
    omitted[name] = value.length - MAX_LISTED
    return [name, value.slice(0, MAX_LISTED)] as const
  })
  return { ...Object.fromEntries(shortened), ...(Object.keys(omitted).length > 0 && { omitted }) }
}
