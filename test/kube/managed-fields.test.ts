import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KubeApi } from '../../src/kube/api.ts'
import { writerBetween } from '../../src/kube/managed-fields.ts'
import { type Endpoints, endpoints, type KubeObject, services } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { Embedded } from '../apiserver/embedded.ts'

const ref = { namespace: 'default', name: 'x' }
const ports = [{ name: 'https', port: 6443, protocol: 'TCP' }]
const subset = (ip: string) => ({ addresses: [{ ip }], ports })

async function setUp() {
  const embedded = await Embedded.started()
  const { transport, clock, time } = embedded
  const as = (fieldManager: string): KubeApi =>
    restKubeApi({ transport, clock, random: seededRandom(1, fieldManager), fieldManager })
  const own = as('own')
  const object = { metadata: { ...ref, labels: { a: '1' } }, subsets: [subset('192.0.2.1')] } as Endpoints
  const created = await own.create(endpoints, object)
  return { time, as, own, created }
}

test('the writer of a change is the manager that replaced fields of another one, even within one second', async () => {
  const { as, own, created, time } = await setUp()
  const patch = (api: KubeApi, ip: string) =>
    api.patch(endpoints, ref, { type: 'merge', body: { subsets: [subset(ip)] } })
  const changed = await patch(as('kubectl-edit'), '192.0.2.9')
  assert.deepEqual(writerBetween(created, changed), {
    manager: 'kubectl-edit',
    operation: 'Update',
    time: changed.metadata?.managedFields
      ?.map((entry) => (entry as { time: string }).time)
      .sort()
      .at(-1),
  })
  const corrected = await patch(own, '192.0.2.1')
  assert.equal(writerBetween(changed, corrected)?.manager, 'own')
  await time.advance(5_000)
  assert.equal(writerBetween(corrected, await patch(as('kubectl-edit'), '192.0.2.9'))?.manager, 'kubectl-edit')
})

test('two writers with the same manager name cannot be distinguished, within one second or later', async () => {
  const { own, created, time } = await setUp()
  const patch = (ip: string) => own.patch(endpoints, ref, { type: 'merge', body: { subsets: [subset(ip)] } })
  const atOnce = await patch('192.0.2.8')
  assert.equal(writerBetween(created, atOnce)?.manager, 'own')
  await time.advance(2_000)
  assert.equal(writerBetween(atOnce, await patch('192.0.2.9'))?.manager, 'own')
})

test('a write that only removes fields has no identifiable writer', async () => {
  const { as, created } = await setUp()
  const thief = as('thief')
  const unlabelled = await thief.patch(endpoints, ref, { type: 'merge', body: { metadata: { labels: null } } })
  assert.equal(writerBetween(created, unlabelled), undefined)
  const emptied = await thief.patch(endpoints, ref, { type: 'merge', body: { subsets: null } })
  assert.equal(writerBetween(unlabelled, emptied), undefined)
})

test('the writer of an object that was not known before is its newest manager', async () => {
  const { as, created, time } = await setUp()
  assert.equal(writerBetween(undefined, created)?.manager, 'own')
  await time.advance(2_000)
  const labelled = await as('later').patch(endpoints, ref, {
    type: 'merge',
    body: { metadata: { labels: { b: '2' } } },
  })
  assert.equal(writerBetween(undefined, labelled)?.manager, 'later')
})

test('the writer is also identified in lists that are merged by item, and with server-side apply', async () => {
  const { as } = await setUp()
  const spec = { clusterIP: 'None', ports: [{ name: 'https', port: 443, targetPort: 6443 }] }
  const service = await as('own').create(services, { metadata: ref, spec } as KubeObject)
  const changed = await as('other').patch(services, ref, {
    type: 'merge',
    body: { spec: { ports: [{ name: 'https', port: 443, targetPort: 1 }] } },
  })
  assert.equal(writerBetween(service, changed)?.manager, 'other')
  const body = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: ref,
    spec: { ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: 2 }] },
  }
  const applied = await as('applier').patch(services, ref, { type: 'apply', body, force: true })
  const { manager, operation } = writerBetween(changed, applied) ?? {}
  assert.deepEqual([manager, operation], ['applier', 'Apply'])
})

test('the writer is identified if kube-apiserver 1.36.3 overwrites the list within the second of its repair', () => {
  const label = { 'f:metadata': { 'f:labels': { '.': {}, 'f:endpointslice.kubernetes.io/skip-mirror': {} } } }
  const object = (ip: string, managedFields: readonly unknown[]): Endpoints =>
    ({ metadata: { managedFields }, subsets: [subset(ip)] }) as unknown as Endpoints
  const entry = (manager: string, fieldsV1: object) => ({
    manager,
    operation: 'Update',
    apiVersion: 'v1',
    time: '2026-11-21T11:10:28Z',
    fieldsType: 'FieldsV1',
    fieldsV1,
  })
  const corrected = object('192.0.2.1', [
    entry('apiserver-bootstrap', { 'f:subsets': {} }),
    entry('kube-apiserver', label),
  ])
  const overwritten = object('192.0.2.250', [entry('kube-apiserver', { ...label, 'f:subsets': {} })])
  assert.equal(writerBetween(corrected, overwritten)?.manager, 'kube-apiserver')
  assert.equal(writerBetween(overwritten, corrected)?.manager, 'apiserver-bootstrap')
})

test('a manager that gains fields in an object within one second is identified, even if it had others before', () => {
  const object = (port: number, ...managedFields: readonly unknown[]): KubeObject =>
    ({ metadata: { managedFields }, spec: { ports: [{ port }] } }) as KubeObject
  const entry = (manager: string, fieldsV1: object) => ({ manager, operation: 'Update', time: 'T', fieldsV1 })
  const ports = { 'f:spec': { 'f:ports': { 'k:{"port":1}': { '.': {} } } } }
  const label = { 'f:metadata': { 'f:labels': {} } }
  const before = object(443, entry('own', { 'f:spec': { 'f:type': {} } }), entry('other', label))
  const after = object(1, entry('own', { 'f:spec': { 'f:type': {} } }), entry('other', { ...label, ...ports }))
  assert.equal(writerBetween(before, after)?.manager, 'other')
  assert.equal(writerBetween(after, before), undefined, 'a manager that loses fields is not the writer')
})

test('a manager that gains one more label within the second of its last write is identified', () => {
  const object = (...labels: readonly string[]): KubeObject => {
    const fields = Object.fromEntries(labels.map((label) => [`f:${label}`, {}]))
    const fieldsV1 = { 'f:metadata': { 'f:labels': fields } }
    return {
      metadata: { managedFields: [{ manager: 'other', operation: 'Update', time: 'T', fieldsV1 }] },
    } as KubeObject
  }
  assert.equal(writerBetween(object('a'), object('a', 'b'))?.manager, 'other')
  assert.equal(writerBetween(object('a', 'b'), object('a', 'b')), undefined)
})

test('writes to the status do not count, and empty or missing managedFields identify no writer', () => {
  const entry = { manager: 'kubelet', operation: 'Update', subresource: 'status', fieldsV1: { 'f:status': {} } }
  assert.equal(writerBetween(undefined, { metadata: { managedFields: [entry] } }), undefined)
  assert.equal(writerBetween(undefined, { metadata: { managedFields: [{}] } }), undefined)
  assert.equal(writerBetween({}, {}), undefined)
})
