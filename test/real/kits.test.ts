import assert from 'node:assert/strict'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import type { EndpointSlice, Endpoints, Lease } from '../../src/kube/resources.ts'
import { startCluster } from '../peers/cluster.ts'
import { argumentsOf, configurationOf, kitPath, programOf, renderKit } from '../peers/kits.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { paths } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { Program, runToEnd } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'

const folders = globSync('**/kustomization.yaml', { cwd: kitPath('kustomize') })
  .map((file) => dirname(file))
  .sort()
const isComponent = (folder: string): boolean => folder.startsWith('components/')

/** A folder with the rights of ../rbac and a component on top. */
function withComponent(owner: Owner, component: string): string {
  const directory = temporaryDirectory(owner, 'component')
  const part = (name: string): string => relative(directory, kitPath(`kustomize/${name}`))
  const kustomization = { resources: [part('rbac-endpoints')], components: [part(component)] }
  writeFileSync(join(directory, 'kustomization.yaml'), JSON.stringify(kustomization))
  return directory
}

test('the real server accepts every folder of config/kustomize by server-side dry run', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'stock', authorization: 'RBAC' })
  const kubectl = kubectlFor(owner, server.kubeconfig)
  // A dry run does not create the namespace of lease-namespace.
  await kubectl('create', 'namespace', 'apiserver-bootstrap')
  assert.ok(folders.length > 12, folders.join())
  for (const folder of folders) {
    const path = isComponent(folder) ? withComponent(owner, folder) : kitPath(`kustomize/${folder}`)
    const { code, stdout, stderr } = await kubectl('apply', '--server-side', '--dry-run=server', '-k', path)
    assert.equal(code, 0, `${folder}: ${stderr}`)
    assert.match(stdout, /serverside-applied \(server dry run\)/)
    assert.doesNotMatch(stderr, /[Ww]arning/, `${folder}: ${stderr}`)
  }

  const account = withComponent(owner, 'components/service-account')
  assert.equal((await kubectl('apply', '-k', account)).code, 0)
  const as = '--as=system:serviceaccount:kube-system:apiserver-bootstrap'
  for (const right of ['update endpoints/kubernetes --namespace=default', 'create events.events.k8s.io', 'list pods']) {
    assert.equal((await kubectl('auth', 'can-i', ...right.split(' '), as)).stdout.trim(), 'yes', right)
  }
})

test('two Pods of endpoints-controllers have all the rights that they need, and one continues when the leader dies', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'stock', authorization: 'RBAC' })
  const kubectl = kubectlFor(owner, server.kubeconfig)
  const applied = await kubectl('apply', '-k', kitPath('kustomize/endpoints-controllers/rbac'))
  assert.equal(applied.code, 0, applied.stderr)
  const name = 'apiserver-bootstrap-endpoints'
  const { certificate, key } = server.authority.issue({ commonName: name })
  const kubeconfig = writeKubeconfig(join(temporaryDirectory(owner, 'user'), 'kubeconfig'), {
    server: server.url,
    ca: server.authority.certificate,
    user: {
      'client-certificate-data': Buffer.from(certificate).toString('base64'),
      'client-key-data': Buffer.from(key).toString('base64'),
    },
  })
  const { command } = programOf(await renderKit('kustomize/endpoints-controllers'))
  const start = (host: string): Promise<Program> => {
    const changes = { kubeconfig, healthBindAddress: '127.0.0.1:0' }
    const config = configurationOf(owner, 'kustomize/endpoints-controllers/controllers.yaml', changes)
    return Program.start(
      owner,
      argumentsOf(command, { '/etc/apiserver-bootstrap/config/controllers.yaml': config }),
      host,
    )
  }
  const programs = new Map([
    ['host-1', await start('host-1')],
    ['host-2', await start('host-2')],
  ])
  const leader = (): Promise<string> =>
    untilPasses(
      'a leader',
      async () => {
        const lease = await server.api.find<Lease>(`${paths.leases}/${name}`)
        const [host] = [...programs.keys()].filter((each) => lease?.spec?.holderIdentity?.startsWith(each))
        return host ?? assert.fail(JSON.stringify(lease?.spec))
      },
      { withinMs: 60_000 },
    )
  const core = '/api/v1/namespaces/default'
  const create = (service: string, spec: object) =>
    server.api.create(`${core}/services`, { metadata: { name: service }, spec: { ports: [{ port: 80 }], ...spec } })
  const whenThere = (service: string): Promise<void> =>
    untilPasses(
      `the lists of ${service}`,
      async () => {
        await server.api.get<Endpoints>(`${core}/endpoints/${service}`)
        const { items } = await server.api.get<{ items: readonly EndpointSlice[] }>(paths.slices)
        assert.ok(items.some(({ metadata }) => metadata?.labels?.['kubernetes.io/service-name'] === service))
      },
      { withinMs: 60_000 },
    )

  const first = await leader()
  await create('web', { selector: { app: 'web' } })
  await whenThere('web')
  await create('hand', { clusterIP: 'None' })
  const subsets = [{ addresses: [{ ip: '192.0.2.7' }], ports: [{ port: 80 }] }]
  await server.api.create(`${core}/endpoints`, { metadata: { name: 'hand' }, subsets })
  await whenThere('hand')
  const readme = readFileSync(kitPath('kustomize/endpoints-controllers/README.md'), 'utf8')
  const verification = /`apiserver-bootstrap (verify [^`]+)`/.exec(readme)?.[1]?.split(' ') ?? []
  const verified = await runToEnd(owner, [...verification, `--kubeconfig=${server.kubeconfig}`])
  assert.equal(verified.code, 0, verified.output)
  assert.match(verified.output, /2 held, 0 failed, 0 skipped/)
  await programs.get(first)?.kill()
  programs.delete(first)
  await leader()
  await create('api', { selector: { app: 'api' } })
  await whenThere('api')
  await server.api.delete(`${core}/services/web`)
  await untilPasses(
    'what web has left to be gone',
    async () => assert.equal(await server.api.find(`${core}/endpoints/web`), undefined),
    { withinMs: 60_000 },
  )
  for (const program of programs.values()) {
    assert.deepEqual(program.logged(/forbidden|Forbidden/), [])
    assert.deepEqual(await program.stop(), { code: 0, signal: null })
  }
})
