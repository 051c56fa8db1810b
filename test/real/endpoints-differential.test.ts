import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openOwner } from '../peers/owner.ts'
import type { ClusterState } from './workloads/cluster-state.ts'
import { differencesBetween } from './workloads/compare.ts'
import { expectSame } from './workloads/differential.ts'
import { historyOf } from './workloads/history.ts'
import { shrink } from './workloads/shrink.ts'
import { Side } from './workloads/side.ts'
import type { Step } from './workloads/steps.ts'

const steps = 300

// test/long/endpoints-differential.test.ts compares both for 200 seeds, and kube-controller-manager with itself.
describe('kube-controller-manager and this program produce the same Endpoints and EndpointSlices from one history', {
  concurrency: 1,
}, () => {
  const owner = openOwner({ after })
  let sides: readonly [Side, Side]
  let maxEndpointsPerSlice = 100
  before(async () => {
    sides = await Promise.all([
      Side.start(owner, 'kube-controller-manager', { maxEndpointsPerSlice }),
      Side.start(owner, 'apiserver-bootstrap', { maxEndpointsPerSlice }),
    ])
  })

  for (const seed of [1]) {
    test(`seed ${seed}`, () => expectSame(sides, seed, { steps, maxEndpointsPerSlice, shrinkMs: 120_000 }))
  }

  test('both preserve a slice that was empty when the Node of its Pod was deleted', async () => {
    const name = 'drained'
    const steps: readonly Step[] = [
      { type: 'create', plural: 'nodes', object: { metadata: { name } } },
      {
        type: 'create',
        plural: 'services',
        namespace: 0,
        object: { metadata: { name }, spec: { selector: { app: name }, ports: [{ port: 80 }] } } as object,
      },
      {
        type: 'create',
        plural: 'pods',
        namespace: 0,
        object: {
          metadata: { name, labels: { app: name } },
          spec: { nodeName: name, containers: [{ name, image: name }] },
        } as object,
      },
      {
        type: 'patch',
        plural: 'pods',
        namespace: 0,
        name,
        subresource: 'status',
        patch: {
          status: {
            phase: 'Running',
            podIP: '10.0.0.1',
            podIPs: [{ ip: '10.0.0.1' }],
            conditions: [{ type: 'Ready', status: 'True' }],
          },
        },
      },
      { type: 'quiet' },
      { type: 'stop controllers' },
      { type: 'spoil', namespace: 0, service: name, manager: 'selected', damage: 'drop an endpoint' },
      { type: 'delete', plural: 'nodes', name },
      { type: 'start controllers' },
      { type: 'quiet' },
    ]
    for (const side of sides) {
      const life = await side.live(steps)
      try {
        const { slices } = await life.state()
        const left = slices.map(({ ports, endpoints }) => [ports?.length ?? 0, endpoints?.length ?? 0])
        assert.deepEqual(left, [[1, 0]], side.controllers)
      } finally {
        await life.end()
      }
    }
  })

  describe('with at most three endpoints per slice', () => {
    before(async () => {
      maxEndpointsPerSlice = 3
      await Promise.all(sides.map((side) => side.startControllers({ maxEndpointsPerSlice })))
    })

    for (const seed of [4]) {
      test(`seed ${seed}`, () => expectSame(sides, seed, { steps, maxEndpointsPerSlice, shrinkMs: 120_000 }))
    }
  })
})

describe('the comparison of two clusters', () => {
  test('reports an extra empty slice, except while the Node of a Pod is missing', () => {
    const [slice] = state.slices
    const [service] = state.services
    assert.ok(slice !== undefined && service !== undefined)
    const selecting = [{ ...service, spec: { ...service.spec, selector: { app: 'x' } } }]
    const pods = [{ metadata: { name: 'p', namespace: 'a', labels: { app: 'x' } }, spec: { nodeName: 'node-1' } }]
    const one = { ...state, services: selecting, pods: pods as unknown as ClusterState['pods'] }
    const empty = { ...slice, ports: [{ name: 'dns', port: 53 }], endpoints: [] }
    const other = { ...one, slices: [slice, empty] }
    assert.equal(differencesBetween(one, other).length, 1)
    const missing = { nodes: ['node-2'] }
    assert.deepEqual(differencesBetween({ ...one, ...missing }, { ...other, ...missing }), [])
  })

  test('reports slices over the maximum, and with triggerTimes also slices of other sizes', () => {
    const [slice] = state.slices
    assert.ok(slice !== undefined)
    const [endpoint] = slice.endpoints ?? []
    assert.ok(endpoint !== undefined)
    const apart = { ...state, slices: [slice, slice] }
    const together = { ...state, slices: [{ ...slice, endpoints: [endpoint, endpoint] }] }
    assert.deepEqual(differencesBetween(apart, together, { maxEndpointsPerSlice: 2 }), [])
    const [difference] = differencesBetween(apart, together, { maxEndpointsPerSlice: 1 })
    assert.match(difference?.right ?? '', /^1 slices of more than 1 endpoints/)
    const [other] = differencesBetween(apart, together, { triggerTimes: true })
    assert.match(other?.left ?? '', /^slices of 1, 1 endpoints/)
    assert.match(other?.right ?? '', /^slices of 2 endpoints/)
  })

  test('with triggerTimes, reports a missing trigger time but not a different one', () => {
    const text = JSON.stringify(state)
    const without = text.replace('"endpoints.kubernetes.io/last-change-trigger-time":"2026-01-01T00:00:00Z",', '')
    assert.notEqual(without, text)
    const other = JSON.parse(without)
    assert.deepEqual(differencesBetween(state, other), [])
    const [difference] = differencesBetween(state, other, { triggerTimes: true })
    assert.equal(difference?.what, 'Endpoints a/shop')
    const later = JSON.parse(text.replace('2026-01-01', '2027-01-01'))
    assert.deepEqual(differencesBetween(state, later, { triggerTimes: true }), [])
  })

  test('reports nothing if only names, uids, versions and times differ', () => {
    const other = JSON.parse(
      JSON.stringify(state)
        .replaceAll('uid-', 'another-')
        .replaceAll('shop-abcde', 'shop-fghij')
        .replaceAll('2026', '2027'),
    )
    assert.deepEqual(differencesBetween(state, other), [])
  })

  for (const [what, [from, to]] of Object.entries<readonly [string, string]>({
    'an address': ['"ip":"10.0.0.1"', '"ip":"10.0.0.2"'],
    'an address that is not ready': ['"addresses":[{"ip"', '"notReadyAddresses":[{"ip"'],
    'the address of an endpoint': ['"10.0.0.1"],"conditions"', '"10.0.0.2"],"conditions"'],
    'a condition': ['"serving":true', '"serving":false'],
    'a condition that is absent': ['"terminating":false', '"x":false'],
    'the port of an Endpoints': ['"port":8080}]}]', '"port":8081}]}]'],
    'the port of a slice': ['"port":8080}],"endpoints"', '"port":8081}],"endpoints"'],
    'a label': ['"team":"a","endpointslice', '"team":"b","endpointslice'],
    'an annotation': ['"note":"x"', '"note":"y"'],
    'a Node': ['"nodeName":"node-1","zone"', '"nodeName":"node-2","zone"'],
    'an empty Node instead of none': ['"nodeName":"node-1","targetRef"', '"nodeName":"","targetRef"'],
    'a zone': ['"zone":"zone-a"', '"zone":"zone-b"'],
    'a hint': ['"forZones":[{"name":"zone-a"}]', '"forZones":[{"name":"zone-b"}]'],
    'no hint': ['"hints":{"forZones":[{"name":"zone-a"}]},', ''],
    'a reference to a deleted Pod': ['"uid":"uid-pod"}}],"ports"', '"uid":"uid-old"}}],"ports"'],
    'an owner that does not block its deletion': ['"blockOwnerDeletion":true', '"blockOwnerDeletion":false'],
    'no slice': ['"slices":[{', '"slices":[],"x":[{'],
    'no Endpoints': ['"endpoints":[{"metadata"', '"endpoints":[],"x":[{"metadata"'],
  })) {
    test(`reports a difference: ${what}`, () => {
      const before = JSON.stringify(state)
      assert.equal(before.split(from).length, 2, 'the text is there once')
      const found = differencesBetween(state, JSON.parse(before.replace(from, to)))
      assert.ok(found.length > 0)
    })
  }
})

test('shrink finds the smallest history that still fails', async () => {
  const fails = async (items: readonly number[]): Promise<boolean> => items.includes(7) && items.includes(23)
  const items = Array.from({ length: 60 }, (_, index) => index)
  const options = { deadline: Number.POSITIVE_INFINITY, now: () => 0 }
  assert.deepEqual(await shrink(items, fails, options), [7, 23])
})

test('the same seed gives the same history, another seed another history', () => {
  assert.deepEqual(historyOf(1, { steps }), historyOf(1, { steps }))
  assert.notDeepEqual(historyOf(1, { steps }), historyOf(2, { steps }))
})

/** A Service with one endpoint. */
const state = {
  nodes: ['node-1'],
  services: [
    { metadata: { name: 'shop', namespace: 'a', uid: 'uid-service' }, spec: { trafficDistribution: 'PreferClose' } },
  ],
  pods: [{ metadata: { name: 'p', namespace: 'a', uid: 'uid-pod' } }],
  endpoints: [
    {
      metadata: {
        name: 'shop',
        namespace: 'a',
        uid: 'uid-endpoints',
        labels: { team: 'a' },
        annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-01T00:00:00Z', note: 'x' },
      },
      subsets: [
        {
          addresses: [
            {
              ip: '10.0.0.1',
              nodeName: 'node-1',
              targetRef: { kind: 'Pod', namespace: 'a', name: 'p', uid: 'uid-pod' },
            },
          ],
          ports: [{ name: 'http', port: 8080 }],
        },
      ],
    },
  ],
  slices: [
    {
      metadata: {
        name: 'shop-abcde',
        namespace: 'a',
        uid: 'uid-slice',
        labels: {
          team: 'a',
          'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
          'kubernetes.io/service-name': 'shop',
        },
        ownerReferences: [
          {
            apiVersion: 'v1',
            kind: 'Service',
            name: 'shop',
            uid: 'uid-service',
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080 }],
      endpoints: [
        {
          addresses: ['10.0.0.1'],
          conditions: { ready: true, serving: true, terminating: false },
          hints: { forZones: [{ name: 'zone-a' }] },
          nodeName: 'node-1',
          zone: 'zone-a',
        },
      ],
    },
  ],
} as unknown as ClusterState
