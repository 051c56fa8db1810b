import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { EndpointSlice, Endpoints, ServiceCidr } from '../../src/kube/resources.ts'
import { encodeHolder } from '../../src/kubernetes-service/leases/master-leases.ts'
import { HOLDER_ANNOTATION } from '../../src/kubernetes-service/leases/trimmed-lease.ts'
import { holder } from '../kubernetes-service/leases/holders.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { type Program, runFlags, runToEnd, startMaster } from '../peers/program.ts'
import { ReusedClusters } from '../peers/reused-clusters.ts'
import { untilPasses } from '../peers/until.ts'

const clusters = new ReusedClusters({ kind: 'bare', authorization: 'RBAC' })

interface List<T> {
  readonly items: readonly T[]
}

const manifests = (name: string): string => fileURLToPath(new URL(`../../config/kustomize/${name}`, import.meta.url))

/** A server on which a user may do what the manifests of this name grant, and a kubeconfig of that user. */
async function startRestricted(owner: Owner, name: string) {
  const { server } = await clusters.take(owner)
  const kubectl = kubectlFor(owner, server.kubeconfig)
  const applied = await kubectl('apply', '-k', manifests(name))
  assert.equal(applied.code, 0, applied.stderr)
  const kubeconfig = `${server.kubeconfig}-impersonated`
  copyFileSync(server.kubeconfig, kubeconfig)
  impersonate(kubeconfig, { as: 'apiserver-bootstrap' })
  return { server, kubectl, kubeconfig }
}

/** Makes the user of a kubeconfig act as another user from now on. */
function impersonate(
  kubeconfig: string,
  other: { readonly as: string; readonly 'as-groups'?: readonly string[] },
): void {
  const content = JSON.parse(readFileSync(kubeconfig, 'utf8')) as { users: { user: object }[] }
  for (const { user } of content.users) Object.assign(user, other)
  writeFileSync(kubeconfig, JSON.stringify(content), { mode: 0o600 })
}

function assertNothingForbidden(master: Program): void {
  assert.deepEqual(
    master.logged(/forbidden|Forbidden/).map((line) => JSON.stringify(line)),
    [],
  )
}

describe('the rights in config/kustomize', () => {
  after(() => clusters.close())

  test('the roles in config/kustomize/rbac suffice to bootstrap an empty server, repair it, evict and withdraw', async (t) => {
    const owner = openOwner(t)
    const { server, kubectl, kubeconfig } = await startRestricted(owner, 'rbac')
    const right = { addresses: ['192.0.2.1'], port: server.port }
    const master = await startMaster(owner, server, {
      address: '192.0.2.1',
      kubeconfig,
      flags: ['--on-shutdown=always'],
    })
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
    const address = '192.0.2.9'
    await server.api.create('/apis/coordination.k8s.io/v1/namespaces/kube-system/leases', {
      metadata: {
        name: 'leftover',
        labels: { 'apiserver-bootstrap/lease': 'master' },
        annotations: { [HOLDER_ANNOTATION]: encodeHolder(holder(address)) },
      },
      spec: {},
    })
    const eviction = await runToEnd(owner, [
      'masters',
      'evict',
      address,
      '--force',
      '--yes',
      `--kubeconfig=${kubeconfig}`,
    ])
    assert.equal(eviction.code, 0, eviction.output)
    assert.match((await kubectl('get', 'events', '--namespace=kube-system')).stdout, /MasterEvicted/)
    const flags = ['--on-shutdown=always']
    const [, ...rest] = runFlags(server, { address: '192.0.2.1', kubeconfig, flags })
    const withdrawal = await runToEnd(owner, ['withdraw', ...rest.filter((flag) => !flag.startsWith('--health'))])
    assert.equal(withdrawal.code, 0, withdrawal.output)
    assert.deepEqual(await master.stop(), { code: 0, signal: null })
    assertNothingForbidden(master)
  })

  test('the roles in config/kustomize/rbac-endpoints suffice for the controllers of Endpoints and EndpointSlices', async (t) => {
    const owner = openOwner(t)
    const { server, kubeconfig } = await startRestricted(owner, 'rbac-endpoints')
    const flags = ['--controllers=auto,endpoints,endpointslice,endpointslice-mirroring']
    const master = await startMaster(owner, server, { address: '192.0.2.1', kubeconfig, flags })
    await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, 30_000)

    const core = '/api/v1/namespaces/default'
    const named = (name: string) => ({ metadata: { namespace: 'default', name } })
    const spec = { clusterIP: 'None', ports: [{ port: 80 }] }
    await server.api.create(`${core}/services`, { ...named('web'), spec: { ...spec, selector: { app: 'web' } } })
    await server.api.create(`${core}/services`, { ...named('hand'), spec })
    const subsets = [{ addresses: [{ ip: '192.0.2.7' }], ports: [{ port: 80 }] }]
    await server.api.create(`${core}/endpoints`, { ...named('hand'), subsets })
    const found = async (): Promise<readonly string[]> => {
      const { items: all } = await server.api.get<List<Endpoints>>(`${core}/endpoints`)
      const slices = await server.api.get<List<EndpointSlice>>(
        '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices',
      )
      return [
        ...all.map(({ metadata }) => `Endpoints of ${metadata?.name}`),
        ...slices.items.map(({ metadata }) => `slice of ${metadata?.labels?.['kubernetes.io/service-name']}`),
      ].filter((name) => !name.endsWith(' kubernetes'))
    }
    const whenFound = (names: readonly string[]): Promise<void> =>
      untilPasses(names.join(), async () => assert.deepEqual((await found()).toSorted(), names), { withinMs: 30_000 })

    await whenFound(['Endpoints of hand', 'Endpoints of web', 'slice of hand', 'slice of web'])
    await server.api.delete(`${core}/services/hand`)
    await whenFound(['Endpoints of web', 'slice of web'])
    await server.api.delete(`${core}/services/web`)
    await whenFound([])
    assert.deepEqual(await master.stop(), { code: 0, signal: null })
    assertNothingForbidden(master)
  })

  test('the roles in config/kustomize/rbac-service-cidr suffice for the controller of ServiceCIDRs', async (t) => {
    const owner = openOwner(t)
    const { server, kubeconfig } = await startRestricted(owner, 'rbac-service-cidr')
    const flags = ['--controllers=auto,service-cidr']
    const master = await startMaster(owner, server, { address: '192.0.2.1', kubeconfig, flags })
    await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, 30_000)
    const path = '/apis/networking.k8s.io/v1/servicecidrs'
    await server.api.create(path, { metadata: { name: 'more' }, spec: { cidrs: ['192.168.1.0/24'] } })
    for (const name of ['kubernetes', 'more']) {
      await untilPasses(
        `${name} to be protected and Ready`,
        async () => {
          const { metadata, status } = await server.api.get<ServiceCidr>(`${path}/${name}`)
          assert.deepEqual(metadata?.finalizers, ['networking.k8s.io/service-cidr-finalizer'])
          assert.equal(status?.conditions?.[0]?.message, 'Kubernetes Service CIDR is ready')
        },
        { withinMs: 30_000 },
      )
    }
    await server.api.delete(`${path}/more`)
    const gone = async (): Promise<void> => assert.equal(await server.api.find(`${path}/more`), undefined)
    await untilPasses('it to go', gone, { withinMs: 60_000 })
    assert.deepEqual(await master.stop(), { code: 0, signal: null })
    assertNothingForbidden(master)
  })

  test('the roles in config/kustomize/lease-namespace suffice, and no other user can write the Leases of masters', async (t) => {
    const owner = openOwner(t)
    const { server, kubectl, kubeconfig } = await startRestricted(owner, 'lease-namespace')
    const flags = ['--lease-namespace=apiserver-bootstrap', '--on-shutdown=always']
    const master = await startMaster(owner, server, { address: '192.0.2.1', kubeconfig, flags })
    await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, 30_000)
    const listed = await kubectl('get', 'leases', '--namespace=apiserver-bootstrap', '--output=name')
    const [own = ''] = listed.stdout.trim().split('/').slice(1)
    assert.match(own, /^apiserver-bootstrap-192-0-2-1-/)

    // A user that may write all Leases, as nodes and controllers may.
    const allowed = ['--clusterrole=lease-writer', '--user=writer', '--group=apiserver-bootstrap:masters']
    await kubectl('create', 'clusterrole', 'lease-writer', '--verb=*', '--resource=leases.coordination.k8s.io')
    await kubectl('create', 'clusterrolebinding', 'lease-writer', ...allowed)
    const manifest = join(temporaryDirectory(owner, 'lease'), 'lease.json')
    const write = (verb: 'create' | 'replace', lease: object, ...as: string[]) => {
      writeFileSync(manifest, JSON.stringify({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', ...lease }))
      return kubectl(verb, `--filename=${manifest}`, ...as)
    }
    const metadata = { name: 'forged', namespace: 'kube-system', labels: { 'apiserver-bootstrap/lease': 'master' } }
    const asWriter = ['--as=writer', '--as-group=system:authenticated']
    await untilPasses(
      'the policy to be in force',
      async () => {
        const { code, stderr } = await write('create', { metadata, spec: {} }, ...asWriter)
        if (code === 0) await kubectl('delete', 'lease', 'forged', '--namespace=kube-system')
        assert.match(stderr, /only apiserver-bootstrap may write the Leases of masters, not writer/)
      },
      { withinMs: 30_000 },
    )
    assert.equal((await write('create', { metadata: { ...metadata, labels: {} }, spec: {} }, ...asWriter)).code, 0)
    const named = (name: string) => ({ metadata: { name, namespace: 'kube-system' }, spec: {} })
    const forged = named('apiserver-bootstrap-192-0-2-9-0123abcd')
    assert.match((await write('create', forged, ...asWriter)).stderr, /not writer/)
    const election = await write('create', named('apiserver-bootstrap-endpoints'), ...asWriter)
    assert.equal(election.code, 0, `the leader election of config/kustomize/endpoints-controllers: ${election.stderr}`)
    const deleteOwn = ['delete', 'lease', own, '--namespace=apiserver-bootstrap', '--dry-run=server']
    assert.match((await kubectl(...deleteOwn, ...asWriter)).stderr, /not writer/)
    assert.match((await write('replace', { metadata, spec: {} }, ...asWriter)).stderr, /not writer/)
    const taken = { metadata: { name: own, namespace: 'apiserver-bootstrap' }, spec: {} }
    assert.match((await write('replace', taken, ...asWriter)).stderr, /not writer/)
    // In a namespace in which apiserver-bootstrap has the right.
    const lasting = (leaseDurationSeconds: number) => ({
      metadata: { ...metadata, namespace: 'apiserver-bootstrap' },
      spec: { leaseDurationSeconds },
    })
    const asMaster = ['--as=apiserver-bootstrap', '--dry-run=server']
    assert.match((await write('create', lasting(301), ...asMaster)).stderr, /lasts five minutes at most/)
    const longest = await write('create', lasting(300), ...asMaster)
    assert.equal(longest.code, 0, longest.stderr)

    // A user for each master.
    const as = (user: string) => [
      `--as=${user}`,
      '--as-group=system:authenticated',
      '--as-group=apiserver-bootstrap:masters',
    ]
    const stored = JSON.parse(
      (await kubectl('get', 'lease', own, '--namespace=apiserver-bootstrap', '--output=json')).stdout,
    ) as { metadata: { resourceVersion?: string } }
    delete stored.metadata.resourceVersion
    assert.match((await write('replace', stored, ...as('another'))).stderr, /not another/)
    const ended = await kubectl(...deleteOwn, ...as('another'))
    assert.equal(ended.code, 0, `masters delete what has ended of each other: ${ended.stderr}`)
    const replaced = await write('replace', stored, ...as(own))
    assert.equal(replaced.code, 0, replaced.stderr)
    assert.deepEqual(await master.stop(), { code: 0, signal: null })
    assertNothingForbidden(master)

    // The same master with its own user has all the rights that the one user had.
    impersonate(kubeconfig, { as: own, 'as-groups': ['apiserver-bootstrap:masters', 'system:authenticated'] })
    const alone = await startMaster(owner, server, { address: '192.0.2.1', kubeconfig, flags })
    await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, 30_000)
    assert.deepEqual(await alone.stop(), { code: 0, signal: null })
    assertNothingForbidden(alone)
  })
})
