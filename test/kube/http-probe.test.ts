import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createPlainServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { type ServerAnswer, serverProbe } from '../../src/kube/http-probe.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { CertificateAuthority, type CertificateRequest } from '../peers/certificates.ts'
import { endlessly } from '../support/endlessly.ts'
import { listenOnLoopback } from '../support/loopback-server.ts'
import { startServer } from './loopback-server.ts'

const never = new AbortController().signal
const authority = new CertificateAuthority()
const host = '127.0.0.1'
const right = { commonName: 'kube-apiserver', ips: ['192.0.2.1'], dnsNames: ['kubernetes.default.svc'] }

interface ProbeSettings {
  readonly certificate?: CertificateRequest
  readonly issuer?: CertificateAuthority
  readonly names?: readonly string[]
  readonly ca?: string | undefined
}

async function probed(t: TestContext, listener: RequestListener, settings: ProbeSettings = {}): Promise<ServerAnswer> {
  const { certificate: request = right, issuer = authority, names = ['192.0.2.1'] } = settings
  const { certificate: cert, key } = issuer.issue(request)
  const { url } = await startServer(t, listener, { tls: { cert, key } })
  const ca = 'ca' in settings ? settings.ca : authority.certificate
  return serverProbe({ ca, clock: systemClock, timeoutMs: 30_000 })({ host, port: Number(url.port), names }, never)
}

function answered(answer: ServerAnswer): Extract<ServerAnswer, { type: 'answer' }> {
  assert.ok(answer.type === 'answer', JSON.stringify(answer))
  return answer
}

const ok = (_request: IncomingMessage, response: ServerResponse): void => void response.end('[+]ping ok\n')

test('an anonymous probe of a ready server with the right certificate reports no fault and no clock offset', async (t) => {
  const requests: string[] = []
  const { status, failing, certificate, clock } = answered(
    await probed(t, ({ method, url, headers }, response) => {
      requests.push(`${method} ${url} ${headers.authorization ?? 'anonymous'}`)
      response.end('[+]ping ok\n')
    }),
  )
  assert.deepEqual(requests, ['GET /readyz?verbose anonymous'])
  assert.deepEqual([status, failing], [200, []])
  assert.deepEqual(certificate, { fault: undefined, names: ['kubernetes.default.svc', '192.0.2.1'] })
  assert.ok(clock !== undefined && Math.abs(clock.offsetMs) <= clock.toleranceMs + 50, JSON.stringify(clock))
})

test('a certificate with any one of the expected names has no fault', async (t) => {
  for (const names of [['192.0.2.1'], ['10.96.0.1', 'kubernetes.default.svc']]) {
    assert.equal(answered(await probed(t, ok, { names })).certificate.fault, undefined)
  }
})

test('a certificate for another name, of an unknown authority or expired is a fault; without a CA any authority is accepted', async (t) => {
  const other = new CertificateAuthority('other authority')
  for (const [settings, fault] of [
    [{ names: ['192.0.2.2', 'kubernetes.default'] }, 'is for another name'],
    [{ issuer: other }, 'is signed by an unknown authority'],
    [{ certificate: { ...right, validForMs: -60_000 } }, 'has expired'],
    [{ names: ['192.0.2.2'], ca: undefined }, 'is for another name'],
    [{ certificate: { ...right, validForMs: -60_000 }, ca: undefined }, 'has expired'],
    [{ issuer: other, ca: undefined }, undefined],
  ] as const) {
    assert.equal(answered(await probed(t, ok, settings)).certificate.fault, fault, JSON.stringify(settings))
  }
})

test('a probe lists the failing checks, accepts a refusal as an answer, and does not follow a redirect', async (t) => {
  const unready = answered(
    await probed(t, (_, response) => response.writeHead(500).end('[+]ping ok\n[-]etcd failed: reason withheld\n')),
  )
  assert.deepEqual([unready.status, unready.failing], [500, ['etcd']])
  for (const status of [401, 302]) {
    const answer = await probed(t, (_, response) =>
      response.writeHead(status, { location: 'https://192.0.2.9/' }).end(),
    )
    assert.equal(answered(answer).status, status)
  }
})

test('the probe measures by the Date header how far the clock of a server is ahead or behind', async (t) => {
  for (const offsetMs of [90_000, -90_000]) {
    const dateNow = (): string => new Date(Date.now() + offsetMs).toUTCString()
    const { clock } = answered(await probed(t, (_, response) => response.writeHead(200, { date: dateNow() }).end()))
    assert.ok(
      clock !== undefined && Math.abs(clock.offsetMs - offsetMs) <= clock.toleranceMs + 50,
      JSON.stringify(clock),
    )
  }
  const bad = await probed(t, (_, response) => response.writeHead(200, { date: 'yesterday' }).end())
  assert.equal(answered(bad).clock, undefined)
})

test('an endless answer does not hold up a probe, which reports its status', async (t) => {
  const answer = await probed(t, (_, response) => {
    response.writeHead(200)
    endlessly(response, Buffer.alloc(64 * 1024, ' '))
  })
  assert.equal(answered(answer).status, 200)
})

test('a server that hangs, hangs up, sends endless headers or no TLS gives a one-line reason within the time limit', async (t) => {
  const { certificate: cert, key } = authority.issue(right)
  const servers = [
    [createTlsServer({ cert, key }, () => {}), /no answer within 1000 ms$/],
    [createPlainServer(() => {}), /no answer within 1000 ms$/],
    [createPlainServer((socket) => socket.destroy()), /: [^:]+$/],
    [createServer(ok), /the server does not speak TLS on this port$/],
    [createPlainServer((socket) => socket.end('SSH-2.0-x\r\n')), /the server does not speak TLS on this port$/],
    [createTlsServer({ cert, key }, (socket) => endlessly(socket, 'HTTP/1.1 200 OK\r\na: b\r\n')), /: [^:]+$/],
    [createTlsServer({ cert, key }, (socket) => endlessly(socket, 'HTTP/1.1 100 Continue\r\n\r\n')), /: [^:]+$/],
  ] as const
  for (const [server, words] of servers) {
    const { port } = await listenOnLoopback(t, server)
    const timeoutMs = words.source.startsWith('no answer') ? 1_000 : 5_000
    const probe = serverProbe({ ca: authority.certificate, clock: systemClock, timeoutMs })
    const answer = await probe({ host, port, names: [host] }, never)
    assert.ok(answer.type === 'none', JSON.stringify(answer))
    assert.match(answer.reason, words)
    assert.match(answer.reason, new RegExp(`^127\\.0\\.0\\.1:${port}: [^\\n]{5,150}$`))
  }
})

test('a port without a listener gives a one-line reason, and an aborted probe rejects', async (t) => {
  const server = createPlainServer()
  const { port } = await listenOnLoopback(t, server)
  const probe = serverProbe({ clock: systemClock })
  await assert.rejects(probe({ host, port, names: [] }, AbortSignal.timeout(50)), { name: 'TimeoutError' })
  const aborted = probe({ host, port, names: [] }, AbortSignal.abort())
  await assert.rejects(aborted, { name: 'AbortError' })
  server.close()
  assert.deepEqual(await probe({ host, port: 1, names: [] }, never), {
    type: 'none',
    reason: '127.0.0.1:1: connection refused',
  })
})
