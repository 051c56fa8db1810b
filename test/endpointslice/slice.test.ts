import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type EndpointPort, fnv128a, inHashOrder, portsKey } from '../../src/endpointslice/slice.ts'

const http: EndpointPort = { name: 'http', port: 80, protocol: 'TCP', appProtocol: 'ht"tp %' }
const unnamed: EndpointPort = { name: '', port: 8080, protocol: 'UDP' }
const bare: EndpointPort = { name: 'b' }
const dns: EndpointPort = { name: 'dns', port: 53, protocol: 'SCTP' }

test('FNV-1a of 128 bits is that of its authors and of Go', () => {
  assert.equal(fnv128a(''), '6c62272e07bb014262b821756295c58d')
  assert.equal(fnv128a('a'), 'd228cb696f1a8caf78912b704e4a8964')
  const text =
    '(v1.EndpointPort){Name:(*string)http Protocol:(*v1.Protocol)TCP Port:(*int32)80 AppProtocol:(*string)ht"tp %}'
  assert.equal(fnv128a(text), 'cf9d76fad1de30a022ee7762f63c1bb5')
})

test('ports come in the order in which kube-controller-manager writes them', () => {
  assert.deepEqual(inHashOrder([http, unnamed, bare, dns]), [bare, unnamed, http, dns])
  assert.deepEqual(inHashOrder([dns, bare, http, unnamed]), [bare, unnamed, http, dns])
})

test('ports that are in order, or alone, are the same list', () => {
  for (const ports of [[], [http], [bare, unnamed]]) assert.equal(inHashOrder(ports), ports)
})

test('the same ports in any order have one key, others another; none is an empty one', () => {
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

/** As Go's fnv.New128a gives them. */
const known: readonly (readonly [string, string])[] = [
  ['', '6c62272e07bb014262b821756295c58d'],
  ['a', 'd228cb696f1a8caf78912b704e4a8964'],
  ['hello', 'e3e1efd54283d94f7081314b599d31b3'],
  ['é\u2028😀', '2b7190aae002194bba4dfb272af91314'],
  ['0123456789'.repeat(100), 'fe3039ff00b6a34f130c396b71858add'],
]

for (const [text, hash] of known) {
  test(`the hash of ${JSON.stringify(text.slice(0, 12))} is Go's`, () => assert.equal(fnv128a(text), hash))
}
