import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import type { KubeApi, Status } from '../../src/kube/api.ts'
import { isKubeError, KubeError } from '../../src/kube/errors.ts'
import {
  endpoints,
  type Namespace,
  namespaces,
  type Service,
  serviceCidrs,
  services,
} from '../../src/kube/resources.ts'
import { type RestKubeApiOptions, restKubeApi } from '../../src/kube/rest-api.ts'
import { type ApiRequest, type ApiResponse, answerLimits, type Transport } from '../../src/kube/transport.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

type Answer = (request: ApiRequest, signal: AbortSignal) => Promise<ApiResponse> | ApiResponse

/** An API over a transport whose answers come from a function, on a clock that the test advances. */
function apiWith(
  answer: Answer,
  more: Partial<RestKubeApiOptions> = {},
): {
  readonly api: KubeApi
  readonly sent: ApiRequest[]
  readonly clock: VirtualClock
} {
  const clock = new VirtualClock()
  const sent: ApiRequest[] = []
  const transport: Transport = {
    async send(request, signal) {
      sent.push(request)
      return answer(request, signal)
    },
    async close() {},
  }
  const api = restKubeApi({ transport, clock: clock.view(), random: { next: () => 0 }, ...more })
  return { api, sent, clock }
}

const ok = (body: unknown): ApiResponse => ({ status: 200, headers: {}, body })
const refuse = (status: number, body: unknown, headers: Record<string, string> = {}): ApiResponse => ({
  status,
  headers,
  body,
})
const statusOf = (fields: Status): Status => ({ kind: 'Status', ...fields })
const namespace: Namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } }
const service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'default', name: 'kubernetes', resourceVersion: '7' },
} as Service

const json = { accept: 'application/json' }
const writes = (type: string): object => ({ headers: { ...json, 'content-type': type } })
const owned = ['fieldManager', 'apiserver-bootstrap']
const path = '/api/v1/namespaces/default/services/kubernetes'
const cidrPath = '/apis/networking.k8s.io/v1/servicecidrs/kubernetes'
const calls: [string, (api: KubeApi) => Promise<unknown>, object][] = [
  ['get', (api) => api.get(services, service.metadata as never), { method: 'GET', path }],
  [
    'list',
    (api) =>
      api.list(services, { labelSelector: 'a=b', limit: 500, continue: 'c', resourceVersion: '0', namespace: 'x' }),
    {
      method: 'GET',
      path: '/api/v1/namespaces/x/services',
      query: [
        ['labelSelector', 'a=b'],
        ['resourceVersion', '0'],
        ['limit', '500'],
        ['continue', 'c'],
      ],
      timeoutMs: 60_000,
      maxBytes: answerLimits.page,
    },
  ],
  [
    'list everywhere',
    (api) => api.list(services),
    { method: 'GET', path: '/api/v1/services', timeoutMs: 60_000, maxBytes: answerLimits.list },
  ],
  [
    'create',
    (api) => api.create(services, service),
    {
      method: 'POST',
      path: '/api/v1/namespaces/default/services',
      query: [owned],
      body: service,
      ...writes('application/json'),
    },
  ],
  [
    'update status',
    (api) => api.update(services, service, { subresource: 'status', fieldManager: 'me' }),
    {
      method: 'PUT',
      path: `${path}/status`,
      query: [['fieldManager', 'me']],
      body: service,
      ...writes('application/json'),
    },
  ],
  [
    'merge patch',
    (api) => api.patch(services, service.metadata as never, { type: 'merge', body: { a: null } }),
    { method: 'PATCH', path, query: [owned], body: { a: null }, ...writes('application/merge-patch+json') },
  ],
  [
    'JSON patch',
    (api) => api.patch(services, service.metadata as never, { type: 'json', body: [] }),
    { method: 'PATCH', path, query: [owned], body: [], ...writes('application/json-patch+json') },
  ],
  [
    'apply',
    (api) => api.patch(serviceCidrs, { name: 'kubernetes' }, { type: 'apply', body: {}, force: true }),
    {
      method: 'PATCH',
      path: cidrPath,
      query: [owned, ['force', 'true']],
      body: {},
      ...writes('application/apply-patch+yaml'),
    },
  ],
  ['delete', (api) => api.delete(services, service.metadata as never), { method: 'DELETE', path }],
  [
    'delete with preconditions',
    (api) => api.delete(services, { namespace: 'default', name: 'kubernetes' }, { uid: 'u', resourceVersion: '7' }),
    {
      method: 'DELETE',
      path,
      body: { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid: 'u', resourceVersion: '7' } },
      ...writes('application/json'),
    },
  ],
]

for (const [name, call, request] of calls) {
  test(`${name} is sent as the API conventions require`, async () => {
    const { api, sent } = apiWith(({ path }) => {
      const kind = path.includes('servicecidrs') ? 'ServiceCIDR' : 'Service'
      return ok({ kind, metadata: { resourceVersion: '1' }, items: [] })
    })
    await call(api)
    assert.deepEqual(sent, [{ query: [], headers: json, timeoutMs: 10_000, ...request }])
  })
}

test('objects and lists are returned whole, as the server sent them', async () => {
  const object = { ...namespace, metadata: { name: 'default', newField: 1 }, newField: { a: [1] } }
  const items = [{ metadata: { name: 'default' }, newField: 1 }]
  const { api } = apiWith(({ path }) =>
    ok(path.endsWith('/default') ? object : { metadata: { resourceVersion: '1' }, items }),
  )
  assert.deepEqual(await api.get(namespaces, { name: 'default' }), object)
  assert.deepEqual((await api.list(namespaces)).items, items)
})

test('a list without items is an empty one', async () => {
  const { api } = apiWith(() => ok({ metadata: { resourceVersion: '1' }, items: null }))
  assert.deepEqual((await api.list(namespaces)).items, [])
})

for (const [name, body] of [
  ['text', 'ok'],
  ['null', null],
  ['an array', []],
  ['of another kind', { kind: 'Status', metadata: {} }],
  ['without metadata', { kind: 'Namespace', data: 'hunter2' }],
] as const) {
  test(`an answer that is ${name} instead of an object is a bad response`, async () => {
    const { api } = apiWith(() => ok(body))
    for (const call of [
      api.get(namespaces, { name: 'default' }),
      api.create(namespaces, namespace),
      api.list(namespaces),
    ]) {
      await assert.rejects(call, (error) => isKubeError(error, 'BadResponse') && !error.message.includes('hunter2'))
    }
  })
}

const refusals: [number, unknown, Record<string, string>, string, string][] = [
  [
    404,
    statusOf({ reason: 'NotFound', message: 'services "kubernetes" not found' }),
    {},
    'NotFound',
    'services "kubernetes" not found',
  ],
  [409, statusOf({ reason: 'AlreadyExists', message: 'there' }), {}, 'AlreadyExists', 'there'],
  [409, statusOf({ reason: 'Conflict', message: 'modified' }), {}, 'Conflict', 'modified'],
  [410, statusOf({ reason: 'Expired', message: 'too old' }), {}, 'Expired', 'too old'],
  [500, statusOf({ message: 'one\n\ttwo\u2028three\u0007' }), {}, 'ServerError', 'one two three'],
  [401, statusOf({}), {}, 'Unauthorized', 'HTTP status 401'],
  [404, '404 page not found\n', { 'content-type': 'text/plain; charset=utf-8' }, 'NotFound', '404 page not found'],
  [502, '<html>secret page</html>', { 'content-type': 'text/html' }, 'ServerError', 'HTTP status 502'],
  [405, { kind: 'Status', message: { not: 'text' } }, {}, 'Refused', 'HTTP status 405'],
  [418, null, {}, 'Refused', 'HTTP status 418'],
]
for (const [httpStatus, body, headers, code, words] of refusals) {
  test(`HTTP status ${httpStatus} with ${JSON.stringify(body)} is the error ${code} in one line`, async () => {
    const { api } = apiWith(() => refuse(httpStatus, body, headers))
    await assert.rejects(api.get(services, { namespace: 'default', name: 'kubernetes' }), (error) => {
      assert.ok(isKubeError(error))
      assert.deepEqual(
        [error.code, error.httpStatus, error.message],
        [code, httpStatus, `get services default/kubernetes: ${words}`],
      )
      return true
    })
  })
}

test('the message of a long refusal is truncated', async () => {
  const { api } = apiWith(() => refuse(422, statusOf({ message: 'x'.repeat(10_000) })))
  await assert.rejects(api.create(namespaces, namespace), (error: Error) => error.message.length < 600)
})

test('a failure of the transport names the call and keeps its code and cause', async () => {
  const cause = new KubeError('Unreachable', 'https://192.0.2.1:6443: connection refused')
  const { api } = apiWith(() => Promise.reject(cause))
  await assert.rejects(api.update(endpoints, service as never), (error) => {
    assert.ok(isKubeError(error, 'Unreachable'))
    assert.equal(error.message, 'update endpoints default/kubernetes: https://192.0.2.1:6443: connection refused')
    assert.equal(error.cause, cause)
    return true
  })
})

test('a call that would address another object, or a whole collection, is not sent', async () => {
  const { api, sent } = apiWith(() => ok({}))
  const refused: Promise<unknown>[] = [
    api.delete(namespaces, { name: '' }),
    api.delete(services, { name: 'kubernetes' }),
    api.get(services, { namespace: '', name: 'kubernetes' }),
    api.get(namespaces, { name: '..' }),
    api.get(namespaces, { name: '.' }),
    api.get(namespaces, { name: 'a/b' }),
    api.patch(namespaces, { name: 'a%2f' }, { type: 'merge', body: {} }),
    api.create(services, { kind: 'Service', metadata: { name: 'a' } } as Service),
    api.update(namespaces, { kind: 'Namespace' }),
  ]
  const reasons: string[] = []
  for (const call of refused) {
    await assert.rejects(call, (error) => {
      assert.ok(isKubeError(error, 'BadRequest'))
      reasons.push(error.message.split(': ')[1] ?? '')
      return true
    })
  }
  assert.deepEqual(reasons, [
    'the object has no name',
    ...['the object has no namespace', 'the object has no namespace'],
    ...['..', '.', 'a/b', 'a%2f'].map((name) => `the object has an invalid name "${name}"`),
    ...['the object has no namespace', 'the object has no name'],
  ])
  assert.deepEqual(sent, [])
})

test('a request refused with a 429 or 503 with Retry-After seconds is retried after them, and no other refusal is', async () => {
  for (const status of [429, 503]) {
    let left = 2
    const { api, sent, clock } = apiWith(() =>
      left-- > 0 ? refuse(status, 'wait', { 'retry-after': '1' }) : ok(namespace),
    )
    const got = api.get(namespaces, { name: 'default' })
    await clock.advance(999)
    assert.equal(sent.length, 1)
    await clock.advance(1)
    assert.equal(sent.length, 2)
    await clock.advance(1_000)
    assert.deepEqual(await got, namespace)
  }
  for (const answer of [
    refuse(429, ''),
    refuse(503, ''),
    refuse(500, '', { 'retry-after': '1' }),
    refuse(429, '', { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }),
  ]) {
    const { api, sent } = apiWith(() => answer)
    await assert.rejects(api.get(namespaces, { name: 'default' }))
    assert.equal(sent.length, 1)
  }
})

test('with a long Retry-After a request is sent three times, a second apart, and the error carries that wait', async () => {
  const { api, clock, sent } = apiWith(() => refuse(503, '', { 'retry-after': '20' }))
  const givenUp = assert.rejects(
    api.get(namespaces, { name: 'default' }),
    (error) => isKubeError(error, 'ServerError') && error.retryAfterMs === 20_000,
  )
  const sentBy: number[] = []
  for (let second = 0; second < 3; second++) {
    await clock.advance(999)
    sentBy.push(sent.length)
    await clock.advance(1)
  }
  await clock.advance(60_000)
  await givenUp
  assert.deepEqual(sentBy, [1, 2, 3])
  assert.equal(sent.length, 3)
})

test('with a Retry-After of zero a retry waits a tenth of a second', async () => {
  const { api, clock, sent } = apiWith(() => refuse(429, '', { 'retry-after': '0' }))
  const givenUp = assert.rejects(api.get(namespaces, { name: 'default' }), (error) =>
    isKubeError(error, 'TooManyRequests'),
  )
  await clock.advance(99)
  assert.equal(sent.length, 1)
  await clock.advance(1)
  assert.equal(sent.length, 2)
  await clock.advance(10_000)
  await givenUp
  assert.equal(sent.length, 3)
})

test('a call that is urgent does not wait for a Retry-After', async () => {
  const { api, clock, sent } = apiWith(() => refuse(429, '', { 'retry-after': '6' }))
  const urgent = { ...service.metadata, urgent: true }
  const calls = [
    () => api.get(services, service.metadata as never, urgent),
    () => api.list(services, urgent),
    () => api.create(services, service, urgent),
    () => api.update(services, service, urgent),
    () => api.patch(services, service.metadata as never, { type: 'merge', body: {} }, urgent),
    () => api.delete(services, service.metadata as never, { urgent: true }),
  ]
  for (const call of calls) await assert.rejects(call(), { code: 'TooManyRequests', retryAfterMs: 6_000 })
  assert.deepEqual([sent.length, clock.nowMs], [calls.length, 0])
  assert.ok(sent.every((request) => !('urgent' in request)))
})

test('jitter lengthens the wait for a retry, so that refused clients do not return all at once', async () => {
  for (const [drawn, waitMs] of [
    [0, 1_000],
    [0.5, 1_050],
    [0.9, 1_090],
  ] as const) {
    const random = { next: () => drawn }
    const { api, clock, sent } = apiWith(() => refuse(429, '', { 'retry-after': '1' }), { random })
    const got = assert.rejects(api.get(namespaces, { name: 'default' }))
    await clock.advance(waitMs - 1)
    assert.equal(sent.length, 1)
    await clock.advance(1)
    assert.equal(sent.length, 2)
    await clock.advance(60_000)
    await got
  }
})

test('an abort ends the wait for a retry at once, with its reason', async () => {
  const { api, clock, sent } = apiWith(() => refuse(429, '', { 'retry-after': '5' }))
  const controller = new AbortController()
  const got = assert.rejects(
    api.get(namespaces, { name: 'default' }, { signal: controller.signal }),
    (reason) => reason === 'enough',
  )
  await clock.advance(500)
  controller.abort('enough')
  await got
  assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
  await clock.advance(10_000)
  assert.equal(sent.length, 1)
})

test('each warning of the server is logged once, by its text', async () => {
  const logger = memoryLogger()
  const headers = { warning: '299 - "old, \\"very\\" old", 299 - "other" "Wed, 21 Oct 2026 07:28:00 GMT", nonsense' }
  const { api } = apiWith(() => ({ status: 200, headers, body: namespace }), { logger })
  await api.get(namespaces, { name: 'default' })
  await api.create(namespaces, namespace)
  assert.deepEqual(
    logger.lines.map(({ level, fields }) => [level, fields.warning]),
    [
      ['warn', 'old, "very" old'],
      ['warn', 'other'],
    ],
  )
})

test('the deprecation of Endpoints is logged at level debug, every other deprecation as a warning', async () => {
  const logger = memoryLogger()
  const deprecated = (what: string) => `299 - "${what}; use discovery.k8s.io/v1 EndpointSlice"`
  const texts = ['v1 Endpoints is deprecated in v1.33+', 'v1 Endpoints is deprecated in v1.33+, unavailable in v1.50+']
  const headers = { warning: [...texts, 'v1 ComponentStatus is deprecated in v1.19+'].map(deprecated).join(', ') }
  const { api } = apiWith(() => ({ status: 200, headers, body: namespace }), { logger })
  await api.get(namespaces, { name: 'default' })
  assert.deepEqual(
    logger.lines.map(({ level }) => level),
    ['debug', 'warn', 'warn'],
  )
})

test('requests are counted by code and method, including those without an answer', async () => {
  const metrics = prometheusMetrics()
  let answers = 0
  const { api, clock } = apiWith(
    () => {
      answers += 1
      if (answers === 1) return refuse(429, '', { 'retry-after': '1' })
      if (answers === 2) return ok(namespace)
      throw new KubeError('Unreachable', 'gone')
    },
    { metrics },
  )
  const got = api.get(namespaces, { name: 'default' })
  await clock.advance(1_000)
  await got
  await assert.rejects(api.delete(namespaces, { name: 'default' }))
  const exposed = await metrics.expose()
  for (const line of [
    'rest_client_requests_total{code="429",method="GET"} 1',
    'rest_client_requests_total{code="200",method="GET"} 1',
    'rest_client_requests_total{code="<error>",method="DELETE"} 1',
    'rest_client_request_retries_total{code="429",verb="GET"} 1',
    'rest_client_request_duration_seconds_count{verb="GET"} 2',
  ]) {
    assert.ok(exposed.includes(line), `${line} in\n${exposed}`)
  }
})

/** A stream that gives `frames` and then ends, throws or waits for its end. */
function streamOf(
  frames: readonly unknown[],
  then: 'ends' | 'breaks' | 'waits' = 'ends',
): { response: ApiResponse; state: { left: boolean } } {
  const state = { left: false }
  const queue = [...frames]
  const stream: AsyncIterableIterator<unknown> = {
    [Symbol.asyncIterator]: () => stream,
    async next() {
      if (queue.length > 0) return { done: false, value: queue.shift() }
      if (then === 'breaks') throw new KubeError('Unreachable', 'https://192.0.2.1: connection reset')
      return then === 'ends' ? { done: true, value: undefined } : new Promise(() => {})
    },
    async return() {
      state.left = true
      return { done: true, value: undefined }
    },
  }
  return { response: { status: 200, headers: {}, stream }, state }
}

const added = { type: 'ADDED', object: namespace }

async function follow(api: KubeApi, signal = new AbortController().signal): Promise<string[]> {
  const seen: string[] = []
  const query = { allowWatchBookmarks: true, sendInitialEvents: true, resourceVersion: '', timeoutSeconds: 300, signal }
  for await (const event of api.watch(namespaces, { ...query, onOpen: () => seen.push('open') })) seen.push(event.type)
  return seen
}

test('a watch sends its query, reports that it is open, and yields its events, including an ERROR', async () => {
  const error = { type: 'ERROR', object: statusOf({ code: 410 }) }
  const { api, sent } = apiWith(() => streamOf([added, error]).response)
  assert.deepEqual(await follow(api), ['open', 'ADDED', 'ERROR'])
  assert.deepEqual(sent, [
    {
      method: 'GET',
      path: '/api/v1/namespaces',
      query: [
        ['watch', 'true'],
        ['allowWatchBookmarks', 'true'],
        ['timeoutSeconds', '300'],
        ['sendInitialEvents', 'true'],
        ['resourceVersionMatch', 'NotOlderThan'],
      ],
      headers: json,
      timeoutMs: 10_000,
      stream: true,
      maxBytes: answerLimits.event,
    },
  ])
})

test('a watch that is refused, breaks or sends invalid frames throws an error that names it', async () => {
  const broken: [ApiResponse, string, RegExp][] = [
    [refuse(410, statusOf({ reason: 'Expired', message: 'too old' })), 'Expired', /^watch namespaces: too old$/],
    [
      streamOf([added], 'breaks').response,
      'Unreachable',
      /^watch namespaces: https:\/\/192\.0\.2\.1: connection reset$/,
    ],
    [
      streamOf([{ type: 'ADDED' }]).response,
      'BadResponse',
      /^watch namespaces: a frame of the watch is an object, not an event$/,
    ],
    [streamOf([{ type: 'GONE', object: {} }]).response, 'BadResponse', /^watch namespaces: /],
    [ok({ kind: 'NamespaceList' }), 'BadResponse', /^watch namespaces: the answer is not a stream$/],
  ]
  for (const [response, code, words] of broken) {
    const { api } = apiWith(() => response)
    await assert.rejects(follow(api), (error) => isKubeError(error, code as never) && words.test(error.message))
  }
})

test('leaving a watch, or receiving a frame that is not an event, closes its stream', async () => {
  const { response, state } = streamOf([added], 'waits')
  for await (const _ of apiWith(() => response).api.watch(namespaces, { signal: new AbortController().signal })) break
  assert.equal(state.left, true)

  const nonsense = streamOf(['nonsense'], 'waits')
  await assert.rejects(follow(apiWith(() => nonsense.response).api))
  assert.equal(nonsense.state.left, true)
})

test('an aborted watch ends without error, whenever the abort comes', async () => {
  const early = new AbortController()
  early.abort('enough')
  const { api, sent } = apiWith(() => ok({}))
  assert.deepEqual(await follow(api, early.signal), [])
  assert.deepEqual(sent, [])

  const opening = new AbortController()
  const slow = apiWith(
    (_, signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  )
  const seen = follow(slow.api, opening.signal)
  opening.abort('enough')
  assert.deepEqual(await seen, [])

  const later = new AbortController()
  const { response } = streamOf([added, added, added])
  const types: string[] = []
  for await (const event of apiWith(() => response).api.watch(namespaces, { signal: later.signal })) {
    types.push(event.type)
    later.abort('enough')
  }
  assert.deepEqual(types, ['ADDED'])

  const waiting = new AbortController()
  const broken = streamOf([], 'breaks')
  const ended = follow(apiWith(() => broken.response).api, waiting.signal)
  waiting.abort('enough')
  assert.deepEqual(await ended, ['open'])
})

test('metadata of a wrong type in any kind of answer is refused, with an error that does not quote its value', async () => {
  const fields =
    'name namespace resourceVersion uid generateName creationTimestamp deletionTimestamp labels annotations'
  const wrong: readonly unknown[] = [5, true, [], [1], { toString: 1 }, { a: 1 }, { a: null }, 'hunter2']
  const texts = new Set(fields.split(' ').slice(0, 7))
  const maps = new Set(['labels', 'annotations'])
  const isRight = (field: string, value: unknown): boolean => {
    if (typeof value === 'string') return texts.has(field)
    return Array.isArray(value) && value.length === 0 && !texts.has(field) && !maps.has(field)
  }
  for (const field of [...fields.split(' '), 'finalizers', 'ownerReferences', 'managedFields']) {
    for (const value of wrong.filter((value) => !isRight(field, value))) {
      const bad = { ...namespace, metadata: { name: 'default', resourceVersion: '7', [field]: value } }
      const list = { kind: 'NamespaceList', metadata: { resourceVersion: '7' }, items: [namespace, bad] }
      const { api } = apiWith(({ stream, path }) =>
        stream === true
          ? streamOf([bad].map((object) => ({ type: 'ADDED', object }))).response
          : ok(path.endsWith('s') ? list : bad),
      )
      const ref = { name: 'default' }
      const calls: Record<string, () => Promise<unknown>> = {
        get: () => api.get(namespaces, ref),
        list: () => api.list(namespaces),
        watch: () => follow(api),
        update: () => api.update(namespaces, namespace),
        patch: () => api.patch(namespaces, ref, { type: 'merge', body: {} }),
      }
      for (const [verb, call] of Object.entries(calls)) {
        await assert.rejects(call(), (error) => {
          assert.ok(isKubeError(error, 'BadResponse'), `${verb}: ${error}`)
          assert.match(error.message, new RegExp(`^${verb} namespaces.*: in .* metadata\\.${field} is not a`))
          assert.doesNotMatch(error.message, /hunter2/)
          return true
        })
      }
    }
  }
  for (const metadata of [null, 5, []]) {
    const { api } = apiWith(() => streamOf([{ type: 'ADDED', object: { ...namespace, metadata } }]).response)
    await assert.rejects(follow(api), /metadata is not an object$/)
  }
})

test('times, lists and maps of metadata may be null, as Go writes empty ones', async () => {
  const empty = { creationTimestamp: null, labels: null, annotations: null, finalizers: null, managedFields: null }
  const { api } = apiWith(() => ok({ ...namespace, metadata: { ...namespace.metadata, ...empty } }))
  assert.equal((await api.get(namespaces, { name: 'default' })).metadata?.name, 'default')
})

test('a continue token that is no string is refused, and a malformed Status in a watch is read without its wrong fields', async () => {
  const list = { kind: 'NamespaceList', metadata: { resourceVersion: '7', continue: { toString: 1 } }, items: [] }
  const { api } = apiWith(() => ok(list))
  await assert.rejects(
    api.list(namespaces),
    /^KubeError: list namespaces: the continue token of the list is not a string$/,
  )

  const shapeless = { kind: 'Status', reason: { toString: 1 }, message: 5, details: { causes: 5 } }
  const watch = apiWith(() => streamOf([{ type: 'ERROR', object: shapeless }]).response)
  for await (const { object } of watch.api.watch(namespaces, { signal: new AbortController().signal })) {
    assert.deepEqual(object, { kind: 'Status', reason: undefined, message: undefined })
  }
})

test('a write that lingers rejects after 10 s, and is cancelled only after 35 s', async () => {
  const calls = {
    create: (api: KubeApi, lingers: boolean) => api.create(services, service, { lingers }),
    update: (api: KubeApi, lingers: boolean) => api.update(services, service, { lingers }),
    delete: (api: KubeApi, lingers: boolean) =>
      api.delete(services, { namespace: 'default', name: 'kubernetes' }, { lingers }),
  }
  for (const call of Object.values(calls)) {
    for (const [lingers, limits] of [
      [true, [35_000, 9_900]],
      [false, [10_000, undefined]],
    ] as const) {
      const late = Promise.withResolvers<ApiResponse>()
      const { api, sent, clock } = apiWith(() => late.promise)
      let failure: unknown
      void call(api, lingers).catch((error: unknown) => {
        failure = error
      })
      await clock.advance(9_999)
      assert.equal(failure, undefined)
      await clock.advance(1)
      assert.equal(isKubeError(failure, 'Timeout'), lingers, 'without lingers the transport has the limit')
      assert.deepEqual(
        sent.map(({ timeoutMs, reconnectMs }) => [timeoutMs, reconnectMs]),
        [limits],
      )
      late.resolve(ok(service))
      await clock.advance(0)
    }
  }
})

test('a write that lingers and is answered in time has its answer, and leaves no timer', async () => {
  const view = new VirtualClock().view()
  const { api } = apiWith(() => ok(service), { clock: view })
  assert.deepEqual(await api.update(services, service, { lingers: true }), service)
  assert.equal(view.timers, 0)
  const failing = apiWith(() => refuse(403, statusOf({ reason: 'Forbidden' })))
  await assert.rejects(failing.api.update(services, service, { lingers: true }), { code: 'Forbidden' })
})
