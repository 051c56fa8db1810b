import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type EndpointPort, portsInOrder, portsKey } from '../../src/endpointslice/slice.ts'

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
