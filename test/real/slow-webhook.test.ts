import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EndpointSlice } from '../../src/kube/resources.ts'
import { startCluster } from '../peers/cluster.ts'
import { listedIn, listedInSlices, paths, whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'
import { installWebhook } from '../peers/webhook.ts'

const [first, second] = ['192.0.2.1', '192.0.2.2'] as const
const boundMs = 60_000

async function startMasters(t: Parameters<typeof openOwner>[0]) {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const masters = await Promise.all([first, second].map((address) => startMaster(owner, server, { address })))
  await whenRight(server.api, { addresses: [first, second], port: server.port }, boundMs)
  return { owner, server, masters }
}

function ruleFor(apiGroup: string, resource: string) {
  return { apiGroups: [apiGroup], apiVersions: ['v1'], resources: [resource], operations: ['CREATE', 'UPDATE'] }
}

for (const [apiGroup, resource] of [
  ['', 'endpoints'],
  ['discovery.k8s.io', 'endpointslices'],
] as const) {
  test(`a dead master leaves the list while a webhook for ${resource} hangs until it is ignored`, async (t) => {
    const { owner, server, masters } = await startMasters(t)
    await installWebhook(owner, server, {
      rule: ruleFor(apiGroup, resource),
      answersAfterMs: 'never',
      failurePolicy: 'Ignore',
    })
    await masters[1]?.kill()
    await whenRight(server.api, { addresses: [first], port: server.port }, boundMs)
  })
}

test('a dead master leaves the slice while a webhook hangs and therefore refuses each write of the Endpoints', async (t) => {
  const { owner, server, masters } = await startMasters(t)
  await installWebhook(owner, server, { rule: ruleFor('', 'endpoints'), answersAfterMs: 'never' })
  await masters[1]?.kill()
  await untilPasses(
    'the slice lists the living master alone',
    async () => {
      const slice = (await server.api.find(paths.slice)) as EndpointSlice
      assert.deepEqual(listedInSlices([slice]), [first])
    },
    { withinMs: boundMs },
  )
  assert.deepEqual(listedIn(await server.api.find(paths.endpoints)), [first, second])
})
