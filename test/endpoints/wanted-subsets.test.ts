import assert from 'node:assert/strict'
import { test } from 'node:test'
import { repackSubsets } from '../../src/endpoints/subsets.ts'
import { addressFor, endpointPort, wantedSubsets } from '../../src/endpoints/wanted-subsets.ts'
import type { Pod, Service } from '../../src/kube/resources.ts'
import type { ServicePort } from '../../src/workloads/pod-rules.ts'

function service(spec: object, name = 'web'): Service {
  return { metadata: { namespace: 'ns', name }, spec: { clusterIP: '10.0.0.1', ...spec } } as Service
}

function port(name: string, targetPort: number | string, fields: object = {}): ServicePort {
  return { name, port: 1, protocol: 'TCP', targetPort: targetPort as never, ...fields }
}

interface PodLike {
  readonly ips?: readonly string[]
  readonly ready?: boolean
  readonly ports?: Readonly<Record<string, number>>
  readonly spec?: object
  readonly metadata?: object
  readonly phase?: string
}

/** A Pod with the address `10.1.0.n` and the uid `u<n>`. */
function pod(n: number, like: PodLike = {}): Pod {
  const { ips = [`10.1.0.${n}`], ready = true, ports = {}, phase = 'Running' } = like
  const listed = Object.entries(ports).map(([name, containerPort]) => ({ name, containerPort, protocol: 'TCP' }))
  return {
    metadata: { namespace: 'ns', name: `p${n}`, uid: `u${n}`, ...like.metadata },
    spec: { nodeName: 'node', containers: [{ name: 'c', ports: listed }], ...like.spec },
    status: {
      phase,
      podIP: ips[0] ?? '',
      podIPs: ips.map((ip) => ({ ip })),
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
    },
  } as Pod
}

/** Each subset in a line: `1 2 !3 name:port`. Pods appear as the end of their address, with a mark if not ready. */
function listed(of: Service, pods: readonly Pod[]): readonly string[] {
  const last = ({ ip }: { readonly ip: string }): string => ip.slice(ip.lastIndexOf('.') + 1)
  return wantedSubsets(of, pods)
    .map(({ addresses = [], notReadyAddresses = [], ports = [] }) => {
      const texts = ports.map(({ name = '', port }) => `${name}:${port}`).sort()
      return [...addresses.map(last), ...notReadyAddresses.map((one) => `!${last(one)}`), ...texts].join(' ')
    })
    .sort()
}

const web = service({ ports: [port('web', 8080)] })

test('ready and unready Pods are listed apart; ended and terminating Pods are not listed', () => {
  const leaving = { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }
  const pods = [
    pod(3),
    pod(1, { ready: false }),
    pod(2),
    pod(4, leaving),
    pod(5, { phase: 'Failed' }),
    pod(6, { ips: [] }),
  ]
  assert.deepEqual(listed(web, pods), ['2 3 !1 web:8080'])
  const tolerant = service({ publishNotReadyAddresses: true, ports: [port('web', 8080)] })
  assert.deepEqual(listed(tolerant, pods), ['1 2 3 4 web:8080'])
  assert.deepEqual(listed(web, []), [])
})

test('without ports a headless Service lists only addresses, and any other Service lists nothing', () => {
  const pods = [pod(2, { ready: false }), pod(1), pod(3)]
  for (const ports of [undefined, []]) {
    assert.deepEqual(listed(service({ clusterIP: 'None', ports }), pods), ['1 3 !2'])
    assert.deepEqual(listed(service({ clusterIP: 'None', ports }), []), [])
    assert.deepEqual(listed(service({ ports }), pods), [])
    assert.deepEqual(listed(service({ clusterIP: undefined, ports }), pods), [])
  }
})

test('Pods share a subset if each port has the same number in all of them', () => {
  const named = service({ ports: [port('a', 'http'), port('b', 'metrics'), port('c', 9)] })
  const pods = [
    pod(1, { ports: { http: 80, metrics: 90 } }),
    pod(2, { ports: { http: 80, metrics: 91 } }),
    pod(3, { ports: { http: 80, metrics: 90 }, ready: false }),
    pod(4, { ports: { metrics: 90 } }),
    pod(5),
  ]
  assert.deepEqual(listed(named, pods), ['1 2 !3 a:80', '1 2 4 5 !3 c:9', '1 4 !3 b:90', '2 b:91'])
})

test('the order of ports, and of numbered and named ones, does not affect the subsets', () => {
  const pods = [pod(1, { ports: { http: 80 } }), pod(2, { ports: { http: 81 } })]
  for (const ports of [
    [port('a', 9), port('b', 'http')],
    [port('b', 'http'), port('a', 9)],
  ]) {
    assert.deepEqual(listed(service({ ports }), pods), ['1 2 a:9', '1 b:80', '2 b:81'])
  }
})

test('the ports 1 and 12 are not confused with 11 and 2', () => {
  const ports = [port('a', 'x'), port('b', 'y')]
  const pods = [pod(1, { ports: { x: 1, y: 12 } }), pod(2, { ports: { x: 11, y: 2 } })]
  assert.deepEqual(listed(service({ ports }), pods), ['1 a:1 b:12', '2 a:11 b:2'])
})

test('a Service is refused if its Pods have too many different numbers for too many ports', () => {
  const many = Array.from({ length: 1_000 }, (_, index) => port(`p${index}`, index === 0 ? 'web' : index))
  const pods = Array.from({ length: 51 }, (_, index) => pod(index, { ports: { web: index + 1 } }))
  assert.throws(() => listed(service({ ports: many }), pods), /^Error: Service ns\/web has 1000 ports, for which /)
})

test('ports are grouped by exactly the Pods that offer them, even among many groups of Pods', () => {
  // The Pods differ in the port `own`, so that each is a separate kind.
  const pods = Array.from({ length: 13 }, (_, kind) => {
    const ports = kind === 1 || kind === 2 ? { x: 1 } : kind === 12 ? { y: 1 } : {}
    return pod(100 + kind, { ports: { ...ports, own: 200 + kind } })
  })
  const subsets = listed(service({ ports: [port('a', 'x'), port('b', 'y'), port('own', 'own')] }), pods)
  assert.ok(subsets.includes('101 102 a:1'))
  assert.ok(subsets.includes('112 b:1 own:212'))
})

test('a port with the number 0 is not listed, but its addresses are', () => {
  assert.deepEqual(listed(service({ ports: [port('a', 0)] }), [pod(1)]), ['1'])
  assert.deepEqual(listed(service({ ports: [port('a', 1)] }), [pod(1)]), ['1 a:1'])
})

test('addresses of several groups of Pods, ports and subsets are in canonical order', () => {
  const ports = [port('a', 9), port('b', 'http'), port('c', 7), port('d', 8)]
  const pods = [3, 1, 4, 2, 6, 5].map((n) => pod(n, { ports: { http: 80 + (n % 2) }, ready: n < 5 }))
  const subsets = wantedSubsets(service({ ports }), pods)
  assert.deepEqual(subsets.map(({ ports }) => ports?.length).sort(), [1, 1, 3])
  assert.deepEqual(subsets, repackSubsets(subsets))
  assert.deepEqual(listed(service({ ports }), pods)[0], '1 2 3 4 !5 !6 a:9 c:7 d:8')
})

test('an endpoint port has the non-empty fields of the Service port', () => {
  assert.deepEqual(endpointPort({ port: 1, name: 'a', protocol: 'UDP', appProtocol: 'h2c' }, 80), {
    name: 'a',
    port: 80,
    protocol: 'UDP',
    appProtocol: 'h2c',
  })
  for (const fields of [{}, { name: '', protocol: '', appProtocol: null as never }]) {
    assert.deepEqual(endpointPort({ port: 1, ...fields }, 80), { port: 80 })
  }
  assert.deepEqual(endpointPort({ port: 1, appProtocol: '' }, 80), { port: 80, appProtocol: '' })
})

const both = pod(1, { ips: ['10.1.0.1', '2001:db8::1', '10.1.0.9'] })
const six = pod(2, { ips: ['2001:db8::2', '10.1.0.2'] })

const families: readonly (readonly [what: string, spec: object, both: string, six: string])[] = [
  ['its first family', { ipFamilies: ['IPv6', 'IPv4'] }, '2001:db8::1', '2001:db8::2'],
  [
    'its first family, not that of its ClusterIP',
    { ipFamilies: ['IPv4', 'IPv6'], clusterIP: '2001:db8:1::1' },
    '10.1.0.1',
    '10.1.0.2',
  ],
  ['IPv4 if its family is unknown', { ipFamilies: ['IPv8'], clusterIP: '2001:db8:1::1' }, '10.1.0.1', '10.1.0.2'],
  ['the family of its ClusterIP', { clusterIP: '2001:db8:1::1' }, '2001:db8::1', '2001:db8::2'],
  [
    'the family of its ClusterIP if ipFamilies is empty',
    { ipFamilies: [], clusterIP: '10.0.0.1' },
    '10.1.0.1',
    '10.1.0.2',
  ],
  ['each Pod’s own family if it is headless', { clusterIP: 'None' }, '10.1.0.1', '2001:db8::2'],
  ['each Pod’s own family if its ClusterIP is empty', { clusterIP: '' }, '10.1.0.1', '2001:db8::2'],
  ['each Pod’s own family if it has no ClusterIP', { clusterIP: undefined }, '10.1.0.1', '2001:db8::2'],
]

for (const [what, spec, ofBoth, ofSix] of families) {
  test(`a Service lists the first address of ${what}`, () => {
    const of = service({ ports: [port('web', 8080)], ...spec })
    assert.equal(addressFor(of, both)?.ip, ofBoth)
    assert.equal(addressFor(of, six)?.ip, ofSix)
    const [{ addresses = [] } = {}] = wantedSubsets(of, [both, six])
    assert.deepEqual(addresses.map(({ ip }) => ip).sort(), [ofBoth, ofSix].sort())
  })
}

test('a Pod without an address of the family is not listed, also in a second call', () => {
  const of = service({ ipFamilies: ['IPv6'], ports: [port('web', 8080)] })
  const single = pod(1)
  for (let times = 0; times < 2; times++) {
    assert.equal(addressFor(of, single), undefined)
    assert.deepEqual(wantedSubsets(of, [single]), [])
  }
  assert.equal(addressFor(web, single)?.ip, '10.1.0.1')
})

test('an address refers to its Pod and Node, with an empty nodeName if absent, and without other absent fields', () => {
  const targetRef = { kind: 'Pod', namespace: 'ns', name: 'p1', uid: 'u1' }
  assert.deepEqual(addressFor(web, pod(1)), { ip: '10.1.0.1', nodeName: 'node', targetRef })
  const bare = pod(1, { metadata: { uid: undefined, name: '' }, spec: { nodeName: undefined } })
  assert.deepEqual(JSON.parse(JSON.stringify(addressFor(web, bare))), {
    ip: '10.1.0.1',
    nodeName: '',
    targetRef: { kind: 'Pod', namespace: 'ns', name: '' },
  })
})

test('only the Service of the Pod’s subdomain lists its hostname, in each family', () => {
  const named = pod(1, { ips: ['10.1.0.1', '2001:db8::1'], spec: { hostname: 'p-1', subdomain: 'web' } })
  for (const [family, ip] of [
    ['IPv4', '10.1.0.1'],
    ['IPv6', '2001:db8::1'],
  ]) {
    const [own, other] = ['web', 'other'].map((name) => service({ ipFamilies: [family], ports: [port('a', 1)] }, name))
    assert.ok(own !== undefined && other !== undefined)
    const address = { ip, nodeName: 'node', targetRef: { kind: 'Pod', namespace: 'ns', name: 'p1', uid: 'u1' } }
    assert.deepEqual(addressFor(own, named), { ...address, hostname: 'p-1' })
    assert.deepEqual(addressFor(other, named), address)
    assert.deepEqual(wantedSubsets(own, [named])[0]?.addresses, [{ ...address, hostname: 'p-1' }])
    assert.deepEqual(wantedSubsets(other, [named])[0]?.addresses, [address])
  }
})
