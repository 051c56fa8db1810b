import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InSyncSlices, SlicesMemory } from '../../src/endpointslice/plan-cache.ts'
import type { AddressType } from '../../src/endpointslice/slice.ts'
import type { EndpointSlice, Node, Pod, Service } from '../../src/kube/resources.ts'
import { getOrMake } from '../../src/runtime/memo.ts'
import { heapBytes } from '../support/heap.ts'

const service = {
  metadata: { name: 'web', namespace: 'n', uid: 'service' },
  spec: { ports: [{ name: 'web', port: 80, protocol: 'TCP', targetPort: 'web' }] },
} as unknown as Service

const nodes = new Map<string, Node>([['a', { metadata: { name: 'a' } }]])

interface PodLike {
  readonly port?: number
  readonly node?: string
  readonly ips?: readonly string[]
}

function podOf(name: string, { port = 80, node = 'a', ips = ['192.0.2.1', '2001:db8::1'] }: PodLike = {}): Pod {
  return {
    metadata: { name, namespace: 'n' },
    spec: {
      nodeName: node,
      containers: [{ name: 'c', ports: [{ name: 'web', containerPort: port, protocol: 'TCP' }] }],
    },
    status: { podIPs: ips.map((ip) => ({ ip })) },
  } as Pod
}

/** Pods with these names. */
const podsOf = (names: string): readonly Pod[] => [...names].map((name) => podOf(name))

interface Asked {
  readonly service?: Service
  readonly nodesVersion?: number
  readonly addressType?: AddressType
}

function settledIn({ settled }: ReturnType<SlicesMemory['recall']>, portsKey: string): InSyncSlices {
  return getOrMake(settled, portsKey, () => new InSyncSlices())
}

/** A memory with one plan for some Pods, each in its own slice. */
class Planned {
  readonly memory = new SlicesMemory()
  readonly first: ReturnType<SlicesMemory['recall']>

  constructor(pods: readonly Pod[]) {
    this.first = this.recall(pods)
    for (const [key, { endpoints }] of this.first.desired.groups) {
      for (const pod of endpoints.keys()) settledIn(this.first, key).settle(sliceOf(pod), [pod])
    }
  }

  recall(pods: readonly Pod[], asked: Asked = {}): ReturnType<SlicesMemory['recall']> {
    const nodeOf = (name: string): Node | undefined => nodes.get(name)
    return this.memory.recall({ service, nodesVersion: 1, addressType: 'IPv4', nodeOf, pods, ...asked })
  }

  /** The desired Pods, and those whose slices need no check, both in alphabetical order. */
  after(pods: readonly Pod[], asked: Asked = {}): { desired: string; settled: string; isFresh: boolean } {
    const recalled = this.recall(pods, asked)
    const groups = [...recalled.desired.groups]
    const desired = groups.flatMap(([, { endpoints }]) => [...endpoints.keys()]).sort()
    const settled = groups.flatMap(([key, { endpoints }]) =>
      [...endpoints.keys()].filter((pod) => settledIn(recalled, key).holds(pod)),
    )
    const isFresh = recalled.desired !== this.first.desired
    return { desired: desired.join(''), settled: settled.sort().join(''), isFresh }
  }
}

function sliceOf(name: string): EndpointSlice {
  return { metadata: { name }, addressType: 'IPv4', endpoints: [] }
}

test('planning the same Pods again reuses the result and checks no slices', () => {
  const pods = podsOf('abcd')
  const planned = new Planned(pods)
  assert.deepEqual(planned.after(pods), { desired: 'abcd', settled: 'abcd', isFresh: false })
  assert.deepEqual(planned.after([...pods]), { desired: 'abcd', settled: 'abcd', isFresh: false })
})

test('after a Pod is replaced, removed or added only its own slice is checked again', () => {
  const [a, b, c, d] = podsOf('abcd') as [Pod, Pod, Pod, Pod]
  const moved = podOf('b', { ips: ['192.0.2.9'] })
  const planned = new Planned([a, b, c, d])
  assert.deepEqual(planned.after([a, moved, c, d]), { desired: 'abcd', settled: 'acd', isFresh: false })
  const [group] = planned.first.desired.groups.values()
  assert.deepEqual(group?.endpoints.get('b')?.addresses, ['192.0.2.9'])
  assert.deepEqual(planned.after([a, moved, d]), { desired: 'abd', settled: 'ad', isFresh: false })
  assert.deepEqual(planned.after([a, moved, d, podOf('e')]), { desired: 'abde', settled: 'ad', isFresh: false })
})

test('each plan compares with the Pods of the previous plan, not of the first one', () => {
  const [a, b, c, d] = podsOf('abcd') as [Pod, Pod, Pod, Pod]
  const planned = new Planned([a, b, c, d])
  for (const [names, pods] of [
    ['abc', [a, b, c]],
    ['abcd', [a, b, c, d]],
    ['abd', [a, b, d]],
    ['abcd', [a, b, d, c]],
  ] as const) {
    const { desired, isFresh } = planned.after(pods)
    assert.deepEqual([desired, isFresh], [names, false])
  }
})

test('removing the first or last Pod or reordering Pods yields the correct endpoints', () => {
  const [a, b, c, d] = podsOf('abcd') as [Pod, Pod, Pod, Pod]
  assert.equal(new Planned([a, b, c, d]).after([b, c, d]).desired, 'bcd')
  assert.equal(new Planned([a, b, c, d]).after([a, b, c]).desired, 'abc')
  assert.equal(new Planned([a, b, c, d]).after([b, c, d, a]).desired, 'abcd')
  assert.equal(new Planned([a, b, c, d]).after([d, a, b, c]).desired, 'abcd')
})

test('changes of up to a quarter of the Pods reuse the result; more changes rebuild it', () => {
  const pods = podsOf('abcdefgh')
  const replaced = (count: number): readonly Pod[] =>
    pods.map((pod, index) => (index < count ? podOf(pod.metadata?.name ?? '') : pod))
  assert.deepEqual(new Planned(pods).after(replaced(2)), { desired: 'abcdefgh', settled: 'cdefgh', isFresh: false })
  assert.deepEqual(new Planned(pods).after(replaced(3)), { desired: 'abcdefgh', settled: '', isFresh: true })
  const joined = [...pods, ...podsOf('ijklmnop')]
  assert.deepEqual(new Planned(pods).after(joined), {
    desired: 'abcdefghijklmnop',
    settled: 'abcdefgh',
    isFresh: false,
  })
  // A quarter of the Pods of the previous plan, not of the remaining Pods.
  assert.equal(new Planned(pods).after(pods.slice(2)).isFresh, false)
  assert.equal(new Planned(pods).after(pods.slice(3)).isFresh, true)
  assert.equal(new Planned(pods).after([...replaced(3), ...podsOf('ijklmnop')]).isFresh, true)
})

test('another version of the Service or of the Nodes rebuilds the result', () => {
  const pods = podsOf('abcd')
  for (const asked of [{ service: structuredClone(service) }, { nodesVersion: 2 }]) {
    const planned = new Planned(pods)
    const isAnew = { desired: 'abcd', settled: '', isFresh: true }
    assert.deepEqual(planned.after(pods, asked), isAnew)
    // The memory has the new result from then on.
    assert.equal(planned.recall(pods, asked), planned.recall(pods, asked))
  }
})

test('the ports of a plan follow the version of the Service that it is given', () => {
  const pods = podsOf('abcd')
  const planned = new Planned(pods)
  const other = {
    ...service,
    spec: { ports: [{ name: 'web', port: 80, protocol: 'TCP', targetPort: 'other' }] },
  } as unknown as Service
  const [group] = planned.recall(pods, { service: other }).desired.groups.values()
  assert.deepEqual(group?.ports, [])
})

test('while a Pod lacks its Node each plan is rebuilt without it; once the Node exists it is included', (t) => {
  t.after(() => nodes.delete('late'))
  const pods = [...podsOf('abc'), podOf('d', { node: 'late' })]
  const planned = new Planned(pods)
  assert.deepEqual(planned.first.desired.leftOut, [{ pod: 'd', node: 'late' }])
  assert.deepEqual(planned.after(pods), { desired: 'abc', settled: '', isFresh: true })
  assert.deepEqual(planned.recall(pods).desired.leftOut, [{ pod: 'd', node: 'late' }])
  nodes.set('late', { metadata: { name: 'late' } })
  assert.deepEqual(planned.after(pods), { desired: 'abcd', settled: '', isFresh: true })
})

test('each address type has its own endpoints and slices', () => {
  const pods = podsOf('abcd')
  const planned = new Planned(pods)
  const other = planned.recall(pods, { addressType: 'IPv6' })
  const [[key, group] = []] = [...other.desired.groups]
  assert.deepEqual(group?.endpoints.get('a')?.addresses, ['2001:db8::1'])
  assert.equal(settledIn(other, key ?? '').endpoints, 0)
  assert.equal(planned.recall(pods), planned.first)
  assert.equal(planned.recall(pods, { addressType: 'IPv6' }), other)
})

test('slices are remembered by the ports of their group, while the group exists', () => {
  const pods = [...podsOf('abcd'), podOf('e', { port: 81 })]
  const planned = new Planned(pods)
  const { first } = planned
  const [most = '', few = ''] = [...first.desired.groups.keys()]
  const before = [settledIn(first, most), settledIn(first, few)]
  assert.deepEqual([settledIn(first, most).endpoints, settledIn(first, few).endpoints], [4, 1])
  planned.recall(pods.slice(0, 4))
  assert.equal(settledIn(first, most), before[0])
  assert.notEqual(settledIn(first, few), before[1], 'a group that is created again is planned anew')
})

test('a Pod that changes its ports is removed from its former group', () => {
  const pods = [...podsOf('abcd'), podOf('e', { port: 81 }), podOf('f', { port: 81 })]
  const planned = new Planned(pods)
  assert.deepEqual(planned.after(pods.toSpliced(4, 1, podOf('e'))), {
    desired: 'abcdef',
    settled: 'abcdf',
    isFresh: false,
  })
  const held = [...planned.first.desired.groups.keys()].map((key) => settledIn(planned.first, key).endpoints)
  assert.deepEqual(held, [4, 1])
})

test('neither a replaced Pod nor the slice that listed it stays in memory', async () => {
  const memory = new SlicesMemory()
  const nodeOf = (name: string): Node | undefined => nodes.get(name)
  /** Plans twice. The second time one of the Pods is another object. */
  const plan = (): readonly WeakRef<object>[] => {
    const pods = podsOf('abcd')
    const slice = sliceOf('one')
    const asked = { service, nodesVersion: 1, addressType: 'IPv4', nodeOf } as const
    const first = memory.recall({ ...asked, pods })
    for (const key of first.desired.groups.keys()) settledIn(first, key).settle(slice, ['a'])
    assert.equal(memory.recall({ ...asked, pods: [podOf('a'), ...pods.slice(1)] }), first)
    return [pods[0], slice].map((one) => new WeakRef(one as object))
  }
  const gone = plan()
  await new Promise((resolve) => setImmediate(resolve))
  heapBytes()
  assert.deepEqual(
    gone.map((one) => one.deref()),
    [undefined, undefined],
  )
})

test('InSyncSlices records the Pods of each slice; a changed Pod removes its whole slice and no other', () => {
  const settled = new InSyncSlices()
  const [one, two, empty] = [sliceOf('one'), sliceOf('two'), sliceOf('empty')]
  settled.settle(one, ['a', 'b'])
  settled.settle(two, ['c'])
  settled.settle(empty, [])
  assert.equal(settled.endpoints, 3)
  assert.deepEqual(
    [one, two, empty, sliceOf('one')].map((slice) => settled.has(slice)),
    [true, true, true, false],
  )
  settled.disturb('nobody')
  assert.equal(settled.endpoints, 3)
  settled.disturb('a')
  assert.equal(settled.endpoints, 1)
  assert.deepEqual(
    [one, two, empty].map((slice) => settled.has(slice)),
    [false, true, true],
  )
  assert.deepEqual(
    ['a', 'b', 'c'].map((pod) => settled.holds(pod)),
    [false, false, true],
  )
})

test('retain() forgets slices that are missing or replaced, with their Pods', () => {
  const settled = new InSyncSlices()
  const [one, two, three] = [sliceOf('one'), sliceOf('two'), sliceOf('three')]
  settled.settle(one, ['a'])
  settled.settle(two, ['b'])
  settled.settle(three, ['c'])
  settled.retain([structuredClone(one), two])
  assert.deepEqual(
    [one, two, three].map((slice) => settled.has(slice)),
    [false, true, false],
  )
  assert.deepEqual(
    ['a', 'b', 'c'].map((pod) => settled.holds(pod)),
    [false, true, false],
  )
  assert.equal(settled.endpoints, 1)
  settled.settle(sliceOf('one'), ['a'])
  assert.equal(settled.endpoints, 2)
})
