import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Agent, request } from 'undici'
import { type HealthCheck, type HealthEndpoint, ping } from '../../src/telemetry/health.ts'
import { type BoundedServer, ListenError } from '../../src/telemetry/http-bounded-server.ts'
import { serveHealth } from '../../src/telemetry/http-health-server.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

/** A server whose readyz has one more check, `poststarthook/x`, which fails with `state.fault`. */
async function setUp(t: TestContext) {
  const state: { fault: string | undefined } = { fault: undefined }
  const hook: HealthCheck = { name: 'poststarthook/x', fault: () => state.fault }
  const checks = (endpoint: HealthEndpoint): HealthCheck[] => (endpoint === 'readyz' ? [ping, hook] : [ping])
  const logger = memoryLogger()
  const server = await serveHealth({ host: '127.0.0.1', port: 0, checks, metrics: prometheusMetrics(), logger })
  const dispatcher = new Agent()
  t.after(async () => {
    await dispatcher.close()
    await server.close()
  })
  const ask = async (path: string, method: 'GET' | 'HEAD' | 'POST' = 'GET') => {
    const answer = await request(`http://${server.address}${path}`, { method, dispatcher })
    return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
  }
  return { server, state, logger, ask }
}

/** The answer to a raw request line, until the end of the connection. */
async function rawAnswer(server: BoundedServer, requestLine: string): Promise<string> {
  const socket = connect(server.port, '127.0.0.1').setEncoding('utf8')
  socket.end(`${requestLine}\r\nHost: x\r\nConnection: close\r\n\r\n`)
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk
  })
  await once(socket, 'close')
  return answer
}

test('the three endpoints answer ok as plain text', async (t) => {
  const { ask } = await setUp(t)
  for (const path of ['/livez', '/readyz', '/healthz']) {
    const { status, headers, text } = await ask(path)
    assert.deepEqual([status, text], [200, 'ok'])
    assert.equal(headers['content-type'], 'text/plain; charset=utf-8')
    assert.equal(headers['x-content-type-options'], 'nosniff')
  }
})

test('a failing check makes its own endpoint answer 500 and leaves the others alone', async (t) => {
  const { ask, state } = await setUp(t)
  state.fault = 'not finished'
  assert.deepEqual(await Promise.all(['/livez', '/readyz'].map(async (path) => (await ask(path)).status)), [200, 500])
  assert.equal(
    (await ask('/readyz')).text,
    '[+]ping ok\n[-]poststarthook/x failed: reason withheld\nreadyz check failed\n',
  )
})

test('verbose and exclude are accepted with and without values', async (t) => {
  const { ask, state } = await setUp(t)
  state.fault = 'not finished'
  for (const query of ['verbose&exclude=poststarthook/x', 'exclude=poststarthook%2Fx&verbose=false']) {
    const { status, text } = await ask(`/readyz?${query}`)
    assert.equal(status, 200)
    assert.equal(text, '[+]ping ok\n[+]poststarthook/x excluded: ok\nreadyz check passed\n')
  }
})

test('each check has a path of its own, which withholds the reason of a failure', async (t) => {
  const { ask, state } = await setUp(t)
  for (const name of ['poststarthook/x', 'poststarthook%2Fx']) assert.equal((await ask(`/readyz/${name}`)).text, 'ok')
  state.fault = 'not finished'
  const { status, text } = await ask('/readyz/poststarthook/x')
  assert.deepEqual([status, text], [500, 'internal server error: reason withheld\n'])
  assert.equal((await ask('/livez/ping')).text, 'ok')
})

test('unknown paths are answered with 404', async (t) => {
  const { ask } = await setUp(t)
  for (const path of [
    '/',
    '/readyz/',
    '/readyz/none',
    '/livez/poststarthook/x',
    '/readyzz',
    '/%zz',
    '/readyz/%zz',
    '/metrics/',
  ]) {
    assert.equal((await ask(path)).status, 404, path)
  }
})

test('HEAD is answered like GET without a body; other methods get 405', async (t) => {
  const { ask } = await setUp(t)
  const head = await ask('/readyz', 'HEAD')
  assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', '2'])
  const post = await ask('/readyz', 'POST')
  assert.deepEqual([post.status, post.headers.allow], [405, 'GET, HEAD'])
})

test('a request target that is not a path gets 400', async (t) => {
  const { server } = await setUp(t)
  assert.match(await rawAnswer(server, 'GET //[ HTTP/1.1'), /^HTTP\/1\.1 400 /)
})

test('/metrics exposes the metrics, including the health checks', async (t) => {
  const { ask } = await setUp(t)
  await ask('/readyz')
  const { headers, text } = await ask('/metrics')
  assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  assert.match(text, /^kubernetes_healthcheck\{name="poststarthook\/x",type="readyz"\} 1$/m)
})

test('a change of the failing checks is logged once, not at each probe', async (t) => {
  const { ask, state, logger } = await setUp(t)
  await ask('/readyz')
  for (const fault of ['not finished', 'not finished', undefined, undefined]) {
    state.fault = fault
    await ask('/readyz')
  }
  assert.deepEqual(
    logger.lines.map(({ level, message }) => `${level}: ${message}`),
    ['warn: health checks fail', 'info: health checks pass again'],
  )
  assert.deepEqual(logger.lines[0]?.fields, {
    endpoint: 'readyz',
    faults: [{ name: 'poststarthook/x', fault: 'not finished' }],
  })
})

test('excluding a check neither hides a failure from the log nor adds log lines', async (t) => {
  const { ask, state, logger } = await setUp(t)
  state.fault = 'not finished'
  for (let round = 0; round < 3; round++) {
    await ask('/readyz')
    await ask('/readyz?exclude=poststarthook/x')
    await ask('/readyz?exclude=ping')
  }
  state.fault = undefined
  await ask('/readyz?exclude=poststarthook/x')
  assert.deepEqual(
    logger.lines.map(({ message }) => message),
    ['health checks fail'],
  )
  await ask('/readyz')
  assert.equal(logger.lines.at(-1)?.message, 'health checks pass again')
})

test('requests for /metrics share renderings: at most one per second is made', async (t) => {
  let renderings = 0
  const metrics = { ...prometheusMetrics(), expose: async () => `rendering ${++renderings}\n` }
  const server = await serveHealth({ host: '127.0.0.1', port: 0, checks: () => [], metrics, logger: memoryLogger() })
  t.after(() => server.close())
  const fromMs = performance.now()
  await Promise.all(Array.from({ length: 15 }, () => rawAnswer(server, 'GET /metrics HTTP/1.1')))
  for (let i = 0; i < 15; i++) assert.match(await rawAnswer(server, 'GET /metrics HTTP/1.1'), /rendering \d+\n$/)
  const mostRenderings = 1 + Math.floor((performance.now() - fromMs) / 1000)
  assert.ok(renderings <= mostRenderings, `${renderings} renderings in place of ${mostRenderings}`)
})

test('a client that sends its next request before the answer is cut off', async (t) => {
  const { server } = await setUp(t)
  for (const further of ['GET /livez', 'POST /livez', 'HEAD /none']) {
    const answer = await rawAnswer(
      server,
      `GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n${further} HTTP/1.1\r\nExpect: 100-continue`,
    )
    assert.equal(answer, '')
  }
})

test('headers of more than 16 KiB get 431', async (t) => {
  const { server } = await setUp(t)
  const withHeader = (bytes: number) => rawAnswer(server, `GET /livez HTTP/1.1\r\nPadding: ${'x'.repeat(bytes)}`)
  assert.match(await withHeader(15_000), /^HTTP\/1\.1 200 /)
  assert.match(await withHeader(17_000), /^HTTP\/1\.1 431 /)
})

test('consecutive requests share a connection', async (t) => {
  const { server } = await setUp(t)
  const socket = connect(server.port, '127.0.0.1').setEncoding('utf8')
  t.after(() => socket.destroy())
  for (let count = 0; count < 100; count++) {
    socket.write('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n')
    const [answer] = await once(socket, 'data')
    assert.match(answer, /^HTTP\/1\.1 200 /)
  }
})

test('clients that send nothing, half a request or an endless body, or read no answer, are cut off', async (t) => {
  const metrics = { ...prometheusMetrics(), expose: async () => 'x'.repeat(32_000_000) }
  const server = await serveHealth({ host: '127.0.0.1', port: 0, checks: () => [], metrics, logger: memoryLogger() })
  t.after(() => server.close())
  const dawdle = async (text: string, andSo: (write: (more: string) => void) => void = () => {}): Promise<void> => {
    const socket = connect(server.port, '127.0.0.1').on('error', () => {})
    const takesNothing = text.includes('/metrics')
    if (takesNothing) socket.pause()
    else socket.resume()
    socket.write(text)
    const timer = setInterval(() => andSo((more) => socket.write(more)), 200)
    // A client that reads nothing notices the end by its writes.
    if (takesNothing) setTimeout(() => socket.resume(), 14_000)
    await once(socket, 'close')
    clearInterval(timer)
    if (takesNothing) assert.ok(socket.bytesRead < 32_000_000, 'everything was sent')
  }
  await Promise.all([
    dawdle(''),
    dawdle('GET /livez HTTP/1.1\r\nHo', (write) => write('o')),
    dawdle('GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n', (write) => write('1\r\nx\r\n')),
    dawdle('POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n', (write) => write('x')),
    dawdle('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'),
  ])
  assert.match(await rawAnswer(server, 'GET /livez HTTP/1.1'), /^HTTP\/1\.1 200 /)
})

test('a failing exposition is answered with 500 and logged, and the server continues', async (t) => {
  const metrics = prometheusMetrics()
  metrics.onCollect(() => {
    throw new Error('broken collector')
  })
  const logger = memoryLogger()
  const server = await serveHealth({ host: '127.0.0.1', port: 0, checks: () => [], metrics, logger })
  t.after(() => server.close())
  assert.match(await rawAnswer(server, 'GET /metrics HTTP/1.1'), /^HTTP\/1\.1 500 .*internal server error\n$/s)
  assert.match(await rawAnswer(server, 'GET /livez HTTP/1.1'), /^HTTP\/1\.1 200 /)
  assert.equal(logger.lines.length, 1)
})

test('a port in use and an address that this host lacks each give one clear error', async (t) => {
  const { server } = await setUp(t)
  const options = { checks: () => [], metrics: prometheusMetrics(), logger: memoryLogger() }
  await assert.rejects(serveHealth({ ...options, host: '127.0.0.1', port: server.port }), (error: Error) => {
    assert.ok(error instanceof ListenError)
    assert.equal((error.cause as NodeJS.ErrnoException).code, 'EADDRINUSE')
    assert.equal(error.message, `cannot listen on 127.0.0.1:${server.port}: the port is in use`)
    return true
  })
  await assert.rejects(serveHealth({ ...options, host: '2001:db8::1', port: 80 }), (error: Error) => {
    assert.ok(error instanceof ListenError)
    assert.match(error.message, /^cannot listen on \[2001:db8::1\]:80: [^\n]+$/)
    return true
  })
})

test('close ends idle keep-alive connections and frees the port', async () => {
  const options = { checks: () => [], metrics: prometheusMetrics(), logger: memoryLogger() }
  const server = await serveHealth({ ...options, host: '127.0.0.1', port: 0 })
  const idle = connect(server.port, '127.0.0.1')
  idle.write('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(idle, 'data')
  await Promise.all([once(idle, 'close'), server.close()])
  const again = await serveHealth({ ...options, host: '127.0.0.1', port: server.port })
  await again.close()
})
