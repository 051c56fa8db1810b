import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { loseIpAddresses } from '../peers/allocation-damage.ts'
import { createServices, whenAllocated } from '../peers/allocations.ts'
import { startCluster } from '../peers/cluster.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { listedIn, watchState, whenRight } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
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

test('a stored range that cannot be decoded makes the program unready, is not overwritten, and is recreated once deleted', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare' })
  const { etcd, server } = cluster
  await storeValue(etcd, key, unreadable)
  const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`, timeout] })
  await master.waitForLog(/ServiceRangeUnreadable/, withinMs)
  await sleep(8_000)
  master.assertRunning()
  const { status, text } = await askHealth(master, '/readyz?verbose')
  assert.equal(status, 500)
  assert.match(text, /^\[\+\]cluster-ip-repair ok$/m)
  assert.match(text, /^\[-\]node-port-repair failed/m)
  // This does not block ClusterIPs.
  await createServices(server.api, 'a', 3)
  assert.deepEqual((await storedValues(etcd, key)).get(key), unreadable)

  await etcd.deletePrefix(key)
  await whenReady(master, withinMs)
  const attempt = { number: 0 }
  await untilPasses(
    'NodePorts to be given',
    () => createServices(server.api, `b${attempt.number++}`, 3, { type: 'NodePort' }),
    { withinMs },
  )
  await whenAllocated(cluster, withinMs)
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

/** A cluster whose program has the rights in the manifests, but for IPAddresses only those of `grant`. */
async function restricted(owner: Owner) {
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
  const start = (of: string, ...flags: readonly string[]) =>
    startMaster(owner, server, {
      address: of,
      host: of,
      kubeconfig,
      flags: [`--etcd-servers=${etcd.url}`, ...flags],
    })
  return { cluster, grant, apply, start }
}

test('a repair that is refused for long is degraded; the master stays listed, and is ready once the right is granted', async (t) => {
  const owner = openOwner(t)
  const { cluster, apply, start } = await restricted(owner)
  const { server } = cluster
  const shortLease = ['--lease-ttl=3s', '--reconcile-interval=2s']
  const master = await start(address, timeout, ...shortLease)
  const right = { addresses: [address], port: server.port }
  const watched = await watchState(owner, server.api)
  await watched.whenRight(right, withinMs)
  const since = watched.history.length
  const degraded = await master.waitForLog(/the duty is degraded/, withinMs)
  assert.match(JSON.stringify(degraded), /cluster-ip-repair.*ipaddresses.*forbidden/i)
  // Several TTLs, and several times the timeout.
  await sleep(20_000)
  master.assertRunning()
  await whenRight(server.api, right, 0)
  assert.deepEqual(
    watched.history.slice(since).filter(({ state }) => !listedIn(state.endpoints).includes(address)),
    [],
  )
  assert.equal(master.logged(/the duty is degraded/).length, 1)
  const { status, text } = await askHealth(master, '/readyz?verbose')
  assert.equal(status, 500)
  assert.match(text, /^\[-\]cluster-ip-repair failed/m)
  for (const check of ['node-port-repair', 'default-service-cidr', 'system-namespaces', 'kubernetes-service'])
    assert.match(text, new RegExp(`^\\[\\+\\]${check} ok$`, 'm'))
  assert.equal((await askHealth(master, '/livez')).status, 200)
  assert.match(
    (await askHealth(master, '/metrics')).text,
    /^apiserver_bootstrap_duty_degraded\{duty="cluster-ip-repair"\} 1$/m,
  )
  await untilPasses(
    'the event about it',
    async () => {
      const { items } = await server.api.get<{ readonly items: readonly { readonly reason?: string }[] }>(
        '/apis/events.k8s.io/v1/events',
      )
      assert.equal(items.filter(({ reason }) => reason === 'DutyDegraded').length, 1)
    },
    { withinMs },
  )

  await apply()
  await whenReady(master, withinMs)
  await master.waitForLog(/no longer degraded/, withinMs)
  assert.match(
    (await askHealth(master, '/metrics')).text,
    /^apiserver_bootstrap_duty_degraded\{duty="cluster-ip-repair"\} 0$/m,
  )
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
})

test('IPAddresses are repaired once the rights to read and to write them are granted', async (t) => {
  const owner = openOwner(t)
  const { cluster, grant, apply, start } = await restricted(owner)
  const { etcd, server } = cluster
  const master = await start(address)
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
