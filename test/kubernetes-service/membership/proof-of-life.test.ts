import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import type { Holder } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../../src/kubernetes-service/leases/memory.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { startMaster } from './master-in-process.ts'

for (const [answers, state] of [
  [true, 'failing'],
  [false, undefined],
] as const) {
  const what = answers ? 'answers otherwise is renewed, as failing' : 'does not answer either ends'
  test(`if /readyz hangs, the lease of a server that ${what}`, async () => {
    const time = new VirtualClock()
    const clock = time.view()
    const random = seededRandom(1, 'server')
    const api = restKubeApi({ transport: inProcessTransport(createApiServer({ clock, random })), clock, random })
    const holder: Holder = {
      instanceId: 'this',
      host: 'this.test',
      startedAt: '2026-01-01T00:00:00Z',
      addresses: ['192.0.2.1'],
      ports: { securePort: 6443, nodePort: 0 },
      state: 'ready',
    }
    const registry = new MemoryLeaseRegistry(clock)
    const leases = new MemoryLeases(registry, { ttlMs: 15_000 })
    const master = startMaster({ api, clock }, leases, holder)
    await time.advance(5_000)
    assert.equal((await leases.list())[0]?.holder?.state, 'ready')
    master.answer = { answered: false, reason: 'no answer within 3000 ms' }
    master.answers = answers
    await time.advance(60_000)
    assert.equal((await leases.list())[0]?.holder?.state, state)
    await master.kill()
  })
}
