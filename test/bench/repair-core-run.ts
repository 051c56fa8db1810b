// One run of the bench of full passes, in a process of its own: `informers` alone, or with the `repairs` on top. Prints
// a CoreRun as JSON.
// usage: node --expose-gc repair-core-run.ts informers|repairs COUNT

import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import type { CoreRun } from './repair-core.ts'
import { ApiAtRest } from './repair-core-api.ts'
import { allRight } from './repair-core-objects.ts'
import { bytesInUse, cpuSince, repairSetup } from './repair-core-setup.ts'

const [kind = '', countText = ''] = process.argv.slice(2)
const repairing = kind === 'repairs'
const count = Number(countText)
const intervalMs = 180_000
const laterPasses = 4

const time = new VirtualClock()
const api = new ApiAtRest(allRight(count))
const setup = repairSetup({ api, clock: time.view(), count, intervalMs, repairing })
const stop = new AbortController()

const before = process.cpuUsage()
const { settled, ended } = setup.start(stop.signal)
let done = false
void settled.then(() => {
  done = true
})
if (!(await time.runUntil(() => done, 60_000))) throw new Error('the first passes have not ended')
const startCpuMs = cpuSince(before)
const start = bytesInUse()

// The passes of the repairs do not begin at the same moment.
await time.advance(1_000)
const passCpuMs: number[] = []
for (let pass = 0; pass < laterPasses; pass++) {
  const begun = process.cpuUsage()
  await time.advance(intervalMs)
  if (repairing) passCpuMs.push(cpuSince(begun))
}
await assertQuiet()
const run: CoreRun = { startCpuMs, passCpuMs, bytes: { start, later: bytesInUse() } }
console.log(JSON.stringify(run))
stop.abort()
await ended

/** Everything is correct, so a pass that sends any request to the API server does unnecessary work. */
async function assertQuiet(): Promise<void> {
  if (api.requests.length > 0) throw new Error(`the passes asked for ${api.requests.slice(0, 5).join(', ')}`)
  const ages = (await setup.metrics.expose())
    .split('\n')
    .filter((line) => line.startsWith('apiserver_bootstrap_repair_last_pass'))
  if (repairing && (ages.length !== 2 || ages.some((line) => Number(line.split(' ')[1]) > 1))) {
    throw new Error(`not all passes took place: ${ages.join(', ')}`)
  }
}
