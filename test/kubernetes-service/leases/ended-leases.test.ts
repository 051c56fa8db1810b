import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../../src/kube/errors.ts'
import type { Lease } from '../../../src/kube/resources.ts'
import { EndedLeases } from '../../../src/kubernetes-service/leases/ended-leases.ts'
import { trimLease } from '../../../src/kubernetes-service/leases/trimmed-lease.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { ScriptedApi } from '../../kube/scripted-api.ts'
import { holder } from './holders.ts'

test('the end of a lease is logged once with its address and host, and so is a refused deletion', async () => {
  const time = new VirtualClock()
  const api = new ScriptedApi()
  api.answer = () => {
    throw new KubeError('Forbidden', 'no')
  }
  const logger = memoryLogger()
  const ended = new EndedLeases({ api, clock: time.view(), random: seededRandom(1, 'ended'), logger })
  const lease = { metadata: { name: 'a', namespace: 'kube-system', uid: 'u', resourceVersion: '1' } } as Lease
  const { signal } = new AbortController()
  for (let tries = 0; tries < 3; tries++) {
    const collected = ended.collect([{ lease, holder: holder('192.0.2.7') }], signal)
    await time.advance(60_000)
    assert.equal((await collected).size, 0)
  }
  const who = { address: '192.0.2.7', host: 'host' }
  assert.deepEqual(
    logger.lines.map(({ level, fields: { address, host } }) => [level, { address, host }]),
    [
      ['info', who],
      ['warn', who],
    ],
  )
  assert.ok(api.asked.length >= 3)
})

test('a lease that is renewed after its end, and ends again, is deleted at once and logged anew', async () => {
  const time = new VirtualClock()
  const api = new ScriptedApi()
  api.answer = () => ({})
  const logger = memoryLogger()
  const ended = new EndedLeases({ api, clock: time.view(), random: seededRandom(1, 'ended'), logger })
  const lease = { metadata: { name: 'a', namespace: 'kube-system', uid: 'u', resourceVersion: '1' } } as Lease
  const { signal } = new AbortController()
  const held = [{ lease, holder: holder('192.0.2.7') }]
  for (const [expired, deletions] of [
    [held, 1],
    [held, 1],
    [[], 1],
    [held, 2],
  ] as const) {
    await ended.collect(expired, signal)
    assert.equal(api.asked.length, deletions)
  }
  assert.equal(logger.lines.length, 2)
})

test('a conflict is no renewal of a Lease whose identity is too long to be read', async () => {
  const time = new VirtualClock()
  const api = new ScriptedApi()
  const metadata = { name: 'a', namespace: 'kube-system', uid: 'u', resourceVersion: '1' }
  const stored = { metadata, spec: { holderIdentity: 'x'.repeat(2_000), renewTime: 'then' } } as unknown as Lease
  api.answer = ({ call }) => {
    if (call === 'delete') throw new KubeError('Conflict', 'no')
    return stored
  }
  const ended = new EndedLeases({ api, clock: time.view(), random: seededRandom(1, 'ended'), logger: memoryLogger() })
  const held = { lease: trimLease(stored), holder: holder('192.0.2.7') }
  assert.equal((await ended.collect([held], new AbortController().signal)).size, 0)
})
