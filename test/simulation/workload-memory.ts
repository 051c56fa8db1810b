import { seededRandom } from '../../src/runtime/random.ts'
import { workloadCompositionOf } from './workload-composition.ts'
import { disturbWorkloads } from './workload-faults.ts'
import { use } from './workload-scenario.ts'
import { WorkloadWorld } from './workload-world.ts'

// usage: node --expose-gc test/simulation/workload-memory.ts ROUNDS: runs churn and faults around one long-lived
// process, and prints the bytes of heap in use after each round as JSON.

const collect = (globalThis as { gc?: () => void }).gc
if (collect === undefined) throw new Error('needs --expose-gc')
Error.stackTraceLimit = 0

const activeMs = 30_000
const restMs = 30_000
const seed = 1
// One term only: a new term would free everything anyway.
const own = { processes: 1, elects: false, services: 8, pods: 30, nodes: 4, hasVandal: true }
const composition = { ...workloadCompositionOf(seed), ...own }
// A small limit, so that the server's history soon reaches its full size.
const historyLimit = 50
const world = new WorkloadWorld(seed, composition, { historyLimit, reusesNames: false })
const { time, clock, processes, transcript, churn } = world
await world.prepare(composition)
for (const process of processes) process.start()
const used: number[] = []
for (let round = 1; round <= Number(process.argv[2] ?? 10); round++) {
  let done = false
  const tools = { clock, note() {}, endsLives: false }
  const working = Promise.all([
    use(world, activeMs, round),
    disturbWorkloads(world, { ...tools, random: seededRandom(round, 'faults') }, activeMs),
    disturbWorkloads(world, { ...tools, random: seededRandom(round, 'more faults') }, activeMs),
  ]).finally(() => {
    done = true
  })
  while (!done) await time.advance(1_000)
  await working
  for (const process of processes) {
    process.heal()
    if (process.failure !== undefined) throw process.failure
  }
  await time.advance(restMs)
  await churn.collectGarbage()
  await time.advance(restMs)
  transcript.length = 0
  for (const { logger } of processes) logger.lines.length = 0
  collect()
  used.push(process.memoryUsage().heapUsed)
}
console.log(JSON.stringify(used))
