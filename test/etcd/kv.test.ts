import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EtcdError, type EtcdErrorCode, isEtcdError } from '../../src/etcd/kv.ts'
import type { FailureNature } from '../../src/runtime/errors.ts'

const natures: Readonly<Record<EtcdErrorCode, FailureNature>> = {
  Unreachable: 'away',
  Timeout: 'away',
  ServerError: 'away',
  Compacted: 'conflict',
  LeaseNotFound: 'conflict',
  NoSpace: 'lasting',
  Unauthenticated: 'lasting',
  PermissionDenied: 'lasting',
  BadCertificate: 'lasting',
  NoCredentials: 'away',
  Unsupported: 'lasting',
  Refused: 'lasting',
}

test('each error code has its failure nature: away, conflict or lasting', () => {
  for (const [code, nature] of Object.entries(natures)) {
    assert.equal(new EtcdError(code as EtcdErrorCode, 'x').nature, nature, code)
  }
})

test('an error has its code, its message, and its cause if there is one', () => {
  const cause = new Error('why')
  const error = new EtcdError('Timeout', 'no answer', cause)
  assert.deepEqual([error.name, error.code, error.message, error.cause], ['EtcdError', 'Timeout', 'no answer', cause])
  assert.equal('cause' in new EtcdError('Timeout', 'no answer'), false)
})

test('isEtcdError matches any of the given codes, or every EtcdError without codes', () => {
  const error = new EtcdError('Compacted', 'too old')
  assert.equal(isEtcdError(error), true)
  assert.equal(isEtcdError(error, 'Timeout', 'Compacted'), true)
  assert.equal(isEtcdError(error, 'Timeout'), false)
  for (const other of [new Error('Compacted'), { code: 'Compacted' }, undefined]) {
    assert.equal(isEtcdError(other), false)
    assert.equal(isEtcdError(other, 'Compacted'), false)
  }
})
