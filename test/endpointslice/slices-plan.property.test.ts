import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Endpoint, endpointOf } from '../../src/endpointslice/endpoint.ts'
import { SlicesMemory } from '../../src/endpointslice/plan-cache.ts'
import { labelsDiffer, labelsOfSlices, portsKey, portsOfPods } from '../../src/endpointslice/slice.ts'
import { isOwnedBy } from '../../src/endpointslice/slice-actions.ts'
import {
  isPlaceholder,
  managedByController,
  planSlices,
  type SlicesInput,
  type SlicesPlan,
} from '../../src/endpointslice/slices-plan.ts'
import type { EndpointSlice, Node, Pod, Service } from '../../src/kube/resources.ts'
import { isEndpoint } from '../../src/workloads/pod-rules.ts'
import { naiveWrites } from './naive-writes.ts'

const service = {
  metadata: { name: 'web', namespace: 'n', uid: 'service', labels: { tier: 'front' } },
  spec: {
    clusterIP: '192.0.2.250',
    ipFamilies: ['IPv4', 'IPv6'],
    selector: { app: 'web' },
    ports: [{ name: 'web', port: 80, protocol: 'TCP', targetPort: 'web' }],
  },
} as unknown as Service
const labels = labelsOfSlices(service, managedByController)
const nodes: Readonly<Record<string, Node>> = {
  a: { metadata: { name: 'a', labels: { 'topology.kubernetes.io/zone': 'z' } } },
  b: { metadata: { name: 'b' } },
}
const movedNodes = { ...nodes, a: { metadata: { name: 'a', labels: { 'topology.kubernetes.io/zone': 'y' } } } }
const addressTypes = ['IPv4', 'IPv6'] as const

/** The properties of a Pod. Another value means another Pod object. */
interface PodLike {
  readonly ready: boolean
  readonly port: number | undefined
  readonly node: string
  readonly families: readonly (4 | 6)[]
  readonly phase: string
  readonly terminating: boolean
}

const ordinary: PodLike = {
  ready: true,
  port: 80,
  node: 'a',
  families: [4, 6],
  phase: 'Running',
  terminating: false,
}

const podLike: fc.Arbitrary<PodLike> = fc.record({
  ready: fc.constantFrom(true, true, true, false),
  port: fc.constantFrom(80, 80, 80, 80, 80, 81, undefined),
  node: fc.constantFrom('a', 'a', 'a', 'a', 'a', 'b', 'missing'),
  families: fc.constantFrom([4, 6], [4, 6], [4, 6], [4, 6], [4], [6], []),
  phase: fc.constantFrom('Running', 'Running', 'Running', 'Running', 'Failed'),
  terminating: fc.constantFrom(false, false, false, false, true),
})

function podOf(index: number, like: PodLike): Pod {
  const ips = like.families.map((family) => (family === 4 ? `192.0.2.${index + 1}` : `2001:db8::${index + 1}`))
  return {
    metadata: {
      name: `pod-${index}`,
      namespace: 'n',
      uid: `uid-${index}`,
      ...(like.terminating ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}),
    },
    spec: {
      nodeName: like.node,
      containers:
        like.port === undefined
          ? []
          : [{ name: 'c', ports: [{ name: 'web', containerPort: like.port, protocol: 'TCP' }] }],
    },
    status: {
      phase: like.phase,
      podIPs: ips.map((ip) => ({ ip })),
      conditions: [{ type: 'Ready', status: like.ready ? 'True' : 'False' }],
    },
  } as unknown as Pod
}

/** The slices, as they are after plans were carried out. */
class World {
  static #version = 1
  slices: readonly EndpointSlice[]

  constructor(slices: readonly EndpointSlice[]) {
    this.slices = slices
  }

  /** Copies a slice, as another client may do. */
  double(name: string | undefined): void {
    const copies = this.slices.filter(({ metadata }) => metadata?.name === name)
    this.slices = [
      ...this.slices,
      ...copies.map((slice) => ({ ...slice, metadata: { ...slice.metadata, name: `copy-${World.#version++}` } })),
    ]
  }

  /** Carries out a plan, and returns the number of its writes. */
  apply({ addressTypes, unsupported }: SlicesPlan): number {
    const slices = new Map(this.slices.map((slice) => [slice.metadata?.name ?? '', slice]))
    const actions = [
      ...addressTypes.flatMap((plan) => plan.actions),
      ...unsupported.map((slice) => ({ type: 'delete', slice }) as const),
    ]
    for (const { type, slice } of actions) {
      const version = String(World.#version++)
      const name = type === 'create' ? `new-${version}` : (slice.metadata?.name ?? '')
      assert.equal(slices.has(name), type !== 'create')
      if (type === 'delete') slices.delete(name)
      else slices.set(name, { ...slice, metadata: { ...slice.metadata, name, resourceVersion: version } })
    }
    this.slices = [...slices.values()]
    return actions.length
  }
}

function input(pods: readonly Pod[], slices: readonly EndpointSlice[], max: number, known = nodes): SlicesInput {
  return {
    service,
    pods,
    nodeOf: (name) => known[name],
    slices,
    maxEndpointsPerSlice: max,
    triggerTime: undefined,
    topology: undefined,
  }
}

function desiredOf(pods: readonly Pod[], addressType: 'IPv4' | 'IPv6', known = nodes): Map<string, Endpoint[]> {
  const groups = new Map<string, Endpoint[]>()
  const portsOf = portsOfPods(service)
  for (const pod of pods) {
    if (!isEndpoint(pod, true)) continue
    const key = portsKey(portsOf(pod))
    const group = groups.get(key) ?? []
    groups.set(key, group)
    const node = known[pod.spec?.nodeName ?? '']
    const endpoint = endpointOf(pod, node, service, addressType)
    if (node !== undefined && endpoint.addresses.length > 0) group.push(endpoint)
  }
  return groups
}

function assertRight(pods: readonly Pod[], slices: readonly EndpointSlice[], known = nodes): void {
  for (const addressType of addressTypes) {
    const listed = slices
      .filter((slice) => slice.addressType === addressType)
      .flatMap((slice) => (slice.endpoints ?? []).map((endpoint) => JSON.stringify([portsKey(slice.ports), endpoint])))
    const wanted = [...desiredOf(pods, addressType, known)].flatMap(([key, endpoints]) =>
      endpoints.map((endpoint) => JSON.stringify([key, endpoint])),
    )
    assert.deepEqual(listed.sort(), wanted.sort())
  }
  for (const slice of slices) assert.ok(isOwnedBy(slice, service))
}

/**
 * Arbitrary slices: their endpoints are present or former Pods, in any state, once or more. Ports, owners and labels
 * are right or wrong.
 */
const startOf = (max: number): fc.Arbitrary<readonly EndpointSlice[]> =>
  fc
    .array(
      fc.record({
        addressType: fc.constantFrom('IPv4', 'IPv4', 'IPv4', 'IPv6', 'IPv6', 'FQDN'),
        port: fc.constantFrom(80, 80, 80, 80, 81, 82, undefined),
        owned: fc.constantFrom(true, true, true, true, false),
        labelled: fc.constantFrom(true, true, true, false),
        members: fc.uniqueArray(fc.nat(11), { maxLength: max, size: 'max' }),
        ready: fc.constantFrom(true, true, true, false),
      }),
      { maxLength: 6, size: 'max' },
    )
    .map((starts) =>
      starts.map(({ addressType, port, owned, labelled, members, ready }, index) => ({
        metadata: {
          name: `old-${index}`,
          namespace: 'n',
          labels: labelled ? labels : { ...labels, tier: 'back' },
          ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid: owned ? 'service' : 'earlier' }],
        },
        addressType,
        ports: port === undefined ? [] : [{ name: 'web', port, protocol: 'TCP' }],
        endpoints: members.map((member) => {
          const pod = podOf(member, { ...ordinary, ready })
          return endpointOf(pod, nodes.a, service, addressType === 'IPv6' ? 'IPv6' : 'IPv4')
        }),
      })),
    )

const podLikes = fc.array(podLike, { maxLength: 10, size: 'max' })

test('from any slices a plan reaches the desired endpoints in no more writes than upstream; a second does nothing', () => {
  const given = fc
    .integer({ min: 1, max: 4 })
    .chain((max) => fc.record({ max: fc.constant(max), likes: podLikes, slices: startOf(max) }))
  fc.assert(
    fc.property(given, ({ max, likes, slices }) => {
      const pods = likes.map((like, index) => podOf(index, like))
      const frozen = structuredClone(slices)
      const naive = addressTypes.map((addressType) =>
        naiveWrites({
          slices: slices.filter((slice) => slice.addressType === addressType),
          desired: desiredOf(pods, addressType),
          max,
          groupOf: (slice) => portsKey(slice.ports),
          isOwned: (slice) => isOwnedBy(slice, service),
          isLabelled: (slice) => !labelsDiffer(slice, labels),
          isPlaceholder: (slice) => isOwnedBy(slice, service) && isPlaceholder(slice, labels),
        }),
      )
      const unsupported = slices.filter(({ addressType }) => addressType === 'FQDN').length
      const world = new World(slices)
      const writes = world.apply(planSlices(input(pods, slices, max)))
      assert.deepEqual(slices, frozen, 'the input is not changed')
      assertRight(pods, world.slices)
      for (const { endpoints } of world.slices) assert.ok((endpoints?.length ?? 0) <= max)
      assert.ok(writes <= naive.reduce((sum, count) => sum + count, unsupported), `${writes} writes, upstream ${naive}`)
      assert.equal(world.apply(planSlices(input(pods, world.slices, max))), 0)
    }),
    { numRuns: 1_000 },
  )
})

/** What happens between two plans. */
type Step =
  | { readonly type: 'pod'; readonly index: number; readonly like: PodLike }
  | { readonly type: 'gone'; readonly index: number }
  | { readonly type: 'empty' | 'lose' | 'double'; readonly index: number }
  | { readonly type: 'nodes' }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant('pod' as const), index: fc.nat(19), like: podLike }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('gone' as const), index: fc.nat(19) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constantFrom('empty' as const, 'lose' as const, 'double' as const),
      index: fc.nat(5),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('nodes' as const) }) },
)

/** All of a plan except the slices themselves, in a fixed order. */
function summaryOf({ addressTypes, unsupported }: SlicesPlan): unknown {
  return [
    unsupported.length,
    ...addressTypes.map(({ actions, packings, leftOut, added, removed, changed }) => ({
      actions: actions.map(({ type }) => type),
      packings: packings.map(({ endpoints, slices }) => `${endpoints}/${slices}`).sort(),
      leftOut: leftOut.map(({ pod }) => pod).sort(),
      added,
      removed,
      changed,
    })),
  ]
}

test('a plan with a memory of earlier plans gives the same result as one without', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 4, max: 20 }),
      fc.array(fc.array(step, { minLength: 1, maxLength: 3 }), { maxLength: 25, size: 'max' }),
      (max, count, history) => {
        const pods = new Map<number, Pod>()
        for (let index = 0; index < count; index++) pods.set(index, podOf(index, ordinary))
        const memory = new SlicesMemory()
        const world = new World([])
        let nodesVersion = 0
        for (const steps of [[], ...history]) {
          for (const one of steps) {
            if (one.type === 'nodes') nodesVersion++
            else if (one.type === 'pod') pods.set(one.index % count, podOf(one.index % count, one.like))
            else if (one.type === 'gone') pods.delete(one.index % count)
            else {
              const name = world.slices[one.index % Math.max(1, world.slices.length)]?.metadata?.name
              if (one.type === 'double') world.double(name)
              else if (one.type === 'lose')
                world.slices = world.slices.filter(({ metadata }) => metadata?.name !== name)
              else {
                world.slices = world.slices.map((slice) =>
                  slice.metadata?.name === name ? { ...slice, endpoints: (slice.endpoints ?? []).slice(1) } : slice,
                )
              }
            }
          }
          const known = nodesVersion % 2 === 0 ? nodes : movedNodes
          const asked = input([...pods.values()], world.slices, max, known)
          const plan = planSlices({ ...asked, memory: { memory, nodesVersion } })
          assert.deepEqual(summaryOf(plan), summaryOf(planSlices(asked)))
          world.apply(plan)
          assertRight([...pods.values()], world.slices, known)
        }
      },
    ),
    { numRuns: 300 },
  )
})
