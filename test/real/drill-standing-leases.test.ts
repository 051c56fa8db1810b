import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { StandingLeases } from '../../src/drill/live/cluster.ts'
import { defaultTimes } from '../../src/etcd/connect-connection.ts'
import { EtcdCredentials } from '../../src/etcd/connect-credentials.ts'
import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import { EndpointPool } from '../../src/etcd/connect-pool.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { systemClock as clock } from '../../src/runtime/system-clock.ts'
import { silentLogger as logger } from '../../src/telemetry/logger.ts'
import { startEtcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'

const never = new AbortController().signal

test('a lease does not expire while StandingLeases holds it, and expires after the release', async () => {
  const owner = openOwner({ after })
  const etcd = await startEtcd(owner)
  const endpoints = [parseEndpoint(etcd.url)]
  const kv = connectEtcd({ endpoints, clock })
  const credentials = new EtcdCredentials({}, { clock, logger })
  const pool = new EndpointPool({ endpoints, credentials, clock, logger, times: defaultTimes, requestTimeoutMs: 3_000 })
  const leases = new StandingLeases({ kv, prefix: '/registry', pool, clock })
  owner.after(async () => {
    await leases.close()
    await kv.close()
  })
  const key = '/registry/masterleases/192.0.2.1'
  const { id: lease } = await kv.grantLease(2, never)
  await kv.create(key, Buffer.from('a'), { lease, signal: never })
  leases.hold()
  await sleep(6_000)
  assert.notEqual(await kv.get(key, never), undefined)
  await leases.release()
  await untilPasses('the lease to end', async () => assert.equal(await kv.get(key, never), undefined), {
    withinMs: 20_000,
  })
})
