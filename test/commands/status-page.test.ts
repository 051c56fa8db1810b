import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { request } from 'undici'
import { faultyTransport } from '../../src/apiserver/faults.ts'
import { MastersSource } from '../../src/commands/masters-source.ts'
import { serveStatusPage } from '../../src/commands/status-page/http-status-page.ts'
import { contentSecurityPolicy, statusDocument, statusSections } from '../../src/commands/status-page/status-html.ts'
import { type Status, StatusSource } from '../../src/commands/status-page/status-source.ts'
import { coreEvents, endpointSlices, events, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { KubernetesLeaseInspector } from '../../src/kubernetes-service/masters/inspection.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { Embedded } from '../apiserver/embedded.ts'

const hostile = '<img src=x onerror="alert(1)">&</script>\u202e'
const status: Status = {
  place: hostile,
  observedMs: 1000,
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
  happenings: [{ atMs: 0, kind: 'Warning', text: hostile }],
  faults: [hostile],
}

test('whatever comes from a cluster is text on the page', () => {
  const page = statusDocument(status)
  assert.equal(page.includes('<img'), false)
  assert.equal(page.match(/<script/g)?.length, 1)
  assert.equal(page.match(/<[/]script/g)?.length, 1)
  assert.equal(page.match(/&lt;img src=x onerror=&quot;alert\(1\)&quot;&gt;/g)?.length, 7)
  assert.equal(page.includes('\u202e'), false)
  const empty = statusSections({ ...status, masters: [], happenings: [], place: 'in <b>' })
  assert.match(empty.masters ?? '', /no leases of masters in &lt;b&gt;/)
  assert.match(page, /<time data-ends="13345">13 s<\/time>/)
})

/** A source whose status a test sets. */
class ScriptedSource {
  status: Status = status
  readonly #listeners = new Set<() => void>()

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  change(change: Partial<Status>): void {
    this.status = { ...this.status, ...change }
    for (const listener of this.#listeners) listener()
  }

  get listeners(): number {
    return this.#listeners.size
  }
}

async function served(t: TestContext) {
  const source = new ScriptedSource()
  const page = await serveStatusPage({ host: '127.0.0.1', port: 0 }, Promise.resolve(source))
  t.after(() => page.close())
  return { source, page }
}

test('the page is for browsers on this machine, to read, and takes nothing from elsewhere', async (t) => {
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

test('an open page gets the present state and then each change, and is forgotten when it is closed', async (t) => {
  const { page, source } = await served(t)
  const { body } = await request(`${page.url}events`)
  const reader = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const next = async (): Promise<Record<string, string>> => {
    const { value } = await reader.next()
    return JSON.parse(String(value).replace(/^data: /, ''))
  }
  assert.match((await next()).happenings ?? '', /img/)
  source.change({ faults: ['one'] })
  source.change({ faults: ['two'] })
  assert.equal((await next()).faults, '<p class="broken">two</p>')
  await page.close()
  assert.equal((await reader.next()).done, true)
  assert.equal(source.listeners, 0)
})

test('a page that takes nothing misses states in between, and one page too many is refused', async (t) => {
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
  const before = process.memoryUsage().heapUsed
  const text = 'x'.repeat(1 << 20)
  for (let turn = 0; turn < 20; turn++) {
    source.change({ faults: [`${turn} ${text}`] })
    await new Promise((resolve) => setTimeout(resolve, 60))
  }
  const grown = process.memoryUsage().heapUsed - before
  assert.ok(grown < 200 << 20, `${grown} bytes for 20 MiB to each of 32 that read nothing`)
  sockets[0]?.destroy()
  await once(sockets[0] as (typeof sockets)[0], 'close')
  const last = async (): Promise<number> => {
    const { statusCode, body } = await request(`${page.url}events`)
    body.destroy()
    return statusCode
  }
  for (let turn = 0; turn < 100 && (await last()) !== 200; turn++)
    await new Promise((resolve) => setTimeout(resolve, 20))
  assert.equal(await last(), 200)
})

test('what was damaged, what masters say that they did about it, and what cannot be read', async () => {
  const embedded = await Embedded.started()
  const { clock } = embedded
  const random = seededRandom(1, 'page')
  const transport = faultyTransport(embedded.transport, { clock, random })
  const api = restKubeApi({ transport, clock, random })
  const inspector = new KubernetesLeaseInspector({ api, clock, namespace: 'kube-system' })
  const masters = new MastersSource({
    clock,
    leaseStore: 'kubernetes',
    place: 'here',
    inspector,
    api,
    close: async () => {},
  })
  await embedded.time.advance(5000)
  const source = new StatusSource({ masters, clock, random })
  const end = new AbortController()
  const running = source.run(end.signal)
  await embedded.time.advance(100)
  assert.deepEqual(source.status.happenings, [], 'what was there before is no news')
  const slice = {
    metadata: { name: 'kubernetes', namespace: 'default' },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['192.0.2.1'] }],
    ports: [{ port: 6443 }],
  } as const
  await api.create(endpointSlices, slice as never)
  await api.create(namespaces, { metadata: { name: 'of-a-user' } })
  await embedded.time.advance(10)
  await api.delete(endpointSlices, { namespace: 'default', name: 'kubernetes' })
  const said = {
    metadata: { name: 'one', namespace: 'default' },
    eventTime: '2026-01-01T00:00:05.000000Z',
    type: 'Normal',
    action: 'Create',
    reason: 'KubernetesServiceReset',
    note: 'it was deleted and created again',
    regarding: { kind: 'EndpointSlice', namespace: 'default', name: 'kubernetes' },
    reportingInstance: 'here',
  }
  await api.create(events, { ...said, reportingController: 'apiserver-bootstrap' } as never)
  await api.create(events, {
    ...said,
    metadata: { ...said.metadata, name: 'two' },
    reportingController: 'other/x',
  } as never)
  await embedded.time.advance(10)
  const told = source.status.happenings.map(({ kind, text }) => `${kind} ${text}`)
  assert.deepEqual(told, [
    'deleted EndpointSlice default/kubernetes',
    'created EndpointSlice default/kubernetes: IPv4 192.0.2.1 :6443',
    'Normal KubernetesServiceReset EndpointSlice default/kubernetes: it was deleted and created again',
  ])
  const long = { ...said, metadata: { ...said.metadata, name: 'three' }, reportingController: 'apiserver-bootstrap' }
  const toCore = {
    involvedObject: said.regarding,
    message: 'x'.repeat(100_000),
    reportingComponent: 'apiserver-bootstrap',
  }
  await api.create(coreEvents, {
    ...long,
    regarding: undefined,
    note: undefined,
    ...toCore,
    eventTime: undefined,
  } as never)
  await embedded.time.advance(10)
  const [latest] = source.status.happenings as Status['happenings']
  assert.equal(latest?.text.length, 1024)
  for (let count = 0; count < 300; count++) {
    await api.create(endpointSlices, slice as never)
    await api.delete(endpointSlices, { namespace: 'default', name: 'kubernetes' })
  }
  await embedded.time.advance(10)
  assert.equal(source.status.happenings.length, 200)
  assert.deepEqual(source.status.faults, [])
  transport.faults.add({ fault: { type: 'status', status: 503 } })
  await embedded.time.advance(400_000)
  assert.match(source.status.faults.join('\n'), /^the leases cannot be read: .*\n.+ cannot be read: /)
  transport.faults.clear()
  await embedded.time.advance(120_000)
  assert.deepEqual(source.status.faults, [])
  end.abort()
  await running
})
