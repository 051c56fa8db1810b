import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from '../embedded.ts'

// Compared with kube-apiserver: test/conformance/scenarios/services.ts.

const path = '/api/v1/namespaces/default/services'
const merge = 'application/merge-patch+json'

async function created(spec: object): Promise<Embedded> {
  const embedded = await Embedded.started(['10.96.0.0/16'])
  const { status } = await embedded.send('POST', path, service('web', spec))
  assert.equal(status, 201)
  return embedded
}

function service(name: string, spec: object): object {
  return { metadata: { name }, spec: { ports: [{ port: 80 }], ...spec } }
}

interface Patched {
  readonly status: number
  readonly message: string
  readonly checkPort: number | undefined
}

async function patched(embedded: Embedded, spec: object): Promise<Patched> {
  const { status, body } = await embedded.send('PATCH', `${path}/web`, { spec }, merge)
  return { status, message: body.message ?? '', checkPort: body.spec?.healthCheckNodePort }
}

test('changing a LoadBalancer to ClusterIP removes its LoadBalancer fields and ingress addresses', async () => {
  const embedded = await created({ type: 'LoadBalancer', loadBalancerClass: 'example.com/lb' })
  const ingress = [{ ip: '192.0.2.1' }, { hostname: 'lb.example' }]
  const balanced = await embedded.send('PATCH', `${path}/web/status`, { status: { loadBalancer: { ingress } } }, merge)
  const withMode = [{ ip: '192.0.2.1', ipMode: 'VIP' }, { hostname: 'lb.example' }]
  assert.deepEqual(balanced.body.status.loadBalancer.ingress, withMode)
  const { status, body } = await embedded.send('PATCH', `${path}/web`, { spec: { type: 'ClusterIP' } }, merge)
  assert.equal(status, 200, body.message)
  assert.deepEqual(body.status, { loadBalancer: {} })
  const { externalTrafficPolicy, loadBalancerClass, allocateLoadBalancerNodePorts, ports } = body.spec
  const lost = [externalTrafficPolicy, loadBalancerClass, allocateLoadBalancerNodePorts, ports[0].nodePort]
  assert.deepEqual(lost, [undefined, undefined, undefined, undefined])
})

test('a nodePort or healthCheckNodePort of 0 counts as unset', async () => {
  const embedded = await created({ healthCheckNodePort: 0, ports: [{ port: 80, nodePort: 0 }] })
  const { body } = await embedded.send('GET', `${path}/web`)
  assert.equal('healthCheckNodePort' in body.spec, false)
  assert.deepEqual(body.spec.ports, [{ port: 80, protocol: 'TCP', targetPort: 80 }])
  const owned = body.metadata.managedFields[0].fieldsV1['f:spec']
  assert.equal('f:healthCheckNodePort' in owned, false)
})

test('changing the type together with a field of the former type is refused', async () => {
  const embedded = await created({ type: 'LoadBalancer', loadBalancerClass: 'example.com/lb' })
  for (const [field, value] of [
    ['externalTrafficPolicy', 'Local'],
    ['loadBalancerClass', 'example.com/other'],
    ['allocateLoadBalancerNodePorts', false],
    ['healthCheckNodePort', 31_000],
  ] as const) {
    const { status, message } = await patched(embedded, { type: 'ClusterIP', [field]: value })
    assert.equal(status, 422, field)
    assert.match(message, new RegExp(`spec\\.${field}: `))
  }
})

test('loadBalancerClass and healthCheckNodePort are immutable', async () => {
  const embedded = await created({ type: 'LoadBalancer', externalTrafficPolicy: 'Local' })
  assert.match((await patched(embedded, { loadBalancerClass: 'example.com/lb' })).message, /may not change once set/)
  assert.match((await patched(embedded, { healthCheckNodePort: 31_000 })).message, /field is immutable/)
})

test('a LoadBalancer with externalTrafficPolicy Local gets a healthCheckNodePort, released with that policy', async () => {
  const embedded = await created({ type: 'LoadBalancer', externalTrafficPolicy: 'Local' })
  const { spec } = (await embedded.send('GET', `${path}/web`)).body
  const port = spec.healthCheckNodePort
  assert.ok(port >= 30_000 && port <= 32_767 && port !== spec.ports[0].nodePort, port)
  assert.equal((await patched(embedded, { healthCheckNodePort: null })).checkPort, port)

  const other = service('other', { type: 'NodePort', ports: [{ port: 80, nodePort: port }] })
  assert.equal((await embedded.send('POST', path, other)).status, 422)
  assert.equal((await patched(embedded, { externalTrafficPolicy: 'Cluster' })).checkPort, undefined)
  assert.equal((await embedded.send('POST', path, other)).status, 201)
  const again = await patched(embedded, { externalTrafficPolicy: 'Local', healthCheckNodePort: port })
  assert.equal(again.status, 500)
  assert.match(again.message, /HealthCheck NodePort \d+: provided port is already allocated$/)
})

test('a Service cannot use the same NodePort for two ports of one protocol', async () => {
  const embedded = await created({})
  const twice = [
    { name: 'a', port: 80, nodePort: 31_000 },
    { name: 'b', port: 81, nodePort: 31_000 },
  ]
  const answer = await embedded.send('POST', path, service('twice', { type: 'NodePort', ports: twice }))
  assert.match(answer.body.message, /ports\[1\].nodePort: Invalid value: 31000: provided port is already allocated$/)
  const { status, message } = await patched(embedded, { type: 'NodePort', ports: twice })
  assert.deepEqual([status, message], [500, 'duplicate nodePort: {TCP 31000}'])
})

test('a NodePort that a LoadBalancer requests is reserved even if allocateLoadBalancerNodePorts is false', async () => {
  const spec = { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false, ports: [{ port: 80, nodePort: 31_000 }] }
  const embedded = await created(spec)
  assert.equal((await embedded.send('POST', path, service('other', spec))).status, 422)
})

for (const [spec, message] of [
  [{ externalTrafficPolicy: 'Local' }, /may only be set for externally-accessible services$/],
  [{ type: 'NodePort', externalTrafficPolicy: 'Nowhere' }, /supported values: "Cluster", "Local"$/],
  [{ type: 'NodePort', externalTrafficPolicy: 'Local', healthCheckNodePort: 31_000 }, /may only be set when `type` is/],
  [{ internalTrafficPolicy: 'Nowhere' }, /supported values: "Cluster", "Local"$/],
  [{ trafficDistribution: 'Nowhere' }, /supported values: "PreferClose", "PreferSameZone", "PreferSameNode"$/],
  [{ loadBalancerClass: 'example.com/lb' }, /may only be used when `type` is 'LoadBalancer'$/],
  [{ type: 'LoadBalancer', loadBalancerClass: 'a b' }, /spec.loadBalancerClass: Invalid value: "a b"/],
  [{ loadBalancerSourceRanges: ['10.0.0.0/8'] }, /may only be used when `type` is 'LoadBalancer'$/],
  [{ type: 'LoadBalancer', loadBalancerSourceRanges: [' 10.0.0.0/8 ', '10.0.0.1/8'] }, /\[1\].*beyond the prefix/],
  [{ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } } }, /less than 86400$/],
  [{ externalIPs: ['127.0.0.1'] }, /may not be in the loopback range/],
  [{ ports: [{ port: 80, appProtocol: 'a b' }] }, /spec.ports\[0\].appProtocol: Invalid value/],
] as const) {
  test(`a Service with ${JSON.stringify(spec)} is refused`, async () => {
    const embedded = await Embedded.started(['10.96.0.0/16'])
    const { status, body } = await embedded.send('POST', path, service('web', spec))
    assert.equal(status, 422)
    assert.match(body.message, message)
  })
}

test('ClientIP affinity without a timeout gets the default; an ExternalName drops internalTrafficPolicy', async () => {
  const embedded = await created({ sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: {} } })
  const { body } = await embedded.send('GET', `${path}/web`)
  assert.deepEqual(body.spec.sessionAffinityConfig, { clientIP: { timeoutSeconds: 10_800 } })
  const external = { type: 'ExternalName', externalName: 'a.example', internalTrafficPolicy: 'Local' }
  const answer = await embedded.send('POST', path, service('external', external))
  assert.equal(answer.body.spec.internalTrafficPolicy, undefined)
})

test('invalid LoadBalancer ingress addresses in a status are refused', async () => {
  const embedded = await created({ type: 'LoadBalancer' })
  for (const [point, message] of [
    [{ ip: 'nonsense' }, /ingress\[0\].ip: .*must be a valid IP address/],
    [{ ip: '192.0.2.1', ipMode: 'None' }, /supported values: "Proxy", "VIP"$/],
    [{ hostname: 'a.example', ipMode: 'VIP' }, /may not be specified when `ip` is not set$/],
    [{ hostname: '192.0.2.1' }, /must be a DNS name, not an IP address$/],
    [{ hostname: 'A_B' }, /ingress\[0\].hostname: Invalid value/],
  ] as const) {
    const status = { loadBalancer: { ingress: [point] } }
    const answer = await embedded.send('PATCH', `${path}/web/status`, { status }, merge)
    assert.equal(answer.status, 422, JSON.stringify(point))
    assert.match(answer.body.message, message)
  }
})
