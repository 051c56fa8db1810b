import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addSecret, oneLine, withoutSecrets } from '../../src/telemetry/secrets.ts'

test('a loaded secret is redacted wherever it occurs; a value too short to be recognizable is not', () => {
  addSecret('opaque.token$&(1)')
  addSecret('t')
  addSecret(undefined)
  assert.equal(
    withoutSecrets('got opaque.token$&(1), a t, and opaque.token$&(1)'),
    'got [redacted], a t, and [redacted]',
  )
})

test('every line of a private key is redacted, even of a key that was never loaded', () => {
  const lines = [
    '-----BEGIN EC PRIVATE KEY-----',
    'MHcCAQEEIKzl/AAAAAAAAAA+',
    'oUQDQgAEbbbbbbbbbbbb',
    '-----END EC PRIVATE KEY-----',
  ]
  addSecret(lines.join('\n'))
  assert.equal(withoutSecrets(`line 2 is ${lines[1]}, ${lines[2]}`), 'line 2 is [redacted], [redacted]')
  const other = '-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\nxxxx'
  assert.equal(withoutSecrets(`read ${other}\n-----END PRIVATE KEY----- in it`), 'read [redacted] in it')
  const old =
    '-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\nMIGHAgEAMBMGByqGSM49'
  assert.equal(withoutSecrets(`read ${old}\n-----END RSA PRIVATE KEY----- in it`), 'read [redacted] in it')
  assert.equal(withoutSecrets(`cut off: ${old}`), 'cut off: [redacted]')
  assert.equal(withoutSecrets(`cut off: ${other}`), 'cut off: [redacted]')
})

for (const [text, clean] of [
  ['GET https://root:hunter2/@x@10.0.0.1:2379/a', 'GET https://[redacted]@10.0.0.1:2379/a'],
  ['cannot dial http://user:pa"ssw\'rdlong@db:1/', 'cannot dial http://[redacted]@db:1/'],
  ['{"a":"https://h:6443","b":"u@h","c":"http://h/x"}', '{"a":"https://h:6443","b":"u@h","c":"http://h/x"}'],
  ['Authorization: Bearer abc.def-ghi, next', 'Authorization: Bearer [redacted], next'],
  ['basic YWxpY2U6c2VjcmV0', 'basic [redacted]'],
  ['issued eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln to a', 'issued [redacted] to a'],
  ['cut off at eyJhbGciOiJSUzI1', 'cut off at [redacted]'],
  ['{"client_secret":"abcdefgh","n":1}', '{"client_secret":"[redacted]","n":1}'],
  ['password = hunter2; more', 'password = [redacted]; more'],
  ['token:abcdefgh', 'token:[redacted]'],
  ['GET /?api_key=abcdefgh&n=1', 'GET /?api_key=[redacted]&n=1'],
  ['/secrets/token: permission denied', '/secrets/token: permission denied'],
  ['cannot read token: EACCES', 'cannot read token: EACCES'],
  ['token: no such file; https://10.0.0.1:6443 is away', 'token: no such file; https://10.0.0.1:6443 is away'],
] as const) {
  test(`anything that resembles a secret, and nothing else, is redacted in ${JSON.stringify(text)}`, () => {
    assert.equal(withoutSecrets(text), clean)
  })
}

test('a secret is redacted before the text is cut, wherever the cut falls in it', () => {
  const secret = 'tok3n-abcdefghijklmnopqrstuvwxyz-0123456789'
  addSecret(secret)
  for (let at = 0; at <= 60; at++) {
    const line = oneLine(`${'x'.repeat(at)}\n ${secret} and\u0007 more than fits`, 60)
    assert.equal(line, oneLine(`${'x'.repeat(at)} [redacted] and more than fits`, 60))
    assert.ok(line.length <= 61 && !line.includes('tok3n'), line)
  }
})

test('of very many secrets the newest are redacted, in linear time', () => {
  for (let index = 0; index < 2_000; index++) addSecret(`rotated-${index}-token`)
  assert.equal(withoutSecrets('rotated-0-token rotated-1999-token'), 'rotated-0-token [redacted]')
  const startMs = performance.now()
  for (const piece of ['://', 'eyJ', '-----BEGIN PRIVATE KEY-----', 'Bearer ', 'token:', 'a-', '@', ' ']) {
    withoutSecrets(piece.repeat(1_000_000 / piece.length))
  }
  // This takes about a second, but hours if anything is quadratic.
  assert.ok(performance.now() - startMs < 60_000)
})
