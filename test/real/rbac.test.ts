import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startCluster } from '../peers/cluster.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { runFlags, runToEnd, startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'

const rbac = fileURLToPath(new URL('../../config/kustomize/rbac', import.meta.url))

test('the roles in config/kustomize/rbac are enough to bootstrap an empty server, to mend it and to withdraw', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare', authorization: 'RBAC' })
  const kubectl = kubectlFor(owner, server.kubeconfig)
  const applied = await kubectl('apply', '-k', rbac)
  assert.equal(applied.code, 0, applied.stderr)

  const kubeconfig = `${server.kubeconfig}-impersonated`
  const content = JSON.parse(readFileSync(server.kubeconfig, 'utf8')) as { users: { user: { as?: string } }[] }
  for (const { user } of content.users) user.as = 'apiserver-bootstrap'
  writeFileSync(kubeconfig, JSON.stringify(content), { mode: 0o600 })

  const right = { addresses: ['192.0.2.1'], port: server.port }
  const master = await startMaster(owner, server, { address: '192.0.2.1', kubeconfig, flags: ['--on-shutdown=always'] })
  await whenRight(server.api, right, 30_000)
  await untilPasses(
    'the event about it',
    async () => assert.match((await kubectl('get', 'events', '--namespace=default')).stdout, /MasterListed/),
    { withinMs: 30_000 },
  )
  for (const resource of ['service', 'endpoints', 'endpointslice']) {
    const deleted = await kubectl('delete', '--namespace=default', resource, 'kubernetes')
    assert.equal(deleted.code, 0, deleted.stderr)
    await whenRight(server.api, right, 30_000)
  }
  const flags = ['--on-shutdown=always']
  const [, ...rest] = runFlags(server, { address: '192.0.2.1', kubeconfig, flags })
  const withdrawal = await runToEnd(owner, ['withdraw', ...rest.filter((flag) => !flag.startsWith('--health'))])
  assert.equal(withdrawal.code, 0, withdrawal.output)
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
  assert.deepEqual(
    master.logged(/forbidden|Forbidden/).map((line) => JSON.stringify(line)),
    [],
  )
})
