import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type MirrorPlan, mirroringManager, planMirror } from '../../../src/endpointslice/mirroring/mirror-plan.ts'
import type { EndpointSlice, Endpoints, Service } from '../../../src/kube/resources.ts'

const selectorless: Service = { metadata: { namespace: 'ns', name: 'svc' }, spec: {} }
const manager = 'endpointslice.kubernetes.io/managed-by'
const serviceName = 'kubernetes.io/service-name'

function endpointsOf(subsets: unknown, metadata: NonNullable<Endpoints['metadata']> = {}): Endpoints {
  return { metadata: { namespace: 'ns', name: 'svc', uid: 'e-1', ...metadata }, subsets } as Endpoints
}

let made = 0

/** The slices after a plan, as a server stores them. */
function carryOut(slices: readonly EndpointSlice[], plan: MirrorPlan): readonly EndpointSlice[] {
  const stored = new Map(slices.map((slice) => [slice.metadata?.name ?? '', slice]))
  for (const { type, slice } of plan.actions) {
    const name = slice.metadata?.name ?? `${slice.metadata?.generateName}${++made}`
    if (type === 'create') assert.ok(!stored.has(name))
    else assert.ok(stored.has(name), `${type} of ${name}`)
    if (type === 'update')
      assert.equal(stored.get(name)?.addressType, slice.addressType, 'an address type cannot change')
    if (type === 'delete') stored.delete(name)
    else
      stored.set(name, {
        ...slice,
        metadata: { ...slice.metadata, name, uid: `uid-${name}`, resourceVersion: `${++made}` } as never,
      })
  }
  return [...stored.values()]
}

const max = 8
const addresses = fc.array(
  fc.record(
    {
      ip: fc.constantFrom(
        ...Array.from({ length: 12 }, (_, n) => `192.0.2.${n}`),
        '2001:db8::1',
        '2001:DB8::2',
        '::ffff:192.0.2.3',
        '192.0.2.003',
        'none',
        '',
      ),
      hostname: fc.constantFrom('', 'one', 'two'),
      nodeName: fc.constantFrom('node-1', 'node-2'),
      targetRef: fc.record(
        { kind: fc.constant('Pod'), name: fc.constantFrom('a', 'b'), uid: fc.constantFrom('1', '2') },
        { requiredKeys: [], noNullPrototype: true },
      ),
    },
    { requiredKeys: ['ip'], noNullPrototype: true },
  ),
  { maxLength: 12 },
)
const ports = fc.uniqueArray(
  fc.record(
    {
      name: fc.constantFrom('http', 'https', 'dns'),
      port: fc.constantFrom(80, 443),
      protocol: fc.constantFrom('TCP', 'UDP'),
      appProtocol: fc.constantFrom('http', 'kubernetes.io/h2c'),
    },
    { requiredKeys: ['port', 'protocol'], noNullPrototype: true },
  ),
  { maxLength: 3, selector: ({ name }) => name },
)
const subsets = fc.array(
  fc.record({ addresses, notReadyAddresses: addresses, ports }, { requiredKeys: [], noNullPrototype: true }),
  {
    maxLength: 4,
  },
)
const labels = fc.dictionary(fc.constantFrom('a', 'b', manager, serviceName), fc.constantFrom('', '1'), {
  noNullPrototype: true,
})
const annotations = fc.dictionary(
  fc.constantFrom(
    'a',
    'endpoints.kubernetes.io/last-change-trigger-time',
    'kubectl.kubernetes.io/last-applied-configuration',
  ),
  fc.constantFrom('', '1'),
  { noNullPrototype: true },
)
const anyEndpoints = fc
  .record({ subsets, labels, annotations, uid: fc.constantFrom('e-1', 'e-2') })
  .map(({ subsets, ...metadata }) => endpointsOf(subsets, metadata))

/** What clients read from slices: which address is ready on which ports. */
function offers(slices: readonly EndpointSlice[]): readonly string[] {
  return slices
    .flatMap(({ endpoints, ports }) =>
      (endpoints ?? []).flatMap(({ addresses, conditions }) =>
        (ports?.length ? ports : [undefined]).map(
          (port) => `${addresses.join()} ${JSON.stringify(port)} ${conditions?.ready}`,
        ),
      ),
    )
    .sort()
}

test('a second plan changes nothing, whatever the Endpoints and the slices mirrored before', () => {
  fc.assert(
    fc.property(fc.array(anyEndpoints, { minLength: 1, maxLength: 3 }), (history) => {
      let slices: readonly EndpointSlice[] = []
      for (const endpoints of history) {
        const before = structuredClone([endpoints, slices])
        const plan = planMirror({ endpoints, service: selectorless, slices, maxEndpointsPerSubset: max })
        assert.deepEqual([endpoints, slices], before, 'the input is not changed')
        const from = slices
        slices = carryOut(slices, plan)
        const again = planMirror({ endpoints, service: selectorless, slices, maxEndpointsPerSubset: max })
        assert.ok(plan.type === 'mirrored' && again.type === 'mirrored')
        assert.deepEqual(again.actions, [])
        assert.equal(again.unchanged.length, slices.length)
        assert.deepEqual(again.events, plan.events)
        const fresh = planMirror({ endpoints, service: selectorless, slices: [], maxEndpointsPerSubset: max })
        assert.deepEqual(offers(slices), offers(carryOut([], fresh)), 'the result equals that of a first plan')
        const needed = (['IPv4', 'IPv6'] as const).map((type) => {
          const [before, after] = [from, slices].map(
            (list) => list.filter(({ addressType }) => addressType === type).length,
          )
          return Math.max(before ?? 0, after ?? 0)
        })
        assert.ok(
          plan.actions.length <= (needed[0] ?? 0) + (needed[1] ?? 0),
          'no slice is deleted for one that is created',
        )
      }
    }),
    { numRuns: 500 },
  )
})

test('each address of Endpoints within the limit is mirrored exactly once, with its port and readiness', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          family: fc.constantFrom('192.0.2.', '2001:db8::'),
          host: fc.integer({ min: 1, max: 9 }),
          ready: fc.boolean(),
          port: fc.constantFrom(80, 443),
        }),
        { maxLength: max },
      ),
      (wanted) => {
        const known = new Map<string, boolean>()
        for (const { family, host, port, ready } of wanted) {
          const key = `${family}${host} ${port}`
          known.set(key, ready && known.get(key) !== false)
        }
        const endpoints = endpointsOf(
          wanted.map(({ family, host, port, ready }) => ({
            [ready ? 'addresses' : 'notReadyAddresses']: [{ ip: `${family}${host}` }],
            ports: [{ port, protocol: 'TCP' }],
          })),
        )
        const plan = planMirror({ endpoints, service: selectorless, slices: [], maxEndpointsPerSubset: max })
        const found = plan.actions.flatMap(({ slice }) =>
          (slice.endpoints ?? []).flatMap(({ addresses, conditions }) =>
            (slice.ports ?? []).map(({ port }) => [`${addresses[0]} ${port}`, conditions?.ready] as const),
          ),
        )
        assert.deepEqual(found.sort(), [...known].sort())
        for (const { slice } of plan.actions) {
          const isIPv6 = (text: string): boolean => text.includes(':')
          assert.ok(
            slice.endpoints?.every(({ addresses }) => isIPv6(addresses[0] ?? '') === (slice.addressType === 'IPv6')),
          )
        }
      },
    ),
    { numRuns: 1000 },
  )
})

test('a slice never exceeds the maximum, ready addresses come first, and events report the skipped ones', () => {
  const many = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => ({ ip: `192.0.2.${from + n}` }))
  const endpoints = endpointsOf([
    { addresses: [...many(100, 106), { ip: 'none' }], notReadyAddresses: many(10, 20), ports: [{ port: 80 }] },
  ])
  const plan = planMirror({ endpoints, service: selectorless, slices: [], maxEndpointsPerSubset: max })
  assert.ok(plan.type === 'mirrored')
  assert.deepEqual(
    plan.actions.map(({ slice }) =>
      slice.endpoints?.map(({ addresses, conditions }) => `${addresses[0]} ${conditions?.ready}`),
    ),
    [[...many(100, 106).map(({ ip }) => `${ip} true`), '192.0.2.10 false', '192.0.2.11 false']],
  )
  assert.deepEqual(plan.events, [
    { reason: 'InvalidIPAddress', note: 'Skipped 1 invalid IP addresses when mirroring to EndpointSlices' },
    {
      reason: 'TooManyAddressesToMirror',
      note: 'A max of 8 addresses can be mirrored to EndpointSlices per Endpoints subset. 9 addresses were skipped',
    },
  ])
})

test('a created slice has labels, annotations, an owner and every field of an address', () => {
  const targetRef = { kind: 'Pod', namespace: 'ns', name: 'pod', uid: 'p-1', resourceVersion: '7' }
  const endpoints = endpointsOf(
    [
      {
        addresses: [{ ip: '192.0.2.1', hostname: 'one', nodeName: 'node-1', targetRef }],
        ports: [
          { port: 80, protocol: 'TCP' },
          { name: 'admin', port: 81, protocol: 'TCP', appProtocol: 'http' },
        ],
      },
    ],
    {
      labels: { app: 'db', [manager]: 'endpoint-controller' },
      annotations: { note: 'x', 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-01T00:00:00Z' },
    },
  )
  const { actions } = planMirror({ endpoints, service: selectorless, slices: [], maxEndpointsPerSubset: max })
  assert.deepEqual(actions, [
    {
      type: 'create',
      slice: {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: {
          generateName: 'svc-',
          namespace: 'ns',
          labels: { app: 'db', [manager]: mirroringManager, [serviceName]: 'svc' },
          annotations: { note: 'x' },
          ownerReferences: [
            {
              apiVersion: 'v1',
              kind: 'Endpoints',
              name: 'svc',
              uid: 'e-1',
              controller: true,
              blockOwnerDeletion: true,
            },
          ],
        },
        addressType: 'IPv4',
        endpoints: [
          { addresses: ['192.0.2.1'], conditions: { ready: true }, hostname: 'one', targetRef, nodeName: 'node-1' },
        ],
        ports: [
          { name: '', port: 80, protocol: 'TCP' },
          { name: 'admin', port: 81, protocol: 'TCP', appProtocol: 'http' },
        ],
      },
    },
  ])
})

const one = [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ port: 80, protocol: 'TCP' }] }]

test('slices are withdrawn if the Service is missing or has a selector, or the Endpoints are missing or opt out', () => {
  const endpoints = endpointsOf(one)
  const observed = { endpoints, service: selectorless, slices: [], maxEndpointsPerSubset: max }
  const slices = carryOut([], planMirror(observed))
  assert.equal(slices.length, 1)
  const leader = endpointsOf(one, { annotations: { 'control-plane.alpha.kubernetes.io/leader': '' } })
  const skipped = endpointsOf(one, { labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } })
  for (const other of [
    { service: undefined },
    { service: { ...selectorless, spec: { selector: { app: 'db' } } } },
    { endpoints: undefined },
    { endpoints: leader },
    { endpoints: skipped },
  ]) {
    const plan = planMirror({ ...observed, slices, ...other })
    assert.deepEqual(plan, { type: 'withdrawn', actions: [{ type: 'delete', slice: slices[0] }] })
  }
})

test('null counts as absent in Endpoints and in slices', () => {
  const empty = { hostname: null, nodeName: null, targetRef: null }
  const ports = [{ name: null, port: 80, protocol: 'TCP', appProtocol: null }]
  const endpoints = endpointsOf(
    [
      { addresses: [{ ip: '192.0.2.1', ...empty }], notReadyAddresses: null, ports },
      { addresses: null, notReadyAddresses: [{ ip: '192.0.2.2', ...empty }], ports },
      { addresses: [{ ip: '192.0.2.1', targetRef: { kind: 'Pod', name: 'a', uid: '1' } }], ports },
    ],
    { labels: null, annotations: null } as never,
  )
  const observed = { endpoints, service: selectorless, maxEndpointsPerSubset: max }
  const slices = carryOut([], planMirror({ ...observed, slices: [] }))
  assert.deepEqual(
    slices.map((slice) => slice.endpoints?.map(({ addresses, conditions }) => `${addresses} ${conditions?.ready}`)),
    [['192.0.2.1 true', '192.0.2.1 true', '192.0.2.2 false']],
  )
  const asSent = slices.map((slice) => ({
    ...slice,
    metadata: { ...slice.metadata, annotations: null },
    endpoints: slice.endpoints?.map((endpoint) => ({ hostname: null, nodeName: null, zone: null, ...endpoint })),
  })) as unknown as readonly EndpointSlice[]
  assert.deepEqual(planMirror({ ...observed, slices: asSent }).actions, [])
})

test('Endpoints in deletion get no new slices, but their present slices are updated', () => {
  const deletionTimestamp = '2026-01-01T00:00:00Z'
  const observed = { service: selectorless, maxEndpointsPerSubset: max }
  const dying = endpointsOf(one, { deletionTimestamp })
  assert.deepEqual(planMirror({ ...observed, endpoints: dying, slices: [] }).actions, [])
  const slices = carryOut([], planMirror({ ...observed, endpoints: endpointsOf(one), slices: [] }))
  const changed = endpointsOf([{ notReadyAddresses: [{ ip: '192.0.2.1' }], ports: one[0]?.ports }], {
    deletionTimestamp,
  })
  assert.deepEqual(
    planMirror({ ...observed, endpoints: changed, slices }).actions.map(({ type }) => type),
    ['update'],
  )
})

test('an update contains the name and resourceVersion of its slice, and no generateName', () => {
  const observed = { service: selectorless, maxEndpointsPerSubset: max }
  const [slice] = carryOut([], planMirror({ ...observed, endpoints: endpointsOf(one), slices: [] }))
  assert.ok(slice)
  const { actions } = planMirror({ ...observed, endpoints: endpointsOf(one, { uid: 'e-2' }), slices: [slice] })
  const { name, resourceVersion } = slice.metadata ?? {}
  const [update] = actions
  assert.equal(update?.type, 'update')
  assert.equal(update?.slice.metadata?.name, name)
  assert.equal(update?.slice.metadata?.resourceVersion, resourceVersion)
  assert.equal(update?.slice.metadata?.generateName, undefined)
})

test('missing, foreign and duplicate contents of a slice are corrected, and a duplicate slice is deleted', () => {
  const endpoints = endpointsOf([{ addresses: [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }], ports: one[0]?.ports }])
  const observed = { endpoints, service: selectorless, maxEndpointsPerSubset: max }
  const [slice] = carryOut([], planMirror({ ...observed, slices: [] }))
  assert.ok(slice)
  const [first, second] = slice.endpoints ?? []
  assert.ok(first && second)
  const damages: readonly Partial<EndpointSlice>[] = [
    { endpoints: [first] },
    { endpoints: [first, first] },
    { endpoints: [first, second, second] },
    { endpoints: [first, { ...second, zone: 'zone-a' }] },
    { endpoints: [first, { ...second, conditions: { ready: true, serving: true } }] },
    { metadata: { ...slice.metadata, annotations: { own: '1' } } as never },
    { metadata: { ...slice.metadata, labels: { ...slice.metadata?.labels, own: '1' } } as never },
  ]
  for (const damage of damages) {
    const slices: readonly EndpointSlice[] = [{ ...slice, ...damage }]
    const plan = planMirror({ ...observed, slices })
    assert.deepEqual(
      plan.actions.map(({ type }) => type),
      ['update'],
      JSON.stringify(damage),
    )
    assert.deepEqual(carryOut(slices, plan)[0]?.endpoints, slice.endpoints)
  }
  const twin = { ...slice, metadata: { ...slice.metadata, name: 'twin' } as never, endpoints: [first] }
  assert.deepEqual(
    planMirror({ ...observed, slices: [twin, slice] }).actions.map(
      ({ type, slice }) => `${type} ${slice.metadata?.name}`,
    ),
    ['delete twin'],
    'the correct one of two slices is preserved',
  )
})
