import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Pod, Service } from '../../src/kube/resources.ts'
import {
  findPort,
  hasClusterIp,
  hasHostname,
  isEndpoint,
  isEndpointChange,
  isPodReady,
  isTerminating,
  podAddresses,
} from '../../src/workloads/pod-rules.ts'

const podWith = (...ips: readonly string[]): Pod => ({ status: { podIPs: ips.map((ip) => ({ ip })) } })

test('a Pod is ready only by its condition Ready', () => {
  const conditions = (...statuses: readonly string[]): Pod => ({
    status: { conditions: statuses.map((status, index) => ({ type: index === 0 ? 'Initialized' : 'Ready', status })) },
  })
  assert.equal(isPodReady({}), false)
  assert.equal(isPodReady(conditions('True')), false)
  assert.equal(isPodReady(conditions('False', 'True')), true)
  // The first of a kind counts.
  assert.equal(isPodReady(conditions('True', 'Unknown', 'True')), false)
})

test('an empty Pod is no endpoint; one with either form of address is', () => {
  assert.equal(isEndpoint({}, true), false)
  assert.equal(isEndpoint({ status: { podIP: '192.0.2.1' } }, false), true)
  assert.equal(isEndpoint(podWith('192.0.2.1'), false), true)
})

test('a time of deletion that is null is none', () => {
  const pod = { metadata: { deletionTimestamp: null }, ...podWith('192.0.2.1') } as unknown as Pod
  assert.equal(isTerminating(pod), false)
  assert.equal(isEndpoint(pod, false), true)
})

test('a Pod bears its hostname at the Service that its subdomain names, and without one at none', () => {
  const service: Service = { metadata: { namespace: 'ns', name: 'db' } }
  const pod = (subdomain?: string): Pod => ({
    metadata: { namespace: 'ns' },
    spec: { containers: [], hostname: 'db-0', ...(subdomain === undefined ? {} : { subdomain }) },
  })
  assert.equal(hasHostname(pod('db'), service), true)
  assert.equal(hasHostname(pod(), service), false)
})

test('a port without a target is port 0, as upstream reads it, and a name is never taken for a number', () => {
  const pod: Pod = {
    spec: { containers: [{ name: 'a', ports: [{ name: '80', containerPort: 8080, protocol: 'TCP' }] }] },
  }
  assert.equal(findPort(pod, { port: 80, protocol: 'TCP' }), 0)
  assert.equal(findPort(pod, { port: 80, protocol: 'TCP', targetPort: '80' }), 8080)
  assert.equal(findPort(pod, { port: 80, protocol: 'UDP', targetPort: '80' }), undefined)
  assert.equal(findPort({}, { port: 80, protocol: 'TCP', targetPort: '80' }), undefined)
})

test('addresses come by family, in the order of the Pod and in the form in which Go writes them', () => {
  const pod = podWith('2001:DB8::0001', '192.000.002.01', '::ffff:198.51.100.1', '2001:db8:0:0:1::', '192.0.2.2')
  assert.deepEqual(podAddresses(pod, 'IPv4'), ['192.0.2.1', '198.51.100.1', '192.0.2.2'])
  assert.deepEqual(podAddresses(pod, 'IPv6'), ['2001:db8::1', '2001:db8:0:0:1::'])
})

test('what is no address is left out', () => {
  const pod = {
    status: { podIPs: [{ ip: '' }, { ip: '192.0.2' }, {}, { ip: 'fe80::1%eth0' }, { ip: '192.0.2.1' }] },
  } as Pod
  assert.deepEqual(podAddresses(pod, 'IPv4'), ['192.0.2.1'])
  assert.deepEqual(podAddresses(pod, 'IPv6'), [])
  assert.deepEqual(podAddresses({ status: { podIP: '192.0.2.1' } }, 'IPv4'), [])
})

test('an endpoint may be another one when its addresses change places, and always while the Pod is being deleted', () => {
  assert.equal(isEndpointChange(podWith('192.0.2.1', '2001:db8::1'), podWith('192.0.2.1', '2001:db8::1')), false)
  assert.equal(isEndpointChange(podWith('192.0.2.1', '2001:db8::1'), podWith('2001:db8::1', '192.0.2.1')), true)
  const leaving: Pod = { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }
  assert.equal(isEndpointChange(leaving, leaving), true)
})

test('a headless Service has no ClusterIP, nor has one without an address', () => {
  const answers = [undefined, '', 'None', '192.0.2.1'].map((clusterIP) =>
    hasClusterIp(clusterIP === undefined ? {} : { spec: { clusterIP } }),
  )
  assert.deepEqual(answers, [false, false, false, true])
})
