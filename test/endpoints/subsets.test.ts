import assert from 'node:assert/strict'
import { test } from 'node:test'
import { repackSubsets, sameSubsets } from '../../src/endpoints/subsets.ts'
import type { EndpointSubset } from '../../src/workloads/subsets.ts'

const targetRef = { kind: 'Pod', namespace: 'ns', name: 'a', uid: 'uid-a' }
const subset = {
  addresses: [{ ip: '192.0.2.1', nodeName: 'node-a', targetRef }],
  ports: [{ port: 80, protocol: 'TCP' }],
}

function withAddress(fields: object): EndpointSubset {
  return { ...subset, addresses: [{ ...subset.addresses[0], ...fields }] as never }
}

function withPort(fields: object): EndpointSubset {
  return { ...subset, ports: [{ ...subset.ports[0], ...fields }] as never }
}

const same: Readonly<Record<string, EndpointSubset>> = {
  'an empty hostname': withAddress({ hostname: '' }),
  'the resourceVersion of a Pod': withAddress({ targetRef: { ...targetRef, resourceVersion: '7' } }),
  'an empty list of notReadyAddresses': { ...subset, notReadyAddresses: [] },
  'null as notReadyAddresses': { ...subset, notReadyAddresses: null as never },
  'an empty port name': withPort({ name: '' }),
  'an unknown field': { ...subset, future: 1 } as never,
}

const different: Readonly<Record<string, EndpointSubset>> = {
  'another IP': withAddress({ ip: '192.0.2.2' }),
  'a hostname': withAddress({ hostname: 'a' }),
  'another Node': withAddress({ nodeName: 'node-b' }),
  'another Pod of the same name': withAddress({ targetRef: { ...targetRef, uid: 'uid-b' } }),
  'another Pod name': withAddress({ targetRef: { ...targetRef, name: 'b' } }),
  'no Pod': withAddress({ targetRef: undefined }),
  'a field of the Pod': withAddress({ targetRef: { ...targetRef, fieldPath: 'spec' } }),
  'the address not ready': { ports: subset.ports, notReadyAddresses: subset.addresses },
  'another port': withPort({ port: 81 }),
  'a port name': withPort({ name: 'web' }),
  'another protocol': withPort({ protocol: 'UDP' }),
  'an empty appProtocol': withPort({ appProtocol: '' }),
  'no port': { addresses: subset.addresses },
}

for (const [name, other] of Object.entries(same)) {
  test(`with ${name} subsets are equal`, () => {
    assert.equal(sameSubsets([subset], [other]), true)
    assert.equal(sameSubsets([other], [subset]), true)
  })
}

for (const [name, other] of Object.entries(different)) {
  test(`with ${name} subsets differ`, () => {
    assert.equal(sameSubsets([subset], [other]), false)
    assert.equal(sameSubsets([other], [subset]), false)
  })
}

test('an empty nodeName is not an absent one', () => {
  assert.equal(sameSubsets([withAddress({ nodeName: '' })], [withAddress({ nodeName: undefined })]), false)
})

test('absent, null and empty subsets are equal', () => {
  assert.equal(sameSubsets(undefined, []), true)
  assert.equal(sameSubsets([], null), true)
  assert.equal(sameSubsets(undefined, [subset]), false)
})

test('ports with an appProtocol are not merged when subsets are packed, others are', () => {
  const at = (ip: string, port: object) => ({ addresses: [{ ip }], ports: [port] }) as EndpointSubset
  const plain = { port: 80, protocol: 'TCP' }
  assert.equal(repackSubsets([at('192.0.2.1', plain), at('192.0.2.2', plain)]).length, 1)
  const spoken = { ...plain, appProtocol: 'http' }
  assert.equal(repackSubsets([at('192.0.2.1', spoken), at('192.0.2.2', spoken)]).length, 2)
})

test('packing drops a port without a number', () => {
  const addresses = [{ ip: '192.0.2.1' }]
  const packed = [{ addresses, ports: [{ port: 80 }] }]
  assert.deepEqual(repackSubsets([{ addresses, ports: [{ port: 0 }, { port: 80 }] }]), packed)
  assert.deepEqual(repackSubsets([{ addresses, ports: [{ port: 0 }] }, ...packed]), packed)
})
