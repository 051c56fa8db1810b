import assert from 'node:assert/strict'
import type { KubeApi, Patch } from '../../../src/kube/api.ts'
import { endpointSlices, endpoints, type KubeObject, leases, serviceCidrs } from '../../../src/kube/resources.ts'
import { type ContractCase, endpointsIn, isNewer, rejectsWith, sliceIn } from './contract-case.ts'

const merge = (body: unknown): Patch => ({ type: 'merge', body })
const json = (...body: readonly unknown[]): Patch => ({ type: 'json', body })

/** A patch with which a manager applies labels to Endpoints. */
function applied(name: string, labels: Readonly<Record<string, string>>): Patch {
  return { type: 'apply', body: { apiVersion: 'v1', kind: 'Endpoints', metadata: { name, labels } } }
}

const by = (fieldManager: string) => ({ fieldManager })

/** The labels that each manager owns, by managedFields. */
function labelOwners(object: KubeObject): Readonly<Record<string, readonly string[]>> {
  const owners: Record<string, readonly string[]> = {}
  for (const entry of (object.metadata?.managedFields ?? []) as readonly ManagedEntry[]) {
    const labels = Object.keys(entry.fieldsV1['f:metadata']?.['f:labels'] ?? {}).filter((step) => step.startsWith('f:'))
    if (labels.length > 0) owners[`${entry.manager} ${entry.operation}`] = labels.map((step) => step.slice(2)).sort()
  }
  return owners
}

interface ManagedEntry {
  readonly manager: string
  readonly operation: string
  readonly fieldsV1: { readonly 'f:metadata'?: { readonly 'f:labels'?: object } }
}

async function conditionsOf(api: KubeApi, name: string): Promise<readonly string[]> {
  const { status } = await api.get(serviceCidrs, { name })
  return (status?.conditions ?? []).map((condition) => `${condition.type}=${condition.status}`)
}

function condition(type: string, status: string): object {
  return { type, status, reason: 'Tested', message: 'by the contract', lastTransitionTime: '2026-01-01T00:00:00Z' }
}

function applyCondition(name: string, ...conditions: readonly object[]): Patch {
  const body = { apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', metadata: { name }, status: { conditions } }
  return { type: 'apply', body }
}

/** patch: merge, JSON, server-side apply. */
export const patchCases: readonly ContractCase[] = [
  {
    name: 'a merge patch sets fields, removes fields with null, and replaces whole lists',
    async run({ api, namespace }) {
      const created = await api.create(
        endpoints,
        endpointsIn(namespace, 'a', { labels: { keep: '1', drop: '2' }, annotations: { x: 'y' } }),
      )
      const body = {
        metadata: { labels: { drop: null, add: '3' }, annotations: null },
        subsets: [{ addresses: [{ ip: '192.0.2.9' }] }],
      }
      const patched = await api.patch(endpoints, { namespace, name: 'a' }, merge(body))
      assert.deepEqual(patched.metadata?.labels, { keep: '1', add: '3' })
      assert.equal(patched.metadata?.annotations, undefined)
      assert.deepEqual(patched.subsets, [{ addresses: [{ ip: '192.0.2.9' }] }])
      assert.ok(isNewer(patched, created))
    },
  },
  {
    name: 'a merge patch without a change returns the object with its former resourceVersion',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a', { labels: { x: 'y' } }))
      const patched = await api.patch(
        endpoints,
        { namespace, name: 'a' },
        merge({ metadata: { labels: { x: 'y', z: null } } }),
      )
      assert.deepEqual(patched, created)
    },
  },
  {
    name: 'a merge patch with an old resourceVersion is a Conflict, and with the current one is applied',
    async run({ api, namespace }) {
      const { metadata } = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const guarded = (resourceVersion: string | undefined) =>
        api.patch(endpoints, { namespace, name: 'a' }, merge({ metadata: { resourceVersion, labels: { x: 'y' } } }))
      await rejectsWith('Conflict', guarded('1'))
      assert.deepEqual((await guarded(metadata?.resourceVersion)).metadata?.labels, { x: 'y' })
    },
  },
  {
    name: 'a merge patch or JSON patch of an object that does not exist is NotFound',
    async run({ api, namespace }) {
      await rejectsWith('NotFound', api.patch(endpoints, { namespace, name: 'a' }, merge({})))
      await rejectsWith('NotFound', api.patch(endpoints, { namespace, name: 'a' }, json()))
    },
  },
  {
    name: 'a merge patch can change neither the name nor the uid of an object',
    async run({ api, namespace }) {
      await api.create(endpoints, endpointsIn(namespace, 'a'))
      await rejectsWith(
        'BadRequest',
        api.patch(endpoints, { namespace, name: 'a' }, merge({ metadata: { name: 'b' } })),
      )
      await rejectsWith('Invalid', api.patch(endpoints, { namespace, name: 'a' }, merge({ metadata: { uid: 'b' } })))
    },
  },
  {
    name: 'the result of a patch is validated',
    async run({ api, namespace }) {
      await api.create(endpointSlices, sliceIn(namespace, 'a'))
      const error = await rejectsWith(
        'Invalid',
        api.patch(endpointSlices, { namespace, name: 'a' }, merge({ addressType: 'IPv6' })),
      )
      assert.equal(error.status?.details?.causes?.[0]?.field, 'addressType')
    },
  },
  {
    name: 'a JSON patch executes add, replace, remove, move, copy and test in order',
    async run({ api, namespace }) {
      await api.create(endpoints, endpointsIn(namespace, 'a', { annotations: { 'example.com/one': '1', two: '2' } }))
      const patched = await api.patch(
        endpoints,
        { namespace, name: 'a' },
        json(
          { op: 'test', path: '/metadata/annotations/example.com~1one', value: '1' },
          { op: 'add', path: '/metadata/annotations/a~0b', value: 'tilde' },
          { op: 'remove', path: '/metadata/annotations/a~0b' },
          { op: 'replace', path: '/metadata/annotations/two', value: '22' },
          { op: 'move', from: '/metadata/annotations/example.com~1one', path: '/metadata/annotations/three' },
          { op: 'copy', from: '/metadata/annotations/two', path: '/metadata/annotations/four' },
          { op: 'add', path: '/subsets/0/addresses/0', value: { ip: '192.0.2.8' } },
          { op: 'add', path: '/subsets/0/addresses/-', value: { ip: '192.0.2.9' } },
          { op: 'remove', path: '/subsets/0/addresses/1' },
        ),
      )
      assert.deepEqual(patched.metadata?.annotations, { two: '22', three: '1', four: '22' })
      assert.deepEqual(patched.subsets?.[0]?.addresses, [{ ip: '192.0.2.8' }, { ip: '192.0.2.9' }])
    },
  },
  {
    name: 'a JSON patch with an operation that fails is Invalid and changes nothing',
    async run({ api, namespace }) {
      const created = await api.create(endpoints, endpointsIn(namespace, 'a'))
      const operations = [
        { op: 'test', path: '/metadata/name', value: 'b' },
        { op: 'remove', path: '/metadata/labels' },
        { op: 'replace', path: '/metadata/labels/x', value: 'y' },
        { op: 'add', path: '/metadata/labels/x', value: 'y' },
        { op: 'remove', path: '/subsets/7' },
      ]
      const label = { op: 'add', path: '/metadata/labels', value: { x: 'y' } }
      for (const operation of operations) {
        const patch = json(operation, label)
        await rejectsWith('Invalid', api.patch(endpoints, { namespace, name: 'a' }, patch))
      }
      assert.deepEqual(await api.get(endpoints, { namespace, name: 'a' }), created)
    },
  },
  {
    name: 'managedFields name the last field manager that wrote each label',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      await api.create(endpoints, endpointsIn(namespace, 'a', { labels: { x: '1', y: '1' } }), by('one'))
      const patched = await api.patch(endpoints, ref, merge({ metadata: { labels: { y: '2', z: '2' } } }), by('two'))
      assert.deepEqual(labelOwners(patched), { 'one Update': ['x'], 'two Update': ['y', 'z'] })
      const removed = await api.patch(endpoints, ref, merge({ metadata: { labels: { x: null } } }), by('three'))
      assert.deepEqual(labelOwners(removed), { 'two Update': ['y', 'z'] })
      const own = await api.patch(endpoints, ref, merge({ metadata: { labels: { z: null } } }), by('two'))
      assert.deepEqual(labelOwners(own), { 'two Update': ['y'] })
    },
  },
  {
    name: 'apply creates an object that does not exist, and changes nothing when it is repeated',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      const made = await api.patch(endpoints, ref, applied('a', { x: '1' }), by('one'))
      assert.deepEqual(labelOwners(made), { 'one Apply': ['x'] })
      assert.deepEqual(await api.patch(endpoints, ref, applied('a', { x: '1' }), by('one')), made)
    },
  },
  {
    name: 'apply removes fields that its manager no longer applies, unless another manager owns them',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      await api.patch(endpoints, ref, applied('a', { x: '1', shared: '1' }), by('one'))
      await api.patch(endpoints, ref, applied('a', { y: '2', shared: '1' }), by('two'))
      const { metadata } = await api.patch(endpoints, ref, applied('a', { z: '3' }), by('one'))
      assert.deepEqual(metadata?.labels, { shared: '1', y: '2', z: '3' })
    },
  },
  {
    name: 'apply of another value for a field of another manager is a Conflict that names the field and the manager',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      await api.patch(endpoints, ref, applied('a', { x: '1' }), by('one'))
      const error = await rejectsWith('Conflict', api.patch(endpoints, ref, applied('a', { x: '2' }), by('two')))
      assert.deepEqual(error.status?.details?.causes, [
        { reason: 'FieldManagerConflict', message: 'conflict with "one"', field: '.metadata.labels.x' },
      ])
      assert.deepEqual((await api.get(endpoints, ref)).metadata?.labels, { x: '1' })
    },
  },
  {
    name: 'apply of another value for a field that an update wrote is a Conflict, even with the same manager',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      await api.create(endpoints, endpointsIn(namespace, 'a', { labels: { x: '1' } }), by('one'))
      await rejectsWith('Conflict', api.patch(endpoints, ref, applied('a', { x: '2' }), by('one')))
    },
  },
  {
    name: 'apply with force makes its manager the only owner of the field',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      await api.patch(endpoints, ref, applied('a', { x: '1', y: '1' }), by('one'))
      const forced = { ...applied('a', { x: '2' }), force: true } as Patch
      const taken = await api.patch(endpoints, ref, forced, by('two'))
      assert.deepEqual(taken.metadata?.labels, { x: '2', y: '1' })
      assert.deepEqual(labelOwners(taken), { 'one Apply': ['y'], 'two Apply': ['x'] })
    },
  },
  {
    name: 'apply of the current value makes its manager a second owner of the field',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      await api.patch(endpoints, ref, applied('a', { x: '1' }), by('one'))
      const shared = await api.patch(endpoints, ref, applied('a', { x: '1' }), by('two'))
      assert.deepEqual(labelOwners(shared), { 'one Apply': ['x'], 'two Apply': ['x'] })
    },
  },
  {
    name: 'apply without the kind and version of the object is a BadRequest',
    async run({ api, namespace }) {
      const ref = { namespace, name: 'a' }
      await rejectsWith('BadRequest', api.patch(endpoints, ref, { type: 'apply', body: { metadata: { name: 'a' } } }))
      const other = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' } }
      await rejectsWith('BadRequest', api.patch(endpoints, ref, { type: 'apply', body: other }))
    },
  },
  {
    name: 'each condition of a status is applied and owned separately, by its type',
    async run({ api, namespace }) {
      const name = namespace
      await api.create(serviceCidrs, { metadata: { name }, spec: { cidrs: ['198.51.100.0/24'] } })
      const status = { subresource: 'status' } as const
      const apply = (manager: string, patch: Patch) =>
        api.patch(serviceCidrs, { name }, patch, { ...status, ...by(manager) })
      await apply('one', applyCondition(name, condition('Ready', 'False')))
      await apply('two', applyCondition(name, condition('Other', 'True')))
      assert.deepEqual(await conditionsOf(api, name), ['Ready=False', 'Other=True'])
      await apply('one', applyCondition(name, condition('Ready', 'True')))
      assert.deepEqual(await conditionsOf(api, name), ['Ready=True', 'Other=True'])
      const error = await rejectsWith('Conflict', apply('two', applyCondition(name, condition('Ready', 'False'))))
      assert.equal(error.status?.details?.causes?.[0]?.field, '.status.conditions[type="Ready"].status')
      await apply('two', { ...applyCondition(name, condition('Ready', 'False')), force: true } as Patch)
      assert.deepEqual(await conditionsOf(api, name), ['Ready=False'])
    },
  },
  {
    name: 'apply to a status writes only the status, and is NotFound without the object',
    async run({ api, namespace }) {
      const name = namespace
      const patch = applyCondition(name, condition('Ready', 'True'))
      const options = { subresource: 'status', fieldManager: 'one' } as const
      await rejectsWith('NotFound', api.patch(serviceCidrs, { name }, patch, options))
      await api.create(serviceCidrs, { metadata: { name }, spec: { cidrs: ['198.51.100.0/24'] } })
      const body = { ...(patch.body as object), spec: { cidrs: ['203.0.113.0/24'] } }
      const written = await api.patch(serviceCidrs, { name }, { type: 'apply', body }, options)
      assert.deepEqual(written.spec?.cidrs, ['198.51.100.0/24'])
      assert.deepEqual(await conditionsOf(api, name), ['Ready=True'])
    },
  },
  {
    name: 'a Lease can be patched without its resourceVersion',
    async run({ api, namespace }) {
      await api.create(leases, { metadata: { namespace, name: 'a' }, spec: { leaseTransitions: 1 } })
      const { spec } = await api.patch(leases, { namespace, name: 'a' }, merge({ spec: { leaseTransitions: 2 } }))
      assert.equal(spec?.leaseTransitions, 2)
    },
  },
]
