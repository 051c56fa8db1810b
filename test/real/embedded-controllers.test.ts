import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { CoreV1Api, KubeConfig, makeInformer, type V1Pod } from '@kubernetes/client-node'
import type { EndpointSlice, Endpoints } from '../../src/kube/resources.ts'
import { type StartedApiServer, startApiServer } from '../../src/testing.ts'
import { bootstrapped } from '../conformance/scenario.ts'
import { ApiClient } from '../peers/api-client.ts'
import { endpointControllers, startControllerManager } from '../peers/controller-manager.ts'
import { type Owner, openOwner, temporaryDirectory } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'

const services = 50
const podsEach = 10
const namespace = '/api/v1/namespaces/default'

async function startEmbedded(owner: Owner): Promise<{ readonly server: StartedApiServer; readonly api: ApiClient }> {
  const kubeSystem = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kube-system' } }
  const server = await startApiServer({ objects: [...bootstrapped, kubeSystem] })
  owner.after(() => server.close())
  const api = new ApiClient({ url: server.url, ca: server.certificate, token: server.token })
  owner.after(() => api.close())
  return { server, api }
}

function pod(service: number, index: number): object {
  const name = `web-${service}-${index}`
  const labels = { app: `web-${service}` }
  return { metadata: { name, labels }, spec: { nodeName: 'node', containers: [{ name: 'main', image: 'main' }] } }
}

function podStatus(service: number, index: number, ready: boolean): object {
  const podIP = `10.${service}.0.${index + 1}`
  const conditions = [{ type: 'Ready', status: ready ? 'True' : 'False' }]
  return { status: { phase: 'Running', podIP, podIPs: [{ ip: podIP }], conditions } }
}

/** How many ready addresses each Service has, in Endpoints and in EndpointSlices. */
async function readyAddresses(api: ApiClient): Promise<ReadonlyMap<string, readonly [number, number]>> {
  const [endpoints, slices] = await Promise.all([
    api.get<{ readonly items: readonly Endpoints[] }>(`${namespace}/endpoints`),
    api.get<{ readonly items: readonly EndpointSlice[] }>(
      '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices',
    ),
  ])
  const listed = endpoints.items.map(({ metadata, subsets = [] }) => {
    const name = metadata?.name ?? ''
    const own = slices.items.filter((slice) => slice.metadata?.labels?.['kubernetes.io/service-name'] === name)
    const inSlices = own.flatMap((slice) => (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready))
    return [name, [subsets.flatMap(({ addresses = [] }) => addresses).length, inSlices.length]] as const
  })
  return new Map(listed.filter(([name]) => name.startsWith('web-')))
}

test(`kube-controller-manager fills ${services} Services of ${podsEach} Pods on an embedded server and follows their readiness`, async (t) => {
  const owner = openOwner(t)
  const { server, api } = await startEmbedded(owner)
  const kubeconfig = join(temporaryDirectory(owner, 'embedded'), 'kubeconfig')
  await server.writeKubeconfig(kubeconfig)
  const manager = await startControllerManager(owner, { kubeconfig }, endpointControllers)

  // Slices do not list Pods on a Node that does not exist.
  await api.create('/api/v1/nodes', { metadata: { name: 'node' } })
  const each = Array.from({ length: services }, (_, service) => service)
  const startedAt = performance.now()
  await Promise.all(
    each.map(async (service) => {
      const spec = { selector: { app: `web-${service}` }, ports: [{ port: 80 }] }
      await api.create(`${namespace}/services`, { metadata: { name: `web-${service}` }, spec })
      for (let index = 0; index < podsEach; index++) {
        await api.create(`${namespace}/pods`, pod(service, index))
        await api.merge(`${namespace}/pods/web-${service}-${index}/status`, podStatus(service, index, true))
      }
    }),
  )
  const expect = (count: (service: number) => number) =>
    untilPasses(
      'the endpoints of all Services',
      async () => {
        const found = await readyAddresses(api)
        const wanted = new Map(each.map((service) => [`web-${service}`, [count(service), count(service)]] as const))
        assert.deepEqual(new Map([...found].sort()), new Map([...wanted].sort()))
      },
      { withinMs: 60_000 },
    )
  await expect(() => podsEach)
  t.diagnostic(`${services} x ${podsEach} after ${Math.round(performance.now() - startedAt)} ms`)

  // Every other Service loses three of its Pods, and gets them back.
  const flip = (ready: boolean) =>
    Promise.all(
      each
        .filter((service) => service % 2 === 0)
        .flatMap((service) =>
          [0, 1, 2].map((index) =>
            api.merge(`${namespace}/pods/web-${service}-${index}/status`, podStatus(service, index, ready)),
          ),
        ),
    )
  await flip(false)
  await expect((service) => (service % 2 === 0 ? podsEach - 3 : podsEach))
  await flip(true)
  await expect(() => podsEach)
  const errors = manager.lines.filter((line) => /^[EF]\d{4} /.test(line) && !line.includes('manifest file is empty'))
  assert.deepEqual(errors, [])
})

test('client-node’s typed API and its informer work on an embedded server', async (t) => {
  const owner = openOwner(t)
  const { server } = await startEmbedded(owner)
  const config = new KubeConfig()
  config.loadFromString(server.kubeconfig)
  const core = config.makeApiClient(CoreV1Api)
  const seen: string[] = []
  const informer = makeInformer(config, `${namespace}/pods`, () => core.listNamespacedPod({ namespace: 'default' }))
  const see = (what: string) => (object: V1Pod) => void seen.push(`${what} ${object.metadata?.name}`)
  informer.on('add', see('add'))
  informer.on('update', see('update'))
  informer.on('delete', see('delete'))
  await informer.start()
  owner.after(() => informer.stop())
  await core.createNamespacedPod({ namespace: 'default', body: pod(1, 1) as V1Pod })
  const read = await core.readNamespacedPod({ namespace: 'default', name: 'web-1-1' })
  assert.ok(read.metadata?.creationTimestamp instanceof Date)
  await core.replaceNamespacedPodStatus({
    namespace: 'default',
    name: 'web-1-1',
    body: { ...read, status: { phase: 'Running' } },
  })
  await core.deleteNamespacedPod({ namespace: 'default', name: 'web-1-1', gracePeriodSeconds: 0 })
  await untilPasses('the deletion', () => assert.equal(seen.at(-1), 'delete web-1-1'), { withinMs: 10_000 })
  assert.deepEqual(seen.slice(0, 2), ['add web-1-1', 'update web-1-1'])
})
