import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import {
  configMaps,
  endpointSlices,
  endpoints,
  type KubeObject,
  leases,
  type Resource,
  services,
} from '../../src/kube/resources.ts'
import {
  asList,
  asObject,
  asWatchEvent,
  defaultRetryPolicy,
  named,
  planRetry,
  type RetryPolicy,
  refusal,
  warnOnce,
} from '../../src/kube/rest-answer.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'

const call = 'get configmaps default/one'
const text = { 'content-type': 'text/plain; charset=utf-8' }

test('the message of a refusal is that of the Status, else the plain text, else the HTTP status, in one line', () => {
  const messageOf = (body: unknown, headers: Readonly<Record<string, string>> = {}): string =>
    refusal(call, { status: 403, headers, body }).message.slice(`${call}: `.length)
  assert.equal(messageOf({ kind: 'Status', message: 'not\nallowed' }, text), 'not allowed')
  assert.equal(messageOf('not allowed\n', text), 'not allowed')
  for (const [body, headers] of [
    ['<html>', { 'content-type': 'text/html' }],
    ['no type', {}],
    ['', text],
    [{ kind: 'Status', message: '' }, text],
    [{ kind: 'Status', message: 5 }, text],
    [{ kind: 'Other', message: 'not a Status' }, text],
    [null, text],
  ] as const) {
    assert.equal(messageOf(body, headers), 'HTTP status 403', JSON.stringify(body))
  }
})

test('a refusal carries its code, its Status and the wait, from the Retry-After header or else from the Status', () => {
  const status = { kind: 'Status', reason: 'AlreadyExists', message: 'is there', details: { retryAfterSeconds: 3 } }
  const error = refusal(call, { status: 409, headers: {}, body: status })
  assert.deepEqual([error.code, error.httpStatus, error.retryAfterMs], ['AlreadyExists', 409, 3_000])
  assert.deepEqual(error.status, status)
  const waits = (header: string | undefined, retryAfterSeconds: unknown): number | undefined =>
    refusal(call, {
      status: 429,
      headers: header === undefined ? {} : { 'retry-after': header },
      body: { kind: 'Status', details: { retryAfterSeconds } },
    }).retryAfterMs
  assert.equal(waits('5', 3), 5_000)
  assert.equal(waits('0', 3), 0)
  assert.equal(waits('soon', 3), 3_000)
  for (const nonsense of [0, -1, '3', null, undefined]) assert.equal(waits(undefined, nonsense), undefined)
})

test('a Status whose fields have wrong types is read as far as possible', () => {
  const status = (body: object) => refusal(call, { status: 409, headers: {}, body: { kind: 'Status', ...body } }).status
  assert.deepEqual(status({ message: 1, reason: {}, code: 409 }), {
    kind: 'Status',
    code: 409,
    message: undefined,
    reason: undefined,
  })
  for (const details of ['text', { causes: 'text' }, { causes: ['text'] }])
    assert.equal(status({ details })?.details, undefined)
  for (const details of [{}, { causes: null }, { causes: [{ field: 'spec' }] }]) {
    assert.deepEqual(status({ details })?.details, details)
  }
})

test('an error of the transport gets the name of the call and preserves everything else', () => {
  const status = { kind: 'Status', message: 'x' }
  const before = new KubeError('TooManyRequests', 'later', { httpStatus: 429, status, retryAfterMs: 7 })
  const error = named(call, before)
  assert.ok(error instanceof KubeError)
  const other = new Error('no KubeError')
  assert.equal(named(call, other), other)
  assert.deepEqual(
    [error.code, error.message, error.httpStatus, error.status, error.retryAfterMs, error.cause],
    ['TooManyRequests', `${call}: later`, 429, status, 7, before],
  )
})

test('an answer is an object only if its kind is right and its metadata is present and valid', () => {
  const body = { kind: 'ConfigMap', metadata: { name: 'one' }, data: { a: 1 } }
  assert.equal(asObject(call, configMaps, body), body)
  for (const [wrong, words] of [
    [null, 'the answer is null, not an object'],
    ['{', 'the answer is not JSON, not an object'],
    [[body], 'the answer is an array, not an object'],
    [5, 'the answer is a number, not an object'],
    [{ ...body, kind: 'Secret' }, 'the answer is of kind "Secret", not ConfigMap'],
    [{ ...body, kind: 5 }, 'the answer is of kind unknown, not ConfigMap'],
    [{ ...body, kind: 'x'.repeat(100) }, `the answer is of kind "${'x'.repeat(80)}…", not ConfigMap`],
    [{ metadata: {} }, 'the answer is of kind unknown, not ConfigMap'],
    [{ kind: 'ConfigMap' }, 'the answer has no metadata'],
    [{ ...body, metadata: [] }, 'the answer has no metadata'],
    [{ ...body, metadata: { name: 5 } }, 'in the answer metadata.name is not a string'],
  ] as const) {
    assert.throws(() => asObject(call, configMaps, wrong), { code: 'BadResponse', message: `${call}: ${words}` })
  }
})

test('an answer is a list only if it has a resourceVersion and its items are objects', () => {
  const metadata = { resourceVersion: '5' }
  const body = { metadata, items: [{ metadata: { name: 'one' } }, {}] }
  assert.equal(asList(call, configMaps, body), body)
  assert.equal(
    asList(call, configMaps, { ...body, metadata: { ...metadata, continue: 'token' } }).metadata?.continue,
    'token',
  )
  for (const items of [null, undefined])
    assert.deepEqual(asList(call, configMaps, { metadata, items }), { metadata, items: [] })
  for (const [wrong, words] of [
    [undefined, 'the answer is a undefined, not a list'],
    [{ items: [] }, 'the list has no resourceVersion'],
    [{ ...body, metadata: { resourceVersion: 5 } }, 'the list has no resourceVersion'],
    [{ ...body, metadata: { ...metadata, continue: 5 } }, 'the continue token of the list is not a string'],
    [{ metadata, items: {} }, 'the list has no items'],
    [{ metadata, items: [{}, 'one'] }, 'the list has no items'],
    [{ metadata, items: [{}, { metadata: { uid: {} } }] }, 'in an item of the list metadata.uid is not a string'],
  ] as const) {
    assert.throws(() => asList(call, configMaps, wrong), { code: 'BadResponse', message: `${call}: ${words}` })
  }
})

test('a watch frame is an event only if it has a known type and an object; an ERROR is read as a Status', () => {
  for (const type of ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK']) {
    const frame = { type, object: { metadata: { name: 'one' } } }
    assert.equal(asWatchEvent(configMaps, frame), frame)
    assert.throws(() => asWatchEvent(configMaps, { type, object: { metadata: { labels: { a: 1 } } } }), {
      code: 'BadResponse',
      message: 'in a frame of the watch metadata.labels is not a map of strings',
    })
  }
  const error = { kind: 'Status', message: {}, reason: 'Expired', metadata: { name: 5 } }
  assert.deepEqual(asWatchEvent(configMaps, { type: 'ERROR', object: error }), {
    type: 'ERROR',
    object: { ...error, message: undefined },
  })
  for (const [wrong, words] of [
    ['text', 'not JSON'],
    [{ type: 'OTHER', object: {} }, 'an object'],
    [{ type: 'ADDED' }, 'an object'],
    [{ type: 'ERROR', object: 'text' }, 'an object'],
  ] as const) {
    assert.throws(() => asWatchEvent(configMaps, wrong), {
      code: 'BadResponse',
      message: `a frame of the watch is ${words}, not an event`,
    })
  }
})

const fields: readonly (readonly [
  field: string,
  right: readonly unknown[],
  wrong: readonly unknown[],
  type: string,
])[] = [
  ...['name', 'namespace', 'resourceVersion', 'uid', 'generateName'].map(
    (field) => [field, ['', 'a'], [null, 5, {}], 'a string'] as const,
  ),
  ...['creationTimestamp', 'deletionTimestamp'].map((field) => [field, [null, 'a'], [5, {}], 'a time'] as const),
  ...['labels', 'annotations'].map(
    (field) => [field, [null, {}, { a: 'b' }], ['a', ['a'], { a: null }], 'a map of strings'] as const,
  ),
  ['finalizers', [null, [], ['a']], ['a', { 0: 'a' }, ['a', 5]], 'a list of strings'],
  ...['ownerReferences', 'managedFields'].map(
    (field) => [field, [null, [], [{}]], [{}, ['a'], [{}, null]], 'a list of objects'] as const,
  ),
]
test('a metadata field must have its type or be absent; times, lists and maps may be null', () => {
  const read = (metadata: unknown) => asObject(call, configMaps, { kind: 'ConfigMap', metadata })
  for (const [field, right, wrong, type] of fields) {
    for (const value of [undefined, ...right]) read({ [field]: value })
    for (const value of wrong) {
      const message = `${call}: in the answer metadata.${field} is not ${type}`
      assert.throws(() => read({ [field]: value }), { message }, JSON.stringify(value))
    }
  }
  assert.throws(() => asList(call, configMaps, { metadata: { resourceVersion: '1' }, items: [{ metadata: [] }] }), {
    message: `${call}: in an item of the list metadata is not an object`,
  })
})

const listed = { ip: '192.0.2.1' }
const shapes: readonly (readonly [
  resource: Resource<KubeObject>,
  right: readonly object[],
  wrong: readonly (readonly [object: object, words: string])[],
])[] = [
  [
    endpoints,
    [
      ...[{}, { subsets: null }, { subsets: [] }, { subsets: [{}] }],
      { subsets: [{ addresses: null, notReadyAddresses: null, ports: null }] },
      { subsets: [{ addresses: [listed], notReadyAddresses: [{ ...listed, nodeName: null }], ports: [{ port: 1 }] }] },
    ],
    [
      ...[5, 'text', {}, [null], [[]]].map((subsets) => [{ subsets }, 'subsets is not a list of objects'] as const),
      ...['addresses', 'notReadyAddresses'].flatMap((field) => [
        ...[5, {}, [null], [listed, 'text']].map(
          (value) => [{ subsets: [{}, { [field]: value }] }, `subsets.${field} is not a list of objects`] as const,
        ),
        ...[{}, { ip: null }, { ip: 5 }].map(
          (value) => [{ subsets: [{ [field]: [listed, value] }] }, `subsets.${field}.ip is not a string`] as const,
        ),
      ]),
      [{ subsets: [{ ports: [null] }] }, 'subsets.ports is not a list of objects'],
    ],
  ],
  [
    endpointSlices,
    [
      ...[{}, { endpoints: null, ports: null }, { endpoints: [], ports: [] }, { endpoints: [{}], ports: [{}] }],
      { endpoints: [{ addresses: null }, { addresses: ['192.0.2.1'] }], ports: [{ port: 1 }] },
    ],
    [
      ...[5, {}, [null]].map((value) => [{ endpoints: value }, 'endpoints is not a list of objects'] as const),
      ...[5, {}, [null]].map((value) => [{ ports: value }, 'ports is not a list of objects'] as const),
      ...[5, {}, [null], ['192.0.2.1', 5]].map(
        (addresses) => [{ endpoints: [{}, { addresses }] }, 'endpoints.addresses is not a list of strings'] as const,
      ),
    ],
  ],
  [
    services,
    [
      ...[{}, { spec: {} }, { spec: { ports: null, clusterIPs: null, clusterIP: null, ipFamilies: null } }],
      { spec: { ports: [{ port: 443 }], clusterIPs: ['10.0.0.1'], clusterIP: '10.0.0.1', ipFamilies: ['IPv4'] } },
    ],
    [
      ...[null, 5, []].map((spec) => [{ spec }, 'spec is not an object'] as const),
      ...[5, {}, [null]].map((ports) => [{ spec: { ports } }, 'spec.ports is not a list of objects'] as const),
      ...[5, {}, [null]].map(
        (value) => [{ spec: { clusterIPs: value } }, 'spec.clusterIPs is not a list of strings'] as const,
      ),
      ...[5, {}, [null]].map(
        (value) => [{ spec: { ipFamilies: value } }, 'spec.ipFamilies is not a list of strings'] as const,
      ),
      [{ spec: { clusterIP: 5 } }, 'spec.clusterIP is not a string'],
    ],
  ],
  [
    leases,
    [
      ...[{}, { spec: null }, { spec: {} }],
      { spec: { leaseDurationSeconds: null, holderIdentity: null, renewTime: null } },
      { spec: { leaseDurationSeconds: 15, holderIdentity: 'a', renewTime: '2026-01-01T00:00:00.000000Z' } },
    ],
    [
      ...[5, []].map((spec) => [{ spec }, 'spec is not an object'] as const),
      ...['15', {}].map(
        (value) => [{ spec: { leaseDurationSeconds: value } }, 'spec.leaseDurationSeconds is not a number'] as const,
      ),
      [{ spec: { holderIdentity: 5 } }, 'spec.holderIdentity is not a string'],
      [{ spec: { renewTime: {} } }, 'spec.renewTime is not a string'],
    ],
  ],
]
test('an answer, an item of a list and a watched object whose fields have wrong types are a BadResponse that names the field', () => {
  const metadata = { namespace: 'default', name: 'kubernetes' }
  for (const [resource, right, wrong] of shapes) {
    const { kind } = resource
    const list = (item: object) => ({
      metadata: { resourceVersion: '1' },
      items: [{ metadata }, { ...item, metadata }],
    })
    const frame = (type: string, item: object) => ({ type, object: { ...item, kind, metadata } })
    for (const fields of right) {
      asObject(call, resource, { ...fields, kind, metadata })
      asList(call, resource, list(fields))
      for (const type of ['ADDED', 'BOOKMARK']) asWatchEvent(resource, frame(type, fields))
    }
    for (const [fields, words] of wrong) {
      const code = 'BadResponse'
      const body = { ...fields, kind, metadata }
      assert.throws(() => asObject(call, resource, body), { code, message: `${call}: in the answer ${words}` })
      const message = `in "default/kubernetes" ${words}`
      assert.throws(() => asList(call, resource, list(fields)), { code, message: `${call}: ${message}` })
      for (const type of ['ADDED', 'MODIFIED', 'DELETED']) {
        assert.throws(() => asWatchEvent(resource, frame(type, fields)), { code, message })
      }
      // The same fields of another kind are not read.
      asObject(call, configMaps, { ...body, kind: 'ConfigMap' })
    }
  }
})

/** How long a request waits before it is sent again, after `attempts` attempts. */
function waits(
  status: number,
  retryAfter: string | undefined,
  attempts = 1,
  policy: Partial<RetryPolicy> = {},
  chance = 0,
): number | undefined {
  const headers: Record<string, string> = retryAfter === undefined ? {} : { 'retry-after': retryAfter }
  const random = { next: () => chance }
  return planRetry({ status, headers, body: undefined }, attempts, { ...defaultRetryPolicy, ...policy }, random)
}

test('only a 429 or 503 with a Retry-After in seconds is retried', () => {
  assert.equal(waits(429, '1'), 1_000)
  assert.equal(waits(503, ' 1 '), 1_000)
  for (const status of [200, 409, 500, 502, 504]) assert.equal(waits(status, '1'), undefined)
  for (const header of [undefined, '', '-1', '1.5', 'Fri, 31 Dec 1999 23:59:59 GMT', '1234567']) {
    assert.equal(waits(429, header, 1, { maxWaitMs: 1e12 }), undefined, header)
  }
  assert.equal(waits(429, '123456', 1, { maxWaitMs: 1e9 }), 123_456_000)
})

test('the wait is at least minWaitMs and at most maxWaitMs, and jitter lengthens it', () => {
  assert.equal(waits(429, '0'), 100)
  assert.equal(waits(429, '0', 1, { minWaitMs: 500 }), 500)
  assert.equal(waits(429, '1', 1, { minWaitMs: 500 }), 1_000)
  assert.equal(waits(429, '20'), 1_000)
  assert.equal(waits(429, '20', 1, { maxWaitMs: 30_000 }), 20_000)
  assert.equal(waits(429, '20', 1, { jitter: 0.2 }, 0.5), 1_100)
})

test('a request is not retried after the third attempt', () => {
  assert.equal(waits(429, '1', 2), 1_000)
  assert.equal(waits(429, '1', 3), undefined)
})

test('each text of a Warning header is logged once, however often it arrives and with whichever others', () => {
  const logger = memoryLogger()
  const warn = warnOnce(logger)
  warn(undefined)
  warn('299 - "one"')
  warn('299 - "one"')
  warn('299 - "two, \\"quoted\\" and \\\\", 299 agent "one"')
  warn('199 - "another code", 299 - "one", 299 - "three"')
  warn('nonsense')
  warn('299 - "one"')
  assert.deepEqual(
    logger.lines.map(({ level, fields }) => `${level} ${fields.warning}`),
    ['warn one', 'warn two, "quoted" and \\', 'warn three'],
  )
})

test('the deprecation of Endpoints is logged at level debug, any other deprecation as a warning', () => {
  const logger = memoryLogger()
  const warn = warnOnce(logger)
  warn('299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"')
  warn('299 - "v1 ComponentStatus is deprecated in v1.19+"')
  assert.deepEqual(
    logger.lines.map(({ level }) => level),
    ['debug', 'warn'],
  )
})

test('of one answer at most five warning texts are logged', () => {
  const logger = memoryLogger()
  warnOnce(logger)(Array.from({ length: 1_000 }, (_, index) => `299 - "${index}"`).join(', '))
  assert.deepEqual(
    logger.lines.map(({ fields }) => fields.warning),
    ['0', '1', '2', '3', '4'],
  )
})

test('a thousand warning texts are remembered, and then all are forgotten at once', () => {
  const logger = memoryLogger()
  const warn = warnOnce(logger)
  for (let index = 0; index < 1_000; index++) warn(`299 - "${index}"`)
  warn('299 - "0"')
  assert.equal(logger.lines.length, 1_000)
  warn('299 - "1000"')
  warn('299 - "0"')
  assert.equal(logger.lines.length, 1_002)
})
