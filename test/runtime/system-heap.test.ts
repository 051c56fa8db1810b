import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collectGarbage, type MemoryReading, releaseMemory } from '../../src/runtime/system-heap.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { spawnChild } from '../support/spawn-child.ts'

const MIB = 1024 * 1024

test('collectGarbage returns the pages of garbage to the system', async () => {
  const held = new Map<number, string[]>()
  for (let round = 0; round < 400_000; round++) held.set(round % 50_000, [`a string of round ${round}`])
  held.clear()
  const before = process.memoryUsage().rss
  await collectGarbage()
  const given = (before - process.memoryUsage().rss) / MIB
  assert.ok(given >= 10, `${given} MiB`)
})

test('limitMemory bounds the young generation of a process that allocates much', async (t) => {
  const youngBytes = async (first: string): Promise<number> => {
    const script = `
      import { getHeapSpaceStatistics } from 'node:v8'
      ${first}
      let made = []
      for (let round = 0; round < 1_000_000; round++) made[round % 100_000] = [round]
      console.log(getHeapSpaceStatistics().find((space) => space.space_name === 'new_space').space_size)`
    // During incremental marking V8 lets the young generation exceed its size. On a busy machine that takes long.
    const args = ['--no-incremental-marking', '--input-type=module', '--eval', script]
    const child = await spawnChild(t, process.execPath, args)
    assert.deepEqual(await child.exited, { code: 0, signal: null }, child.stderr())
    return Number(child.stdout())
  }
  const module = import.meta.resolve('../../src/runtime/system-heap.ts')
  const unlimited = await youngBytes('')
  assert.ok(unlimited >= 16 * MIB, `${unlimited}`)
  const limited = await youngBytes(`import { limitMemory } from '${module}'; limitMemory()`)
  assert.ok(limited <= 4 * MIB, `${limited}`)
})

/** A module whose function `f` counts its argument down to zero. */
const countDown = '0061736d0100000001050160017f0003020100070501016600000a10010e000340200041016b22000d000b0b'

test('under limitMemory frequently called WebAssembly is not compiled with the optimizing compiler', async (t) => {
  const compiled = async (first: string): Promise<string> => {
    const script = `
      ${first}
      console.log('begin')
      import { setTimeout as sleep } from 'node:timers/promises'
      const { f } = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from('${countDown}', 'hex'))).exports
      for (let round = 0; round < 100; round++) f(1_000_000)
      await sleep(100)`
    const args = ['--trace-wasm-compilation-times', '--input-type=module', '--eval', script]
    const child = await spawnChild(t, process.execPath, args)
    assert.deepEqual(await child.exited, { code: 0, signal: null }, child.stderr())
    // Node's own TypeScript compiler, which ran before, is WebAssembly too.
    return child.stdout().split('begin')[1] as string
  }
  const module = import.meta.resolve('../../src/runtime/system-heap.ts')
  assert.match(await compiled(''), /TurboFan/i)
  const limited = await compiled(`import { limitMemory } from '${module}'; limitMemory()`)
  assert.match(limited, /Liftoff/i)
  assert.doesNotMatch(limited, /TurboFan/i)
})

/** The readings of a process whose memory grows by a burst, and which releases half of it in a collection. */
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

test('memory is collected once after each burst of growth, and not without one', async () => {
  const { time, memory, collectedAtMs, end } = observed()
  await time.advance(60_000)
  assert.deepEqual(collectedAtMs, [])
  memory.rss += 20 * MIB
  await time.advance(60_000)
  assert.deepEqual(collectedAtMs, [65_000])
  // The next burst begins at what remains after a collection.
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

test('a burst is measured from the lowest resident memory', async () => {
  const { time, memory, collectedAtMs, end } = observed()
  await time.advance(5_000)
  memory.rss -= 10 * MIB
  await time.advance(5_000)
  memory.rss += 16 * MIB
  await time.advance(5_000)
  assert.deepEqual(collectedAtMs, [15_000])
  end()
})

test('a large heap, whose collection would take long, is not collected explicitly', async () => {
  const { time, memory, collectedAtMs, end } = observed({ heapUsed: 65 * MIB })
  await time.advance(5_000)
  memory.rss += 100 * MIB
  await time.advance(60_000)
  assert.deepEqual(collectedAtMs, [])
  end()
})
