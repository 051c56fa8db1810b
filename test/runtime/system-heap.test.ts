import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collectGarbage, type MemoryReading, releaseMemory } from '../../src/runtime/system-heap.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

const MIB = 1024 * 1024

test('a collection gives the pages of garbage back to the system', async () => {
  const kept = new Map<number, string[]>()
  for (let round = 0; round < 400_000; round++) kept.set(round % 50_000, [`a string of round ${round}`])
  kept.clear()
  const before = process.memoryUsage().rss
  await collectGarbage()
  const given = (before - process.memoryUsage().rss) / MIB
  assert.ok(given >= 10, `${given} MiB`)
})

/** The readings of a process that grows by a burst, and gives back half of it when it collects. */
function observed({ heapUsed = 20 * MIB }: Partial<MemoryReading> = {}) {
  const time = new VirtualClock()
  const memory = { rss: 100 * MIB, heapUsed }
  const collectedAtMs: number[] = []
  const end = releaseMemory(
    time.view(),
    () => memory,
    async () => {
      collectedAtMs.push(time.nowMs)
      memory.rss -= 10 * MIB
    },
  )
  return { time, memory, collectedAtMs, end }
}

test('memory is collected once after each burst, and not without one', async () => {
  const { time, memory, collectedAtMs, end } = observed()
  await time.advance(60_000)
  assert.deepEqual(collectedAtMs, [])
  memory.rss += 20 * MIB
  await time.advance(60_000)
  assert.deepEqual(collectedAtMs, [65_000])
  // What stays after a collection is where the next burst begins.
  memory.rss += 15 * MIB
  await time.advance(60_000)
  memory.rss += MIB
  await time.advance(60_000)
  assert.deepEqual(collectedAtMs, [65_000, 185_000])
  end()
  memory.rss += 20 * MIB
  await time.advance(60_000)
  assert.equal(collectedAtMs.length, 2)
})

test('a burst counts from the least that was resident', async () => {
  const { time, memory, collectedAtMs, end } = observed()
  await time.advance(5_000)
  memory.rss -= 10 * MIB
  await time.advance(5_000)
  memory.rss += 16 * MIB
  await time.advance(5_000)
  assert.deepEqual(collectedAtMs, [15_000])
  end()
})

test('a large heap, whose collection would take long, is left to V8', async () => {
  const { time, memory, collectedAtMs, end } = observed({ heapUsed: 65 * MIB })
  await time.advance(5_000)
  memory.rss += 100 * MIB
  await time.advance(60_000)
  assert.deepEqual(collectedAtMs, [])
  end()
})
