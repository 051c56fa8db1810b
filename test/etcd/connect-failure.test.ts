import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Code, ConnectError } from '@connectrpc/connect'
import type { TlsMaterial } from '../../src/etcd/connect-credentials.ts'
import { combined, connectionError, openingFailure, requestFailure } from '../../src/etcd/connect-failure.ts'
import { EtcdError, type EtcdErrorCode } from '../../src/etcd/kv.ts'

const endpoint = 'https://etcd-0:2379'

/** What a server answered. */
function answer(code: Code, message: string): ConnectError {
  const error = new ConnectError(message, code)
  error.isWireError = true
  return error
}

// The messages of etcd 3.6 (api/v3rpc/rpctypes/error.go) and kine 0.16, with their gRPC codes. An attempt is `harmless`
// if it cannot have had an effect, and goes `on` if another server may succeed.
const answers: readonly (readonly [Code, string, EtcdErrorCode, '' | 'on' | 'harmless, on'])[] = [
  [Code.OutOfRange, 'etcdserver: mvcc: required revision has been compacted', 'Compacted', ''],
  [Code.OutOfRange, 'etcdserver: mvcc: required revision is a future revision', 'Compacted', ''],
  [Code.ResourceExhausted, 'etcdserver: mvcc: database space exceeded', 'NoSpace', ''],
  [Code.NotFound, 'etcdserver: requested lease not found', 'LeaseNotFound', ''],
  [Code.Unauthenticated, 'etcdserver: invalid auth token', 'Unauthenticated', ''],
  [Code.InvalidArgument, 'etcdserver: authentication failed, invalid user ID or password', 'Unauthenticated', ''],
  [Code.InvalidArgument, 'etcdserver: user name is empty', 'Unauthenticated', ''],
  [Code.PermissionDenied, 'etcdserver: permission denied', 'PermissionDenied', ''],
  [Code.InvalidArgument, 'etcdserver: unsupported operations in txn request', 'Unsupported', ''],
  [Code.Unimplemented, 'sortOrder is not implemented by kine', 'Unsupported', ''],
  [Code.Unknown, 'lease time to live is not supported', 'Unsupported', ''],
  [Code.Unimplemented, 'unknown service etcdserverpb.KV', 'Unsupported', ''],
  [Code.InvalidArgument, 'etcdserver: request is too large', 'Refused', ''],
  [Code.ResourceExhausted, 'grpc: received message larger than max (3 vs. 2)', 'Refused', ''],
  [Code.InvalidArgument, 'etcdserver: key is not provided', 'Refused', ''],
  [Code.OutOfRange, 'etcdserver: too large lease TTL', 'Refused', ''],
  [Code.FailedPrecondition, 'etcdserver: not capable', 'Refused', ''],
  [Code.FailedPrecondition, 'etcdserver: rpc not supported for learner', 'ServerError', 'harmless, on'],
  [Code.Unavailable, 'etcdserver: no leader', 'ServerError', 'harmless, on'],
  [Code.ResourceExhausted, 'etcdserver: too many requests', 'ServerError', 'harmless, on'],
  [Code.InvalidArgument, 'etcdserver: revision of auth store is old', 'ServerError', 'harmless, on'],
  [Code.Unavailable, 'etcdserver: request timed out', 'Timeout', 'on'],
  [Code.Unavailable, 'etcdserver: request timed out, possibly due to previous leader failure', 'Timeout', 'on'],
  [Code.Unavailable, 'etcdserver: leader changed', 'Timeout', 'on'],
  [Code.Unavailable, 'etcdserver: server stopped', 'Timeout', 'on'],
  [Code.DeadlineExceeded, 'etcdserver: context deadline exceeded', 'Timeout', 'on'],
  [Code.DataLoss, 'etcdserver: corrupt cluster', 'ServerError', 'on'],
  [Code.Unknown, 'database is locked', 'ServerError', 'on'],
  [Code.Internal, 'something\nin two lines', 'ServerError', 'on'],
]

for (const [code, message, expected, next] of answers) {
  test(`${Code[code]} "${message.split('\n')[0]}" is ${expected}${next === '' ? '' : ` (${next})`}`, () => {
    const { error, harmless, elsewhere } = requestFailure(endpoint, undefined, answer(code, message))
    assert.equal(error.code, expected)
    assert.equal(error.message, `etcd ${endpoint}: ${message.replace('\n', ' ')}`)
    assert.equal([harmless ? 'harmless' : '', elsewhere ? 'on' : ''].filter((word) => word !== '').join(', '), next)
  })
}

test('a request without an answer in time is a Timeout, and may have taken effect', () => {
  const late = new ConnectError('the operation timed out', Code.DeadlineExceeded)
  const { error, harmless, elsewhere } = requestFailure(endpoint, undefined, late)
  assert.deepEqual([error.code, error.message], ['Timeout', `etcd ${endpoint}: no answer in time`])
  assert.deepEqual([harmless, elsewhere], [false, true])
})

test('a connection that breaks during a request is Unreachable, and the request may have taken effect', () => {
  const broken = [
    [new EtcdError('Unreachable', 'no response to a ping from the server'), 'no response to a ping from the server'],
    [coded('ECONNRESET'), 'connection reset'],
    [new Error('what nobody\n knows'), 'what nobody knows'],
  ] as const
  for (const [lost, words] of broken) {
    const { error, harmless, elsewhere } = requestFailure(endpoint, lost, new ConnectError('whatever', Code.Canceled))
    assert.deepEqual([error.code, error.message], ['Unreachable', `etcd ${endpoint}: ${words}`])
    assert.deepEqual([harmless, elsewhere], [false, true])
  }
  for (const unnoticed of [
    new ConnectError('http/2 stream closed with error code CANCEL (0x8)', Code.Canceled),
    new ConnectError('read', Code.Aborted, undefined, undefined, coded('ECONNRESET')),
  ]) {
    assert.equal(requestFailure(endpoint, undefined, unnoticed).error.code, 'Unreachable')
  }
})

const tls = {
  authorities: 'the certificate authorities in ca.crt are trusted',
  clientCertificate: 'the client certificate in client.crt expired on 2026-01-01T00:00:00Z',
} as TlsMaterial

const openings: readonly (readonly [string, EtcdErrorCode, string])[] = [
  ['ECONNREFUSED', 'Unreachable', 'connection refused'],
  ['ENOTFOUND', 'Unreachable', 'no such host'],
  ['ECONNRESET', 'Unreachable', 'connection reset in the TLS handshake'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'Unreachable', 'the server does not speak TLS on this port'],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', 'Unreachable', 'the TLS handshake failed (unsupported protocol)'],
  [
    'SELF_SIGNED_CERT_IN_CHAIN',
    'BadCertificate',
    'the server certificate is signed by an unknown authority; the certificate authorities in ca.crt are trusted',
  ],
  ['CERT_HAS_EXPIRED', 'BadCertificate', 'the server certificate has expired'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'BadCertificate', 'the server certificate is for another name'],
  [
    'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
    'BadCertificate',
    `the server refuses the client (certificate required); ${tls.clientCertificate}`,
  ],
  [
    'ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE',
    'BadCertificate',
    `the server refuses the client (bad certificate); ${tls.clientCertificate}`,
  ],
]

for (const [code, expected, words] of openings) {
  test(`a connection that fails with ${code} is ${expected}`, () => {
    const error = connectionError(endpoint, tls, coded(code))
    assert.deepEqual([error.code, error.message], [expected, `etcd ${endpoint}: ${words}`])
    assert.deepEqual(openingFailure(error), { error, harmless: true, elsewhere: true })
  })
}

test('unusable credential files are reported without trying other endpoints', () => {
  const error = connectionError(endpoint, undefined, new EtcdError('NoCredentials', 'ca.crt does not exist'))
  assert.equal(error.message, `etcd ${endpoint}: ca.crt does not exist`)
  assert.equal(openingFailure(error).elsewhere, false)
})

test('a host name with several addresses fails with the error of the first one', () => {
  const both = new AggregateError([coded('ECONNREFUSED'), coded('ENETUNREACH')], '')
  assert.match(connectionError('http://localhost:1', undefined, both).message, /: connection refused$/)
})

test('when all endpoints fail the error names each, and has a lasting code only if every failure has it', () => {
  const failed = (code: EtcdErrorCode, message: string) => openingFailure(new EtcdError(code, `etcd ${message}`))
  const one = combined([failed('BadCertificate', 'a: expired')])
  assert.deepEqual([one.code, one.message], ['BadCertificate', 'etcd a: expired'])
  const both = combined([failed('BadCertificate', 'a: expired'), failed('Unreachable', 'b: gone')])
  assert.deepEqual([both.code, both.message], ['Unreachable', 'etcd a: expired; b: gone'])
  const lasting = combined([failed('BadCertificate', 'a: expired'), failed('BadCertificate', 'a: expired')])
  assert.deepEqual([lasting.code, lasting.message], ['BadCertificate', 'etcd a: expired'])
})

function coded(code: string): Error {
  return Object.assign(new Error(`${code} in Node's words`), { code })
}
