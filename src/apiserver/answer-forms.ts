import type { ApiResponse } from '../kube/transport.ts'
import { Refusal } from './refusal.ts'
import type { StoredObject } from './store.ts'
import type { WatchEvent } from './watch.ts'

/** The body of an answer: a list, or one object. `items` and `continue` have a meaning only in a list. */
export type AnswerBody = StoredObject & {
  readonly items: readonly StoredObject[]
  readonly metadata: { readonly continue?: string }
}

/**
 * Converts the objects of an answer: `ofEvent` makes the new form of a watch event's object, `ofBody` the new form of a
 * whole body. A Status, which can be the answer to a deletion, stays as it is.
 */
export function inForm(
  response: ApiResponse,
  ofEvent: (event: WatchEvent) => object,
  ofBody: (body: AnswerBody) => object,
): ApiResponse {
  if ('stream' in response) {
    return { ...response, stream: eventsInForm(response.stream as AsyncIterable<WatchEvent>, ofEvent) }
  }
  const body = response.body as AnswerBody
  return body.kind === 'Status' ? response : { ...response, body: ofBody(body) }
}

/** The metadata of a list, without an empty `continue`. Only lists of custom resources have an empty one. */
export function listMetadata({ metadata: { continue: token, ...metadata } }: AnswerBody): object {
  return token ? { ...metadata, continue: token } : metadata
}

/**
 * Converts the objects in the events of a watch, except in ERROR events. A refused conversion ends the watch with an
 * ERROR event. `return()` ends the watch at once. The `return()` of a generator would wait for a pending `next()` or,
 * before the first call of `next()`, leave the watch open.
 */
function eventsInForm(
  events: AsyncIterable<WatchEvent>,
  form: (event: WatchEvent) => object,
): AsyncIterableIterator<WatchEvent, undefined> {
  const inner = events[Symbol.asyncIterator]()
  const end = { done: true, value: undefined } as const
  return {
    async next() {
      const { done, value } = await inner.next()
      if (done === true) return end
      if (value.type === 'ERROR') return { done: false, value }
      try {
        return { done: false, value: { type: value.type, object: form(value) } }
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        await inner.return?.()
        return { done: false, value: { type: 'ERROR', object: error.body } }
      }
    },
    async return() {
      await inner.return?.()
      return end
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
}
