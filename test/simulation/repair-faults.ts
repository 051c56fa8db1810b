import { type Clock, sleep } from '../../src/runtime/clock.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import type { RepairMaster } from './repair-master.ts'
import type { RepairWorld } from './repair-world.ts'

export interface RepairFaultTools {
  readonly clock: Clock
  readonly random: Random
  readonly note: (text: string) => void
}

type MasterFault = (master: RepairMaster, world: RepairWorld, random: Random) => string | undefined

/** Injects faults into masters and ends them again, for `ms` milliseconds. */
export async function disturbMasters(world: RepairWorld, tools: RepairFaultTools, ms: number): Promise<void> {
  const { clock, random, note } = tools
  const endMs = clock.monotonicMs() + ms
  while (clock.monotonicMs() < endMs) {
    await sleep(clock, random.next() * 25_000)
    const master = world.masters[randomInteger(random, world.masters.length)] as RepairMaster
    const fault = faults[randomInteger(random, faults.length)] as MasterFault
    const done = fault(master, world, random)
    if (done === undefined) continue
    note(`${done} ${master.name}`)
    await sleep(clock, random.next() * durationMs(random))
    world.etcd.start()
    master.heal()
    for (const other of world.masters) other.server.store.own = 'ok'
    note(`heal ${master.name}`)
    // Now and then the pause is long enough for all passes of a repair.
    if (random.next() < 0.4) await sleep(clock, random.next() * 150_000)
  }
}

/** The longest duration of a fault; sometimes longer than any grace period. */
function durationMs(random: Random): number {
  const chance = random.next()
  return chance < 0.5 ? 1_500 : chance < 0.93 ? 15_000 : 180_000
}

const faults: readonly MasterFault[] = [
  (master, { coverage }) => {
    coverage.count('a master was killed')
    master.kill()
    return 'kill'
  },
  (master) => {
    master.terminate()
    return 'terminate'
  },
  (master, { coverage }) => {
    coverage.count('a master was frozen')
    master.freeze()
    return 'freeze'
  },
  ({ server }) => {
    server.kill()
    return 'kill the server of'
  },
  ({ server }) => {
    server.cut = true
    return 'cut the server off from'
  },
  ({ server }) => {
    server.hanging = true
    return 'hang the server of'
  },
  ({ server }) => {
    server.resetConnections()
    return 'break the connections of'
  },
  ({ server }, { server: store, coverage }) => {
    coverage.count('a relist was forced')
    store.compact()
    server.resetConnections()
    return 'compact, and break the connections of'
  },
  ({ lag }, _world, random) => {
    lag.hold('services', random.next() * 20_000)
    return 'hold back the Services of'
  },
  ({ lag }, _world, random) => {
    lag.hold('ipaddresses', random.next() * 20_000)
    return 'hold back the IPAddresses of'
  },
  ({ lag }, _world, random) => {
    lag.hold('ranges', random.next() * 20_000)
    return 'hold back the bitmaps of'
  },
  ({ etcd }, { coverage }) => {
    coverage.count('a watch of a bitmap broke')
    etcd.resetConnections()
    return 'break the etcd connections of'
  },
  ({ etcd }, { coverage }) => {
    coverage.count('a watch of a bitmap broke')
    etcd.cut = true
    return 'cut etcd off from'
  },
  ({ etcd }, { coverage }) => {
    coverage.count('a watch of a bitmap broke')
    etcd.refused = true
    etcd.resetConnections()
    return 'refuse etcd to'
  },
  (_master, { etcd, masters }) => {
    etcd.stop()
    for (const { server } of masters) server.store.own = 'fails'
    return 'stop etcd for all, not only'
  },
]
