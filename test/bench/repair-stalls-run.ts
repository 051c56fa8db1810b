// One run of the bench of pauses, in a process of its own and in real time. Prints a StallRun as JSON.
// usage: node --expose-gc repair-stalls-run.ts COUNT

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as wait } from 'node:timers/promises'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { ApiAtRest } from './repair-core-api.ts'
import { allRight, changedService } from './repair-core-objects.ts'
import { bytesInUse, cpuSince, repairSetup } from './repair-core-setup.ts'
import type { StallRun } from './repair-stalls.ts'

/** On a connection several objects arrive at a time. */
const OBJECTS_PER_TURN = 50
const INTERVAL_MS = 10_000
const CHANGES_PER_SECOND = 1_000
const CHURN_MS = 60_000

const count = Number(process.argv[2])
const api = new ApiAtRest(allRight(count), OBJECTS_PER_TURN)
const setup = repairSetup({ api, clock: systemClock, count, intervalMs: INTERVAL_MS, repairing: true })
const stop = new AbortController()
await wait(100)
const delay = monitorEventLoopDelay({ resolution: 1 })
delay.enable()
const longestMs = (): number => {
  const longest = delay.max / 1e6
  delay.reset()
  return longest
}
const { settled, ended } = setup.start(stop.signal)
await settled
const startMs = longestMs()
delay.disable()
const bytes = bytesInUse()
await wait(100)
delay.reset()
delay.enable()
const before = process.cpuUsage()
// One pass of each repair: their intervals are not spread.
await wait(INTERVAL_MS)
const passMs = longestMs()
const passCpuMs = cpuSince(before)
await churn()
const run: StallRun = { startMs, passMs, passCpuMs, churnMs: longestMs(), bytes }
const usage = (await setup.metrics.expose()).split('\n').find((line) => line.includes(`_allocated_ips{`))
if (usage?.endsWith(` ${count}`) !== true) throw new Error(`not all are allocated: ${usage}`)
if (api.requests.length > 0) throw new Error(`the passes asked for ${api.requests.slice(0, 5).join(', ')}`)
console.log(JSON.stringify(run))
stop.abort()
await ended

/** Changes `CHANGES_PER_SECOND` Services each second, one after the other. */
async function churn(): Promise<void> {
  const startedAt = performance.now()
  let changed = 0
  for (;;) {
    const elapsedMs = performance.now() - startedAt
    if (elapsedMs >= CHURN_MS) return
    const due = Math.floor((elapsedMs / 1000) * CHANGES_PER_SECOND)
    const objects = Array.from({ length: due - changed }, (_, at) =>
      changedService((changed + at) % count, changed + at),
    )
    changed = due
    api.change('services', objects)
    await wait(20)
  }
}
