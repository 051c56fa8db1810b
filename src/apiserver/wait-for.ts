import { pathOf } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import { linkedController } from '../runtime/signals.ts'
import type { ApiServer } from './api-server.ts'

export interface ObjectReference {
  readonly apiVersion: string
  readonly kind: string
  /** Required for a namespaced kind. */
  readonly namespace?: string
  readonly name: string
}

export interface WaitOptions {
  /** In milliseconds of real time. @default 4000, less than the time limit of a test in vitest and jest */
  readonly timeoutMs?: number
  /** An abort ends the wait: the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

/** An object did not meet a condition in time. The message has the object's last state. */
export class ConditionNotMet extends Error {
  override readonly name = 'ConditionNotMet'
  readonly code = 'ConditionNotMet'
}

/**
 * How many characters of the last state's JSON a message has. Few objects are longer, and a message of this length is
 * readable.
 */
const MAX_STATE_CHARACTERS = 2000

/**
 * The implementation of `StartedApiServer.waitFor`. Reads from the server directly, so injected faults and the server's
 * health have no effect.
 */
export async function waitForObject(
  server: ApiServer,
  reference: ObjectReference,
  condition: (object: object | undefined) => boolean,
  options: {
    readonly clock: Clock
    readonly timeoutMs: number
    readonly signals: readonly (AbortSignal | undefined)[]
  },
): Promise<object | undefined> {
  const { clock, timeoutMs, signals } = options
  let latest: object | undefined
  const { controller, unlink } = linkedController(...signals)
  const cancel = clock.schedule(timeoutMs, () => {
    controller.abort(new ConditionNotMet(`${titleOf(reference)} ${stateOf(latest)}, after ${timeoutMs} ms`))
  })
  try {
    for await (const state of statesOf(server, reference, controller.signal)) {
      latest = state
      const isMet: unknown = condition(state)
      if (isMet instanceof Promise) {
        isMet.catch(() => {})
        throw new TypeError('a condition must not be async: its promise would count as true')
      }
      if (isMet) return state
    }
    throw controller.signal.reason
  } finally {
    cancel()
    unlink()
    // Ends the watch.
    controller.abort()
  }
}

/**
 * The present state of an object, then each new state; undefined while the object does not exist. Ends when the signal
 * is aborted.
 */
async function* statesOf(
  server: ApiServer,
  reference: ObjectReference,
  signal: AbortSignal,
): AsyncGenerator<object | undefined, void, undefined> {
  const { apiVersion, kind, namespace, name } = reference
  // Starts again after a watch has ended, such as by its timeout, a compaction, or a new definition of the kind.
  while (!signal.aborted) {
    const resource = server.resourceOf(apiVersion, kind)
    if (resource === undefined) throw new TypeError(`the kind ${kind} of ${apiVersion} is not served`)
    if (resource.namespaced && !namespace) throw new TypeError(`a ${kind} to wait for needs its namespace`)
    if (!name) throw new TypeError(`a ${kind} to wait for needs its name`)
    const path = pathOf(resource, { namespace })
    const resourceVersion = String(server.revision)
    const own = pathOf(resource, { namespace, name })
    const read = await server.handle({ method: 'GET', path: own, query: [], headers: {} }, signal)
    yield read.status === 200 && 'body' in read ? (read.body as object) : undefined
    const query = [
      ['watch', 'true'],
      ['fieldSelector', `metadata.name=${name}`],
      ['resourceVersion', resourceVersion],
    ] as const
    if (signal.aborted) return
    const watch = await server.handle({ method: 'GET', path, query, headers: {}, stream: true }, signal)
    if (!('stream' in watch)) throw new TypeError(`cannot watch ${titleOf(reference)}: status ${watch.status}`)
    for await (const event of watch.stream) {
      const { type, object } = event as { readonly type: string; readonly object: object }
      if (type === 'ERROR') break
      yield type === 'DELETED' ? undefined : object
    }
  }
}

function titleOf({ kind, namespace, name }: ObjectReference): string {
  return namespace === undefined ? `${kind} ${name}` : `${kind} ${namespace}/${name}`
}

function stateOf(object: object | undefined): string {
  if (object === undefined) return 'does not exist'
  const { metadata, ...rest } = object as { readonly metadata?: { readonly managedFields?: unknown } }
  const { managedFields: _, ...shown } = metadata ?? {}
  return `does not meet the condition: ${JSON.stringify({ metadata: shown, ...rest }).slice(0, MAX_STATE_CHARACTERS)}`
}
