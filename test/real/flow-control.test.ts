import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Agent, request } from 'undici'
import type { Endpoints, Lease } from '../../src/kube/resources.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { listedIn, paths, whenRight } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { throughout, untilPasses } from '../peers/until.ts'
import { installWebhook } from '../peers/webhook.ts'

const manifests = fileURLToPath(new URL('../../config/kustomize/flow-control', import.meta.url))
const configMaps = '/api/v1/namespaces/default/configmaps?dryRun=All'
const ownLeases = `${paths.leases}?labelSelector=apiserver-bootstrap%2Flease`
const slowMs = 2_000
const users = 100
const requestsPerUser = 6

/** A slow webhook for each new ConfigMap: such requests hold their seats for long and cost no processor time. */
const slowConfigMaps = {
  rule: { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] },
  answersAfterMs: slowMs,
  timeoutSeconds: 30,
}

/**
 * Sends many slow requests for each of many users until `stop` is called. `stop` resolves with how many were refused
 * with 429.
 */
function startFlood(owner: Owner, server: Apiserver): { stop(): Promise<number> } {
  const agent = new Agent({ connect: { ca: server.authority.certificate } })
  const ended = new AbortController()
  let refused = 0
  const create = async (user: string): Promise<void> => {
    const headers = { authorization: `Bearer ${server.token}`, 'impersonate-user': user }
    const { statusCode, body } = await request(`${server.url}${configMaps}`, {
      method: 'POST',
      dispatcher: agent,
      signal: ended.signal,
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ metadata: { generateName: 'flood-' } }),
    })
    await body.dump()
    if (statusCode === 429) refused++
  }
  const again = async (user: string): Promise<void> => {
    while (!ended.signal.aborted) {
      await create(user).catch((error: unknown) => {
        if (!ended.signal.aborted) throw error
      })
    }
  }
  const all = Array.from({ length: users * requestsPerUser }, (_, index) => again(`user-${index % users}`))
  const stop = async (): Promise<number> => {
    ended.abort()
    await Promise.all(all)
    await agent.destroy()
    return refused
  }
  owner.after(async () => void (await stop()))
  return { stop }
}

test('with config/kustomize/flow-control a flood of other users delays no renewal; without it masters lose their addresses', async (t) => {
  const owner = openOwner(t)
  // Priority and Fairness divides the sum of the two: 20 seats for everybody.
  const flags = ['--max-requests-inflight=10', '--max-mutating-requests-inflight=10']
  const { server } = await startCluster(owner, { kind: 'bare', flags })
  const kubectl = kubectlFor(owner, server.kubeconfig)
  const directory = temporaryDirectory(owner, 'flow-control')
  const masters = [
    { address: '192.0.2.1', as: 'apiserver-bootstrap' },
    { address: '192.0.2.2', as: 'master-2', 'as-groups': ['apiserver-bootstrap:masters'] },
    // In system:masters, which no flood delays: this master removes the others from the list when their leases end.
    { address: '192.0.2.3' },
  ]
  for (const { address, ...impersonation } of masters) {
    const kubeconfig = writeKubeconfig(join(directory, address), {
      server: server.url,
      ca: server.authority.certificate,
      user: { token: server.token, ...impersonation },
    })
    const flags = ['--lease-ttl=6s', '--reconcile-interval=2s']
    await startMaster(owner, server, { address, kubeconfig, flags })
  }
  const addresses = masters.map(({ address }) => address)
  const whenAllListed = () => whenRight(server.api, { addresses, port: server.port }, 30_000)
  const listed = async () => listedIn(await server.api.find<Endpoints>(paths.endpoints))
  await whenAllListed()
  await installWebhook(owner, server, slowConfigMaps)

  const unprotected = startFlood(owner, server)
  await untilPasses(
    'the masters whose renewals wait among the flood to be taken off',
    async () => assert.deepEqual(await listed(), ['192.0.2.3']),
    { withinMs: 45_000 },
  )
  await unprotected.stop()
  await whenAllListed()

  const applied = await kubectl('apply', '-k', manifests)
  assert.equal(applied.code, 0, applied.stderr)
  await untilPasses(
    'requests to be in the new level',
    async () => {
      const { body } = await server.api.send('GET', '/metrics')
      const line = /^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="apiserver-bootstrap".* (\d+)$/m
      assert.ok(Number(line.exec(String(body))?.[1]) > 10)
    },
    { withinMs: 20_000 },
  )
  const flood = startFlood(owner, server)
  const renewals = new Map<string, number>()
  const late: string[] = []
  let readAtMs = performance.now()
  await throughout(18_000, async () => {
    assert.deepEqual(await listed(), addresses)
    const { items } = await server.api.get<{ readonly items: readonly Lease[] }>(ownLeases)
    // If two reads are too far apart, the test may have missed a renewal between them.
    if (performance.now() - readAtMs > 1_500) renewals.clear()
    readAtMs = performance.now()
    for (const { metadata, spec } of items) {
      const name = metadata?.name ?? ''
      const renewedMs = Date.parse(spec?.renewTime ?? '')
      const afterMs = renewedMs - (renewals.get(name) ?? renewedMs)
      renewals.set(name, renewedMs)
      // The third try of an interval that failed twice.
      if (afterMs > 4_000) late.push(`${name} after ${afterMs} ms`)
    }
  })
  assert.equal(renewals.size, masters.length)
  assert.deepEqual(late, [])
  assert.ok((await flood.stop()) > users, 'the flood must have been one')
})
