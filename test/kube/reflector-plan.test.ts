import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError, type KubeErrorCode } from '../../src/kube/errors.ts'
import {
  type Ending,
  planRetry,
  type ReflectorState,
  type RetryPlan,
  startState,
} from '../../src/kube/reflector-plan.ts'
import type { KubeObject } from '../../src/kube/resources.ts'
import { objectMapOf } from './object-map-of.ts'

const empty = () => objectMapOf<KubeObject>([])
const partial: KubeObject = { metadata: { name: 'a' } }
const states: Readonly<Record<string, ReflectorState<KubeObject>>> = {
  streaming: { phase: 'streaming', objects: objectMapOf([partial]) },
  broken: { phase: 'streaming', objects: objectMapOf([partial]), breaks: 2 },
  first: { phase: 'paging', objects: empty(), continue: undefined, limit: 500 },
  paging: { phase: 'paging', objects: objectMapOf([partial]), continue: 'token', limit: 500 },
  watching: { phase: 'watching', resourceVersion: '7', silences: 0 },
  quiet: { phase: 'watching', resourceVersion: '7', silences: 19 },
  failing: { phase: 'watching', resourceVersion: '7', silences: 0, failures: 59 },
}

/** The state with its objects in a list, because an assertion does not compare the objects inside an ObjectMap. */
function seen(state: ReflectorState<KubeObject>): unknown {
  return 'objects' in state ? { ...state, objects: [...state.objects] } : state
}

function named(next: ReflectorState<KubeObject>): string {
  switch (next.phase) {
    case 'streaming':
      return next.objects.size === 0 ? 'stream' : 'stream on'
    case 'paging':
      if (next.continue !== undefined) return 'same page'
      return next.limit === undefined ? 'list whole' : 'list'
    case 'watching':
      return next.silences === 1 ? 'watch again' : 'watch on'
  }
}

const closed: Ending = { kind: 'closed', proven: true }
const closedAtOnce: Ending = { kind: 'closed', proven: false }
const closedWithoutEvents: Ending = { kind: 'closed', proven: true, brief: true }
const silent: Ending = { kind: 'silent', proven: true }
const failed = (code: KubeErrorCode): Ending => ({
  kind: 'failed',
  proven: false,
  watchError: false,
  error: new KubeError(code, code),
})
const inWatch = (code: KubeErrorCode): Ending => ({ ...failed(code), watchError: true }) as Ending
const parameter = 'sendInitialEvents is forbidden'
const parameterRefused: Ending = { ...failed('Forbidden'), error: new KubeError('Forbidden', parameter) } as Ending
const causes = ['sendInitialEvents', 'resourceVersionMatch'].map((field) => ({ field }))
const oneOfSeveralRefused: Ending = {
  ...failed('Forbidden'),
  error: new KubeError('Forbidden', 'two parameters are forbidden', { status: { details: { causes } } }),
} as Ending

/**
 * How a request ends, and how each state continues: the next request, and the wait before it; ! = no more streaming.
 */
const table: readonly (readonly [
  Ending,
  {
    streaming?: string
    broken?: string
    first?: string
    paging?: string
    watching?: string
    quiet?: string
    failing?: string
  },
])[] = [
  [closed, { streaming: 'list, short', watching: 'watch on, none' }],
  [closedAtOnce, { streaming: 'list, short', watching: 'watch on, short' }],
  [closedWithoutEvents, { watching: 'watch on, short' }],
  [silent, { streaming: 'list, none!', watching: 'watch again, none', quiet: 'stream, none' }],
  [failed('Unreachable'), { streaming: 'stream, short', paging: 'same page, short', watching: 'watch on, short' }],
  [failed('Unreachable'), { broken: 'list, short', first: 'stream, short' }],
  [failed('Timeout'), { streaming: 'stream, short', paging: 'same page, short', watching: 'watch on, short' }],
  [failed('Timeout'), { broken: 'list, short', first: 'stream, short' }],
  [failed('TooManyRequests'), { streaming: 'stream, short', paging: 'same page, short', watching: 'watch on, short' }],
  [failed('Unauthorized'), { streaming: 'stream, short', paging: 'same page, short', watching: 'watch on, short' }],
  [failed('NoCredentials'), { streaming: 'stream, short', paging: 'same page, short', watching: 'watch on, short' }],
  [failed('ServerError'), { broken: 'list, short', first: 'list, short', failing: 'stream, short' }],
  [failed('Timeout'), { failing: 'stream, short' }],
  [{ ...failed('Timeout'), proven: true }, { failing: 'watch on, short' }],
  [failed('Unreachable'), { failing: 'watch on, short' }],
  [failed('ServerError'), { streaming: 'list, short', paging: 'same page, short', watching: 'watch on, short' }],
  [failed('BadResponse'), { streaming: 'list, short', paging: 'same page, short', watching: 'stream, short' }],
  [failed('Expired'), { streaming: 'list, short', paging: 'list whole, short', watching: 'stream, none' }],
  [failed('BadRequest'), { streaming: 'list, none!', paging: 'list whole, long', watching: 'stream, long' }],
  [failed('Invalid'), { streaming: 'list, none!', paging: 'list whole, long', watching: 'stream, long' }],
  [failed('Refused'), { streaming: 'list, none!', paging: 'list whole, long', watching: 'stream, long' }],
  [parameterRefused, { streaming: 'list, none!' }],
  [oneOfSeveralRefused, { streaming: 'list, none!' }],
  [failed('Forbidden'), { streaming: 'stream, long', paging: 'list, long', watching: 'watch on, long' }],
  [failed('NotFound'), { streaming: 'stream, long', paging: 'list, long', watching: 'stream, long' }],
  [inWatch('Expired'), { streaming: 'list, short', watching: 'stream, none' }],
  [inWatch('ServerError'), { streaming: 'list, short', watching: 'stream, short' }],
  [inWatch('TooManyRequests'), { streaming: 'stream, short', watching: 'watch on, short' }],
]

test('each failure in each state leads to the right next request after the right wait', () => {
  for (const [ending, expected] of table) {
    for (const [state, outcome] of Object.entries(expected)) {
      const plan = planRetry(states[state] as ReflectorState<KubeObject>, ending, {
        empty,
        streaming: true,
        justListed: false,
      })
      const described = `${named(plan.next)}, ${plan.wait}${plan.noStreaming ? '!' : ''}`
      assert.equal(described, outcome, `${state}: ${JSON.stringify(ending)}`)
    }
  }
})

test('a watch that ends among changes of one resourceVersion is followed by a list, without a wait if a list is due anyway', () => {
  const shared: ReflectorState<KubeObject> = { phase: 'watching', resourceVersion: '7', silences: 0, shared: true }
  for (const [ending, wait] of [
    [closed, 'short'],
    [silent, 'short'],
    [failed('Unreachable'), 'short'],
    [failed('Expired'), 'none'],
  ] as const) {
    const plan: RetryPlan<KubeObject> = planRetry(shared, ending, { empty, streaming: true, justListed: false })
    assert.deepEqual([seen(plan.next), plan.wait], [seen(startState(true, empty)), wait], JSON.stringify(ending))
  }
})

test('a watch that fails sixty times in a row without having worked is followed by a list', () => {
  let state: ReflectorState<KubeObject> = { phase: 'watching', resourceVersion: '7', silences: 0 }
  for (let failures = 1; failures <= 60; failures++) {
    assert.equal(state.phase, 'watching')
    state = planRetry(state, failed('Timeout'), { empty, streaming: true, justListed: false }).next
  }
  assert.equal(state.phase, 'streaming')
})

test('without streaming lists, an expired watch is followed by a list in pages', () => {
  const watching: ReflectorState<KubeObject> = { phase: 'watching', resourceVersion: '7', silences: 0 }
  const plan = planRetry(watching, failed('Expired'), { empty, streaming: false, justListed: false })
  assert.deepEqual(seen(plan.next), seen(startState(false, empty)))
})

test('a list that has already expired on arrival is not requested again at once', () => {
  const watching: ReflectorState<KubeObject> = { phase: 'watching', resourceVersion: '7', silences: 0 }
  for (const ending of [failed('Expired'), inWatch('Expired')]) {
    assert.equal(planRetry(watching, ending, { empty, streaming: true, justListed: true }).wait, 'short')
  }
})

test('a page without an answer is requested again, and a whole list without an answer is requested in pages', () => {
  const silent = { kind: 'silent', proven: false } as const
  const context = { empty, streaming: false, justListed: false }
  const paging = { phase: 'paging', objects: objectMapOf([partial]), continue: 'more', limit: 500 } as const
  assert.deepEqual(seen(planRetry(paging, silent, context).next), seen(paging))
  const whole = { phase: 'paging', objects: objectMapOf([partial]), continue: undefined, limit: undefined } as const
  assert.deepEqual(seen(planRetry(whole, silent, context).next), seen(startState(false, empty)))
})

test('a page that is too long is requested again in smaller pages, and a whole list that is too long in pages', () => {
  const ending = failed('TooLarge')
  const first: ReflectorState<KubeObject> = {
    phase: 'paging',
    objects: objectMapOf([partial]),
    continue: 'token',
    limit: 500,
  }
  let state: ReflectorState<KubeObject> = first
  const limits: unknown[] = []
  for (let tries = 0; tries < 7; tries++) {
    const plan: RetryPlan<KubeObject> = planRetry(state, ending, { empty, streaming: true, justListed: false })
    assert.deepEqual(seen({ ...plan.next, limit: 500 } as ReflectorState<KubeObject>), seen(first))
    state = plan.next
    limits.push('limit' in state && state.limit, plan.wait)
  }
  assert.deepEqual(limits, [125, 'none', 32, 'none', 8, 'none', 2, 'none', 1, 'none', 1, 'short', 1, 'short'])
  const whole: ReflectorState<KubeObject> = {
    phase: 'paging',
    objects: objectMapOf([partial]),
    continue: undefined,
    limit: undefined,
  }
  const plan = planRetry(whole, ending, { empty, streaming: true, justListed: false })
  assert.deepEqual([seen(plan.next), plan.wait], [seen(startState(false, empty)), 'long'])
})
