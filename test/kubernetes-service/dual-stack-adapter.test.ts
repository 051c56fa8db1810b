import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi } from '../../src/kube/api.ts'
import { endpointSlices, endpoints } from '../../src/kube/resources.ts'
import { EndpointsAdapter } from '../../src/kubernetes-service/endpoints-adapter.ts'
import { planEndpoints } from '../../src/kubernetes-service/endpoints-plan.ts'
import { ObjectWriter, type Written } from '../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { endpointPorts, KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { Embedded } from '../apiserver/embedded.ts'
import { passedOn } from '../kube/passed-on.ts'

const { signal } = new AbortController()

function openAdapter(api: KubeApi, onWritten?: (written: Written) => void): EndpointsAdapter {
  return new EndpointsAdapter({
    api,
    writer: new ObjectWriter({ api, metrics: prometheusMetrics(), onWritten }),
  })
}

async function started() {
  const embedded = await Embedded.started()
  const list = async (adapter: EndpointsAdapter, secondAddresses: readonly string[]): Promise<void> => {
    const observed = { ports: endpointPorts(6443), reconcilePorts: true, mayBecomeEmpty: false }
    await adapter.reconcile(
      async ({ endpoints: current }) => ({
        endpoints: planEndpoints({ ...observed, current, addresses: ['192.0.2.1'] }),
        secondAddresses,
      }),
      signal,
    )
  }
  const names = async (): Promise<readonly (string | undefined)[]> =>
    (await embedded.api.list(endpointSlices)).items.map(({ metadata }) => metadata?.name)
  return { embedded, list, names }
}

test('the second slice exists while second addresses exist, and its name changes with their family', async () => {
  const { embedded, list, names } = await started()
  const adapter = openAdapter(embedded.api)
  await list(adapter, ['2001:db8::1'])
  assert.deepEqual(await names(), ['kubernetes', 'kubernetes-ipv6'])
  await list(adapter, ['198.51.100.1'])
  assert.deepEqual(await names(), ['kubernetes', 'kubernetes-ipv4'])
  await list(adapter, [])
  assert.deepEqual(await names(), ['kubernetes'])
})

test('a slice of another family under that name is replaced; onWritten reports the deletion and the creation', async () => {
  const { embedded, list } = await started()
  const { api } = embedded
  await list(openAdapter(api), ['2001:db8::1'])
  const ref = { ...KUBERNETES_SERVICE, name: 'kubernetes-ipv6' }
  const { metadata: { uid, resourceVersion, ...metadata } = {}, ...slice } = await api.get(endpointSlices, ref)
  await api.delete(endpointSlices, ref)
  await api.create(endpointSlices, { ...slice, metadata, addressType: 'IPv4', endpoints: [] })
  const reported: Written[] = []
  await list(
    openAdapter(api, (written) => reported.push(written)),
    ['2001:db8::1'],
  )
  assert.deepEqual(
    reported.map(({ verb, found, stored }) => [verb, found !== undefined, stored?.metadata?.name]),
    [
      ['delete', true, undefined],
      ['create', false, 'kubernetes-ipv6'],
    ],
  )
})

test('a second slice that is in sync is not written again', async () => {
  const { embedded, list } = await started()
  const { api } = embedded
  await list(openAdapter(api), ['2001:db8::1'])
  const refuse = async (): Promise<never> => assert.fail('a slice in sync was written')
  await list(openAdapter(passedOn(api, { create: refuse, update: refuse, delete: refuse })), ['2001:db8::1'])
})

test('two masters can delete the second slice at the same moment without an error', async () => {
  const { embedded, list, names } = await started()
  await list(openAdapter(embedded.api), ['2001:db8::1'])
  const { api } = embedded
  const overtaken: KubeApi = {
    ...passedOn(api),
    async delete(...args) {
      await api.delete(...args)
      return api.delete(...args)
    },
  }
  await list(openAdapter(overtaken), [])
  assert.deepEqual(await names(), ['kubernetes'])
})

test('a second slice that another master has just updated is not deleted', async () => {
  const { embedded, list } = await started()
  const { api } = embedded
  await list(openAdapter(api), ['2001:db8::1'])
  const ref = { ...KUBERNETES_SERVICE, name: 'kubernetes-ipv6' }
  const overtaken: KubeApi = {
    ...passedOn(api),
    async delete(...args) {
      const slice = await api.get(endpointSlices, ref)
      const listed = [...(slice.endpoints ?? []), { addresses: ['2001:db8::2'], conditions: { ready: true } }]
      await api.update(endpointSlices, { ...slice, endpoints: listed })
      return api.delete(...args)
    },
  }
  await assert.rejects(list(openAdapter(overtaken), []), { code: 'Conflict' })
  const { endpoints: listed = [] } = await api.get(endpointSlices, ref)
  assert.deepEqual(
    listed.map(({ addresses }) => addresses[0]),
    ['2001:db8::1', '2001:db8::2'],
  )
})

test('the last master to leave deletes the second slice even if another client has deleted the Endpoints', async () => {
  const { embedded, list, names } = await started()
  const adapter = openAdapter(embedded.api)
  await list(adapter, ['2001:db8::1'])
  await embedded.api.delete(endpoints, KUBERNETES_SERVICE)
  const observed = { addresses: [], ports: endpointPorts(6443), reconcilePorts: false, mayBecomeEmpty: true }
  await adapter.reconcile(
    async ({ endpoints: current }) => ({ endpoints: planEndpoints({ ...observed, current }), secondAddresses: [] }),
    signal,
  )
  assert.deepEqual(await names(), ['kubernetes'])
})

test('the slices are read before the Endpoints that they follow', async () => {
  const { embedded, list } = await started()
  await list(openAdapter(embedded.api), ['2001:db8::1'])
  const order: string[] = []
  const api: KubeApi = {
    ...passedOn(embedded.api),
    get: (resource, ...args) => {
      order.push(`asked for ${resource.plural}`)
      return embedded.api.get(resource, ...args).finally(() => order.push(`had ${resource.plural}`))
    },
  }
  await openAdapter(api).read(signal)
  assert.equal(order.filter((line) => line === 'had endpointslices').length, 3)
  assert.ok(order.lastIndexOf('had endpointslices') < order.indexOf('asked for endpoints'), order.join(', '))
})
