import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { EtcdCredentials } from '../../src/etcd/connect-credentials.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { tempDir } from '../support/temp-dir.ts'

const data = join(import.meta.dirname, '..', 'kube', 'data')

test('of a chain of client certificates the end of the first is reported, of authorities the ends of all', async (t) => {
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
  await credentials.load()
  assert.deepEqual(counts, { 'etcd-certfile': 1, 'etcd-cafile': 2 })
})
