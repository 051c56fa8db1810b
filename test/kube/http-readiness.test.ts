import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { httpReadiness, parseReadinessChecks } from '../../src/kube/http-readiness.ts'
import { HttpTransport } from '../../src/kube/http-transport.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import type { Cleanup } from '../support/cleanup.ts'
import { startServer } from './loopback-server.ts'

const never = new AbortController().signal

async function probe(
  t: Cleanup,
  status: number,
  body = '',
  path?: string,
): Promise<{ answer: ReadinessAnswer; asked: string[] }> {
  const server = await startServer(t, (_, response) => {
    response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(body)
  })
  const transport = new HttpTransport({ server: server.url })
  t.after(() => transport.close())
  return { answer: await httpReadiness({ transport, path }).probe(never), asked: server.asked }
}

const verbose =
  '[+]ping ok\n[-]etcd failed: reason withheld\n[+]poststarthook/start-x excluded: ok\nreadyz check failed\n'

test('status 200 means ready, 500 and 503 mean not ready, and the answers list the checks', async (t) => {
  const { answer, asked } = await probe(t, 200, '[+]ping ok\nreadyz check passed\n')
  assert.deepEqual(answer, { answered: true, ready: true, checks: [{ name: 'ping', ok: true }] })
  assert.deepEqual(asked, ['GET /readyz?verbose=true'])
  for (const status of [500, 503]) {
    assert.deepEqual((await probe(t, status, verbose)).answer, {
      answered: true,
      ready: false,
      checks: [
        { name: 'ping', ok: true },
        { name: 'etcd', ok: false },
        { name: 'poststarthook/start-x', ok: true },
      ],
    })
  }
})

test('a refused probe (301, 401, 403, 404 or 429) shows that the server is alive, and names the reason of the refusal', async (t) => {
  for (const [status, words] of [
    [401, /HTTP status 401; neither the credentials/],
    [403, /HTTP status 403; the user is not allowed to get it/],
    [404, /^\/livez cannot be read: HTTP status 404/],
    [429, /HTTP status 429; the server has too many requests$/],
    [301, /HTTP status 301$/],
  ] as const) {
    const { answer } = await probe(t, status, verbose, '/livez')
    assert.ok(answer.answered && answer.refused !== undefined && words.test(answer.refused), JSON.stringify(answer))
    assert.deepEqual([answer.ready, answer.checks], [false, []])
  }
})

test('a series of refused probes is logged once at its begin and end, despite answers in between; a single one is not', async (t) => {
  const statuses = [403, 200, 200, 200, 401, 401, 403, 503, 200, 401, 200, 503, 200, 403, 403]
  const server = await startServer(t, (_, response) => {
    response.writeHead(statuses.shift() ?? 200).end()
  })
  const transport = new HttpTransport({ server: server.url })
  t.after(() => transport.close())
  const logger = memoryLogger()
  const readiness = httpReadiness({ transport, name: 'https://own:6443/readyz', logger })
  while (statuses.length > 0) await readiness.probe(never)
  assert.deepEqual(
    logger.lines.map(({ level, fields }) => [level, fields.reason]),
    [
      [
        'warn',
        'https://own:6443/readyz cannot be read: HTTP status 401; neither the credentials nor anonymous requests are accepted',
      ],
      ['info', undefined],
      [
        'warn',
        'https://own:6443/readyz cannot be read: HTTP status 403; the user is not allowed to get it (see ClusterRole system:public-info-viewer)',
      ],
    ],
  )
})

test('an unreachable or silent server counts as unanswered, and an aborted probe rejects with its reason', async (t) => {
  const away = new HttpTransport({ server: new URL('http://127.0.0.1:1') })
  t.after(() => away.close())
  assert.deepEqual(await httpReadiness({ transport: away }).probe(never), {
    answered: false,
    reason: 'http://127.0.0.1:1: connection refused',
  })

  const server = await startServer(t, () => {})
  const silent = new HttpTransport({ server: server.url })
  t.after(() => silent.close())
  const readiness = httpReadiness({ transport: silent, timeoutMs: 30 })
  const answer = await readiness.probe(never)
  assert.ok(!answer.answered && /no answer within 30 ms$/.test(answer.reason))

  const controller = new AbortController()
  const probing = readiness.probe(controller.signal)
  const reason = new KubeError('Timeout', 'enough')
  controller.abort(reason)
  await assert.rejects(probing, reason)
})

test('whether the server answers at all is read from /livez?exclude=etcd, even while /readyz hangs', async (t) => {
  const statuses = [200, 500, 403, 404]
  const server = await startServer(t, ({ url }, response) => {
    if (url?.startsWith('/own/livez')) response.writeHead(statuses.shift() ?? 200).end()
  })
  const transport = new HttpTransport({ server: server.url })
  t.after(() => transport.close())
  const readiness = httpReadiness({ transport, path: '/own/readyz', timeoutMs: 60_000 })
  while (statuses.length > 0) assert.equal(await readiness.answers?.(never), true)
  assert.equal(server.asked.at(-1), 'GET /own/livez?exclude=etcd')
  const impatient = httpReadiness({ transport, path: '/own/readyz', timeoutMs: 30 })
  assert.equal((await impatient.probe(never)).answered, false)
  // Here /livez hangs too. For another path, such as /health, no corresponding /livez is known.
  assert.equal(await httpReadiness({ transport, timeoutMs: 30 }).answers?.(never), false)
  assert.equal(await httpReadiness({ transport, path: '/health' }).answers?.(never), false)

  const controller = new AbortController()
  const asking = httpReadiness({ transport }).answers?.(controller.signal)
  const reason = new KubeError('Timeout', 'enough')
  controller.abort(reason)
  await assert.rejects(asking ?? assert.fail(), reason)
})

test('lines that are not checks are ignored', () => {
  assert.deepEqual(parseReadinessChecks('ok'), [])
  assert.deepEqual(parseReadinessChecks('[+]\n[?]a ok\n [+]b ok\n[+]c'), [{ name: 'c', ok: true }])
})
