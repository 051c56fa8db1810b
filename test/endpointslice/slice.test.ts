import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type EndpointPort, portsInOrder, portsKey, portsOfPods } from '../../src/endpointslice/slice.ts'
import type { Pod, Service } from '../../src/kube/resources.ts'

const http: EndpointPort = { name: 'http', port: 80, protocol: 'TCP', appProtocol: 'ht"tp %' }
const unnamed: EndpointPort = { name: '', port: 8080, protocol: 'UDP' }
const bare: EndpointPort = { name: 'b' }
const dns: EndpointPort = { name: 'dns', port: 53, protocol: 'SCTP' }

test('ports are sorted as kube-controller-manager writes them', () => {
  assert.deepEqual(portsInOrder([http, unnamed, bare, dns]), [bare, unnamed, http, dns])
  assert.deepEqual(portsInOrder([dns, bare, http, unnamed]), [bare, unnamed, http, dns])
})

test('a list of sorted ports or of one port is returned as it is', () => {
  for (const ports of [[], [http], [bare, unnamed]]) assert.equal(portsInOrder(ports), ports)
})

test('the key of ports depends on their contents, not their order; null equals an empty list', () => {
  assert.equal(portsKey([http, dns]), portsKey([dns, http]))
  assert.equal(portsKey(null), portsKey([]))
  const keys = [
    [http],
    [dns],
    [http, dns],
    [http, http],
    [{ ...http, port: 81 }],
    [{ ...http, name: 'x' }],
    [{ ...dns, protocol: 'TCP' }],
  ]
  assert.equal(new Set(keys.map(portsKey)).size, keys.length)
  assert.notEqual(portsKey([{ name: '', port: 1 }]), portsKey([{ port: 1 }]))
})

test('Pods with the same numbers share one array, and different arrays share equal ports; few are cached', () => {
  const count = 2_000
  const numeric = Array.from({ length: count - 1 }, (_, index) => ({
    name: `p${index}`,
    port: 1,
    targetPort: index + 1,
  }))
  const ports = [{ name: 'web', port: 1, protocol: 'TCP', targetPort: 'web' }, ...numeric]
  const portsOf = portsOfPods({ spec: { ports } } as unknown as Service)
  const podWith = (containerPort: number): Pod => ({
    spec: { containers: [{ name: 'a', ports: [{ name: 'web', protocol: 'TCP', containerPort }] }] },
  })
  const first = portsOf(podWith(1))
  assert.equal(first.length, count)
  assert.equal(portsOf(podWith(1)), first)
  const second = portsOf(podWith(2))
  assert.equal(new Set([...first, ...second]).size, count + 1)
  for (let number = 3; number < 60; number++) portsOf(podWith(number))
  const again = portsOf(podWith(1))
  assert.notEqual(again, first)
  assert.deepEqual(again, first)
})
