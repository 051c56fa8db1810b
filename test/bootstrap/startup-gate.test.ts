import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { leases } from '../../src/kube/resources.ts'
import { holderOf } from '../../src/kubernetes-service/leases/kubernetes.ts'
import { sleep } from '../../src/runtime/clock.ts'
import { aborted } from '../../src/runtime/signals.ts'
import { setUp } from './masters-world.ts'

// With the gate `startup`, when no other part of the master checks the server's health.
const settings = { readinessGate: 'startup', controllers: 'system-namespaces' } as const
const ready: ReadinessAnswer = { answered: true, ready: true, checks: [] }

test('a hanging probe is not followed by another, and ends with its master', async () => {
  const { time, start } = setUp()
  let probes = 0
  const probe = async (signal: AbortSignal): Promise<ReadinessAnswer> => {
    if (++probes > 1) await aborted(signal)
    signal.throwIfAborted()
    return ready
  }
  const { end } = start(settings, { readiness: { probe } })
  await time.advance(60_000)
  assert.equal(probes, 2)
  await end()
})

test('a server that does not answer is probed every ten seconds', async () => {
  const { time, ports, start } = setUp()
  let probes = 0
  const probe = async (signal: AbortSignal): Promise<ReadinessAnswer> => {
    if (++probes === 1) return ready
    await sleep(ports.clock, 100, signal)
    return { answered: false, reason: 'connection refused' }
  }
  const { end } = start(settings, { readiness: { probe } })
  await time.advance(65_000)
  assert.equal(probes, 7)
  await end()
})

test('after it was ready once, a server that reports unready still counts as ready while it answers', async () => {
  const { time, api, start } = setUp()
  let probes = 0
  const probe = async (): Promise<ReadinessAnswer> =>
    ++probes === 1 ? ready : { answered: true, ready: false, checks: [] }
  const { end } = start({ readinessGate: 'startup' }, { readiness: { probe } })
  await time.advance(65_000)
  assert.ok(probes > 1)
  const { items } = await api.list(leases)
  assert.deepEqual(
    items.map((lease) => holderOf(lease)?.state),
    ['ready'],
  )
  await end()
})
