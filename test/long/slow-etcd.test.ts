import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { Availability } from '../../src/kube/availability.ts'
import { EtcdLeases } from '../../src/kubernetes-service/leases/etcd/leases.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { addressesOf, holder } from '../kubernetes-service/leases/holders.ts'
import { startEtcd } from '../peers/etcd.ts'
import { EtcdFaultProxy } from '../peers/etcd-fault-proxy.ts'
import { openOwner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'

// Needs a quiet machine: half a second more in one renewal ends the lease.

const { signal } = new AbortController()
const self = holder('192.0.2.1')

test('an expired lease of 3 s stays present once it is renewed, although each answer of etcd takes 450 ms', async (t) => {
  const owner = openOwner(t)
  const { url } = await startEtcd(owner)
  const proxy = await EtcdFaultProxy.start(owner, { url })
  const open = (endpoint: string) => {
    const etcd = connectEtcd({ endpoints: [parseEndpoint(endpoint)], clock: systemClock })
    owner.after(() => etcd.close())
    const availability = new Availability({ clock: systemClock, logger: silentLogger })
    const options = { prefix: '/slow', ttlMs: 3_000, clock: systemClock, logger: silentLogger, availability }
    return new EtcdLeases({ ...options, etcd })
  }
  const [renewing, reading] = [open(proxy.url), open(url)]
  await renewing.update(self, signal)
  await untilPasses('the end of the lease', async () => assert.deepEqual(await reading.list(signal), []), {
    withinMs: 100_000,
  })
  proxy.place({ fault: { type: 'late-answer', ms: 450 } })
  let isDone = false
  const renewals = (async () => {
    for (let renewal = 1; renewal <= 10; renewal++) await renewing.update(self, signal)
  })().finally(() => {
    isDone = true
  })
  const seen: string[] = []
  while (!isDone) {
    const state = (await addressesOf(reading)).length > 0 ? 'there' : 'missing'
    if (seen.at(-1) !== state) seen.push(state)
    await sleep(20)
  }
  await renewals
  assert.deepEqual(seen, ['missing', 'there'])
})
