import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type EndpointsAction, isMadeFromPods, planEndpoints } from '../../src/endpoints/endpoints-plan.ts'
import { addressFor } from '../../src/endpoints/wanted-subsets.ts'
import type { Endpoints, Pod, Service } from '../../src/kube/resources.ts'

const triggerTime = '2026-01-01T00:00:00Z'
const triggerAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time'
const overCapacity = 'endpoints.kubernetes.io/over-capacity'
const managedBy = { 'endpoints.kubernetes.io/managed-by': 'endpoint-controller' }

function service(spec: object = {}, metadata: object = {}): Service {
  const whole = { selector: { app: 'web' }, clusterIP: '10.0.0.1', ipFamilies: ['IPv4'], ports: [port()], ...spec }
  return { metadata: { namespace: 'ns', name: 'web', ...metadata }, spec: whole }
}

function port(fields: object = {}): NonNullable<NonNullable<Service['spec']>['ports']>[number] {
  return { port: 80, protocol: 'TCP', targetPort: 8080 as never, ...fields }
}

function pod(
  n: number,
  fields: { readonly ready?: boolean; readonly spec?: object; readonly ips?: string[] } = {},
): Pod {
  const ips = fields.ips ?? [`10.1.${n >> 8}.${n & 255}`]
  return {
    metadata: { namespace: 'ns', name: `pod-${n}`, uid: `uid-${n}` },
    spec: { nodeName: 'node-a', containers: [], ...fields.spec },
    status: {
      phase: 'Running',
      podIP: ips[0] ?? '',
      podIPs: ips.map((ip) => ({ ip })),
      conditions: [{ type: 'Ready', status: fields.ready === false ? 'False' : 'True' }],
    },
  }
}

function many(count: number, ready = true): readonly Pod[] {
  return Array.from({ length: count }, (_, n) => pod(n, { ready }))
}

/** What is stored after an action. */
function stored(action: EndpointsAction): Endpoints {
  assert.ok(action.type === 'create' || action.type === 'update', action.type)
  return action.endpoints
}

test('Endpoints with null or absent lists count as made from Pods if every listed address refers to a Pod', () => {
  const isMade = (subsets: unknown): boolean =>
    isMadeFromPods({ metadata: { labels: managedBy }, subsets } as Endpoints)
  const ofPod = { ip: '192.0.2.1', targetRef: { kind: 'Pod' } }
  for (const none of [undefined, null, []]) {
    assert.equal(isMade(none), true)
    assert.equal(isMade([{ addresses: none, notReadyAddresses: [ofPod] }]), true)
    assert.equal(isMade([{ addresses: [ofPod], notReadyAddresses: none }]), true)
    assert.equal(isMade([{ addresses: [ofPod, { ip: '192.0.2.2' }], notReadyAddresses: none }]), false)
    assert.equal(isMade([{ addresses: none, notReadyAddresses: [{ ip: '192.0.2.2', targetRef: null }] }]), false)
  }
})

test('a created object has only the managed-by label, the trigger time and its name', () => {
  const action = planEndpoints({ service: service(), pods: [], current: undefined, triggerTime })
  const annotations = { [triggerAnnotation]: triggerTime }
  assert.deepEqual(action, {
    type: 'create',
    endpoints: {
      apiVersion: 'v1',
      kind: 'Endpoints',
      metadata: { name: 'web', namespace: 'ns', labels: managedBy, annotations },
    },
  })
  const untimed = planEndpoints({ service: service(), pods: [], current: undefined })
  assert.deepEqual(stored(untimed).metadata, { name: 'web', namespace: 'ns', labels: managedBy })
})

test('an update preserves everything but labels, subsets and our annotations, and has the resourceVersion it is based on', () => {
  const metadata = {
    name: 'web',
    namespace: 'ns',
    uid: 'uid-of-web',
    resourceVersion: '7',
    finalizers: ['example.com/hold'],
    labels: { stale: 'label' },
    annotations: { [triggerAnnotation]: 'long ago', 'example.com/note': 'theirs' },
  }
  const current = { apiVersion: 'v1', kind: 'Endpoints', metadata, future: { field: 1 } }
  const updated = stored(planEndpoints({ service: service(), pods: [pod(1)], current }))
  const annotations = { 'example.com/note': 'theirs' }
  const targetRef = { kind: 'Pod', namespace: 'ns', name: 'pod-1', uid: 'uid-1' }
  assert.deepEqual(updated, {
    ...current,
    metadata: { ...metadata, labels: managedBy, annotations },
    subsets: [
      {
        addresses: [{ ip: '10.1.0.1', nodeName: 'node-a', targetRef }],
        ports: [{ port: 8080, protocol: 'TCP' }],
      },
    ],
  })
})

test('truncated Endpoints are not written while only addresses beyond the limit change', () => {
  const pods = many(1_200)
  const current = stored(planEndpoints({ service: service(), pods, current: undefined, triggerTime }))
  assert.equal(current.metadata?.annotations?.[overCapacity], 'truncated')
  const listed = new Set(current.subsets?.[0]?.addresses?.map(({ ip }) => ip))
  const beyond = pods.findIndex(({ status }) => !listed.has(status?.podIP ?? ''))
  const flipped = pods.with(beyond, pod(beyond, { ready: false }))
  assert.deepEqual(planEndpoints({ service: service(), pods: flipped, current }), { type: 'none' })
  const within = pods.findIndex(({ status }) => listed.has(status?.podIP ?? ''))
  const other = planEndpoints({ service: service(), pods: pods.with(within, pod(within, { ready: false })), current })
  assert.equal(other.type, 'update')
})

test('truncated Endpoints become complete again, without the annotation, when all addresses fit', () => {
  const current = stored(planEndpoints({ service: service(), pods: many(1_001), current: undefined }))
  const updated = stored(planEndpoints({ service: service(), pods: many(1_000), current }))
  assert.equal(updated.metadata?.annotations, undefined)
  assert.equal(updated.subsets?.[0]?.addresses?.length, 1_000)
})

test('Endpoints of too many Pods without the over-capacity annotation are written', () => {
  const pods = many(1_001)
  const { annotations: _, ...metadata } =
    stored(planEndpoints({ service: service(), pods, current: undefined })).metadata ?? {}
  const { subsets } = stored(planEndpoints({ service: service(), pods, current: undefined }))
  const action = planEndpoints({ service: service(), pods, current: { metadata, ...(subsets && { subsets }) } })
  assert.equal(stored(action).metadata?.annotations?.[overCapacity], 'truncated')
})

test('Endpoints that another writer packed in too many pieces to compare are written', () => {
  const pods = many(1_000)
  const splitAfter = (count: number) => {
    const ports = Array.from({ length: count }, (_, n) => port({ name: `p${n}`, port: 80 + n, targetPort: 80 + n }))
    const split = service({ ports })
    const whole = stored(planEndpoints({ service: split, pods, current: undefined }))
    const [{ addresses = [], ports: listed = [] } = {}] = whole.subsets ?? []
    const rest = listed.map((port) => ({ addresses: addresses.slice(500), ports: [port] }))
    const current = { ...whole, subsets: [{ addresses: addresses.slice(0, 500), ports: listed }, ...rest] }
    return planEndpoints({ service: split, pods, current }).type
  }
  assert.deepEqual([splitAfter(10), splitAfter(11)], ['none', 'update'])
})

test('a missing headless label alone causes no write', () => {
  const headless = service({ clusterIP: 'None' })
  const current = stored(planEndpoints({ service: headless, pods: [], current: undefined }))
  assert.equal(current.metadata?.labels?.['service.kubernetes.io/headless'], '')
  const without = { ...current, metadata: { ...current.metadata, labels: managedBy } }
  assert.deepEqual(planEndpoints({ service: headless, pods: [], current: without }), { type: 'none' })
  const updated = planEndpoints({ service: headless, pods: [pod(1)], current: without })
  assert.equal(stored(updated).metadata?.labels?.['service.kubernetes.io/headless'], '')
})

test('a Service that itself has one of our labels does not cause endless writes', () => {
  for (const labels of [{ 'service.kubernetes.io/headless': 'x' }, { 'endpoints.kubernetes.io/managed-by': 'me' }]) {
    const odd = service({}, { labels })
    const current = stored(planEndpoints({ service: odd, pods: [], current: undefined }))
    assert.deepEqual(current.metadata?.labels, managedBy)
    assert.deepEqual(planEndpoints({ service: odd, pods: [], current }), { type: 'none' })
  }
})

test('Endpoints with another managed-by label are written', () => {
  const current = { metadata: { name: 'web', namespace: 'ns', labels: { 'endpoints.kubernetes.io/managed-by': 'me' } } }
  assert.deepEqual(stored(planEndpoints({ service: service(), pods: [], current })).metadata?.labels, managedBy)
})

test('labels follow the Service when one is removed, added or changed', () => {
  const at = (labels: Readonly<Record<string, string>>) => service({}, { labels })
  const current = stored(planEndpoints({ service: at({ a: '1', b: '1' }), pods: [], current: undefined }))
  for (const labels of [{ a: '1' }, { a: '1', b: '1', c: '1' }, { a: '1', b: '2' }] as Record<string, string>[]) {
    const updated = stored(planEndpoints({ service: at(labels), pods: [], current }))
    assert.deepEqual(updated.metadata?.labels, { ...labels, ...managedBy })
  }
})

test('Pods whose named port has another number are in a separate subset', () => {
  const ports = [port({ name: 'web', targetPort: 'http' }), port({ name: 'fixed', port: 81, targetPort: 9090 })]
  const withPort = (n: number, containerPort: number) =>
    pod(n, { spec: { containers: [{ name: 'c', ports: [{ name: 'http', containerPort, protocol: 'TCP' }] }] } })
  const pods = [withPort(1, 8080), withPort(2, 8081), withPort(3, 8080), pod(4)]
  const { subsets } = stored(planEndpoints({ service: service({ ports }), pods, current: undefined }))
  const seen = subsets?.map(({ addresses, ports }) => [
    addresses?.map(({ targetRef }) => targetRef?.name).join(' '),
    ports?.map(({ name, port }) => `${name} ${port}`).join(),
  ])
  assert.deepEqual(
    new Set(seen?.map((one) => one.join(': '))),
    new Set(['pod-1 pod-3: web 8080', 'pod-2: web 8081', 'pod-1 pod-2 pod-3 pod-4: fixed 9090']),
  )
})

test('a Service without ports lists addresses only if it is headless', () => {
  const pods = [pod(1), pod(2, { ready: false })]
  const headless = stored(
    planEndpoints({ service: service({ clusterIP: 'None', ports: undefined }), pods, current: undefined }),
  )
  assert.deepEqual(
    headless.subsets?.map((subset) => Object.keys(subset)),
    [['addresses', 'notReadyAddresses']],
  )
  const other = stored(planEndpoints({ service: service({ ports: [] }), pods, current: undefined }))
  assert.equal(other.subsets, undefined)
})

test('the address of a Pod has the family of the Service, and a hostname only for the Service of its subdomain', () => {
  const dual = pod(1, { ips: ['192.0.2.1', '2001:db8::1'], spec: { hostname: 'one', subdomain: 'web' } })
  const four = service()
  const six = service({ ipFamilies: ['IPv6', 'IPv4'] })
  const unnamed = service({}, { name: 'other' })
  assert.equal(addressFor(four, dual)?.ip, '192.0.2.1')
  assert.equal(addressFor(six, dual)?.ip, '2001:db8::1')
  assert.equal(addressFor(four, dual)?.hostname, 'one')
  assert.equal(addressFor(unnamed, dual)?.hostname, undefined)
})

test('Endpoints of a deleted Service are deleted, those of a Service not made from Pods are left alone', () => {
  const current = { metadata: { namespace: 'ns', name: 'web', uid: 'uid-of-web' } }
  assert.deepEqual(planEndpoints({ service: undefined, pods: [], current }), { type: 'delete', endpoints: current })
  assert.deepEqual(planEndpoints({ service: undefined, pods: [], current: undefined }), { type: 'none' })
  for (const spec of [{ selector: undefined }, { selector: null }, { type: 'ExternalName' }]) {
    assert.deepEqual(planEndpoints({ service: service(spec), pods: [pod(1)], current }), { type: 'none' })
  }
})
