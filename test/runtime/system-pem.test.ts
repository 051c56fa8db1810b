import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { checkKeyPair, validitiesIn } from '../../src/runtime/system-pem.ts'
import { CertificateAuthority } from '../peers/certificates.ts'

const hourMs = 3_600_000
const damaged = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'

test('validitiesIn returns the validity of each certificate in a text and skips what it cannot parse', () => {
  const authority = new CertificateAuthority()
  const [first, second] = [2, 3].map((hours) => authority.issue({ commonName: 'one', validForMs: hours * hourMs }))
  const text = `Subject: one\n${first?.certificate}${damaged}${first?.key}\n${second?.certificate}`
  const hours = validitiesIn(text).map(({ fromMs, toMs }) => (toMs - fromMs) / hourMs)
  // Both certificates are valid from an hour ago.
  assert.deepEqual(hours, [3, 4])
  assert.deepEqual(validitiesIn(''), [])
})

test('a key of another type, or another key of the same type, is not that of the certificate', () => {
  const { certificate, key: own } = new CertificateAuthority().issue({ commonName: 'one' })
  checkKeyPair(certificate, own)
  const pkcs8 = { type: 'pkcs8', format: 'pem' } as const
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export(pkcs8)
  const ec = generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey.export(pkcs8)
  for (const key of [rsa, ec]) {
    assert.throws(() => checkKeyPair(certificate, String(key)), { message: 'key values mismatch' })
  }
})
