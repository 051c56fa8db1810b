import { createHook } from 'node:async_hooks'

/**
 * The types of asynchronous resources that `work` creates, besides promises and the simulator's own turns of the event
 * loop.
 */
export async function foreignResources(work: () => Promise<void>): Promise<readonly string[]> {
  const settling = ['PROMISE', 'Immediate', 'TickObject', 'Microtask']
  const foreign = new Set<string>()
  const tripwire = createHook({
    init(_id, type) {
      if (!settling.includes(type)) foreign.add(type)
    },
  }).enable()
  try {
    await work()
  } finally {
    tripwire.disable()
  }
  return [...foreign]
}
