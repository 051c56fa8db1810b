import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { Agent, request } from 'undici'
import { startApiServer } from '../../src/apiserver/http-start.ts'
import { type Random, randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { heapBytes } from '../support/heap.ts'

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

const core = '/api/v1/namespaces/default'
const grouped = (group: string): string => `/apis/${group}.k8s.io/v1/namespaces/default`
const container = { name: 'main', image: 'main:1', ports: [{ containerPort: 80 }] }

const text = { type: 'string' }
const parts = {
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
  items: { type: 'object', properties: { name: text } },
}
const spec = { type: 'object', properties: { size: { type: 'integer', default: 3 }, parts, free: { type: 'object' } } }
const definition = {
  metadata: { name: 'widgets.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget', shortNames: ['wd'] },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: 'object', properties: { spec } } },
        additionalPrinterColumns: [{ name: 'Size', type: 'integer', jsonPath: '.spec.size' }],
        selectableFields: [{ jsonPath: '.spec.size' }],
      },
    ],
  },
}

/** A collection of each kind, and an object that it accepts. */
const kinds: readonly (readonly [string, Json])[] = [
  [`${core}/services`, { spec: { selector: { a: 'b' }, ports: [{ name: 'a', port: 80, targetPort: 'web' }] } }],
  [
    `${core}/pods`,
    { spec: { nodeName: 'n', containers: [container] }, status: { phase: 'Running', podIP: '10.0.0.1' } },
  ],
  [`${core}/endpoints`, { subsets: [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ port: 80 }] }] }],
  [`${core}/configmaps`, { data: { a: '1' }, binaryData: { b: 'Yg==' }, immutable: false }],
  [`${core}/secrets`, { data: { a: 'YQ==' }, stringData: { b: 'c' }, type: 'Opaque' }],
  [`${core}/serviceaccounts`, { secrets: [{ name: 'a' }], imagePullSecrets: [{ name: 'b' }] }],
  [`${core}/events`, { involvedObject: { kind: 'Pod', name: 'a', namespace: 'default' }, reason: 'A', message: 'b' }],
  ['/api/v1/namespaces', { spec: { finalizers: ['kubernetes'] } }],
  ['/api/v1/nodes', { spec: { unschedulable: true }, status: { conditions: [{ type: 'Ready', status: 'True' }] } }],
  [
    `${grouped('discovery')}/endpointslices`,
    { addressType: 'IPv4', endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: true } }], ports: [] },
  ],
  [`${grouped('coordination')}/leases`, { spec: { holderIdentity: 'a', renewTime: '2026-01-01T00:00:00.000000Z' } }],
  [
    `${grouped('events')}/events`,
    { regarding: { kind: 'Pod', namespace: 'default' }, eventTime: '2026-01-01T00:00:00.000000Z', type: 'Normal' },
  ],
  ['/apis/networking.k8s.io/v1/servicecidrs', { spec: { cidrs: ['10.9.0.0/24'] } }],
  ['/apis/networking.k8s.io/v1/ipaddresses', { spec: { parentRef: { resource: 'services', name: 'a' } } }],
  ['/apis/example.com/v1/namespaces/default/widgets', { spec: { size: 1, parts: [{ name: 'a' }], free: { a: [1] } } }],
  ['/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition as Json],
  ['/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', { spec: { resourceAttributes: { verb: 'get' } } }],
]
const otherPaths = [
  '/',
  '/api',
  '/apis',
  '/openapi/v3',
  '/version',
  '/readyz?verbose',
  '/api/v1',
  '/nonsense',
  '//',
  '/api/v1/%zz',
  '/apis/a/b/c/d/e/f',
  `${core}/services/a/status/b`,
]
const junk: readonly Json[] = [
  null,
  true,
  -1,
  0,
  1e308,
  2 ** 53,
  0.5,
  '',
  'x',
  '\u2028',
  '\ud800',
  'x'.repeat(5000),
  '2026-01-01T00:00:00Z',
  '10.0.0.0/8',
  '::1',
  [],
  [[[]]],
  [null],
  {},
  { a: { b: [1] } },
  { $patch: 'delete' },
  { '$setElementOrder/ports': [1] },
]
const names = [
  '__proto__',
  'constructor',
  'metadata',
  'spec',
  'status',
  'kind',
  'apiVersion',
  'a',
  '',
  '$patch',
  '$retainKeys',
  'managedFields',
  'ownerReferences',
  'finalizers',
  'generateName',
  'resourceVersion',
  'uid',
]
const contentTypes = [
  'application/json',
  'application/json',
  'application/yaml',
  'application/vnd.kubernetes.protobuf',
  'application/json-patch+json',
  'application/merge-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
  'text/plain',
  'application/cbor',
  'x',
  'application/json; charset=latin1',
]
const accepts = [
  'application/json',
  '*/*',
  'application/json;as=Table;v=v1;g=meta.k8s.io',
  'application/vnd.kubernetes.protobuf',
  'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io',
  ';;,=',
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList',
]
const parameters = [
  'watch',
  'limit',
  'continue',
  'resourceVersion',
  'resourceVersionMatch',
  'fieldSelector',
  'labelSelector',
  'timeoutSeconds',
  'dryRun',
  'fieldManager',
  'force',
  'sendInitialEvents',
  'allowWatchBookmarks',
  'gracePeriodSeconds',
  'propagationPolicy',
  'includeObject',
  'fieldValidation',
  'pretty',
]
const values = [
  '',
  '0',
  '1',
  '-1',
  'true',
  'All',
  'Exact',
  'NotOlderThan',
  '99999999',
  '1e9',
  'a=b',
  'a in (b,c)',
  '!a',
  'metadata.name=a',
  'a==b,c!=',
  '(((',
  'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvYSJ9',
  '%00',
  '\u2028',
  'x'.repeat(300),
  'Foreground',
  'None',
]
const yamls = [
  'a: &a [x]\nb: [*a, *a]\n',
  `${'['.repeat(500)}`,
  '? {a: b}\n: c\n',
  '--- {}\n--- {}\n',
  '!!binary x\n',
  'kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {a: 1}\n',
  '"\\ud800"',
]
const operations = ['add', 'remove', 'replace', 'move', 'copy', 'test', 'x']
const pointers = [
  '',
  '/',
  '/metadata',
  '/spec/ports/-',
  '/spec/ports/99',
  '/data/a',
  '/__proto__/a',
  '/a~2',
  'x',
  '/metadata/name',
  '/status',
]
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD'] as const

/** The 5xx answers that kube-apiserver gives too. */
const expected5xx = new RegExp(
  [
    ...[
      'strconv\\.ParseUint',
      'resourceVersion should not be set on objects to be created',
      'Too large resource version',
    ],
    ...['failed to allocate a serviceIP', 'field not declared in schema', 'failed to create typed patch object'],
    // For strategic merge patches.
    ...['unknown patch type', 'does not contain declared merge key', 'list element types are not identical'],
    ...[
      'The order in patch list',
      'data type is not struct',
      'expected slice or array type',
      'expected a .* but received a',
    ],
    ...['merging lists cannot yet be specified'],
    // For scales.
    ...['the spec replicas field', 'accessor error', 'value cannot be set because'],
  ].join('|'),
)

/** Sends wrong requests, drawn by the seed. No request may break anything, and nothing may accumulate. */
export async function surviveFuzzedRequests(t: TestContext, { seed, count }: { seed: number; count: number }) {
  const logger = memoryLogger()
  const server = await startApiServer({ logger, historyLimit: 100 })
  t.after(() => server.close())
  const agent = new Agent({ connect: { ca: server.certificate }, connections: 8 })
  t.after(() => agent.close())
  const random = seededRandom(seed, 'fuzz')
  const statuses = new Map<number, number>()
  let sent = 0
  let heapBefore = 0

  async function sendOne(): Promise<void> {
    const { path, method, headers, body } = drawRequest(random)
    const answer = await request(`${server.url}${path}`, {
      dispatcher: agent,
      method,
      headers: { authorization: `Bearer ${server.token}`, ...headers },
      body,
    })
    statuses.set(answer.statusCode, (statuses.get(answer.statusCode) ?? 0) + 1)
    const isWatch = /[?&]watch=/.test(path) && answer.statusCode === 200
    if (isWatch) answer.body.on('error', () => {}).destroy()
    else {
      const text = await answer.body.text()
      // The answer to HEAD has no text, but the server also logs unexpected errors.
      const isExpected = answer.statusCode < 500 || method === 'HEAD' || expected5xx.test(text)
      assert.ok(isExpected, `${method} ${path} ${JSON.stringify(headers)} ${String(body).slice(0, 500)}: ${text}`)
    }
  }
  async function client(): Promise<void> {
    while (sent < count) {
      sent++
      if (sent % 5000 === 0) await empty()
      if (sent === Math.round(count / 5)) heapBefore = heapBytes()
      await sendOne()
    }
  }
  /** Deletes the created objects, so that memory that is still in use is a leak. The definition goes last. */
  async function empty(): Promise<void> {
    for (const [path] of kinds.slice(0, -1)) {
      await server.server.handle({ method: 'DELETE', path: path as `/${string}`, query: [], headers: {} }, t.signal)
    }
  }
  await Promise.all(Array.from({ length: 8 }, client))
  await empty()

  assert.deepEqual(
    logger.lines.filter((line) => line.level === 'error'),
    [],
  )
  t.diagnostic(
    [...statuses]
      .sort(([a], [b]) => a - b)
      .map(([status, times]) => `${status}: ${times}`)
      .join(', '),
  )
  for (const status of [200, 201, 400, 404, 405, 406, 409, 413, 415, 422]) {
    assert.ok((statuses.get(status) ?? 0) > 0, `no request was answered with ${status}`)
  }
  const grownMiB = (heapBytes() - heapBefore) / 1024 / 1024
  t.diagnostic(`${grownMiB.toFixed(1)} MiB more than after a fifth of them`)
  return { grownMiB }
}

function drawRequest(random: Random) {
  const [collection, object] = pick(random, kinds)
  const name = pick(random, ['a', 'b', 'A b', 'x'.repeat(260), '..', '%2F', 'a', 'widgets.example.com'])
  const inCollection = pick(random, [
    '',
    '',
    `/${encodeURIComponent(name)}`,
    `/${encodeURIComponent(name)}`,
    '/a/status',
  ])
  const base = chance(random, 20) ? pick(random, otherPaths) : `${collection}${inCollection}`
  const query = Array.from({ length: chance(random, 2) ? 0 : randomInteger(random, 4) }, () => {
    return `${pick(random, parameters)}=${encodeURIComponent(withoutLoneSurrogates(pick(random, values)))}`
  })
  const path = query.length === 0 ? base : `${base}${base.includes('?') ? '&' : '?'}${query.join('&')}`
  const method = pick(random, methods)
  const suits = (type: string): boolean =>
    (method === 'PATCH') === /patch/.test(type) && type.startsWith('application/')
  const contentType = pick(random, chance(random, 6) ? contentTypes : contentTypes.filter(suits))
  const hasBody = method !== 'GET' && method !== 'HEAD'
  return {
    path,
    method,
    headers: { 'content-type': contentType, accept: chance(random, 3) ? pick(random, accepts) : '*/*' },
    body: hasBody
      ? drawBody(random, contentType, { metadata: { name: pick(random, ['a', 'b']) }, ...(object as object) })
      : null,
  }
}

function drawBody(random: Random, contentType: string, object: Json): string | Buffer {
  if (chance(random, 200)) return 'x'.repeat(3 * 1024 * 1024 + 1)
  if (chance(random, 20))
    return Buffer.from(Array.from({ length: randomInteger(random, 300) }, () => randomInteger(random, 256)))
  if (contentType.endsWith('protobuf')) return protobuf(random)
  if (contentType.endsWith('yaml') && chance(random, 3)) return pick(random, yamls)
  const value = contentType.includes('json-patch') ? drawPatch(random) : object
  const mutations = randomInteger(random, 4)
  let mutated: Json = value
  for (let i = 0; i < mutations; i++) mutated = mutate(random, mutated)
  const text = JSON.stringify(mutated)
  return chance(random, 10) ? text.slice(0, randomInteger(random, text.length + 1)) : text
}

function drawPatch(random: Random): Json {
  return Array.from({ length: randomInteger(random, 4) }, () => ({
    op: pick(random, operations),
    path: pick(random, pointers),
    from: pick(random, pointers),
    value: pick(random, junk),
  }))
}

/** Replaces, adds or removes something at a random place. */
function mutate(random: Random, value: Json): Json {
  if (typeof value !== 'object' || value === null || chance(random, 8)) return pick(random, junk)
  if (Array.isArray(value)) {
    const index = randomInteger(random, value.length + 1)
    return index === value.length
      ? [...value, pick(random, junk)]
      : value.with(index, mutate(random, value[index] ?? null))
  }
  const members = Object.entries(value)
  const [name, member] = members[randomInteger(random, members.length + 1)] ?? [pick(random, names), null]
  const rest = members.filter(([other]) => other !== name)
  if (chance(random, 6)) return Object.fromEntries(rest)
  return Object.fromEntries([...rest, [name, member === null ? pick(random, junk) : mutate(random, member)]])
}

/** A message in Kubernetes' envelope: of a kind that is known, with fields of random numbers, types and contents. */
function protobuf(random: Random): Buffer {
  const kind = pick(random, ['ConfigMap', 'Pod', 'Service', 'Secret', 'Event', 'DeleteOptions', 'Nothing'])
  const field = (number: number, bytes: Buffer): Buffer =>
    Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes])
  const type = Buffer.concat([field(1, Buffer.from('v1')), field(2, Buffer.from(kind))])
  const name = field(1, Buffer.from(pick(random, ['a', 'b', ''])))
  const rest = Buffer.from(Array.from({ length: randomInteger(random, 40) }, () => randomInteger(random, 256)))
  const raw = Buffer.concat([field(1, name), ...(chance(random, 2) ? [rest] : [])])
  const whole = Buffer.concat([Buffer.from('k8s\0'), field(1, type), field(2, raw)])
  return chance(random, 4) ? whole.subarray(0, randomInteger(random, whole.length)) : whole
}

function withoutLoneSurrogates(text: string): string {
  return text.toWellFormed()
}

function pick<T>(random: Random, items: readonly T[]): T {
  return items[randomInteger(random, items.length)] as T
}

/** True with a probability of 1 in `of`. */
function chance(random: Random, of: number): boolean {
  return randomInteger(random, of) === 0
}
