import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  isOwnedBy,
  namePrefixOf,
  newSlice,
  planWrites,
  type SliceAction,
  updatesWithoutCreations,
} from '../../src/endpointslice/slice-actions.ts'
import type { EndpointSlice, Service } from '../../src/kube/resources.ts'

const service: Service = { metadata: { name: 'web', namespace: 'n', uid: 'present' } }
const triggerTime = '2026-01-01T00:00:00Z'
const annotation = 'endpoints.kubernetes.io/last-change-trigger-time'

interface SliceLike {
  readonly uid?: string
  readonly addressType?: string
  readonly annotations?: Readonly<Record<string, string>>
}

/** A slice as it is stored. */
function stored(name: string, { uid = 'present', addressType = 'IPv4', annotations }: SliceLike = {}): EndpointSlice {
  return {
    metadata: {
      name,
      namespace: 'n',
      resourceVersion: `version of ${name}`,
      labels: { stored: name },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid }],
      ...(annotations && { annotations }),
    },
    addressType,
    endpoints: [],
    ports: [],
  } as unknown as EndpointSlice
}

/** A new slice with one endpoint, whose address identifies it. */
function fresh(address: string, addressType: 'IPv4' | 'IPv6' = 'IPv4'): EndpointSlice {
  return newSlice(service, {
    addressType,
    labels: { fresh: address },
    ports: [],
    endpoints: [{ addresses: [address] }],
  })
}

function planned(wanted: Partial<Parameters<typeof planWrites>[0]>): ReturnType<typeof planWrites> {
  return planWrites({ service, create: [], update: [], remove: [], triggerTime, ...wanted })
}

/** The actions in words: `update a: 192.0.2.1`. */
function words(actions: readonly SliceAction[]): readonly string[] {
  return actions.map(({ type, slice }) => {
    const addresses = (slice.endpoints ?? []).map(({ addresses }) => `: ${addresses}`)
    return `${type} ${slice.metadata?.name ?? 'new'}${addresses.join('')}`
  })
}

test('creations precede updates, and updates precede deletions, each in the given order', () => {
  const { actions, changed } = planned({
    remove: [stored('e', { uid: 'earlier' }), stored('f', { uid: 'earlier' })],
    update: [stored('c'), stored('d')],
    create: [fresh('192.0.2.1'), fresh('192.0.2.2')],
  })
  const creations = ['create new: 192.0.2.1', 'create new: 192.0.2.2']
  assert.deepEqual(words(actions), [...creations, 'update c', 'update d', 'delete e', 'delete f'])
  assert.equal(changed, 6)
})

test('a slice due for deletion is reused for the last creation', () => {
  const create = [fresh('192.0.2.1'), fresh('192.0.2.2')]
  const given = { create, update: [stored('b')], remove: [stored('a', { annotations: { 'its/own': 'note' } })] }
  const before = structuredClone(given)
  const { actions, changed } = planned(given)
  assert.deepEqual(words(actions), ['create new: 192.0.2.1', 'update b', 'update a: 192.0.2.2'])
  assert.equal(changed, 3)
  const { apiVersion, kind, metadata } = create[1] as EndpointSlice
  assert.deepEqual(actions[2]?.slice, {
    apiVersion,
    kind,
    metadata: { ...metadata, name: 'a', resourceVersion: 'version of a', annotations: { [annotation]: triggerTime } },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['192.0.2.2'] }],
    ports: [],
  })
  assert.deepEqual(given, before, 'the input is not changed')
})

test('as many slices are reused as there are creations; the others are deleted', () => {
  const remove = [stored('a'), stored('b'), stored('c')]
  const { actions, changed } = planned({ create: [fresh('192.0.2.1'), fresh('192.0.2.2')], remove })
  assert.deepEqual(words(actions), ['update a: 192.0.2.2', 'update b: 192.0.2.1', 'delete c'])
  assert.equal(changed, 3)
  assert.equal(actions[2]?.slice, remove[2], 'a deleted slice is passed on as it was read')
})

test('slices of an earlier Service or another address type are deleted, not reused', () => {
  const remove = [stored('a', { uid: 'earlier' }), stored('b', { addressType: 'IPv6' }), stored('c')]
  const { actions } = planned({ create: [fresh('192.0.2.1')], remove })
  assert.deepEqual(words(actions), ['update c: 192.0.2.1', 'delete a', 'delete b'])
  assert.deepEqual(words(planned({ create: [fresh('192.0.2.1')], remove: remove.slice(0, 2) }).actions), [
    'create new: 192.0.2.1',
    'delete a',
    'delete b',
  ])
})

test('a Service in deletion gets no new slice, but its present slices are updated', () => {
  const leaving = { metadata: { ...service.metadata, deletionTimestamp: triggerTime } }
  const create = [fresh('192.0.2.1'), fresh('192.0.2.2')]
  const remove = [stored('b'), stored('c', { uid: 'earlier' })]
  const { actions, changed } = planned({ service: leaving, create, update: [stored('a')], remove })
  assert.deepEqual(words(actions), ['update a', 'update b: 192.0.2.2', 'delete c'])
  assert.equal(changed, 4, 'the omitted creation is counted')
})

test('a slice is sent with the trigger time, or without a former one, and with its other annotations', () => {
  const annotations = { [annotation]: 'long ago', 'its/own': 'note' }
  const given = { create: [fresh('192.0.2.1')], update: [stored('a', { annotations }), stored('b')] }
  const sent = (time: string | undefined) =>
    planned({ ...given, triggerTime: time }).actions.map(({ slice }) => slice.metadata?.annotations)
  const timed = { [annotation]: triggerTime }
  assert.deepEqual(sent(triggerTime), [timed, { ...timed, 'its/own': 'note' }, timed])
  assert.deepEqual(sent(undefined), [{}, { 'its/own': 'note' }, {}])
})

test('a slice is sent with its apiVersion and kind, and with its ports in a fixed order', () => {
  const ports = ['a', 'b', 'c', 'd'].map((name, index) => ({ name, port: 80 + index, protocol: 'TCP' }))
  const orders = [ports, ports.toReversed()].map((ports) => {
    const { actions } = planned({ update: [{ ...stored('a'), ports }], create: [{ ...fresh('192.0.2.1'), ports }] })
    for (const { slice } of actions) {
      assert.deepEqual([slice.apiVersion, slice.kind], ['discovery.k8s.io/v1', 'EndpointSlice'])
    }
    return actions.map(({ slice }) => slice.ports?.map(({ name }) => name).join(''))
  })
  assert.deepEqual(orders[0], orders[1])
  const nameless = { ...stored('a'), ports: null } as unknown as EndpointSlice
  assert.equal(planned({ update: [nameless] }).actions[0]?.slice.ports, null)
})

test('a new slice has a generateName and its Service as owner', () => {
  const ports = [{ name: 'web', port: 80, protocol: 'TCP' }]
  const slice = newSlice(service, {
    addressType: 'IPv6',
    labels: { a: 'b' },
    ports,
    endpoints: [{ addresses: ['::1'] }],
  })
  assert.deepEqual(slice, {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      generateName: 'web-',
      namespace: 'n',
      labels: { a: 'b' },
      ownerReferences: [
        { apiVersion: 'v1', kind: 'Service', name: 'web', uid: 'present', controller: true, blockOwnerDeletion: true },
      ],
    },
    addressType: 'IPv6',
    endpoints: [{ addresses: ['::1'] }],
    ports,
  })
  assert.ok(isOwnedBy(slice, service))
})

test('isOwnedBy recognises the Service among owner references by kind, apiVersion and uid', () => {
  const owner = { apiVersion: 'v1', kind: 'Service', name: 'web', uid: 'present' }
  const others = [
    { ...owner, uid: 'earlier' },
    { ...owner, kind: 'Endpoints' },
    { ...owner, apiVersion: 'example.com/v1' },
  ]
  const owned = (ownerReferences?: readonly object[]): boolean =>
    isOwnedBy({ metadata: { ownerReferences } } as unknown as EndpointSlice, service)
  assert.ok(owned([owner]))
  assert.ok(owned([...others, owner]))
  for (const other of others) assert.ok(!owned([other]))
  for (const none of [[], undefined]) assert.ok(!owned(none))
  assert.ok(!isOwnedBy({} as EndpointSlice, service))
})

test('a name prefix ends with a dash, unless no valid name could begin with it', () => {
  for (const name of ['web', 'w', 'my-web', 'web.v1', '9', 'web-', 'a'.repeat(253)])
    assert.equal(namePrefixOf(name), `${name}-`)
  for (const name of ['Web', 'a..b', '-a', 'a_b', 'a'.repeat(254)]) assert.equal(namePrefixOf(name), name)
})

test('without creations only updates run that leave every affected address listed', () => {
  const endpoints = (...addresses: readonly string[]) => addresses.map((one) => ({ addresses: [one] }))
  const holding = (name: string, ...addresses: readonly string[]) =>
    ({ ...stored(name), endpoints: endpoints(...addresses) }) as EndpointSlice
  // Pods in the network of their Node have one address with several ports, in as many slices.
  const existing = [
    holding('a', '192.0.2.1', '192.0.2.9'),
    holding('b', '192.0.2.1', '192.0.2.2'),
    holding('c', '192.0.2.2'),
  ]
  const { actions } = planned({
    create: [fresh('192.0.2.1')],
    update: [holding('a', '192.0.2.1'), holding('b', '192.0.2.2'), holding('c', '192.0.2.3')],
  })
  assert.deepEqual(words(updatesWithoutCreations(actions, existing)), ['update a: 192.0.2.1'])
})
