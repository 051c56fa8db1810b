import assert from 'node:assert/strict'
import { endpointSlices, endpoints, leases, services } from '../../../src/kube/resources.ts'
import {
  type ContractCase,
  endpointsIn,
  isNewer,
  refusedFields,
  rejectsWith,
  serviceIn,
  sliceIn,
  withMeta,
} from './contract-case.ts'

const stale = '1'

/** create, get and update of single objects. */
export const objectCases: readonly ContractCase[] = [
  {
    name: 'create returns the object with uid, creationTimestamp, resourceVersion, kind and apiVersion',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      assert.match(created.metadata?.uid ?? '', /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      assert.match(created.metadata?.creationTimestamp ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
      assert.match(created.metadata?.resourceVersion ?? '', /^[1-9]\d*$/)
      assert.equal(created.kind, 'Endpoints')
      assert.equal(created.apiVersion, 'v1')
      assert.deepEqual(created.subsets, endpointsIn(namespace, 'a').subsets)
    },
  },
  {
    name: 'get returns the same object as create',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      assert.deepEqual(await api.get(endpoints, { namespace, name: 'a' }), created)
    },
  },
  {
    name: 'get of an object that does not exist is NotFound, and the Status names the object',
    async run({ api, namespace }) {
      const error = await rejectsWith('NotFound', api.get(leases, { namespace, name: 'a' }))
      assert.equal(error.httpStatus, 404)
      assert.equal(error.status?.message, 'leases.coordination.k8s.io "a" not found')
      assert.deepEqual(error.status?.details, { name: 'a', group: 'coordination.k8s.io', kind: 'leases' })
    },
  },
  {
    name: 'a second create with the same name is AlreadyExists and changes nothing',
    async run({ api, namespace }) {
      const first = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const error = await rejectsWith(
        'AlreadyExists',
        api.create(endpoints, endpointsIn(namespace, 'a', { labels: { x: 'y' } })),
      )
      assert.equal(error.status?.message, 'endpoints "a" already exists')
      assert.deepEqual(await api.get(endpoints, { namespace, name: 'a' }), first)
    },
  },
  {
    name: 'create in a namespace that does not exist is NotFound and names the namespace',
    async run({ api, namespace }) {
      const missing = `${namespace}-missing`
      const error = await rejectsWith('NotFound', api.create(endpoints, endpointsIn(missing, 'a')))
      assert.deepEqual(error.status?.details, { name: missing, kind: 'namespaces' })
    },
  },
  {
    name: 'create without a name is Invalid',
    async run({ api, namespace }) {
      assert.deepEqual(await refusedFields(api.create(endpoints, { metadata: { namespace } })), ['metadata.name'])
    },
  },
  {
    name: 'create with a malformed name, label, annotation or finalizer is Invalid and names the field',
    async run({ api, namespace }) {
      const refused = (name: string, more: object = {}) =>
        refusedFields(api.create(endpoints, endpointsIn(namespace, name, more)))
      assert.deepEqual(await refused('A_b'), ['metadata.name'])
      assert.deepEqual(await refused('a', { labels: { 'a/b/c': 'x', ok: '-x-' } }), ['metadata.labels'])
      assert.deepEqual(await refused('a', { annotations: { '-': 'x' } }), ['metadata.annotations'])
      assert.deepEqual(await refused('a', { finalizers: ['example.com/ok', 'plain'] }), ['metadata.finalizers[1]'])
    },
  },
  {
    name: 'each create with generateName gets a different name with that prefix',
    async run({ api, namespace }) {
      const make = () => api.create(endpoints, { metadata: { namespace, generateName: 'part-' } })
      const names = [(await make()).metadata?.name ?? '', (await make()).metadata?.name ?? '']
      for (const name of names) assert.match(name, /^part-[bcdfghjklmnpqrstvwxz2456789]{5}$/)
      assert.notEqual(names[0], names[1])
    },
  },
  {
    name: 'create with a resourceVersion is refused',
    async run({ api, namespace }) {
      const error = await rejectsWith(
        'ServerError',
        api.create(endpoints, endpointsIn(namespace, 'a', { resourceVersion: '5' })),
      )
      assert.equal(error.status?.message, 'resourceVersion should not be set on objects to be created')
    },
  },
  {
    name: 'create ignores uid, creationTimestamp and deletionTimestamp of the client',
    async run({ api, namespace }) {
      const given = {
        uid: 'mine',
        creationTimestamp: '2001-01-01T00:00:00Z',
        deletionTimestamp: '2001-01-01T00:00:00Z',
      }
      const { metadata } = await api.create(endpoints, endpointsIn(namespace, 'a', given))
      assert.notEqual(metadata?.uid, given.uid)
      assert.notEqual(metadata?.creationTimestamp, given.creationTimestamp)
      assert.equal(metadata?.deletionTimestamp, undefined)
    },
  },
  {
    name: 'a field of the wrong type is a BadRequest',
    async run({ api, namespace }) {
      const wrong = { ...endpointsIn(namespace, 'a'), subsets: [{ addresses: [{ ip: 1 }] }] }
      await rejectsWith('BadRequest', api.create(endpoints, wrong as never))
      await rejectsWith(
        'BadRequest',
        api.create(endpoints, { ...endpointsIn(namespace, 'a'), subsets: 'none' } as never),
      )
      await rejectsWith(
        'BadRequest',
        api.create(services, serviceIn(namespace, 'a', { ports: [{ port: '443' }] } as never)),
      )
    },
  },
  {
    name: 'create of an object of another kind or version is a BadRequest',
    async run({ api, namespace }) {
      await rejectsWith('BadRequest', api.create(endpoints, { ...endpointsIn(namespace, 'a'), kind: 'Service' }))
      await rejectsWith('BadRequest', api.create(endpoints, { ...endpointsIn(namespace, 'a'), apiVersion: 'v2' }))
    },
  },
  {
    name: 'update with the current resourceVersion replaces the object and returns a newer resourceVersion',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a', { labels: { old: 'x' } }))
      const { metadata = {} } = withMeta(created, { labels: { new: 'y' } })
      const updated = await api.update(endpoints, { metadata })
      assert.ok(isNewer(updated, created))
      assert.deepEqual(updated.metadata?.labels, { new: 'y' })
      assert.equal(updated.subsets, undefined)
      assert.equal(updated.metadata?.uid, created.metadata?.uid)
    },
  },
  {
    name: 'update with an old resourceVersion is a Conflict and changes nothing',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const late = withMeta(created, { resourceVersion: stale, labels: { x: 'y' } })
      const error = await rejectsWith('Conflict', api.update(endpoints, late))
      assert.equal(error.httpStatus, 409)
      assert.match(
        error.message,
        /the object has been modified; please apply your changes to the latest version and try again/,
      )
      assert.deepEqual(await api.get(endpoints, { namespace, name: 'a' }), created)
    },
  },
  {
    name: 'update without a resourceVersion overwrites the object, but not its creationTimestamp and generation',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const updated = await api.update(endpoints, endpointsIn(namespace, 'a', { labels: { x: 'y' } }))
      assert.ok(isNewer(updated, created))
      const made = { creationTimestamp: '2001-01-01T00:00:00Z', generation: 7 }
      const again = await api.update(endpoints, endpointsIn(namespace, 'a', made))
      assert.equal(again.metadata?.creationTimestamp, created.metadata?.creationTimestamp)
      assert.equal(again.metadata?.generation, undefined)
    },
  },
  {
    name: 'update of a Lease without a resourceVersion is Invalid',
    async run({ api, namespace }) {
      await api.create(leases, { metadata: { namespace, name: 'a' }, spec: { holderIdentity: 'x' } })
      const blind = api.update(leases, { metadata: { namespace, name: 'a' }, spec: { holderIdentity: 'y' } })
      assert.deepEqual(await refusedFields(blind), ['metadata.resourceVersion'])
    },
  },
  {
    name: 'update of an object that does not exist creates Endpoints and Leases, and is NotFound for an EndpointSlice',
    async run({ api, namespace }) {
      await rejectsWith('NotFound', api.update(endpointSlices, sliceIn(namespace, 'a')))
      await api.update(endpoints, endpointsIn(namespace, 'a'))
      await api.update(leases, { metadata: { namespace, name: 'a' }, spec: {} })
      for (const resource of [endpoints, leases]) {
        assert.equal((await api.get(resource, { namespace, name: 'a' })).metadata?.name, 'a')
      }
      await rejectsWith('NotFound', api.get(endpointSlices, { namespace, name: 'a' }))
    },
  },
  {
    name: 'update of an object that was deleted after the read is a Conflict and creates nothing',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      await api.delete(endpoints, { namespace, name: 'a' })
      await rejectsWith('Conflict', api.update(endpoints, created))
      await rejectsWith('NotFound', api.get(endpoints, { namespace, name: 'a' }))
    },
  },
  {
    name: 'update without a change returns the object with its former resourceVersion',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      assert.deepEqual(await api.update(endpoints, created), created)
      assert.deepEqual(
        await api.update(endpoints, endpointsIn(namespace, 'a', { labels: {}, finalizers: [] })),
        created,
      )
    },
  },
  {
    name: 'update with the uid of another object is a Conflict',
    async run({ api, namespace }) {
      await api.create(endpoints, endpointsIn(namespace, 'a'))
      await rejectsWith('Conflict', api.update(endpoints, endpointsIn(namespace, 'a', { uid: 'other' })))
    },
  },
  {
    name: 'fields that this program does not read are preserved by get and update',
    async run({ api, namespace }) {
      const endpoint = {
        addresses: ['192.0.2.1'],
        conditions: { ready: true, serving: true, terminating: false },
        hints: { forZones: [{ name: 'z1' }] },
        zone: 'z1',
        targetRef: { kind: 'Pod', namespace, name: 'p', uid: 'u' },
      }
      const ports = [{ name: 'a', port: 1, protocol: 'TCP', appProtocol: 'kubernetes.io/h2c' }]
      await api.create(endpointSlices, sliceIn(namespace, 'a', { endpoints: [endpoint], ports }))
      const read = await api.get(endpointSlices, { namespace, name: 'a' })
      const updated = await api.update(endpointSlices, withMeta(read, { annotations: { x: 'y' } }))
      assert.deepEqual(updated.endpoints, [endpoint])
      assert.deepEqual(updated.ports, ports)
      const service = await api.create(services, serviceIn(namespace, 'a', { trafficDistribution: 'PreferClose' }))
      assert.equal(
        (await api.update(services, withMeta(service, { labels: { x: 'y' } }))).spec?.trafficDistribution,
        'PreferClose',
      )
    },
  },
  {
    name: 'values preserve line separators, quotes, control characters and characters beyond 16 bits',
    async run({ api, namespace }) {
      const text = 'a\u2028b\u2029c"\\/\b\f\n\r\t\u0001\u007f\ufeff\u{1F600}\u{10FFFF}</script>\u00e9'
      await api.create(endpoints, endpointsIn(namespace, 'a', { annotations: { text } }))
      const { metadata } = await api.get(endpoints, { namespace, name: 'a' })
      assert.equal(metadata?.annotations?.text, text)
    },
  },
  {
    name: 'annotations of 256 KiB are accepted, and larger ones are Invalid',
    async run({ api, namespace }) {
      const limit = 256 * 1024
      const annotations = { k: 'x'.repeat(limit - 1) }
      await api.create(endpoints, endpointsIn(namespace, 'a', { annotations }))
      const more = { k: 'x'.repeat(limit) }
      await rejectsWith('Invalid', api.create(endpoints, endpointsIn(namespace, 'b', { annotations: more })))
    },
  },
  {
    name: 'of three concurrent updates with the same resourceVersion one succeeds and the others are Conflicts',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const results = await Promise.allSettled(
        ['one', 'two', 'three'].map((by) => api.update(endpoints, withMeta(created, { labels: { by } }))),
      )
      const outcomes = results.map((result) => (result.status === 'fulfilled' ? 'done' : result.reason.code))
      assert.deepEqual(outcomes.sort(), ['Conflict', 'Conflict', 'done'])
    },
  },
]
