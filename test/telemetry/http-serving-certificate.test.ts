import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { followServingCertificate, readServingCertificate } from '../../src/telemetry/http-serving-certificate.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { CertificateAuthority } from '../peers/certificates.ts'
import { endReadingsOf, makeHangingFile } from '../support/hanging-file.ts'
import { tempDir } from '../support/temp-dir.ts'

test('a file is not read again while a read of it hangs, because each read would occupy a thread', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const directory = await tempDir(t)
  const certFile = join(directory, 'tls.crt')
  const keyFile = join(directory, 'tls.key')
  const pipe = join(directory, 'pipe')
  const pair = new CertificateAuthority().issue({ commonName: 'server' })
  writeFileSync(certFile, pair.certificate)
  writeFileSync(keyFile, pair.key)
  const context = await readServingCertificate({ certFile, keyFile })
  makeHangingFile(pipe)
  let readings = 0
  const files = {
    get certFile() {
      return readings++ === 0 ? pipe : certFile
    },
    keyFile,
  }
  const logger = memoryLogger()
  const following = followServingCertificate(files, { setSecureContext: () => assert.fail() }, context, { logger })
  for (let poll = 0; poll < 3; poll++) t.mock.timers.tick(5_000)
  const whileHanging = readings
  await endReadingsOf(pipe)
  while (logger.lines.length === 0) await setImmediate()
  assert.equal(whileHanging, 1)
  await setImmediate()
  t.mock.timers.tick(5_000)
  assert.equal(readings, 2)
  following()
})

test('a certificate is installed and logged only when it has changed, not at each read', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const directory = await tempDir(t)
  const files = { certFile: join(directory, 'tls.crt'), keyFile: join(directory, 'tls.key') }
  const authority = new CertificateAuthority()
  const write = () => {
    const pair = authority.issue({ commonName: 'server' })
    writeFileSync(files.certFile, pair.certificate)
    writeFileSync(files.keyFile, pair.key)
  }
  write()
  const logger = memoryLogger()
  let [used, read] = [0, 0]
  const onExpiry = (kind: string) => void (kind === 'client-ca-file' && read++)
  const server = { setSecureContext: () => void used++ }
  const context = await readServingCertificate(files)
  const following = followServingCertificate(files, server, context, { logger, onExpiry })
  const poll = async () => {
    const before = read
    t.mock.timers.tick(5_000)
    while (read === before) await setImmediate()
  }
  await poll()
  await poll()
  assert.deepEqual([used, logger.lines.length], [0, 0])
  write()
  await poll()
  await poll()
  assert.deepEqual([used, logger.lines.length], [1, 1])
  following()
})
