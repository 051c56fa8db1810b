import assert from 'node:assert/strict'
import type { KubeApi } from '../../../src/kube/api.ts'
import {
  endpoints,
  events,
  ipAddresses,
  type KubeEvent,
  leases,
  namespaces,
  serviceCidrs,
} from '../../../src/kube/resources.ts'
import { hashText } from '../../../src/runtime/random.ts'
import { type ContractCase, endpointsIn, refusedFields, rejectsWith, withMeta } from './contract-case.ts'

function eventIn(namespace: string, more: Partial<KubeEvent> = {}): KubeEvent {
  return {
    metadata: { namespace, name: 'a' },
    eventTime: '2026-01-01T00:00:00.000000Z',
    reportingController: 'example.com/contract',
    reportingInstance: 'one',
    action: 'Test',
    reason: 'Tested',
    type: 'Normal',
    regarding: { kind: 'Service', namespace, name: 'a' },
    note: 'a note',
    ...more,
  }
}

function makeServiceCidr(api: KubeApi, name: string, ...cidrs: readonly string[]) {
  return api.create(serviceCidrs, { metadata: { name }, spec: { cidrs } })
}

/** How the server handles the other kinds that this program writes. */
export const kindCases: readonly ContractCase[] = [
  {
    name: 'the times of a Lease are stored in microseconds; times with other precision are a BadRequest',
    async run({ api, namespace }) {
      const times = { acquireTime: '2026-01-01T00:00:00.000000Z', renewTime: '2026-01-01T00:00:00.123456Z' }
      const created = await api.create(leases, { metadata: { namespace, name: 'a' }, spec: times })
      assert.deepEqual(created.spec, times)
      for (const renewTime of [
        '2026-01-01T00:00:00Z',
        '2026-01-01T00:00:00.123Z',
        '2026-01-01T00:00:00.123456789Z',
        'now',
      ]) {
        const spec = { renewTime }
        await rejectsWith('BadRequest', api.create(leases, { metadata: { namespace, name: 'b' }, spec }))
      }
    },
  },
  {
    name: 'a Lease is Invalid with a duration of zero or a negative number of transitions',
    async run({ api, namespace }) {
      const spec = { leaseDurationSeconds: 0, leaseTransitions: -1 }
      const created = api.create(leases, { metadata: { namespace, name: 'a' }, spec })
      assert.deepEqual(await refusedFields(created), ['spec.leaseDurationSeconds', 'spec.leaseTransitions'])
    },
  },
  {
    name: 'a created Namespace gets a label with its name and a finalizer, and is Active whatever status was given',
    async run({ api, namespace }) {
      const name = `${namespace}-x`
      const created = await api.create(namespaces, {
        metadata: { name, labels: { a: 'b' } },
        status: { phase: 'Terminating' },
      })
      assert.deepEqual(created.metadata?.labels, { a: 'b', 'kubernetes.io/metadata.name': name })
      assert.deepEqual(created.status, { phase: 'Active' })
      assert.deepEqual(created.spec, { finalizers: ['kubernetes'] })
    },
  },
  {
    name: 'the namespaces default, kube-system and kube-public cannot be deleted',
    async run({ api }) {
      for (const name of ['default', 'kube-public', 'kube-system']) {
        await api.create(namespaces, { metadata: { name } }).catch(() => {})
        const error = await rejectsWith('Forbidden', api.delete(namespaces, { name }))
        assert.equal(error.status?.message, `namespaces "${name}" is forbidden: this namespace may not be deleted`)
      }
    },
  },
  {
    name: 'a namespace with remaining objects is Terminating after its deletion, and creates in it are Forbidden',
    async run({ api, namespace }) {
      const name = `${namespace}-x`
      await api.create(namespaces, { metadata: { name } })
      const held = endpointsIn(name, 'held', { finalizers: ['example.com/hold'] })
      await api.create(endpoints, held)
      await api.delete(namespaces, { name })
      const terminating = await api.get(namespaces, { name })
      assert.equal(terminating.status?.phase, 'Terminating')
      const error = await rejectsWith('Forbidden', api.create(endpoints, endpointsIn(name, 'a')))
      assert.deepEqual(error.status?.details?.causes, [
        {
          reason: 'NamespaceTerminating',
          message: `namespace ${name} is being terminated`,
          field: 'metadata.namespace',
        },
      ])
    },
  },
  {
    name: 'the status of a ServiceCIDR is written only through its subresource, which writes nothing else',
    async run({ api, namespace }) {
      const ready = {
        type: 'Ready',
        status: 'True',
        reason: 'x',
        message: '',
        lastTransitionTime: '2026-01-01T00:00:00Z',
      }
      const given = {
        metadata: { name: namespace },
        spec: { cidrs: ['198.51.100.0/24'] },
        status: { conditions: [ready] },
      }
      const created = await api.create(serviceCidrs, given)
      assert.deepEqual(created.status, {})
      const asObject = await api.update(serviceCidrs, { ...created, status: { conditions: [ready] } })
      assert.equal(asObject.metadata?.resourceVersion, created.metadata?.resourceVersion)
      const changed = { ...created, spec: { cidrs: ['203.0.113.0/24'] }, status: { conditions: [ready] } }
      const asStatus = await api.update(serviceCidrs, changed, { subresource: 'status' })
      assert.deepEqual(asStatus.spec, created.spec)
      assert.deepEqual(asStatus.status, { conditions: [ready] })
    },
  },
  {
    name: 'the range of a ServiceCIDR cannot be changed, but a range of the other family can be added',
    async run({ api, namespace }) {
      const created = await makeServiceCidr(api, namespace, '198.51.100.0/24')
      const withRanges = (...cidrs: readonly string[]) => api.update(serviceCidrs, { ...created, spec: { cidrs } })
      assert.deepEqual(await refusedFields(withRanges('203.0.113.0/24')), ['spec.cidrs[0]'])
      assert.deepEqual((await withRanges('198.51.100.0/24', '2001:db8:1::/112')).spec?.cidrs, [
        '198.51.100.0/24',
        '2001:db8:1::/112',
      ])
    },
  },
  {
    name: 'a ServiceCIDR is Invalid without a range, with two of one family, with host bits, or with a range not in canonical form',
    async run({ api, namespace }) {
      const make = (...cidrs: readonly string[]) => makeServiceCidr(api, namespace, ...cidrs)
      assert.deepEqual(await refusedFields(make()), ['spec.cidrs'])
      assert.deepEqual(await refusedFields(make('198.51.100.0/24', '203.0.113.0/24')), ['spec.cidrs'])
      assert.deepEqual(await refusedFields(make('198.51.100.1/24')), ['spec.cidrs[0]'])
      assert.deepEqual(await refusedFields(make('2001:DB8::/64')), ['spec.cidrs[0]'])
      assert.deepEqual(await refusedFields(make('nothing')), ['spec.cidrs[0]'])
    },
  },
  {
    name: 'an IPAddress has the canonical form of an address as its name, and a parent that cannot be changed',
    async run({ api, namespace }) {
      const parentRef = { group: '', resource: 'services', namespace, name: 'a' }
      const make = (name: string, spec: object = { parentRef }) =>
        api.create(ipAddresses, { metadata: { name }, spec } as never)
      assert.deepEqual(await refusedFields(make('192.0.2.07')), ['metadata.name'])
      assert.deepEqual(await refusedFields(make('2001:db8:0::1')), ['metadata.name'])
      assert.deepEqual(await refusedFields(make('192.0.2.7', {})), ['spec.parentRef'])
      assert.deepEqual(await refusedFields(make('192.0.2.7', { parentRef: { resource: 'services' } })), [
        'spec.parentRef.name',
      ])
      // IPAddresses are cluster-scoped, so each target needs its own name.
      const hash = hashText(namespace)
      const own = `2001:db8:${((hash >>> 16) | 0x1000).toString(16)}::${((hash & 0xffff) | 0x1000).toString(16)}`
      const created = await make(own)
      assert.deepEqual(created.spec?.parentRef, { resource: 'services', namespace, name: 'a' })
      const moved = api.patch(
        ipAddresses,
        { name: own },
        { type: 'merge', body: { spec: { parentRef: { name: 'b' } } } },
      )
      assert.deepEqual(await refusedFields(moved), ['spec.parentRef'])
      await api.delete(ipAddresses, { name: own })
    },
  },
  {
    name: 'of an Event only the series can be changed',
    async run({ api, namespace }) {
      await api.create(events, eventIn(namespace))
      const patch = (body: unknown) => api.patch(events, { namespace, name: 'a' }, { type: 'merge', body })
      const series = { count: 2, lastObservedTime: '2026-01-01T00:00:01.000000Z' }
      assert.deepEqual((await patch({ series })).series, series)
      await rejectsWith('Invalid', patch({ note: 'another' }))
    },
  },
  {
    name: 'an Event about a cluster-scoped object can be created in default, but not in another namespace',
    async run({ api, namespace }) {
      await api.create(namespaces, { metadata: { name: 'default' } }).catch(() => {})
      const about = (place: string) =>
        withMeta(eventIn(place, { regarding: { kind: 'ServiceCIDR', name: 'a' } }), { name: namespace })
      assert.deepEqual(await refusedFields(api.create(events, about(namespace))), ['involvedObject.namespace'])
      await api.create(events, about('default'))
    },
  },
  {
    name: 'an Event without time, reporter, action, reason or type is Invalid',
    async run({ api, namespace }) {
      for (const missing of ['eventTime', 'reportingController', 'reportingInstance', 'action', 'reason', 'type']) {
        await rejectsWith('Invalid', api.create(events, eventIn(namespace, { [missing]: undefined })))
      }
    },
  },
]
