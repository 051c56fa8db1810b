import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOf, ifFound, isKubeError, KubeError, type KubeErrorCode } from '../../src/kube/errors.ts'
import type { FailureNature } from '../../src/runtime/errors.ts'

const answers: readonly (readonly [httpStatus: number, reason: string | undefined, code: KubeErrorCode])[] = [
  [302, undefined, 'Refused'],
  [400, undefined, 'BadRequest'],
  [401, undefined, 'Unauthorized'],
  [403, undefined, 'Forbidden'],
  [404, undefined, 'NotFound'],
  [405, undefined, 'Refused'],
  [409, undefined, 'Conflict'],
  [409, 'Conflict', 'Conflict'],
  [409, 'AlreadyExists', 'AlreadyExists'],
  [404, 'AlreadyExists', 'NotFound'],
  [410, undefined, 'Expired'],
  [415, undefined, 'Refused'],
  [422, undefined, 'Invalid'],
  [429, undefined, 'TooManyRequests'],
  [499, undefined, 'Refused'],
  [500, undefined, 'ServerError'],
  [503, undefined, 'ServerError'],
  [504, undefined, 'ServerError'],
]

test('the HTTP status of an answer determines the error code; for a 409 the reason does too', () => {
  for (const [httpStatus, reason, code] of answers) assert.equal(codeOf(httpStatus, reason), code, `${httpStatus}`)
})

const natures: Readonly<Record<KubeErrorCode, FailureNature>> = {
  Conflict: 'conflict',
  NotFound: 'passing',
  Invalid: 'passing',
  Unauthorized: 'lasting',
  Forbidden: 'lasting',
  BadRequest: 'lasting',
  Refused: 'lasting',
  AlreadyExists: 'away',
  Expired: 'away',
  TooManyRequests: 'away',
  ServerError: 'away',
  Timeout: 'away',
  Unreachable: 'away',
  NoCredentials: 'away',
  BadResponse: 'away',
  TooLarge: 'away',
}

test('each error code has its failure nature: conflict, passing, lasting or away', () => {
  for (const [code, nature] of Object.entries(natures)) {
    assert.equal(new KubeError(code as KubeErrorCode, 'x').nature, nature, code)
  }
})

test('a KubeError has exactly the details that it is constructed with', () => {
  const bare = new KubeError('Timeout', 'no answer')
  assert.deepEqual(
    [bare.name, bare.message, bare.httpStatus, bare.status, bare.retryAfterMs],
    ['KubeError', 'no answer', 0, undefined, undefined],
  )
  assert.equal('cause' in bare, false)
  const status = { kind: 'Status', message: 'later' }
  const cause = new Error('why')
  const full = new KubeError('TooManyRequests', 'later', { httpStatus: 429, status, retryAfterMs: 0, cause })
  assert.deepEqual([full.httpStatus, full.status, full.retryAfterMs, full.cause], [429, status, 0, cause])
})

test('isKubeError recognizes an error by any of the given codes, or any KubeError if no code is given', () => {
  const error = new KubeError('Conflict', 'changed')
  assert.equal(isKubeError(error), true)
  assert.equal(isKubeError(error, 'NotFound', 'Conflict'), true)
  assert.equal(isKubeError(error, 'NotFound'), false)
  for (const other of [new Error('Conflict'), { code: 'Conflict' }, undefined]) {
    assert.equal(isKubeError(other), false)
    assert.equal(isKubeError(other, 'Conflict'), false)
  }
})

test('ifFound turns NotFound into undefined, and rejects with any other error', async () => {
  assert.equal(await ifFound(Promise.resolve(5)), 5)
  assert.equal(await ifFound(Promise.reject(new KubeError('NotFound', 'gone'))), undefined)
  for (const error of [new KubeError('Expired', 'old'), new Error('NotFound')]) {
    await assert.rejects(ifFound(Promise.reject(error)), error)
  }
})
