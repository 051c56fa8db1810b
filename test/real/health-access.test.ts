import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Agent, request } from 'undici'
import type { Apiserver } from '../peers/apiserver.ts'
import { CertificateAuthority, type KeyPair } from '../peers/certificates.ts'
import { startCluster } from '../peers/cluster.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'

const manifests = fileURLToPath(new URL('../../config/kustomize', import.meta.url))

interface Proof {
  readonly token?: string
  readonly certificate?: KeyPair
}

/** How many reviews the server has been asked for. */
async function reviewsOf(server: Apiserver): Promise<number> {
  const { body } = await server.api.send('GET', '/metrics')
  const lines = String(body).matchAll(
    /^apiserver_request_total\{.*resource="(?:tokenreviews|subjectaccessreviews)".*\} (\d+)$/gm,
  )
  return [...lines].reduce((sum, [, count]) => sum + Number(count), 0)
}

test('with authentication /metrics requires a permission in the API server, and /livez is open to everybody', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare', authorization: 'RBAC' })
  const directory = temporaryDirectory(owner, 'health-access')
  const overlay = join(directory, 'overlay')
  mkdirSync(overlay)
  const part = (name: string): string => relative(overlay, join(manifests, name))
  const overlayText = { resources: [part('rbac')], components: [part('components/rbac-reviews')] }
  writeFileSync(join(overlay, 'kustomization.yaml'), JSON.stringify(overlayText))
  const kubectl = kubectlFor(owner, server.kubeconfig)
  const must = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await kubectl(...args)
    assert.equal(code, 0, stderr)
    return stdout.trim()
  }
  await must('apply', '-k', overlay)
  await must('create', 'serviceaccount', 'scraper', '--namespace=default')
  const role = '--clusterrole=apiserver-bootstrap-metrics-reader'
  await must('create', 'clusterrolebinding', 'scrapers', role, '--serviceaccount=default:scraper', '--user=scraper')
  const token = await must('create', 'token', 'scraper', '--namespace=default')

  const kubeconfig = join(directory, 'kubeconfig')
  const content = JSON.parse(readFileSync(server.kubeconfig, 'utf8')) as { users: { user: { as?: string } }[] }
  for (const { user } of content.users) user.as = 'apiserver-bootstrap'
  writeFileSync(kubeconfig, JSON.stringify(content), { mode: 0o600 })
  const serving = new CertificateAuthority()
  const clients = new CertificateAuthority()
  const own = serving.issue({ commonName: 'apiserver-bootstrap', ips: ['127.0.0.1'] })
  const files = { 'tls.crt': own.certificate, 'tls.key': own.key, 'clients.crt': clients.certificate }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text, { mode: 0o600 })
  const master = await startMaster(owner, server, {
    address: '192.0.2.1',
    kubeconfig,
    flags: [
      `--health-tls-cert-file=${join(directory, 'tls.crt')}`,
      `--health-tls-private-key-file=${join(directory, 'tls.key')}`,
      `--client-ca-file=${join(directory, 'clients.crt')}`,
      '--authentication-token-webhook',
    ],
  })
  await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, 30_000)
  const { health } = await master.waitForLog(/"health":"/, 30_000)

  const agents = new Map<KeyPair | undefined, Agent>()
  owner.after(() => Promise.all([...agents.values()].map((agent) => agent.close())).then(() => {}))
  const ask = async (path: string, { token, certificate }: Proof = {}): Promise<{ status: number; text: string }> => {
    const pair = certificate && { cert: certificate.certificate, key: certificate.key }
    const agent = agents.get(certificate) ?? new Agent({ connect: { ca: serving.certificate, ...pair } })
    agents.set(certificate, agent)
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const { statusCode, body } = await request(`https://${health}${path}`, { dispatcher: agent, headers })
    return { status: statusCode, text: await body.text() }
  }
  const status = async (path: string, proof?: Proof): Promise<number> => (await ask(path, proof)).status
  const scraper = clients.issue({ commonName: 'scraper' })

  assert.equal(await status('/livez'), 200)
  await untilPasses('every client to get a ready answer', async () => assert.equal(await status('/readyz'), 200), {
    withinMs: 60_000,
  })
  assert.equal(await status('/metrics'), 401)
  assert.equal(await status('/none'), 401)
  assert.equal(await status('/metrics', { token: 'made-up' }), 401)
  assert.equal(await status('/metrics', { token: server.unprivilegedToken }), 403)
  const { text } = await ask('/metrics', { token })
  for (const kind of ['health-tls-cert-file', 'client-ca-file'])
    assert.match(text, new RegExp(`^apiserver_bootstrap_credentials_expiration\\w+\\{kind="${kind}"\\} \\d+$`, 'm'))
  assert.equal(await status('/metrics', { certificate: scraper }), 200)
  assert.equal(await status('/metrics', { certificate: clients.issue({ commonName: 'stranger' }) }), 403)
  assert.equal(await status('/metrics', { certificate: serving.issue({ commonName: 'scraper' }) }), 401)
  assert.equal(await status('/readyz/ping', { token: server.unprivilegedToken }), 403)
  assert.equal(await status('/readyz/ping', { token }), 200)

  const before = await reviewsOf(server)
  assert.ok(before > 5, `${before} reviews so far`)
  for (let count = 0; count < 500; count++) assert.equal(await status('/metrics', { token }), 200)
  const reviews = (await reviewsOf(server)) - before
  assert.equal(reviews, 0, `${reviews} reviews for 500 scrapes by somebody who is known`)

  await server.kill()
  assert.equal(await status('/livez'), 200)
  assert.equal(await status('/metrics', { token }), 200)
  assert.equal(await status('/metrics', { token: 'another' }), 401)
  assert.equal(await status('/metrics', { certificate: clients.issue({ commonName: 'other' }) }), 500)
  assert.equal(await status('/livez/ping', { token }), 500)
  assert.equal(await status('/livez'), 200)
  assert.equal(master.logged(/cannot authorize metrics requests with the API server/).length, 1)
  await server.start()
  assert.equal(await status('/livez/ping', { token }), 200)
  assert.equal(await status('/metrics', { token: 'another' }), 401)
  assert.equal(master.logged(/the API server authorizes metrics requests again/).length, 1)
  assert.doesNotMatch(JSON.stringify(master.log), new RegExp(token.slice(-20)))
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
})
