import assert from 'node:assert/strict'
import { test } from 'node:test'
import { processClock, processLeases, StoreClock } from '../../../src/drill/simulator/process.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../../src/kubernetes-service/leases/memory.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { never } from './fleet-under-test.ts'

test('a frozen process receives neither lists nor changes of shared leases until it is thawed', async () => {
  const time = new VirtualClock()
  const registry = new MemoryLeaseRegistry(time.view())
  const clock = processClock(time)
  const leases = processLeases(new MemoryLeases(registry, { ttlMs: 15_000 }), clock)
  let notifications = 0
  const stop = new AbortController()
  void leases.watch(() => notifications++, stop.signal)
  let read = 0
  clock.freeze()
  void leases.list(never).then((list) => {
    read = list.length
  })
  registry.addForeign('192.0.2.1')
  await time.advance(1_000)
  assert.deepEqual([notifications, read], [0, 0])
  clock.thaw()
  await time.advance(0)
  assert.deepEqual([notifications, read], [1, 1])
  stop.abort()
})

test('the monotonic clock of a store stands still whenever it is stopped; its wall clock continues', async () => {
  const time = new VirtualClock()
  const clock = new StoreClock(time)
  const [wallMs, monotonicMs] = [clock.wallMs(), clock.monotonicMs()]
  const passed = () => [clock.wallMs() - wallMs, clock.monotonicMs() - monotonicMs]
  const seen: number[][] = []
  for (const change of ['stop', 'stop', 'start', 'stop', 'start', 'start'] as const) {
    await time.advance(1_000)
    clock[change]()
    seen.push(passed())
  }
  await time.advance(1_000)
  assert.deepEqual(
    [...seen, passed()],
    [
      [1_000, 1_000],
      [2_000, 1_000],
      [3_000, 1_000],
      [4_000, 2_000],
      [5_000, 2_000],
      [6_000, 3_000],
      [7_000, 4_000],
    ],
  )
})
