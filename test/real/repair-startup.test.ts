import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { loseIpAddresses } from '../peers/allocation-damage.ts'
import { createServices, whenAllocated } from '../peers/allocations.ts'
import { startCluster } from '../peers/cluster.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { askHealth, whenReady } from '../peers/program-health.ts'
import { rangeKey } from '../peers/stored-ranges.ts'
import { storedValues, storeValue } from '../peers/stored-values.ts'
import { untilPasses } from '../peers/until.ts'

const address = '192.0.2.1'
const withinMs = 30_000
const key = rangeKey('servicenodeports')
const unreadable = Buffer.from('no RangeAllocation')
const timeout = '--repair-startup-timeout=5s'

test('where a stored range cannot be read the start fails with its reason, and nothing is overwritten', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'bare' })
  await storeValue(etcd, key, unreadable)
  const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`, timeout] })
  await untilPasses('the end', () => assert.ok(master.process.exit !== undefined), { withinMs })
  assert.deepEqual(master.process.exit, { code: 1, signal: null })
  const [line] = master.logged(/unable to perform initial IP and Port allocation check/)
  assert.match(JSON.stringify(line), /servicenodeports/)
  assert.deepEqual((await storedValues(etcd, key)).get(key), unreadable)
})

test('with --repair-degraded it stays up, unready, and is ready soon after somebody has mended the value', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare' })
  const { etcd, server } = cluster
  await storeValue(etcd, key, unreadable)
  const flags = [`--etcd-servers=${etcd.url}`, timeout, '--repair-degraded']
  const master = await startMaster(owner, server, { address, flags })
  await master.waitForLog(/ServiceRangeUnreadable/, withinMs)
  await sleep(8_000)
  master.assertRunning()
  const { status, text } = await askHealth(master, '/readyz?verbose')
  assert.equal(status, 500)
  assert.match(text, /^\[\+\]cluster-ip-repair ok$/m)
  assert.match(text, /^\[-\]node-port-repair failed/m)
  assert.match(text, /^\[-\]poststarthook\/start-service-ip-repair-controllers failed/m)
  // ClusterIPs are not held up by it.
  await createServices(server.api, 'a', 3)
  assert.deepEqual((await storedValues(etcd, key)).get(key), unreadable)

  await etcd.deletePrefix(key)
  await whenReady(master, withinMs)
  await createServices(server.api, 'b', 3, { type: 'NodePort' })
  await whenAllocated(cluster, withinMs)
  const { text: now } = await askHealth(master, '/readyz?verbose')
  assert.match(now, /^\[\+\]poststarthook\/start-service-ip-repair-controllers ok$/m)
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
})

const rbac = fileURLToPath(new URL('../../config/kustomize/rbac', import.meta.url))

interface Rule {
  readonly resources?: readonly string[]
  readonly verbs: readonly string[]
}

interface ClusterRole {
  readonly metadata: { readonly name: string }
  readonly rules: readonly Rule[] | null
}

test('IPAddresses that may not be read at first, then not be written, are repaired once all of it is granted', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare', authorization: 'RBAC' })
  const { etcd, server } = cluster
  const kubectl = kubectlFor(owner, server.kubeconfig)
  const apply = async (): Promise<void> => {
    const applied = await kubectl('apply', '-k', rbac)
    assert.equal(applied.code, 0, applied.stderr)
  }
  await apply()
  const rolesPath = '/apis/rbac.authorization.k8s.io/v1/clusterroles'
  const { items } = await server.api.get<{ readonly items: readonly ClusterRole[] }>(rolesPath)
  const concerns = ({ resources }: Rule): boolean => resources?.includes('ipaddresses') === true
  const [role, ...others] = items.filter(
    ({ metadata, rules }) => metadata.name.startsWith('apiserver-bootstrap') && rules?.some(concerns),
  )
  assert.ok(role !== undefined && others.length === 0)
  const grant = (verbs: readonly string[]): Promise<unknown> => {
    const rules = (role.rules ?? []).map((rule) => (concerns(rule) ? { ...rule, verbs } : rule))
    return server.api.merge(`${rolesPath}/${role.metadata.name}`, {
      rules: rules.filter((rule) => rule.verbs.length > 0),
    })
  }
  await grant([])

  const kubeconfig = `${server.kubeconfig}-impersonated`
  const content = JSON.parse(readFileSync(server.kubeconfig, 'utf8')) as { users: { user: { as?: string } }[] }
  for (const { user } of content.users) user.as = 'apiserver-bootstrap'
  writeFileSync(kubeconfig, JSON.stringify(content), { mode: 0o600 })
  const master = await startMaster(owner, server, { address, kubeconfig, flags: [`--etcd-servers=${etcd.url}`] })
  const whenUnready = (): Promise<void> =>
    untilPasses(
      'the program to be unready',
      async () => assert.match((await askHealth(master, '/readyz?verbose')).text, /^\[-\]cluster-ip-repair failed/m),
      { withinMs },
    )
  await whenUnready()
  await master.waitForLog(/ipaddresses.*forbidden|forbidden.*ipaddresses/i, withinMs)
  const attempt = { number: 0 }
  await untilPasses(
    'Services, which the server itself gives IPAddresses',
    () => createServices(server.api, `a${attempt.number++}`, 5),
    { withinMs },
  )
  await loseIpAddresses(etcd)

  await grant(['get', 'list', 'watch'])
  await master.waitForLog(/create ipaddresses.*forbidden/i, withinMs)
  await whenUnready()
  master.assertRunning()

  await apply()
  await whenReady(master, withinMs)
  await whenAllocated(cluster, withinMs)
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
})
