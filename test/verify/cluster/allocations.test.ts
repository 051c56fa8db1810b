import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Service, services } from '../../../src/kube/resources.ts'
import { parseCidr } from '../../../src/net/cidr.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { judgeClusterIps, judgeNodePorts } from '../../../src/verify/cluster/allocations.ts'
import { shellLine } from '../../../src/verify/cluster/finding.ts'
import type { CheckContext } from '../../../src/verify/cluster/state.ts'
import { findingsOf } from './findings.ts'
import { bootstrapped } from './world.ts'

const context: CheckContext = { state: {}, expect: {}, nowMs: 0 }

function service(name: string, second: number, spec: object): Service {
  const creationTimestamp = `2026-01-01T00:00:0${second}Z`
  return { metadata: { namespace: 'default', name, creationTimestamp }, spec } as Service
}

const http = { name: 'http', port: 80, targetPort: 8080, nodePort: 30_080 }

test('of two Services with one NodePort the younger gets another one and keeps its other ports', () => {
  const older = service('older', 1, { ports: [http] })
  const younger = service('younger', 2, { ports: [http, { name: 'https', port: 443, nodePort: 30_443 }] })
  const verdict = judgeNodePorts({ services: [younger, older] }, context)
  assert.ok(verdict.status === 'failed')
  const [finding, ...others] = verdict.findings
  assert.deepEqual(others, [])
  assert.equal(finding?.object, 'Service default/younger')
  assert.equal(finding?.found, 'NodePort 30080, as default/older')
  const patches = finding?.remedy.map(({ args }) => JSON.parse(args.at(-1)?.replace('--patch=', '') ?? ''))
  const other = { name: 'https', port: 443, nodePort: 30_443 }
  const { nodePort: _released, ...left } = http
  // The server keeps a NodePort for as long as its port has the same name.
  assert.deepEqual(patches, [
    { spec: { ports: [{ ...left, name: 'released-0' }, other] } },
    { spec: { ports: [left, other] } },
  ])
})

test('the printed commands move a Service to a NodePort in the range', async () => {
  const { api, verify, execute } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const ports = [
    { name: 'dns', port: 53, protocol: 'UDP', nodePort: 30_001 },
    { name: 'dns-tcp', port: 53, protocol: 'TCP', nodePort: 30_001 },
    { name: 'http', port: 80, protocol: 'TCP', nodePort: 30_080 },
  ]
  const name = { namespace: 'default', name: 'outside' }
  await api.create(services, { metadata: name, spec: { type: 'NodePort', ports } } as never)
  const options = { only: ['node-ports'], expect: { serviceNodePortRange: parsePortRange('30050-32767') } } as const
  const [finding, ...others] = findingsOf(await verify(options))
  assert.equal(finding?.found, 'NodePort 30001')
  assert.deepEqual(others, [])
  for (const command of finding?.remedy ?? []) await execute(command)
  assert.deepEqual(findingsOf(await verify(options)), [])
  const after = (await api.get(services, name)).spec?.ports?.map(({ name, nodePort }) => ({ name, nodePort }))
  assert.deepEqual(
    after?.map(({ name }) => name),
    ['dns', 'dns-tcp', 'http'],
  )
  assert.equal(after?.[2]?.nodePort, 30_080)
})

test('one Service may use a NodePort for both TCP and UDP, but two Services may not share it', () => {
  const ports = [
    { ...http, protocol: 'TCP' },
    { ...http, protocol: 'UDP', name: 'quic' },
  ]
  const one = service('one', 1, { ports })
  assert.equal(judgeNodePorts({ services: [one] }, context).status, 'held')
  const udp = service('two', 2, { ports: [{ ...http, protocol: 'UDP' }] })
  assert.equal(judgeNodePorts({ services: [one, udp] }, context).status, 'failed')
})

test('a healthCheckNodePort counts as used, and is released and restored by changing the policy', () => {
  const web = service('web', 1, { ports: [http] })
  const spec = { ports: [{ port: 80 }], healthCheckNodePort: 30_080, externalTrafficPolicy: 'Local' }
  const verdict = judgeNodePorts({ services: [web, service('checked', 2, spec)] }, context)
  assert.ok(verdict.status === 'failed')
  assert.deepEqual(
    verdict.findings[0]?.remedy.map(({ args }) => args.at(-1)),
    ['--patch={"spec":{"externalTrafficPolicy":"Cluster"}}', '--patch={"spec":{"externalTrafficPolicy":"Local"}}'],
  )
})

test('a NodePort outside the expected range fails the check', () => {
  const services = [service('web', 1, { ports: [http] })]
  const judge = (range: string) =>
    judgeNodePorts({ services }, { ...context, expect: { serviceNodePortRange: parsePortRange(range) } }).status
  assert.deepEqual([judge('30000-30100'), judge('30000-30010')], ['held', 'failed'])
})

test('the printed commands change the ClusterIP of a Service and preserve its other fields', async () => {
  const { api, verify, execute } = await bootstrapped({ advertiseAddress: '192.0.2.1' })
  const name = { namespace: 'default', name: 'balanced' }
  const given = {
    type: 'LoadBalancer',
    ipFamilies: ['IPv4'],
    ipFamilyPolicy: 'PreferDualStack',
    externalTrafficPolicy: 'Local',
    internalTrafficPolicy: 'Local',
    healthCheckNodePort: 30_900,
    allocateLoadBalancerNodePorts: false,
    loadBalancerClass: 'example.com/class',
    loadBalancerSourceRanges: ['192.0.2.0/24'],
    sessionAffinity: 'ClientIP',
    selector: { app: 'web' },
    ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080 }],
  }
  await api.create(services, { metadata: name, spec: { ...given, clusterIP: '10.0.0.200' } } as never)
  const options = { only: ['cluster-ips'], expect: { serviceClusterIpRange: [parseCidr('10.0.0.0/25')] } } as const
  const before = (await api.get(services, name)).spec
  const [finding] = findingsOf(await verify(options))
  assert.equal(finding?.object, 'Service default/balanced')
  assert.match(
    shellLine(finding.remedy, { kubectl: [], 'apiserver-bootstrap': [] }),
    / # .*external address may change$/,
  )
  for (const command of finding?.remedy ?? []) await execute(command)
  const { clusterIP: _old, clusterIPs: _olds, ...rest } = before ?? {}
  const { clusterIP: _new, clusterIPs: _newAddresses, ...after } = (await api.get(services, name)).spec ?? {}
  assert.deepEqual(after, rest)
})

test('an IP family that is no longer among the ranges is not restored', () => {
  const spec = {
    type: 'ClusterIP',
    ipFamilies: ['IPv4', 'IPv6'],
    ipFamilyPolicy: 'RequireDualStack',
    internalTrafficPolicy: 'Local',
    ports: [{ port: 80 }],
  }
  const lastPatch = (...ranges: readonly string[]): unknown => {
    const expect = { serviceClusterIpRange: ranges.map(parseCidr) }
    const dual = service('dual', 1, { ...spec, clusterIP: '10.0.0.5', clusterIPs: ['10.0.0.5', '2001:db8::5'] })
    const verdict = judgeClusterIps({ services: [dual] }, { ...context, expect })
    assert.ok(verdict.status === 'failed')
    return JSON.parse(verdict.findings[0]?.remedy.at(-1)?.args.at(-1)?.replace('--patch=', '') ?? '')
  }
  const { ipFamilies: _families, ipFamilyPolicy: _policy, ...single } = spec
  assert.deepEqual(lastPatch('10.0.0.0/24'), { spec: { ...single, externalName: null } })
  assert.deepEqual(lastPatch('10.0.0.0/24', '2001:db8:1::/112'), { spec: { ...spec, externalName: null } })
})

test('no IPAddress is created for a ClusterIP that is not an IP address', () => {
  const held = ['older', 'younger'].map((name, second) => service(name, second, { clusterIP: 'bogus', ports: [] }))
  const ipAddresses = [{ metadata: { name: '10.96.0.1' } }] as never
  const verdict = judgeClusterIps(
    { services: held },
    { ...context, state: { ipAddresses: { type: 'read', value: ipAddresses } } },
  )
  assert.ok(verdict.status === 'failed')
  assert.deepEqual(
    verdict.findings.flatMap(({ remedy }) => remedy.filter(({ args }) => args[0] === 'create')),
    [],
  )
})
