import assert from 'node:assert/strict'
import type { VirtualClock } from '../../src/runtime/virtual-clock.ts'

interface Controller {
  readonly settled: Promise<void>
  run(signal: AbortSignal): Promise<void>
}

/** Runs a controller in simulated time until the test ends it. It may end only with the reason of its signal. */
export function inTime(controller: Controller, time: VirtualClock) {
  let settled = false
  void controller.settled.then(() => {
    settled = true
  })
  const stop = new AbortController()
  let ended: Promise<void> = Promise.resolve()
  return {
    settled: () => settled,
    /** Starts it, and lets this time pass. */
    async run(ms: number): Promise<void> {
      ended = controller.run(stop.signal).catch((error: unknown) => assert.equal(error, stop.signal.reason))
      await time.advance(ms)
    },
    async end(): Promise<void> {
      stop.abort(new Error('the end'))
      await ended
    },
  }
}
