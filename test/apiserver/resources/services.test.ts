import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { Embedded } from '../embedded.ts'

const path = '/api/v1/namespaces/default/services'
const cidrs = '/apis/networking.k8s.io/v1/servicecidrs'
const merge = 'application/merge-patch+json'

function service(name: string, spec: object = {}): object {
  return { metadata: { name }, spec: { ports: [{ port: 1 }], ...spec } }
}

async function addresses(embedded: Embedded): Promise<readonly string[]> {
  const { body } = await embedded.send('GET', '/apis/networking.k8s.io/v1/ipaddresses')
  return body.items.map((item: { metadata: { name: string } }) => item.metadata.name)
}

test('without a ServiceCIDR creating a Service fails: the range is full', async () => {
  const embedded = await Embedded.started([])
  const { status, body } = await embedded.send('POST', path, service('a'))
  assert.equal(status, 500)
  assert.equal(body.reason, 'InternalError')
  assert.equal(body.message, 'Internal error occurred: failed to allocate a serviceIP for Service "a": range is full')
  const asked = await embedded.send('POST', path, service('a', { clusterIP: '10.96.0.1' }))
  assert.equal(asked.status, 422)
  assert.match(asked.body.message, /the provided network does not match the current range/)
})

test('a ServiceCIDR allocates ClusterIPs only while it is Ready and not deleted', async () => {
  const embedded = await Embedded.started(['10.96.0.0/16'])
  assert.equal((await embedded.send('POST', path, service('a'))).status, 201)
  const condition = {
    type: 'Ready',
    status: 'False',
    reason: 'x',
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  }
  await embedded.send('PATCH', `${cidrs}/kubernetes/status`, { status: { conditions: [condition] } }, merge)
  assert.equal((await embedded.send('POST', path, service('b'))).status, 500)
  const ready = { ...condition, status: 'True' }
  await embedded.send('PATCH', `${cidrs}/kubernetes/status`, { status: { conditions: [ready] } }, merge)
  assert.equal((await embedded.send('POST', path, service('b'))).status, 201)
  await embedded.send('DELETE', `${cidrs}/kubernetes`)
  assert.equal((await embedded.send('POST', path, service('c'))).status, 500)
})

test('a range is allocated to its last usable address, the lower block last', async () => {
  const embedded = await Embedded.started(['10.96.0.0/27'])
  const given: string[] = []
  for (let i = 0; i < 30; i++) {
    const { status, body } = await embedded.send('POST', path, service(`s${i}`))
    assert.equal(status, 201, `Service ${i}`)
    given.push(body.spec.clusterIP)
  }
  assert.equal(new Set(given).size, 30)
  assert.ok(!given.includes('10.96.0.0') && !given.includes('10.96.0.31'))
  const isLower = (ip: string) => Number(ip.split('.')[3]) <= 16
  assert.ok(!given.slice(0, 14).some(isLower) && given.slice(14).every(isLower))
  assert.equal((await embedded.send('POST', path, service('more'))).status, 500)
  await embedded.send('DELETE', `${path}/s7`)
  assert.equal((await embedded.send('POST', path, service('more'))).body.spec.clusterIP, given[7])
})

test('the first and last usable ClusterIP may be requested; network and broadcast addresses may not', async () => {
  const embedded = await Embedded.started(['10.96.0.0/24', 'fd00::/120'])
  const asked = async (name: string, clusterIP: string) =>
    (await embedded.send('POST', path, service(name, { clusterIP }))).status
  for (const clusterIP of ['10.96.0.0', '10.96.0.255', 'fd00::']) assert.equal(await asked('a', clusterIP), 422)
  for (const [index, clusterIP] of ['10.96.0.1', '10.96.0.254', 'fd00::1', 'fd00::ff'].entries()) {
    assert.equal(await asked(`usable-${index}`, clusterIP), 201, clusterIP)
  }
})

test('on a dual-stack cluster a Service receives the IP families that it requests', async () => {
  const embedded = await Embedded.started(['10.96.0.0/16', 'fd00::/112'])
  const made = async (name: string, spec: object) => (await embedded.send('POST', path, service(name, spec))).body.spec
  assert.deepEqual((await made('single', {})).ipFamilies, ['IPv4'])
  const prefer = await made('prefer', { ipFamilyPolicy: 'PreferDualStack' })
  assert.deepEqual(prefer.ipFamilies, ['IPv4', 'IPv6'])
  assert.match(prefer.clusterIPs[1], /^fd00::/)
  assert.equal(prefer.clusterIP, prefer.clusterIPs[0])
  const other = await made('other', { ipFamilies: ['IPv6'] })
  assert.match(other.clusterIP, /^fd00::/)
  assert.equal(other.ipFamilyPolicy, 'SingleStack')
  const require = await made('require', { ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv6', 'IPv4'] })
  assert.match(require.clusterIPs[0], /^fd00::/)
  assert.equal((await addresses(embedded)).length, 6)
})

test('a Service can change to dual-stack and back, and preserves its first ClusterIP', async () => {
  const embedded = await Embedded.started(['10.96.0.0/16', 'fd00::/112'])
  const { clusterIP } = (await embedded.send('POST', path, service('a'))).body.spec
  const patch = async (spec: object) => embedded.send('PATCH', `${path}/a`, { spec }, merge)
  const dual = (await patch({ ipFamilyPolicy: 'PreferDualStack' })).body.spec
  assert.deepEqual([dual.clusterIPs[0], dual.clusterIPs.length], [clusterIP, 2])
  assert.equal((await patch({ ipFamilies: ['IPv4'] })).status, 422)
  const single = (await patch({ ipFamilyPolicy: 'SingleStack' })).body.spec
  assert.deepEqual([single.clusterIPs, single.ipFamilies], [[clusterIP], ['IPv4']])
  assert.deepEqual(await addresses(embedded), [clusterIP])
})

test('a PreferDualStack Service on a cluster turned dual-stack gets its second ClusterIP only when it requests both families', async () => {
  const embedded = await Embedded.started(['10.96.0.0/16'])
  const preferring = { ipFamilyPolicy: 'PreferDualStack' }
  assert.equal((await embedded.send('POST', path, service('a', preferring))).body.spec.clusterIPs.length, 1)
  await embedded.send('POST', cidrs, { metadata: { name: 'second' }, spec: { cidrs: ['fd00::/112'] } })
  const patch = async (spec: object) => (await embedded.send('PATCH', `${path}/a`, { spec }, merge)).body.spec
  assert.equal((await patch({ sessionAffinity: 'ClientIP' })).clusterIPs.length, 1)
  assert.equal((await patch(preferring)).clusterIPs.length, 1)
  assert.equal((await patch({ ipFamilies: ['IPv4', 'IPv6'] })).clusterIPs.length, 2)
})

test('serviceIpFamilies fixes the IP families whatever the ServiceCIDRs are', async () => {
  const embedded = await Embedded.started(['10.96.0.0/16', 'fd00::/112'], { serviceIpFamilies: ['IPv4'] })
  const { body } = await embedded.send('POST', path, service('a', { ipFamilyPolicy: 'PreferDualStack' }))
  assert.equal(body.spec.clusterIPs.length, 1)
})

test('deleting a Service whose IPAddress is missing succeeds', async () => {
  const embedded = await Embedded.started()
  const { clusterIP } = (await embedded.send('POST', path, service('a'))).body.spec
  await embedded.send('DELETE', `/apis/networking.k8s.io/v1/ipaddresses/${clusterIP}`)
  assert.equal((await embedded.send('DELETE', `${path}/a`)).status, 200)
})

test('NodePorts are allocated from the range once each, and released with their Service', async () => {
  const embedded = await Embedded.started(['10.96.0.0/16'], { serviceNodePortRange: parsePortRange('30000-30002') })
  const create = (name: string, ports: readonly object[]) =>
    embedded.send('POST', path, service(name, { type: 'NodePort', ports }))
  const first = await create('a', [
    { port: 1, name: 'x' },
    { port: 2, name: 'y' },
  ])
  const taken = first.body.spec.ports.map((port: { nodePort: number }) => port.nodePort)
  assert.equal(new Set(taken).size, 2)
  const again = await create('b', [{ port: 1, nodePort: taken[0] }])
  assert.equal(again.status, 422)
  assert.match(again.body.message, /provided port is already allocated/)
  assert.match((await create('b', [{ port: 1, nodePort: 40_000 }])).body.message, /valid ports is 30000-30002/)
  assert.equal((await create('b', [{ port: 1 }])).status, 201)
  assert.equal((await create('c', [{ port: 1 }])).status, 500)
  await embedded.send('DELETE', `${path}/a`)
  assert.equal((await create('c', [{ port: 1, nodePort: taken[0] }])).status, 201)
})

test('one NodePort serves the same port under two protocols', async () => {
  const embedded = await Embedded.started()
  const ports = [
    { port: 53, name: 'dns', protocol: 'UDP' },
    { port: 53, name: 'dns-tcp', protocol: 'TCP' },
  ]
  const { body } = await embedded.send('POST', path, service('a', { type: 'NodePort', ports }))
  assert.equal(body.spec.ports[0].nodePort, body.spec.ports[1].nodePort)
})

test('an update preserves NodePorts that it omits; changing the type to ClusterIP releases them', async () => {
  const embedded = await Embedded.started()
  const { body } = await embedded.send('POST', path, service('a', { type: 'NodePort' }))
  const [{ nodePort }] = body.spec.ports
  const updated = await embedded.send(
    'PUT',
    `${path}/a`,
    service('a', { type: 'NodePort', sessionAffinity: 'ClientIP' }),
  )
  assert.equal(updated.body.spec.ports[0].nodePort, nodePort)
  assert.equal(updated.body.spec.externalTrafficPolicy, 'Cluster')
  const plain = await embedded.send('PATCH', `${path}/a`, { spec: { type: 'ClusterIP' } }, merge)
  assert.equal(plain.body.spec.ports[0].nodePort, undefined)
  assert.equal(plain.body.spec.externalTrafficPolicy, undefined)
  const other = { type: 'NodePort', ports: [{ port: 1, nodePort }] }
  assert.equal((await embedded.send('POST', path, service('b', other))).status, 201)
})

test('only a Service reachable from outside has an externalTrafficPolicy', async () => {
  const embedded = await Embedded.started()
  const policyOf = async (name: string, spec: object) =>
    (await embedded.send('POST', path, service(name, spec))).body.spec.externalTrafficPolicy
  assert.equal(await policyOf('a', { type: 'LoadBalancer' }), 'Cluster')
  assert.equal(await policyOf('b', { externalIPs: ['192.0.2.1'] }), 'Cluster')
  assert.equal(await policyOf('c', { externalIPs: [] }), undefined)
  assert.equal(await policyOf('d', { type: 'NodePort', externalTrafficPolicy: 'Local' }), 'Local')
})

test('invalid clusterIPs cause a single error in spec.clusterIPs', async () => {
  const embedded = await Embedded.started()
  const spec = { clusterIP: 'None', clusterIPs: ['None', '10.96.0.5'], ipFamilies: ['IPv4', 'IPv6'] }
  const { status, body } = await embedded.send(
    'POST',
    path,
    service('a', { ...spec, ipFamilyPolicy: 'RequireDualStack' }),
  )
  assert.equal(status, 422)
  const causes = body.details.causes as readonly { readonly field: string; readonly message: string }[]
  assert.deepEqual(
    causes.map(({ field, message }) => `${field}: ${message.replace(/^Invalid value: .*: /, '')}`),
    ["spec.clusterIPs: 'None' must be the first and only value"],
  )
})

test('a LoadBalancer gets NodePorts unless allocateLoadBalancerNodePorts is false', async () => {
  const embedded = await Embedded.started()
  const { spec } = (await embedded.send('POST', path, service('a', { type: 'LoadBalancer' }))).body
  assert.ok(spec.ports[0].nodePort >= 30_000 && spec.allocateLoadBalancerNodePorts === true)
  const none = { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false }
  assert.equal((await embedded.send('POST', path, service('b', none))).body.spec.ports[0].nodePort, undefined)
})

test('without allocators Services store the addresses they are given, and IPAddresses are neither created nor deleted', async () => {
  const embedded = await Embedded.started(['10.96.0.0/16'], { serviceAllocators: 'none' })
  const port = { port: 1, nodePort: 30000 }
  const given = { type: 'NodePort', clusterIP: '192.0.2.1', clusterIPs: ['192.0.2.1'], ports: [port] }
  for (const name of ['a', 'b']) assert.equal((await embedded.send('POST', path, service(name, given))).status, 201)
  const { body } = await embedded.send('GET', `${path}/b`)
  assert.deepEqual([body.spec.clusterIPs, body.spec.ports[0].nodePort], [['192.0.2.1'], 30000])
  assert.equal((await embedded.send('POST', path, service('c'))).body.spec.clusterIP, undefined)
  assert.deepEqual(await addresses(embedded), [])
  const parentRef = { resource: 'services', namespace: 'default', name: 'a' }
  const ipAddress = { metadata: { name: '192.0.2.1' }, spec: { parentRef } }
  await embedded.send('POST', '/apis/networking.k8s.io/v1/ipaddresses', ipAddress)
  await embedded.send('DELETE', `${path}/a`)
  assert.deepEqual(await addresses(embedded), ['192.0.2.1'])
})

test('a port shares the NodePort of another protocol only if no other port uses it under its own protocol', async () => {
  const embedded = await Embedded.started()
  const ports = [
    { name: 'tcp', port: 53, protocol: 'TCP', nodePort: 30_053 },
    { name: 'udp', port: 53, protocol: 'UDP' },
    { name: 'other', port: 99, protocol: 'UDP', nodePort: 30_053 },
  ]
  const refused = await embedded.send('POST', path, service('a', { type: 'NodePort', ports }))
  assert.equal(refused.status, 422)
  await embedded.send('POST', path, service('a', { type: 'NodePort', ports: ports.slice(0, 1) }))
  const { status, body } = await embedded.send('PUT', `${path}/a`, service('a', { type: 'NodePort', ports }))
  assert.equal(status, 200)
  assert.notEqual(body.spec.ports[1].nodePort, 30_053)
})

test('changing the type to ClusterIP and a NodePort in one update is refused', async () => {
  const embedded = await Embedded.started()
  const ports = [
    { name: 'a', port: 1, nodePort: 30_001 },
    { name: 'b', port: 2, nodePort: 30_002 },
  ]
  await embedded.send('POST', path, service('a', { type: 'NodePort', ports }))
  const changed = [ports[0], { name: 'b', port: 2, nodePort: 30_003 }]
  const refused = await embedded.send('PUT', `${path}/a`, service('a', { type: 'ClusterIP', ports: changed }))
  assert.equal(refused.status, 422)
  const { status, body } = await embedded.send('PUT', `${path}/a`, service('a', { type: 'ClusterIP', ports }))
  assert.equal(status, 200)
  assert.deepEqual(
    body.spec.ports.map((port: object) => 'nodePort' in port),
    [false, false],
  )
})

test('changing a LoadBalancer to NodePort removes allocateLoadBalancerNodePorts', async () => {
  const embedded = await Embedded.started()
  const path = '/api/v1/namespaces/default/services'
  await embedded.send('POST', path, { metadata: { name: 'a' }, spec: { type: 'LoadBalancer', ports: [{ port: 80 }] } })
  const change = { spec: { type: 'NodePort' } }
  const { body } = await embedded.send('PATCH', `${path}/a`, change, 'application/merge-patch+json')
  assert.equal(body.spec.allocateLoadBalancerNodePorts, undefined)
})

test('a ClusterIP in non-canonical form is released with its Service', async () => {
  const embedded = await Embedded.started(['2001:db8::/112'])
  const asked = (clusterIP: string) => embedded.send('POST', path, service('a', { clusterIP }))
  assert.equal((await asked('2001:DB8:0::5')).status, 201)
  assert.deepEqual(await addresses(embedded), ['2001:db8::5'])
  await embedded.send('DELETE', `${path}/a`)
  assert.deepEqual(await addresses(embedded), [])
  assert.equal((await asked('2001:db8::5')).status, 201)
})
