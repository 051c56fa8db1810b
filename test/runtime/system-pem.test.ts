import assert from 'node:assert/strict'
import { test } from 'node:test'
import { validitiesIn } from '../../src/runtime/system-pem.ts'
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
