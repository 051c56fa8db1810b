import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  addressesIn,
  addressesInSlice,
  endpointPorts,
  isListable,
  portTexts,
  samePorts,
  unlistableReason,
} from '../../src/kubernetes-service/identity.ts'
import { noneReconciler } from '../../src/kubernetes-service/reconcilers/endpoint-reconciler.ts'
import { parseAddress } from '../../src/net/address.ts'

test('the addresses of Endpoints are the ready ones of all subsets, in order, and duplicates stay', () => {
  const subsets = [
    { addresses: [{ ip: '192.0.2.2' }, { ip: '192.0.2.1' }], notReadyAddresses: [{ ip: '192.0.2.9' }] },
    {},
    { addresses: [{ ip: '192.0.2.2' }] },
  ]
  assert.deepEqual(addressesIn({ subsets }), ['192.0.2.2', '192.0.2.1', '192.0.2.2'])
  assert.deepEqual([addressesIn({}), addressesIn(undefined)], [[], []])
})

test('the addresses of a slice are those of all its endpoints', () => {
  const endpoints = [{ addresses: ['192.0.2.2', '192.0.2.1'] }, { addresses: ['192.0.2.3'] }]
  assert.deepEqual(addressesInSlice({ addressType: 'IPv4', endpoints }), ['192.0.2.2', '192.0.2.1', '192.0.2.3'])
  assert.deepEqual(addressesInSlice(undefined), [])
  const empty = [{ addresses: null }] as unknown as typeof endpoints
  assert.deepEqual(addressesInSlice({ addressType: 'IPv4', endpoints: empty }), [])
})

test('ports are equal if they are equal after defaulting, in the same order', () => {
  const [own] = endpointPorts(6443)
  const isSame = (port: object): boolean => samePorts([port], [own ?? {}])
  assert.deepEqual(own, { name: 'https', port: 6443, protocol: 'TCP' })
  assert.equal(endpointPorts(443)[0]?.port, 443)
  assert.equal(isSame({ name: 'https', port: 6443 }), true)
  assert.equal(isSame({ ...own, targetPort: 6443, nodePort: 0 }), true)
  assert.equal(isSame({ ...own, targetPort: '6443' }), true)
  const others = [
    { name: 'x' },
    { port: 443 },
    { protocol: 'UDP' },
    { appProtocol: 'h2' },
    { targetPort: 1 },
    { nodePort: 1 },
  ]
  for (const other of others) assert.equal(isSame({ ...own, ...other }), false, JSON.stringify(other))
  assert.equal(samePorts([{ name: '', port: 1 }], [{ port: 1 }]), true)
  const [a, b] = [
    { name: 'a', port: 1 },
    { name: 'b', port: 2 },
  ]
  assert.equal(samePorts([a, b], [a, b]), true)
  assert.equal(samePorts([a, b], [b, a]), false)
  assert.equal(samePorts([a], [a, b]), false)
  assert.equal(samePorts([a, b], [a, a]), false)
  assert.equal(samePorts([a, b], [a]), false)
  assert.deepEqual(
    portTexts([{ port: 1 }]),
    portTexts([{ name: '', port: 1, protocol: 'TCP', targetPort: 1, nodePort: 0 }]),
  )
  assert.notDeepEqual(portTexts([a]), portTexts([b]))
  assert.deepEqual(portTexts(undefined), [])
})

test('an address that clients on other machines cannot reach is not listable', () => {
  const reasons: Readonly<Record<string, string | undefined>> = {
    '0.0.0.0': 'is the unspecified address',
    '::': 'is the unspecified address',
    '127.0.0.1': 'is a loopback address',
    '::1': 'is a loopback address',
    '169.254.1.1': 'is a link-local address',
    'fe80::1': 'is a link-local address',
    '224.0.0.1': 'is a multicast address',
    'ff02::1': 'is a multicast address',
    '255.255.255.255': 'is the broadcast address',
    '255.255.255.254': undefined,
    '192.0.2.1': undefined,
    '2001:db8::1': undefined,
  }
  for (const [text, reason] of Object.entries(reasons)) {
    assert.equal(unlistableReason(parseAddress(text)), reason, text)
    for (const _twice of [1, 2]) assert.equal(isListable(text), reason === undefined, text)
  }
  for (const text of ['', 'a.example', '2001:DB8::1', '2001:db8:0::1', '192.0.2.01', ' 192.0.2.1']) {
    assert.equal(isListable(text), false, text)
  }
})

test('noneReconciler does nothing, and has no methods for leases or families', async () => {
  const { signal } = new AbortController()
  const address = parseAddress('192.0.2.1')
  const { reconcileEndpoints, removeEndpoints, stopReconciling, ...more } = noneReconciler
  await reconcileEndpoints(address, [], true, signal)
  await removeEndpoints(address, [], signal)
  stopReconciling()
  assert.deepEqual(Object.keys(more), [], 'neither leases nor families are known')
})
