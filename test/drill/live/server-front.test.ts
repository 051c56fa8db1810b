import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { request } from 'node:https'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Datastore } from '../../../src/drill/datastore.ts'
import { type Cluster, openCluster } from '../../../src/drill/live/cluster.ts'
import { ServerFront } from '../../../src/drill/live/server-front.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock, systemRandom } from '../../../src/runtime/system-clock.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { startServer } from '../../kube/loopback-server.ts'
import { tempDir } from '../../support/temp-dir.ts'

const data = join(import.meta.dirname, '..', '..', 'kube', 'data')
const certificate = {
  'client-certificate': join(data, 'client-1.crt'),
  'client-key-data': readFileSync(join(data, 'client-1.key')).toString('base64'),
}

async function openFront(t: TestContext, cluster: Cluster, datastore: Datastore): Promise<ServerFront> {
  const front = await ServerFront.open(
    cluster,
    datastore,
    () => {},
    () => {},
  )
  t.after(() => front.close())
  return front
}

test('the proxy of a server without TLS requires its token over TLS, and sends no credentials to the server', async (t) => {
  const received: IncomingHttpHeaders[] = []
  const { url } = await startServer(t, ({ headers }, response) => {
    received.push(headers)
    response.end('{}')
  })
  const cluster = await clusterOf(t, url.href, { token: 'secret' })
  const datastore = new Datastore({ clock: systemClock, random: systemRandom() })
  const front = await openFront(t, cluster, datastore)
  assert.deepEqual([front.clientConnections, front.answering], ['refused', false])
  await front.start()
  assert.deepEqual([front.clientConnections, front.answering], ['served', true])
  const { token = '' } = front.access
  assert.match(token, /^[0-9a-f]{48}$/)
  assert.equal(await statusOf(front, 'secret'), 401)
  assert.equal(await statusOf(front, undefined), 401)
  assert.equal(received.length, 0)
  assert.equal(await statusOf(front, token), 200)
  assert.equal(received[0]?.authorization, undefined)
})

test('the client certificate is presented to the server only if the proxy requires its own token', async (t) => {
  const server = 'https://127.0.0.1:1'
  const asking = await clusterOf(t, server, certificate)
  assert.ok(asking.sentCredentials)
  assert.ok(asking.proxied.tls?.cert)
  const tokenFile = join(data, 'ca.crt')
  const passing = await clusterOf(t, server, { ...certificate, tokenFile })
  assert.equal(passing.sentCredentials, undefined)
  assert.equal(passing.proxied.tls?.cert, undefined)
  assert.equal(passing.proxied.tls?.key, undefined)
})

test('a start of a server that runs does not shorten its recovery after an outage, but a restart does', async (t) => {
  const time = new VirtualClock()
  const datastore = new Datastore({ clock: time.view(), random: seededRandom(1, 'datastore') })
  const cluster = await clusterOf(t, 'http://127.0.0.1:1', {})
  const front = await openFront(t, cluster, datastore)
  await front.start()
  datastore.state = 'away'
  await time.advance(60_000)
  datastore.state = 'up'
  await front.start()
  assert.equal(front.storeless, true)
  await front.kill()
  await front.start()
  assert.equal(front.storeless, false)
})

async function clusterOf(t: TestContext, server: string, user: object): ReturnType<typeof openCluster> {
  const kubeconfig = join(await tempDir(t), 'kubeconfig')
  const content = {
    'current-context': 'test',
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    clusters: [{ name: 'test', cluster: { server } }],
    users: [{ name: 'test', user }],
  }
  writeFileSync(kubeconfig, JSON.stringify(content))
  const cluster = await openCluster(
    { kubeconfig, etcdPrefix: '/registry', etcdFiles: {}, program: [], log: () => {} },
    'kubernetes',
  )
  t.after(() => cluster.close())
  return cluster
}

async function statusOf({ access }: ServerFront, token: string | undefined): Promise<number | undefined> {
  const sent = request({
    host: '127.0.0.1',
    port: access.port,
    path: '/api',
    ca: access.authority,
    agent: false,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  }).end()
  const [response] = await once(sent, 'response')
  response.resume()
  await once(response, 'end')
  return response.statusCode
}
