import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeList, Namespace } from '../../src/kube/resources.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { paths, whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { type LogLine, type Program, runToEnd, startMaster } from '../peers/program.ts'
import { askHealth, whenReady } from '../peers/program-health.ts'
import { untilPasses } from '../peers/until.ts'

const address = '192.0.2.1'
const leftOut = 'the server does not serve the resources of this duty'
const duties = ['cluster-ip-repair', 'default-service-cidr', 'kubernetes-service', 'node-port-repair']

const dutiesOf = (lines: readonly LogLine[]): readonly unknown[] => lines.map(({ duty }) => duty).sort()
const complaints = ({ log }: Program): readonly LogLine[] => log.filter(({ level }) => level !== 'info')

test('beside a generic control plane run and verify need no flags: duties without resources wait until they are served', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'generic' })
  const master = await startMaster(owner, server, { address })
  await untilPasses(
    'each duty to be left out',
    () => assert.deepEqual(dutiesOf(master.logged(new RegExp(leftOut))), duties),
    { withinMs: 30_000 },
  )
  await whenReady(master, 10_000)
  assert.match(
    master.logged(/kubernetes-service.*to turn the duty off/)[0]?.message ?? '',
    /change --controllers: remove kubernetes-service, or add -kubernetes-service/,
  )
  assert.deepEqual(complaints(master), [])
  // The server creates the system namespaces itself, except kube-node-lease.
  assert.deepEqual(await namespacesOf(server), ['default', 'kube-node-lease', 'kube-public', 'kube-system'])
  assert.equal(master.logged(/leaving it to the server, except for kube-node-lease/).length, 1)

  const verified = await runToEnd(owner, ['verify', `--kubeconfig=${server.kubeconfig}`])
  assert.equal(verified.code, 0, verified.output)
  assert.match(verified.output, /^system-namespaces +held/m)
  assert.match(verified.output, /^kubernetes-service +skipped +the server does not have it/m)

  // The first kind appears: within a minute the program takes up its duty, and no other one.
  await server.api.create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', serviceCidrDefinition)
  await untilPasses(
    'the default ServiceCIDR',
    () => server.api.get('/apis/networking.k8s.io/v1/servicecidrs/kubernetes'),
    {
      withinMs: 90_000,
    },
  )
  await server.api.delete('/apis/apiextensions.k8s.io/v1/customresourcedefinitions/servicecidrs.networking.k8s.io')

  // A complete kube-apiserver replaces the server at the same address.
  await server.kill()
  await server.start({ kind: 'bare' })
  await whenRight(server.api, { addresses: [address], port: server.port }, 60_000)
  master.assertRunning()
  assert.deepEqual(
    dutiesOf(master.logged(/now serves the resources of this duty/)).filter((duty) => duty !== 'default-service-cidr'),
    ['cluster-ip-repair', 'kubernetes-service', 'node-port-repair'],
  )
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
})

test('beside a bare server without --etcd-servers the missing NodePort bitmap is reported with the flag to set', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'bare' })
  const lacking = await startMaster(owner, server, { address })
  const { message } = await lacking.waitForLog(/ServiceRangeMissing/, 30_000)
  assert.match(
    message,
    /the bitmap of NodePorts is neither created nor repaired: set --etcd-servers .* add -node-port-repair to --controllers/,
  )
  await whenReady(lacking, 30_000)
  const { status, text } = await askHealth(lacking, '/readyz?verbose')
  assert.equal(status, 200)
  assert.match(text, /^\[\+\]cluster-ip-repair ok$/m)
  assert.match(text, /^\[\+\]node-port-repair ok, but: set --etcd-servers/m)
  await untilPasses(
    'the Event',
    async () => {
      const { items } = await server.api.get<KubeList<{ readonly reason?: string; readonly note?: string }>>(
        '/apis/events.k8s.io/v1/namespaces/default/events',
      )
      const notes = items.filter(({ reason }) => reason === 'ServiceRangeMissing').map(({ note }) => note)
      assert.match(notes.join('\n'), /--etcd-servers/)
    },
    { withinMs: 10_000 },
  )
  // This does not block the address.
  await whenRight(server.api, { addresses: [address], port: server.port }, 30_000)
  await lacking.stop()

  const silenced = await startMaster(owner, server, { address, flags: ['--controllers=auto,-node-port-repair'] })
  await whenReady(silenced, 30_000)
  assert.deepEqual(silenced.logged(/ServiceRangeMissing/), [])
  await silenced.stop()

  const equipped = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`] })
  await whenReady(equipped, 30_000)
  assert.deepEqual(equipped.logged(/ServiceRangeMissing/), [])
})

test('beside a bare 1.32 server without --etcd-servers the program exits with 1 and names the flag to set', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare-1.32' })
  const master = await startMaster(owner, server, { address, flags: ['--repair-startup-timeout=5s'] })
  const { code } = await master.process.exited
  assert.equal(code, 1)
  assert.match(
    JSON.stringify(master.log),
    /still refused after 5s: create services .*failed to allocate IP .*; set --etcd-servers/,
  )
  assert.deepEqual(master.logged(/refuses a request.*(servicecidrs|ipaddresses)/), [])
})

async function namespacesOf({ api }: Apiserver): Promise<readonly unknown[]> {
  const { items } = await api.get<KubeList<Namespace>>(paths.namespaces)
  return items.map(({ metadata }) => metadata?.name).sort()
}

const serviceCidrDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: {
    name: 'servicecidrs.networking.k8s.io',
    annotations: { 'api-approved.kubernetes.io': 'unapproved, for a test' },
  },
  spec: {
    group: 'networking.k8s.io',
    scope: 'Cluster',
    names: { plural: 'servicecidrs', singular: 'servicecidr', kind: 'ServiceCIDR', listKind: 'ServiceCIDRList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
}
