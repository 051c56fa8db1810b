import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect as connectTcp } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type PeerCertificate } from 'node:tls'
import { Agent, request } from 'undici'
import type { HealthAccess, HealthCaller } from '../../src/telemetry/health.ts'
import { serveHealth } from '../../src/telemetry/http-health-server.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { CertificateAuthority, type KeyPair } from '../peers/certificates.ts'
import { tempDir } from '../support/temp-dir.ts'
import { eventually } from '../support/with-timeout.ts'

const authority = new CertificateAuthority()
const dayMs = 86_400_000

/** A server whose files can be rewritten. Only callers that `access` admits may see more than everybody. */
async function setUp(t: TestContext, access?: HealthAccess) {
  const directory = await tempDir(t)
  const certFile = join(directory, 'tls.crt')
  const keyFile = join(directory, 'tls.key')
  const clientCaFile = join(directory, 'ca.crt')
  const write = (pair: KeyPair): void => {
    writeFileSync(certFile, pair.certificate)
    writeFileSync(keyFile, pair.key)
  }
  write(authority.issue({ commonName: 'first', ips: ['127.0.0.1'] }))
  writeFileSync(clientCaFile, authority.certificate)
  const logger = memoryLogger()
  const metrics = prometheusMetrics()
  const broken = { name: 'etcd', fault: () => '/secret/path: https://192.0.2.7:2379 does not answer' }
  const server = await serveHealth({
    host: '127.0.0.1',
    port: 0,
    checks: () => [broken],
    metrics,
    logger,
    tls: { certFile, keyFile, clientCaFile },
    access,
  })
  t.after(() => server.close())
  const served = async (): Promise<string> => {
    const socket = connect({ host: '127.0.0.1', port: server.port, ca: authority.certificate })
    await once(socket, 'secureConnect')
    const { subject }: PeerCertificate = socket.getPeerCertificate()
    socket.destroy()
    return String(subject.CN)
  }
  const whenServed = async (name: string): Promise<void> => {
    while ((await served()) !== name) await sleep(200)
  }
  /** When the certificate ends, in milliseconds from now. */
  const ends = async (kind: string): Promise<number> => {
    const [, seconds] = new RegExp(`\\{kind="${kind}"\\} (\\d+)`).exec(await metrics.expose()) ?? []
    return Number(seconds) * 1000 - Date.now()
  }
  return { server, logger, certFile, clientCaFile, write, served, whenServed, ends }
}

test('a changed certificate is served once it is read, and an unusable one is not', async (t) => {
  const { server, logger, certFile, write, served, whenServed, ends } = await setUp(t)
  assert.equal(await served(), 'first')
  for (const kind of ['health-tls-cert-file', 'client-ca-file']) {
    const days = (await ends(kind)) / dayMs
    assert.ok(days > 9.9 && days <= 10, `${kind}: ${days}`)
  }
  write(authority.issue({ commonName: 'second', ips: ['127.0.0.1'], validForMs: 100 * dayMs }))
  await whenServed('second')
  assert.ok((await ends('health-tls-cert-file')) > 99 * dayMs)
  writeFileSync(certFile, 'halfway')
  while (logger.lines.at(-1)?.level !== 'warn') await sleep(200)
  assert.equal(await served(), 'second')
  assert.ok((await ends('health-tls-cert-file')) > 99 * dayMs)
  write(authority.issue({ commonName: 'third', ips: ['127.0.0.1'], validForMs: 60_000 }))
  await whenServed('third')
  assert.ok((await ends('health-tls-cert-file')) < 60_000)
  assert.deepEqual(logger.lines.pop()?.fields.kind, 'health-tls-cert-file')
  assert.deepEqual(
    logger.lines.map(({ level }) => level),
    ['info', 'warn', 'info'],
  )
  writeFileSync(certFile, '')
  while (logger.lines.at(-1)?.level !== 'warn') await sleep(200)
  assert.equal(await served(), 'third')
  // A client that speaks plain HTTP, or sends nothing, does not end the server.
  const plain = connectTcp(server.port, '127.0.0.1')
  plain.on('error', () => {})
  plain.write('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(plain, 'close')
  assert.equal(await served(), 'third')
})

test('a client certificate is accepted only while it is valid and its authority is trusted', async (t) => {
  const { server, clientCaFile } = await setUp(t, {
    authorize: async ({ certificate }) => (certificate === undefined ? 401 : 200),
  })
  const agentOf = ({ certificate: cert, key }: KeyPair): Agent => {
    const agent = new Agent({ connections: 1, connect: { ca: authority.certificate, cert, key } })
    t.after(() => agent.close())
    return agent
  }
  let connections = 0
  const ask = async (dispatcher: Agent): Promise<number> => {
    const { statusCode, body } = await request(`https://${server.address}/metrics`, { dispatcher })
    await body.text()
    return statusCode
  }
  const short = agentOf(authority.issue({ commonName: 'short', validForMs: 6_000 }))
  const long = agentOf(authority.issue({ commonName: 'long', validForMs: dayMs }))
  for (const agent of [short, long]) agent.on('connect', () => connections++)
  assert.deepEqual([await ask(short), await ask(long)], [200, 200])
  const hasEnded = async (): Promise<boolean> => {
    assert.equal(await ask(long), 200)
    return (await ask(short)) === 401
  }
  await eventually('the end of its certificate', hasEnded, { intervalMs: 500 })
  assert.equal(connections, 2)

  const other = new CertificateAuthority()
  const isRefused = async (agent: Agent): Promise<boolean> => (await ask(agent).catch(() => 0)) === 401
  writeFileSync(clientCaFile, other.certificate)
  await eventually('the end of its authority', () => isRefused(long), { intervalMs: 200 })
  // The same holds for the first authority when it comes back.
  const foreign = agentOf(other.issue({ commonName: 'foreign' }))
  assert.equal(await ask(foreign), 200)
  writeFileSync(clientCaFile, authority.certificate)
  await eventually('the end of the other authority', () => isRefused(foreign), { intervalMs: 200 })
})

test('authorized callers see why a check fails; the connection and the header identify the caller', async (t) => {
  const asked: (HealthCaller & { readonly verb: string; readonly path: string })[] = []
  const { server } = await setUp(t, {
    async authorize(caller, what) {
      asked.push({ ...caller, ...what })
      return caller.bearerToken === 'right' ? 200 : caller.certificate === undefined ? 401 : 403
    },
  })
  const client = authority.issue({ commonName: 'alice', organizations: ['a', 'b'] })
  const foreign = new CertificateAuthority().issue({ commonName: 'alice' })
  const ask = async (path: string, pair?: KeyPair, authorization?: string) => {
    const connectWith = { ca: authority.certificate, ...(pair && { cert: pair.certificate, key: pair.key }) }
    const dispatcher = new Agent({ connect: connectWith })
    const headers = authorization === undefined ? {} : { authorization }
    const { statusCode, body } = await request(`https://${server.address}${path}`, { dispatcher, headers })
    const text = await body.text()
    await dispatcher.close()
    return { status: statusCode, text }
  }
  assert.deepEqual(await ask('/readyz'), {
    status: 500,
    text: '[-]etcd failed: reason withheld\nreadyz check failed\n',
  })
  assert.equal(asked.length, 0)
  assert.match((await ask('/readyz/etcd', undefined, 'Bearer right')).text, /192\.0\.2\.7:2379 does not answer/)
  for (const path of ['/readyz/etcd', '/metrics', '/livez/../metrics', '/none']) {
    const { status, text } = await ask(path)
    assert.equal(status, 401, path)
    assert.doesNotMatch(text, /secret|192/)
  }
  assert.equal((await ask('/metrics', client)).status, 403)
  assert.deepEqual(asked.at(-1)?.certificate, { user: 'alice', groups: ['a', 'b'] })
  assert.deepEqual([asked.at(-1)?.verb, asked.at(-1)?.path, asked.at(-1)?.address], ['get', '/metrics', '127.0.0.1'])
  assert.equal((await ask('/metrics', foreign)).status, 401)
  // It is unclear which of two names would count.
  assert.equal((await ask('/metrics', authority.issue({ commonName: 'alice', furtherNames: ['bob'] }))).status, 401)
  for (const authorization of ['Basic right', 'Basic Bearer right', 'Bearer right too']) {
    assert.equal((await ask('/metrics', undefined, authorization)).status, 401, authorization)
  }
})
