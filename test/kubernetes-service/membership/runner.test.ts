import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { Availability } from '../../../src/kube/availability.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import type { MasterLeases } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../../src/kubernetes-service/leases/memory.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { RequestTimeout } from '../../../src/runtime/request-limit.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { addressesOf, holder } from '../leases/holders.ts'
import { startMaster } from './master-in-process.ts'

const { signal } = new AbortController()

/** Leases in one store, and masters whose requests to it may fail. */
function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'server')
  const api = restKubeApi({ transport: inProcessTransport(createApiServer({ clock, random })), clock, random })
  const leases = new MemoryLeases(new MemoryLeaseRegistry(clock), { ttlMs: 15_000 })
  const start = (address: string) => {
    const link = { loses: 'nothing' as 'nothing' | 'writes' | 'everything' }
    const through = <T>(call: () => Promise<T>, isWrite = true): Promise<T> =>
      link.loses === 'everything' || (link.loses === 'writes' && isWrite)
        ? Promise.reject(new RequestTimeout(1_500))
        : call()
    const own: MasterLeases = {
      list: (signal) => through(() => leases.list(signal), false),
      update: (one, signal) => through(() => leases.update(one, signal)),
      mark: (one, signal) => through(() => leases.mark(one, signal)),
      remove: (one, signal) => through(() => leases.remove(one, signal)),
      watch: (onChange, signal) => leases.watch(onChange, signal),
    }
    const availability = new Availability({ clock, logger: silentLogger })
    const master = startMaster({ api, clock }, own, holder(address, { host: address }), { availability })
    return { ...master, master, link, availability }
  }
  return { time, leases, start }
}

test('an outage of the store ends for a master that lets its lease expire, because its server is dead', async () => {
  const { time, leases, start } = setUp()
  const [one, two] = [start('192.0.2.1'), start('192.0.2.2')]
  await time.advance(9_500)
  one.link.loses = 'everything'
  await time.advance(3_000)
  assert.equal(one.availability.available, false)
  one.master.answer = { answered: false, reason: 'connection refused' }
  await time.advance(30_000)
  one.link.loses = 'nothing'
  await time.advance(15_000)
  // As the controller does at each interval.
  await one.runner.readMembers(signal)
  assert.deepEqual(await addressesOf(leases), ['192.0.2.2'])
  assert.equal(one.availability.available, true)
  await Promise.all([one.kill(), two.kill()])
})

test('an outage of the store lasts while its renewals get no answer, although its reads do', async () => {
  const { time, start } = setUp()
  const one = start('192.0.2.1')
  await time.advance(9_500)
  one.link.loses = 'writes'
  await time.advance(3_000)
  for (let read = 0; read < 20; read++) {
    await time.advance(10_000)
    await one.runner.readMembers(signal)
    assert.equal(one.availability.available, false)
  }
  one.link.loses = 'nothing'
  await time.advance(2_000)
  assert.equal(one.availability.available, true)
  await one.kill()
})
