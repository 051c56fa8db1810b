import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { request } from 'undici'
import { faultyTransport } from '../../src/apiserver/faults.ts'
import { MastersSource } from '../../src/commands/masters-source.ts'
import { openStatusPage } from '../../src/commands/status-page/http-status-page.ts'
import { contentSecurityPolicy, statusDocument, statusSections } from '../../src/commands/status-page/status-html.ts'
import { type Status, StatusSource } from '../../src/commands/status-page/status-source.ts'
import { coreEvents, endpointSlices, endpoints, events, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { ApiResponse, Transport } from '../../src/kube/transport.ts'
import { KubernetesLeaseInspector } from '../../src/kubernetes-service/masters/inspection.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { Embedded } from '../apiserver/embedded.ts'
import { eventually } from '../support/with-timeout.ts'

const hostile = '<img src=x onerror="alert(1)">&</script>\u202e'
const status: Status = {
  place: hostile,
  ageMs: 1000,
  masters: [
    {
      address: hostile,
      holder: { host: hostile, state: 'ready', instanceId: 'i', startedAt: '' } as never,
      life: { type: 'ends', leftMs: 12_345 },
      verdict: 'live',
      leased: true,
      listed: false,
      conflicts: [{ code: 'not-listed', message: hostile }],
    },
  ],
  objects: [{ kind: 'EndpointSlice', name: hostile, detail: hostile }],
  activity: [{ atMs: 0, kind: 'Warning', text: hostile }],
  faults: [hostile],
}

test('everything from a cluster is escaped on the page', () => {
  const page = statusDocument(status)
  assert.equal(page.includes('<img'), false)
  assert.equal(page.match(/<script/g)?.length, 1)
  assert.equal(page.match(/<[/]script/g)?.length, 1)
  assert.equal(page.match(/&lt;img src=x onerror=&quot;alert\(1\)&quot;&gt;/g)?.length, 7)
  assert.equal(page.includes('\u202e'), false)
  const empty = statusSections({ ...status, masters: [], activity: [], place: 'in <b>' })
  assert.match(empty.masters ?? '', /no leases of masters in &lt;b&gt;/)
  assert.match(page, /<span data-left="11345">12 s<\/span>/)
  assert.match(statusSections({ ...status, masters: undefined }).masters ?? '', /have not been read yet/)
})

/** A source whose status a test sets. */
class ScriptedSource {
  status: Status = status
  readonly #listeners = new Set<() => void>()

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async run(): Promise<void> {}

  change(change: Partial<Status>): void {
    this.status = { ...this.status, ...change }
    for (const listener of this.#listeners) listener()
  }

  get listeners(): number {
    return this.#listeners.size
  }
}

const anyPort = { host: '127.0.0.1', port: 0 }

async function served(t: TestContext) {
  const source = new ScriptedSource()
  const page = await openStatusPage(anyPort, silentLogger)
  page.start(async () => source)
  t.after(() => page.close())
  return { source, page }
}

test('the page is read-only, serves only local Host headers, and its CSP allows no foreign resources', async (t) => {
  const { page } = await served(t)
  const { statusCode, headers, body } = await request(page.url)
  assert.equal(statusCode, 200)
  assert.equal(headers['content-security-policy'], contentSecurityPolicy)
  assert.match(
    contentSecurityPolicy,
    /^default-src 'none'; style-src 'sha256-.*; script-src 'sha256-.*; connect-src 'self'/,
  )
  assert.match(await body.text(), /^<!doctype html>/)
  const statusOf = async (path: string, method: 'GET' | 'POST' | 'HEAD', host?: string): Promise<number> => {
    const answer = await request(page.url + path, { method, ...(host === undefined ? {} : { headers: { host } }) })
    await answer.body.dump()
    return answer.statusCode
  }
  assert.equal(await statusOf('', 'POST'), 405)
  assert.equal(await statusOf('events', 'HEAD'), 405)
  assert.equal(await statusOf('other', 'GET'), 404)
  for (const host of ['evil.example', 'evil.example:80', '192.0.2.1', '[2001:db8::1]:1', ']']) {
    assert.equal(await statusOf('', 'GET', host), 403, host)
    assert.equal(await statusOf('events', 'GET', host), 403, host)
  }
  for (const host of ['localhost', 'localhost:1', '127.0.0.2:3', '[::1]:4']) {
    assert.equal(await statusOf('', 'GET', host), 200, host)
  }
})

test('an open page gets each change, of several at once the latest; close ends it and its subscription', async (t) => {
  const { page, source } = await served(t)
  const { body } = await request(`${page.url}events`)
  const reader = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const next = async (): Promise<Record<string, string>> => {
    const { value } = await reader.next()
    return JSON.parse(String(value).replace(/^data: /, ''))
  }
  assert.match((await next()).activity ?? '', /img/)
  source.change({ faults: ['one'] })
  source.change({ faults: ['two'] })
  assert.equal((await next()).faults, '<p class="broken">two</p>')
  for (const fault of ['three', 'four']) {
    source.change({ faults: [fault] })
    assert.equal((await next()).faults, `<p class="broken">${fault}</p>`)
  }
  await page.close()
  assert.equal((await reader.next()).done, true)
  assert.equal(source.listeners, 0)
})

test('a page that does not read misses intermediate states, and the 33rd page gets 503', async (t) => {
  const { page, source } = await served(t)
  const { port } = new URL(page.url)
  const sockets = Array.from({ length: 32 }, () => connect(Number(port), '127.0.0.1'))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  for (const socket of sockets) {
    socket.on('error', () => {})
    socket.write('GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n')
    await once(socket, 'readable')
  }
  assert.equal((await request(`${page.url}events`)).statusCode, 503)
  const text = 'x'.repeat(1 << 20)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  for (let turn = 0; turn < 20; turn++) {
    source.change({ faults: [`state ${turn} ${text}`] })
    t.mock.timers.tick(1_000)
    await new Promise(setImmediate)
  }
  t.mock.timers.reset()
  const [reader] = sockets as [Socket]
  const states: string[] = []
  let part = ''
  reader.on('data', (bytes: Buffer) => {
    part += bytes.toString('latin1')
    for (const [, turn = ''] of part.matchAll(/state (\d+) x/g)) states.push(turn)
    part = part.slice(-10).replace(/state \d+ x.*/, '')
  })
  await eventually('the latest state', () => states.includes('19'))
  assert.ok(states.length < 15, `${states}: the buffers of a connection hold fewer of a MiB`)
  reader.destroy()
  await once(reader, 'close')
  const last = async (): Promise<number> => {
    const { statusCode, body } = await request(`${page.url}events`)
    body.destroy()
    return statusCode
  }
  for (let turn = 0; turn < 100 && (await last()) !== 200; turn++)
    await new Promise((resolve) => setTimeout(resolve, 20))
  assert.equal(await last(), 200)
})

test('only changed sections are sent, and a message at least every five seconds', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { page, source } = await served(t)
  const { body } = await request(`${page.url}events`)
  const reader = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const next = async (): Promise<readonly string[]> => {
    const { value } = await reader.next()
    return Object.keys(JSON.parse(String(value).replace(/^data: /, '')))
  }
  const all = ['faults', 'masters', 'objects', 'activity']
  assert.deepEqual(await next(), all)
  source.change({ faults: ['one'] })
  assert.deepEqual(await next(), all, 'the first message after a page was opened is complete')
  source.change({ faults: ['two'] })
  assert.deepEqual(await next(), ['faults'])
  t.mock.timers.tick(5000)
  assert.deepEqual(await next(), [])
})

test('of thousands of objects the page shows the first 200 and the number of the rest', () => {
  const objects = Array.from(
    { length: 5000 },
    (_, index) => ({ kind: 'EndpointSlice', name: `s-${index}`, detail: '' }) as const,
  )
  const rest = (count: number) =>
    /and \d+ more/.exec(statusSections({ ...status, objects: objects.slice(0, count) }).objects ?? '')?.[0]
  assert.deepEqual([rest(200), rest(201)], [undefined, 'and 1 more'])
  const { objects: shown = '' } = statusSections({ ...status, objects })
  assert.equal(shown.match(/<tr>/g)?.length, 202)
  assert.match(shown, /and 4800 more/)
  const conflicts = [{ code: 'shared-address', message: 'x'.repeat(100_000) }] as const
  const listed = objects.map(({ name }) => ({ address: name, leased: false, listed: true, conflicts }))
  const { masters = '' } = statusSections({ ...status, masters: listed })
  assert.equal(masters.match(/<tr>/g)?.length, 202)
  assert.match(masters, /and 4800 more/)
  assert.ok(masters.length < 200 * 1000, `${masters.length} characters`)
})

test('a page that does not read for ten seconds is disconnected', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { page, source } = await served(t)
  const { port } = new URL(page.url)
  const socket = connect(Number(port), '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  socket.write('GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n')
  await once(socket, 'readable')
  const closed = once(socket, 'close')
  const text = 'x'.repeat(8 << 20)
  for (let turn = 0; turn < 3; turn++) {
    source.change({ faults: [`${turn} ${text}`] })
    await new Promise((resolve) => setTimeout(resolve, 60))
  }
  t.mock.timers.tick(5000)
  assert.equal(
    await Promise.race([closed.then(() => 'closed'), new Promise((resolve) => setTimeout(resolve, 50))]),
    undefined,
  )
  t.mock.timers.tick(5000)
  socket.resume()
  await closed
})

test('a client that sends requests without reading the answers is cut off', async (t) => {
  const { page } = await served(t)
  const { port } = new URL(page.url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.on('error', () => {})
  let answers = 0
  socket.on('data', (data) => {
    answers += String(data).match(/HTTP\/1\.1 200/g)?.length ?? 0
  })
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(10_000))
  await closed
  assert.ok(answers < 10, String(answers))
})

test('clients that disconnect before the page is loaded occupy no slot', async (t) => {
  const source = Promise.withResolvers<ScriptedSource>()
  const page = await openStatusPage(anyPort, silentLogger)
  page.start(() => source.promise)
  t.after(() => page.close())
  for (let count = 0; count < 32; count++) {
    const socket = connect(Number(new URL(page.url).port), '127.0.0.1').on('error', () => {})
    socket.end('GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n')
    await once(socket, 'finish')
    socket.destroy()
    await once(socket, 'close')
  }
  // When this later connection is answered, the server has received the requests of the others, and their ends.
  const refused = await request(`${page.url}other`)
  await refused.body.dump()
  source.resolve(new ScriptedSource())
  const { statusCode, body } = await request(`${page.url}events`)
  assert.equal(statusCode, 200)
  body.destroy()
})

test('requests for events from other sites get 403', async (t) => {
  const { page } = await served(t)
  const statusOf = async (site: string): Promise<number> => {
    const { statusCode, body } = await request(`${page.url}events`, { headers: { 'sec-fetch-site': site } })
    body.on('error', () => {}).destroy()
    return statusCode
  }
  assert.equal(await statusOf('cross-site'), 403)
  assert.equal(await statusOf('same-site'), 403)
  assert.equal(await statusOf('same-origin'), 200)
})

test('if the source cannot be loaded the page answers 500; a source that loads after close is not followed', async () => {
  const logged: string[] = []
  const logger = { ...silentLogger, error: (_: unknown, message: string) => void logged.push(message) }
  const page = await openStatusPage(anyPort, logger)
  page.start(() => Promise.reject(new Error('no source')))
  const { statusCode, body } = await request(page.url)
  assert.deepEqual([statusCode, await body.text()], [500, 'internal server error\n'])
  await page.close()
  assert.match(logged[0] ?? '', /^the page at http:.* has ended: no source$/)
  const unloaded = Promise.withResolvers<ScriptedSource>()
  const closed = await openStatusPage(anyPort, logger)
  closed.start(() => unloaded.promise)
  const closing = closed.close()
  const source = new ScriptedSource()
  unloaded.resolve(source)
  await closing
  assert.equal(source.listeners, 0)
})

test('while the state cannot be rendered requests get 500, which is logged; afterwards they get 200', async (t) => {
  const logged: string[] = []
  const logger = { ...silentLogger, error: (_: unknown, message: string) => void logged.push(message) }
  const source = new ScriptedSource()
  const page = await openStatusPage(anyPort, logger)
  page.start(async () => source)
  t.after(() => page.close())
  const statusOf = async (path: string): Promise<number> => {
    const { statusCode, body } = await request(page.url + path)
    body.on('error', () => {}).destroy()
    return statusCode
  }
  const open = await request(`${page.url}events`)
  source.change({ faults: [null as never] })
  // The open page is closed, so that it connects again.
  await assert.rejects(open.body.text())
  assert.deepEqual([await statusOf(''), await statusOf('events')], [500, 500])
  assert.deepEqual(logged, ['a request failed', 'a request failed'])
  source.change({ faults: [] })
  assert.deepEqual([await statusOf(''), await statusOf('events')], [200, 200])
})

/** A source that follows an embedded API server in simulated time, through a transport with faults. */
async function followed(t: TestContext, changed: (response: ApiResponse) => ApiResponse = (response) => response) {
  const embedded = await Embedded.started()
  const { clock } = embedded
  const random = seededRandom(1, 'page')
  const faulty = faultyTransport(embedded.transport, { clock, random })
  const { faults } = faulty
  const transport: Transport = {
    send: async (request, signal) => changed(await faulty.send(request, signal)),
    close: () => faulty.close(),
  }
  const api = restKubeApi({ transport, clock, random })
  const inspector = new KubernetesLeaseInspector({ api, clock, namespace: 'kube-system' })
  const masters = new MastersSource({ clock, leaseStore: 'kubernetes', place: 'here', inspector, api })
  await embedded.time.advance(5000)
  const source = new StatusSource(masters, random)
  const end = new AbortController()
  const running = source.run(end.signal)
  t.after(async () => {
    end.abort()
    await running
  })
  await embedded.time.advance(100)
  return { api, faults, source, clock, advance: (ms: number) => embedded.time.advance(ms) }
}

const slice = {
  metadata: { name: 'kubernetes', namespace: 'default' },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['192.0.2.1'] }],
  ports: [{ port: 6443 }],
} as const
const event = {
  metadata: { name: 'one', namespace: 'default' },
  eventTime: '2026-01-01T00:00:05.000000Z',
  type: 'Normal',
  action: 'Create',
  reason: 'KubernetesServiceReset',
  note: 'it was deleted and created again',
  regarding: { kind: 'EndpointSlice', namespace: 'default', name: 'kubernetes' },
  reportingController: 'apiserver-bootstrap',
  reportingInstance: 'here',
}
/** An Event of the older kind, which may contain almost anything. */
const coreEvent = {
  metadata: { name: 'old', namespace: 'default' },
  reportingComponent: 'apiserver-bootstrap',
  involvedObject: {},
}

function linesOf({ status: { activity } }: StatusSource): readonly string[] {
  return activity.map(({ kind, text }) => `${kind} ${text}`)
}

test('the activity shows deletions, creations and the Events of masters, up to 200 rows', async (t) => {
  const { api, source, advance } = await followed(t)
  assert.deepEqual(linesOf(source), [], 'existing objects are no activity')
  await api.create(endpointSlices, slice as never)
  await api.create(namespaces, { metadata: { name: 'of-a-user' } })
  await advance(10)
  await api.delete(endpointSlices, { namespace: 'default', name: 'kubernetes' })
  await api.create(events, event as never)
  const others = { ...event, metadata: { ...event.metadata, name: 'two' }, reportingController: 'other/x' }
  await api.create(events, others as never)
  await advance(10)
  assert.deepEqual(linesOf(source), [
    'deleted EndpointSlice default/kubernetes',
    'created EndpointSlice default/kubernetes: IPv4 192.0.2.1 :6443',
    'Normal KubernetesServiceReset EndpointSlice default/kubernetes: it was deleted and created again',
  ])
  for (let count = 0; count < 300; count++) {
    await api.create(endpointSlices, slice as never)
    await api.delete(endpointSlices, { namespace: 'default', name: 'kubernetes' })
  }
  await advance(10)
  assert.equal(source.status.activity.length, 200)
  assert.deepEqual(source.status.faults, [])
})

test('the slice of the second address family is shown like the first', async (t) => {
  const { api, source, advance } = await followed(t)
  const labels = { 'kubernetes.io/service-name': 'kubernetes' }
  const second = { ...slice, metadata: { ...slice.metadata, name: 'kubernetes-ipv6', labels } }
  await api.create(endpointSlices, slice as never)
  await api.create(endpointSlices, {
    ...second,
    addressType: 'IPv6',
    endpoints: [{ addresses: ['2001:db8::1'] }],
  } as never)
  await advance(10)
  const shown = source.status.objects.filter(({ kind }) => kind === 'EndpointSlice').map(({ name }) => name)
  assert.deepEqual(shown, ['default/kubernetes', 'default/kubernetes-ipv6'])
})

test('each Event is one row, however often it occurs and whatever it contains', async (t) => {
  const { api, source, clock, advance } = await followed(t)
  const created = await api.create(coreEvents, { ...coreEvent, reason: 'R', message: 'm' } as never)
  await advance(10)
  assert.deepEqual(linesOf(source), ['Normal R  : m'])
  await api.update(coreEvents, { ...created, count: 7 } as never)
  await advance(10)
  assert.deepEqual(linesOf(source), ['Normal R  : m (7 times)'])
  // An Event of events.k8s.io may lack the object that it regards.
  await api.create(events, { ...event, regarding: undefined } as never)
  for (const [name, lastTimestamp] of Object.entries({ late: '9999-12-31T23:59:59Z', early: '0001-01-01T00:00:00Z' })) {
    await api.create(coreEvents, { ...coreEvent, metadata: { name, namespace: 'default' }, lastTimestamp } as never)
  }
  const long = { ...coreEvent, metadata: { name: 'long', namespace: 'default' }, message: 'x'.repeat(100_000) }
  await advance(10)
  await api.create(coreEvents, long as never)
  await advance(10)
  const { activity } = source.status
  assert.equal(activity.length, 5)
  assert.ok(activity.every(({ atMs }) => atMs >= 0 && atMs <= clock.wallMs()))
  assert.equal(activity[0]?.text.length, 1024)
  assert.match(statusDocument(source.status), /KubernetesServiceReset/)
})

test('an unreadable object is shown as such in its row, and the page continues', async (t) => {
  const { api, source, faults, advance } = await followed(t, (response) => {
    const { body } = response as { readonly body?: { readonly kind?: string } }
    return body?.kind === 'ServiceCIDRList'
      ? { ...response, body: { ...body, items: [{ metadata: { name: 'kubernetes' }, spec: { cidrs: 5 } }] } }
      : response
  })
  faults.add({
    fault: { type: 'status', status: 400 },
    stream: true,
    pathPrefix: '/apis/networking.k8s.io/v1/servicecidrs',
  })
  faults.resetStreams()
  await advance(20_000)
  const row = source.status.objects.find(({ kind }) => kind === 'ServiceCIDR')
  assert.deepEqual(row, { kind: 'ServiceCIDR', name: 'kubernetes', detail: 'it cannot be read' })
  await api.create(endpointSlices, slice as never)
  await advance(100)
  assert.equal(source.status.objects.filter(({ kind }) => kind === 'EndpointSlice').length, 1)
})

test('masters are read again as soon as the listed addresses change', async (t) => {
  const { api, source, advance } = await followed(t)
  const subsets = [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ port: 6443 }] }]
  await api.create(endpoints, { metadata: slice.metadata, subsets } as never)
  await advance(150)
  assert.deepEqual(
    source.status.masters?.map(({ address }) => address),
    ['192.0.2.1'],
  )
})

test('the faults show what cannot be read, and how old the shown masters are', async (t) => {
  const { source, faults, advance } = await followed(t)
  faults.add({ fault: { type: 'status', status: 503 } })
  await advance(400_000)
  assert.match(
    source.status.faults.join('\n'),
    /^the masters are shown as they were \d+ s ago\nthe leases cannot be read: .*\n.+ cannot be read: /,
  )
  faults.clear()
  await advance(120_000)
  assert.deepEqual(source.status.faults, [])
  faults.partition()
  let changes = 0
  source.subscribe(() => changes++)
  await advance(8000)
  assert.match(source.status.faults.join('\n'), /^the masters are shown as they were 8 s ago/)
  assert.ok(source.status.ageMs >= 7000 && changes >= 5, `${source.status.ageMs} ms, ${changes} changes`)
  faults.heal()
  await advance(3000)
  assert.ok(source.status.ageMs < 2000)
})

test('a resource that an older server does not serve is not a fault', async (t) => {
  const { source, faults, advance } = await followed(t)
  faults.add({ fault: { type: 'status', status: 404 }, pathPrefix: '/apis/networking.k8s.io/' })
  faults.resetStreams()
  await advance(60_000)
  assert.deepEqual(source.status.faults, [])
})
