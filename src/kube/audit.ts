import { certificateFault, failureCode } from '../net/socket-failure.ts'
import { RemoteError } from '../runtime/remote-error.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { EventSink, EventToRecord } from './event-object.ts'
import { type EventReason, eventOf } from './event-reasons.ts'
import type { KubeObject } from './json.ts'
import type { Resource } from './resources.ts'

/** Who writes, as far as is known here. Which user the server took that for is in its own audit log. */
export interface AuditUser {
  /** The machine, as the program was told to call it. */
  readonly host: string
  /** The name of the user in the kubeconfig; undefined for anonymous requests. */
  readonly kubeconfigUser?: string | undefined
  /** The common name in the client certificate for etcd. */
  readonly etcdUser?: string | undefined
  /** Whose process it is on that machine. */
  readonly localUser?: string | undefined
  /** Who became that one by sudo. */
  readonly sudoUser?: string | undefined
}

/** Where it is told. */
export interface AuditTrail {
  readonly logger: Logger
  /** @default no Events */
  readonly events?: EventSink | undefined
  /** Undefined in a dry run. */
  readonly user?: AuditUser | undefined
}

/** One write: what, why, before and after. A field that is not described here goes into the line as it is. */
export interface AuditEntry {
  readonly message: string
  readonly verb: 'create' | 'update' | 'delete' | 'withdraw' | 'evict' | 'adopt'
  /** What was written, by the names that Kubernetes' audit log has. */
  readonly objectRef: Readonly<Record<string, string | undefined>>
  /** Why, in stable words. */
  readonly reasons: readonly string[]
  readonly before: unknown
  readonly after: unknown
  /** What kept the answer away: then nobody knows whether it was written. Undefined: it was. */
  readonly error?: unknown
  /** What an Event says of it once it was written. */
  readonly event?: Pick<EventToRecord, 'regarding' | 'note'> & { readonly reason: EventReason }
  readonly [field: string]: unknown
}

/** So many of a list are in a line; how many there are besides is said in `omitted`. */
const MAX_LISTED = 32

/**
 * Tells of a write in one line of the log; docs/audit.md has its fields. To be called once for each, after it was answered or its answer was
 * lost, and not for one that was refused. In a dry run the line has nothing that a filter for the audit trail finds, and there is no Event.
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

/** Makes a write and tells of it, unless its answer says that it did nothing. */
export async function audited<T>(
  trail: AuditTrail | undefined,
  entry: AuditEntry,
  write: () => Promise<T>,
  { signal, isDone = () => true }: { readonly signal: AbortSignal; readonly isDone?: (answer: T) => boolean },
): Promise<T> {
  const tell = (error?: unknown): void => {
    if (trail !== undefined) audit(trail, { ...entry, error })
  }
  const answer = await answered(write, tell, signal)
  if (isDone(answer)) tell()
  return answer
}

/** The object of the API server's that was written. */
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

/** What keeps a connection from being opened: nothing was sent. */
const UNSENT: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
])
/** Failures in which a server is asked in vain, but for sure has written nothing. */
const NOT_WRITTEN: ReadonlySet<string> = new Set(['AlreadyExists', 'Expired', 'TooManyRequests', 'NoCredentials'])

/** Makes a write; when its answer is lost, `unanswered` hears why before this rejects. */
export async function answered<T>(
  write: () => Promise<T>,
  unanswered: (error: unknown) => void,
  signal: AbortSignal | undefined,
): Promise<T> {
  signal?.throwIfAborted()
  try {
    return await write()
  } catch (error) {
    if (signal?.aborted || mayHaveHappened(error)) unanswered(error)
    throw error
  }
}

/** Whether a write that failed so may have happened all the same. */
function mayHaveHappened(error: unknown): boolean {
  if (!(error instanceof RemoteError) || error.nature !== 'away' || NOT_WRITTEN.has(error.code)) return false
  let cause: unknown = error
  while (cause instanceof RemoteError) cause = cause.cause
  const code = failureCode(cause)
  return !UNSENT.has(code) && certificateFault(code) === undefined
}

function bounded(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const omitted: Record<string, number> = {}
  const kept = Object.entries(fields).map(([name, value]) => {
    if (!Array.isArray(value) || value.length <= MAX_LISTED) return [name, value] as const
    omitted[name] = value.length - MAX_LISTED
    return [name, value.slice(0, MAX_LISTED)] as const
  })
  return { ...Object.fromEntries(kept), ...(Object.keys(omitted).length > 0 && { omitted }) }
}
