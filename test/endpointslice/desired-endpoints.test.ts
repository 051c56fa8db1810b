import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DesiredEndpoints, leftOutError, SyncFailure } from '../../src/endpointslice/desired-endpoints.ts'
import type { AddressType } from '../../src/endpointslice/slice.ts'
import { KubeError } from '../../src/kube/errors.ts'
import type { Node, Pod, Service } from '../../src/kube/resources.ts'

function service(spec: object = {}): Service {
  const ports = [{ name: 'web', port: 80, protocol: 'TCP', targetPort: 'web' }]
  return { metadata: { name: 'web', namespace: 'n', uid: 'service' }, spec: { ports, ...spec } } as Service
}

interface PodLike {
  readonly port?: number
  readonly node?: string | undefined
  readonly ips?: readonly string[]
  readonly phase?: string
  readonly metadata?: object
}

function podOf(name: string, like: PodLike = {}): Pod {
  const { port = 80, ips = ['192.0.2.1', '2001:db8::1'], phase = 'Running', metadata = {} } = like
  return {
    metadata: { name, namespace: 'n', ...metadata },
    spec: {
      nodeName: 'node' in like ? like.node : 'a',
      containers: [{ name: 'c', ports: [{ name: 'web', containerPort: port, protocol: 'TCP' }] }],
    },
    status: { phase, podIPs: ips.map((ip) => ({ ip })) },
  } as Pod
}

function desired(pods: readonly Pod[], of = service(), addressType: AddressType = 'IPv4'): DesiredEndpoints {
  const node: Node = { metadata: { name: 'a', labels: { 'topology.kubernetes.io/zone': 'z' } } }
  const nodeOf = (name: string): Node | undefined => (name === 'a' ? node : undefined)
  return new DesiredEndpoints({ service: of, nodeOf, addressType }, pods)
}

/** The groups by the numbers of their ports: `80: a b`. */
function listed({ groups }: DesiredEndpoints): readonly string[] {
  return [...groups.values()]
    .map(({ ports, endpoints }) => `${ports.map(({ port }) => port).join()}: ${[...endpoints.keys()].sort().join(' ')}`)
    .sort()
}

test('Pods with the same ports share a group, whatever their order', () => {
  const pods = [podOf('a'), podOf('b', { port: 81 }), podOf('c'), podOf('d', { port: 81 }), podOf('e', { port: 81 })]
  assert.deepEqual(listed(desired(pods)), ['80: a c', '81: b d e'])
  const numbered = service({ ports: [{ name: 'web', port: 1, protocol: 'TCP', targetPort: 9 }] })
  assert.deepEqual(listed(desired(pods, numbered)), ['9: a b c d e'])
})

test('an endpoint has the addresses of its family and the zone of its Node', () => {
  for (const [addressType, address] of [
    ['IPv4', '192.0.2.1'],
    ['IPv6', '2001:db8::1'],
  ] as const) {
    const [group] = desired([podOf('a')], service(), addressType).groups.values()
    const { addresses, zone, nodeName } = group?.endpoints.get('a') ?? {}
    assert.deepEqual({ addresses, zone, nodeName }, { addresses: [address], zone: 'z', nodeName: 'a' })
  }
})

test('an ended Pod or one without an address is no endpoint; a Pod in deletion is', () => {
  const leaving = { deletionTimestamp: '2026-01-01T00:00:00Z' }
  const pods = [podOf('a', { phase: 'Failed' }), podOf('b', { ips: [] }), podOf('c', { metadata: leaving })]
  assert.deepEqual(listed(desired(pods)), ['80: c'])
  assert.deepEqual(listed(desired(pods.slice(0, 2))), [])
})

test('a Pod without an address of the family creates an empty group', () => {
  const single = podOf('a', { ips: ['192.0.2.1'], port: 81 })
  assert.deepEqual(listed(desired([single, podOf('b')], service(), 'IPv6')), ['80: b', '81: '])
})

test('a Pod on an unknown Node is omitted, unless the Service has publishNotReadyAddresses', () => {
  const pods = [podOf('a', { node: 'gone', port: 81 }), podOf('b', { node: undefined }), podOf('c')]
  const found = desired(pods)
  assert.deepEqual(listed(found), ['80: c', '81: '])
  assert.deepEqual(found.leftOut, [
    { pod: 'a', node: 'gone' },
    { pod: 'b', node: '' },
  ])
  const tolerant = desired(pods, service({ publishNotReadyAddresses: true }))
  assert.deepEqual(listed(tolerant), ['80: b c', '81: a'])
  assert.deepEqual(tolerant.leftOut, [])
})

test('removing a Pod removes it from its group; removing the last one, even without an address, ends the group', () => {
  const pods = [podOf('a'), podOf('b', { port: 81 }), podOf('c'), podOf('d', { ips: ['2001:db8::4'] })] as const
  const [a, b, c, d] = pods
  const found = desired(pods)
  found.remove(a)
  assert.deepEqual(listed(found), ['80: c', '81: b'])
  found.remove(c)
  assert.deepEqual(listed(found), ['80: ', '81: b'], 'd is still there')
  found.remove(d)
  assert.deepEqual(listed(found), ['81: b'])
  found.remove(b)
  assert.deepEqual(listed(found), [])
})

test('a group that has ended can begin again', () => {
  const a = podOf('a')
  const found = desired([a])
  found.remove(a)
  found.add(podOf('b'))
  assert.deepEqual(listed(found), ['80: b'])
  found.add(podOf('c', { port: 81 }))
  found.add(a)
  assert.deepEqual(listed(found), ['80: a b', '81: c'])
})

test('removing a Pod that was no endpoint changes nothing', () => {
  const ended = podOf('b', { phase: 'Succeeded' })
  const leaving = podOf('c', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })
  const found = desired([podOf('a'), ended, leaving])
  found.remove(ended)
  assert.deepEqual(listed(found), ['80: a c'])
  found.remove(leaving)
  assert.deepEqual(listed(found), ['80: a'])
})

test('SyncFailure lists each message once, and its cause is the first error from the API server', () => {
  const refused = new KubeError('Forbidden', 'refused')
  const later = new KubeError('Conflict', 'later')
  const causes = [undefined, new Error('of another kind'), refused, later]
  const errors = ['a', 'b', 'a', 'c'].map((message, index) => new Error(message, { cause: causes[index] }))
  const failure = new SyncFailure(errors)
  assert.equal(failure.message, '[a, b, c]')
  assert.equal(failure.cause, refused)
  assert.equal(failure.name, 'SyncFailure')
  const single = new SyncFailure([new Error('a'), new Error('a')])
  assert.equal(single.message, 'a')
  assert.equal(single.cause, undefined)
})

test('the error for an omitted Pod names the Pod, the Service and the Node', () => {
  const error = leftOutError('n/web', { pod: 'a', node: 'gone' })
  assert.equal(error.message, 'skipping Pod a for Service n/web: Node gone Not Found')
})
