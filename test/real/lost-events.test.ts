import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, createServer, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Apiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { paths, whenRight } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'

const address = '192.0.2.1'
const intervalMs = 10_000

/** A path to an API server that loses the events of watches while `loses` is set; bookmarks get through. */
async function startLossyProxy(owner: Owner, server: Apiserver) {
  const agent = new Agent({ ca: server.authority.certificate, keepAlive: true })
  const lossy = { loses: false, lost: 0, kubeconfig: '' }
  const { certificate: cert, key } = server.authority.issue({ commonName: 'lossy', ips: ['127.0.0.1'] })
  const proxy = createServer({ cert, key }, (incoming, outgoing) => {
    const { method, url = '' } = incoming
    const isWatch = /[?&]watch=(true|1)/.test(url)
    // A watch in protobuf has no lines.
    const headers = isWatch ? { ...incoming.headers, accept: 'application/json' } : incoming.headers
    const passed = request(new URL(url, server.url), { method, headers, agent }, (answer) => {
      answer.on('error', () => outgoing.destroy())
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      if (!isWatch) {
        answer.pipe(outgoing)
        return
      }
      outgoing.flushHeaders()
      createInterface({ input: answer })
        .on('line', (line) => {
          if (lossy.loses && !line.includes('"BOOKMARK"')) lossy.lost += 1
          else outgoing.write(`${line}\n`)
        })
        .on('close', () => outgoing.end())
        .on('error', () => outgoing.destroy())
    })
    passed.on('error', () => outgoing.destroy())
    outgoing.on('close', () => passed.destroy())
    incoming.pipe(passed)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  owner.after(async () => {
    proxy.closeAllConnections()
    proxy.close()
    agent.destroy()
  })
  const { port } = proxy.address() as AddressInfo
  const { token, authority } = server
  lossy.kubeconfig = writeKubeconfig(join(temporaryDirectory(owner, 'lossy'), 'kubeconfig'), {
    server: `https://127.0.0.1:${port}`,
    ca: authority.certificate,
    token,
  })
  return lossy
}

test('foreign addresses and a foreign port are corrected within an interval although the watches lost their events', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const { api } = server
  const lossy = await startLossyProxy(owner, server)
  const master = await startMaster(owner, server, { address, kubeconfig: lossy.kubeconfig })
  const right = { addresses: [address], port: server.port }
  await whenRight(api, right, 30_000)
  const foreign = [
    { addresses: [{ ip: '198.51.100.1' }], ports: [{ name: 'https', port: server.port, protocol: 'TCP' }] },
  ]
  const damages = [
    () => api.merge(paths.endpoints, { subsets: foreign }),
    () => api.merge(paths.slice, { endpoints: [{ addresses: ['198.51.100.1'], conditions: { ready: true } }] }),
    () => api.merge(paths.service, { spec: { ports: [{ name: 'x', port: 8443, targetPort: 1 }] } }),
  ]
  const isRight = (): Promise<boolean> =>
    whenRight(api, right, 0).then(
      () => true,
      () => false,
    )
  let events = 0
  for (const damage of damages) {
    // If an interval ends right after the damage, so does the damage. The next try cannot meet this again.
    for (let tries = 1, remains = false; !remains; tries++) {
      assert.ok(tries <= 2, 'the watch reported the damage in both tries')
      const before = lossy.lost
      lossy.loses = true
      events += 1
      await damage()
      await sleep(500)
      lossy.loses = false
      assert.ok(lossy.lost > before, 'an event was lost')
      remains = !(await isRight())
    }
    await whenRight(api, right, intervalMs + 1_000)
  }
  assert.deepEqual(master.logged(/lost the API server|refuses/), [])
  // If the event of a repair is lost too, the log reports it once: for example if the interval ends while events are
  // still lost.
  const missed = master.logged(/watch differs from the stored object/)
  assert.ok(missed.length <= events, JSON.stringify(missed))
})
