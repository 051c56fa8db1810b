import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeObject, Namespace, ServiceCidr } from '../../src/kube/resources.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { paths, whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'

// The usual server of a sidecar: a stock server whose hooks are on, and whose endpoint reconciler alone is off.
const stock = { kind: 'stock', flags: ['--endpoint-reconciler-type=none'] } as const

test('on a stock server auto leaves namespaces and ServiceCIDR to the server, logs this once, and lists the master', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, stock)
  const master = await startMaster(owner, server, {
    address: '192.0.2.1',
    flags: ['--lease-ttl=3s', '--reconcile-interval=2s'],
  })
  await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, 30_000)
  await sleep(8000)
  master.assertRunning()
  for (const duty of ['system-namespaces', 'default-service-cidr']) {
    const lines = master.logged(new RegExp(duty)).map((line) => JSON.stringify(line))
    assert.equal(lines.length, 1, `${duty}:\n${lines.join('\n')}`)
  }
  assert.deepEqual(await writtenByTheProgram(server), [])
})

test('on a stock server the program performs a duty that is named in --controllers', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, stock)
  await startMaster(owner, server, {
    address: '192.0.2.1',
    flags: ['--controllers=auto,system-namespaces'],
  })
  await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, 30_000)
  await deleteNamespace(server, 'kube-node-lease')
  await untilPasses(
    'the program to make the namespace again',
    async () => assert.deepEqual(await writtenByTheProgram(server), ['kube-node-lease']),
    { withinMs: 30_000 },
  )
})

test('a running sidecar takes over the duties of a stock server that restarts without its hooks, and returns them later', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, stock)
  const master = await startMaster(owner, server, { address: '192.0.2.1' })
  const right = { addresses: ['192.0.2.1'], port: server.port }
  await whenRight(server.api, right, 30_000)
  await master.waitForLog(/default-service-cidr.*leaving it to|leaving it to.*default-service-cidr/, 30_000)
  await server.kill()
  await server.start({ kind: 'bare' })
  // As a person may do, between the two servers.
  const serviceCidr = '/apis/networking.k8s.io/v1/servicecidrs/kubernetes'
  await server.api.merge(serviceCidr, { metadata: { finalizers: [] } })
  await server.api.delete(serviceCidr)
  await sleep(30_000)
  assert.deepEqual(await writtenByTheProgram(server), [])
  await untilPasses(
    'the ServiceCIDR to come back',
    async () => {
      const { status } = await server.api.get<ServiceCidr>(serviceCidr)
      assert.equal(status?.conditions?.find(({ type }) => type === 'Ready')?.status, 'True')
    },
    { withinMs: 60_000 },
  )
  assert.deepEqual(await writtenByTheProgram(server), ['kubernetes'])
  assert.equal(
    master.logged(/default-service-cidr.*has not done this|has not done this.*default-service-cidr/).length,
    1,
  )
  await deleteNamespace(server, 'kube-node-lease')
  await untilPasses(
    'the program to make the namespace again',
    async () => assert.deepEqual(await writtenByTheProgram(server), ['kube-node-lease', 'kubernetes']),
    { withinMs: 30_000 },
  )
  // And back: the program leaves the duties to the server again, which does them itself.
  await server.kill()
  await server.start({ kind: 'stock' })
  await untilPasses(
    'the duties to be left to the server',
    () => assert.equal(master.logged(/leaving it to/).length, 4),
    {
      withinMs: 30_000,
    },
  )
  await whenRight(server.api, right, 30_000)
  master.assertRunning()
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
})

/** Deletes a namespace and finalizes it, as kube-controller-manager would if there were one. */
async function deleteNamespace({ api }: Apiserver, name: string): Promise<void> {
  const path = `${paths.namespaces}/${name}`
  await api.delete(path)
  await api.update(`${path}/finalize`, { ...(await api.get<Namespace>(path)), spec: { finalizers: [] } })
}

/** The namespaces and ServiceCIDRs that bear the program's field manager. */
async function writtenByTheProgram(server: Apiserver): Promise<readonly (string | undefined)[]> {
  const lists = await Promise.all(
    [paths.namespaces, '/apis/networking.k8s.io/v1/servicecidrs'].map((path) =>
      server.api.get<{ readonly items: readonly KubeObject[] }>(path),
    ),
  )
  return lists
    .flatMap(({ items }) => items)
    .filter(({ metadata }) => JSON.stringify(metadata?.managedFields ?? []).includes('apiserver-bootstrap'))
    .map(({ metadata }) => metadata?.name)
}
