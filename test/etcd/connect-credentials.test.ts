import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { EtcdCredentials } from '../../src/etcd/connect-credentials.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger, silentLogger } from '../../src/telemetry/logger.ts'
import { withoutSecrets } from '../../src/telemetry/secrets.ts'
import { endReadingsOf, makeHangingFile } from '../support/hanging-file.ts'
import { tempDir } from '../support/temp-dir.ts'
import { eventually, withTimeout } from '../support/with-timeout.ts'

const data = join(import.meta.dirname, '..', 'kube', 'data')

test('expiry is reported for the first client certificate and for every authority; the key is redacted from then on', async (t) => {
  const directory = await tempDir(t)
  const [cafile, certfile] = [join(directory, 'ca.crt'), join(directory, 'client.crt')]
  const pem = (name: string): string => readFileSync(join(data, name), 'utf8')
  await writeFile(certfile, pem('client-1.crt') + pem('ca.crt'))
  await writeFile(cafile, pem('ca.crt') + pem('other-ca.crt'))
  const counts: Record<string, number> = {}
  const credentials = new EtcdCredentials(
    { cafile, certfile, keyfile: join(data, 'client-1.key') },
    {
      clock: new VirtualClock().view(),
      logger: silentLogger,
      onExpiry: (source: string, validities: readonly unknown[]) => {
        counts[source] = validities.length
      },
    },
  )
  const [, line = ''] = pem('client-1.key').split('\n')
  assert.equal(withoutSecrets(`read ${line}`), `read ${line}`)
  await credentials.load()
  assert.deepEqual(counts, { 'etcd-certfile': 1, 'etcd-cafile': 2 })
  assert.equal(withoutSecrets(`read ${line}`), 'read [redacted]')
})

const damages: readonly (readonly [what: string, file: string, content: string | undefined])[] = [
  ['the certificate file is missing', 'client.crt', undefined],
  ['the certificate file is empty', 'client.crt', ''],
  ['the key file is empty', 'client.key', ''],
  ['the key file is half written', 'client.key', '-----BEGIN'],
  ['the key belongs to another certificate', 'client.key', readFileSync(join(data, 'client-2.key'), 'utf8')],
  ['the file of certificate authorities is empty', 'ca.crt', ''],
  ['the file of certificate authorities is missing', 'ca.crt', undefined],
]
for (const [what, file, content] of damages) {
  test(`while ${what}, new connections use the last good files, which is logged once`, async (t) => {
    const directory = await tempDir(t)
    const path = (name: string): string => join(directory, name)
    const put = (name: string, from: string): Promise<void> => writeFile(path(name), readFileSync(join(data, from)))
    const logger = memoryLogger()
    const files = { cafile: path('ca.crt'), certfile: path('client.crt'), keyfile: path('client.key') }
    const credentials = new EtcdCredentials(files, { clock: new VirtualClock().view(), logger })
    await put('client.crt', 'client-1.crt')
    await put('client.key', 'client-1.key')
    await assert.rejects(credentials.load(), /ca\.crt does not exist/)
    await put('ca.crt', 'ca.crt')
    const { context } = await credentials.load()

    if (content === undefined) await rename(path(file), path('away'))
    else await writeFile(path(file), content)
    for (let i = 0; i < 3; i++) assert.equal((await credentials.load()).context, context)
    await put('client.crt', 'client-2.crt')
    await put('client.key', 'client-2.key')
    await put('ca.crt', 'ca.crt')
    assert.notEqual((await credentials.load()).context, context)
    assert.deepEqual(
      logger.lines.map(({ level, message }) => `${level} ${message}`),
      [
        'warn the certificates for etcd cannot be used; the previous ones stay in use',
        'info the certificates for etcd can be used again',
        'info the certificates for etcd have changed: new connections use the new ones',
      ],
    )
  })
}

test('a hanging certificate file is not read again, and only the first connection waits for it, for a second', async (t) => {
  const directory = await tempDir(t)
  const certfile = join(directory, 'client.crt')
  const put = (): Promise<void> => writeFile(certfile, readFileSync(join(data, 'client-1.crt')))
  let readings = 0
  // Each reading of all files reads the key once.
  const files = Object.defineProperty({ certfile, keyfile: '' }, 'keyfile', {
    enumerable: false,
    get: () => {
      readings++
      return join(data, 'client-1.key')
    },
  })
  const [time, logger] = [new VirtualClock(), memoryLogger()]
  const credentials = new EtcdCredentials(files, { clock: time.view(), logger })
  await put()
  const { context } = await credentials.load()
  await rm(certfile)
  makeHangingFile(certfile)
  readings = 0
  try {
    const first = credentials.load()
    await time.advance(1_000)
    assert.equal((await withTimeout(first, 5_000, 'the first connection')).context, context)
    for (let minute = 0; minute < 3; minute++) {
      await time.advance(60_000)
      credentials.refresh()
    }
    const second = credentials.load()
    await time.advance(0)
    assert.equal((await withTimeout(second, 5_000, 'the second connection')).context, context)
    assert.equal(readings, 1)
  } finally {
    await endReadingsOf(certfile)
  }
  await rm(certfile)
  await put()
  await eventually('another reading', async () => {
    await credentials.load()
    return logger.lines.length === 2
  })
  assert.deepEqual(
    logger.lines.map(({ level, message }) => `${level} ${message}`),
    [
      'warn the certificates for etcd cannot be used; the previous ones stay in use',
      'info the certificates for etcd can be used again',
    ],
  )
})

test('a certificate file that hangs at the start fails every connection after five seconds, with its name, until it can be read', async (t) => {
  const directory = await tempDir(t)
  const certfile = join(directory, 'client.crt')
  makeHangingFile(certfile)
  const time = new VirtualClock()
  const files = { certfile, keyfile: join(data, 'client-1.key') }
  const credentials = new EtcdCredentials(files, { clock: time.view(), logger: silentLogger })
  try {
    for (const waitMs of [5_000, 0]) {
      const refused = assert.rejects(credentials.load(), {
        code: 'NoCredentials',
        message: `${certfile} cannot be read within 5 s`,
      })
      await time.advance(waitMs)
      await withTimeout(refused, 5_000, 'the refusal')
    }
  } finally {
    await endReadingsOf(certfile)
  }
  await rm(certfile)
  await writeFile(certfile, readFileSync(join(data, 'client-1.crt')))
  await eventually('a successful reading', () =>
    credentials.load().then(
      () => true,
      () => false,
    ),
  )
})
