import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { writeStaticList } from '../../../src/drill/listings.ts'
import { FoundState } from '../../../src/drill/live/found-state.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { KubeError } from '../../../src/kube/errors.ts'
import { endpointSlices, endpoints, namespaces, type Service, services } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { KUBERNETES_SERVICE } from '../../../src/kubernetes-service/identity.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock } from '../../../src/runtime/system-clock.ts'

const { signal } = new AbortController()

function openApi(): KubeApi {
  const options = { clock: systemClock, random: seededRandom(1, 'server') }
  return restKubeApi({ transport: inProcessTransport(createApiServer(options)), ...options })
}

const service: Service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { ...KUBERNETES_SERVICE, labels: { component: 'apiserver' } },
  spec: { clusterIP: 'None', ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: 6443 as never }] },
}

/** The content of all three kinds, without the fields that the server assigns. */
async function contentOf(api: KubeApi): Promise<unknown> {
  const lists = await Promise.all(
    [services, endpoints, endpointSlices].map((kind) => api.list(kind as typeof services, { namespace: 'default' })),
  )
  return lists.map(({ items }) =>
    items.map((object) => {
      const {
        uid: _,
        resourceVersion: __,
        creationTimestamp: ___,
        managedFields: ____,
        generation: _____,
        ...metadata
      } = object.metadata ?? {}
      return { ...object, metadata }
    }),
  )
}

test('restore reverts changes, deletions and additions, and does not write an object that is in sync', async () => {
  const api = openApi()
  await writeStaticList(api, ['203.0.113.1', '203.0.113.2'])
  await api.create(services, service)
  const before = await contentOf(api)
  const found = await FoundState.read(api, signal)

  const slice = await api.get(endpointSlices, KUBERNETES_SERVICE)
  const second = {
    ...slice,
    metadata: { namespace: 'default', name: 'kubernetes-ipv6', labels: slice.metadata?.labels },
  }
  await api.create(endpointSlices, second as typeof slice)
  await api.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { metadata: { labels: null }, subsets: null } })
  await api.delete(endpointSlices, KUBERNETES_SERVICE)
  await api.delete(services, KUBERNETES_SERVICE)
  await found.restore(api, signal)
  assert.deepEqual(await contentOf(api), before)

  const { resourceVersion } = (await api.get(endpoints, KUBERNETES_SERVICE)).metadata ?? {}
  await found.restore(api, signal)
  assert.equal((await api.get(endpoints, KUBERNETES_SERVICE)).metadata?.resourceVersion, resourceVersion)
})

test('restore deletes objects of all three kinds that did not exist before', async () => {
  const api = openApi()
  const found = await FoundState.read(api, signal)
  await writeStaticList(api, ['203.0.113.1'])
  await api.create(services, service)
  await found.restore(api, signal)
  assert.deepEqual(await contentOf(api), [[], [], []])
})

test('the found state is a List with kind and apiVersion in each item, although the server omits them', async () => {
  const api = openApi()
  await writeStaticList(api, ['203.0.113.1'])
  await api.create(services, service)
  const bare: Pick<KubeApi, 'list'> = {
    list: async (kind, options) => {
      const { items, ...list } = await api.list(kind, options)
      return { ...list, items: items.map((item) => ({ ...item, kind: undefined, apiVersion: undefined })) }
    },
  }
  const { list } = await FoundState.read({ ...api, ...bare } as KubeApi, signal)
  const { items } = JSON.parse(JSON.stringify(list)) as { items: { apiVersion?: string; kind?: string }[] }
  assert.deepEqual(
    items.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`),
    ['v1 Service', 'v1 Endpoints', 'discovery.k8s.io/v1 EndpointSlice'],
  )
})

test('restore accepts NotFound for a delete, restores the rest, and rejects if a delete is refused', async () => {
  const api = openApi()
  await api.create(namespaces, { metadata: { name: 'default' } })
  await api.create(services, service)
  await writeStaticList(api, ['203.0.113.1'])
  const found = await FoundState.read(api, signal)
  await api.delete(endpointSlices, KUBERNETES_SERVICE)
  const failing = (error: KubeError): KubeApi => ({
    ...boundTo(api),
    delete: () => Promise.reject(error),
  })
  const slice = {
    ...KUBERNETES_SERVICE,
    name: 'kubernetes-ipv6',
    labels: { 'kubernetes.io/service-name': 'kubernetes' },
  }
  await api.create(endpointSlices, {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: slice,
    addressType: 'IPv4',
    endpoints: [],
  } as never)
  await found.restore(failing(new KubeError('NotFound', 'it is gone')), signal)
  const { endpoints: restored } = await api.get(endpointSlices, KUBERNETES_SERVICE)
  assert.deepEqual(restored?.[0]?.addresses, ['203.0.113.1'], 'the slice that was deleted is created again')
  await assert.rejects(found.restore(failing(new KubeError('Forbidden', 'no')), signal), { code: 'Forbidden' })
})

function boundTo(api: KubeApi): KubeApi {
  const calls = ['get', 'list', 'create', 'update', 'patch', 'delete', 'watch'] as const
  return Object.fromEntries(calls.map((call) => [call, (api[call] as () => unknown).bind(api)])) as unknown as KubeApi
}
