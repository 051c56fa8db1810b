import assert from 'node:assert/strict'
import { test } from 'node:test'
import { didYouMean } from '../../src/documents/did-you-mean.ts'

const keys = ['securePort', 'serviceClusterIpRange', 'leaseTtl', 'leaseStore', 'kind']

test('a slip, another case and a flag in the place of a key are recognised', () => {
  assert.equal(didYouMean('secureport', keys), 'securePort')
  assert.equal(didYouMean('secure-port', keys), 'securePort')
  assert.equal(didYouMean('secrePort', keys), 'securePort')
  assert.equal(didYouMean('serviceClusterIPRange', keys), 'serviceClusterIpRange')
  assert.equal(didYouMean('leaseTTL', keys), 'leaseTtl')
})

test('the nearest wins, the first of equals', () => {
  assert.equal(didYouMean('leaseStor', keys), 'leaseStore')
  assert.equal(didYouMean('ab', ['aa', 'bb']), undefined)
  assert.equal(didYouMean('abc', ['abd', 'abe']), 'abd')
})

test('what resembles nothing has no suggestion', () => {
  assert.equal(didYouMean('replicas', keys), undefined)
  assert.equal(didYouMean('', keys), undefined)
  assert.equal(didYouMean('x', []), undefined)
})
