import { type DamageName, damages } from '../../src/drill/damage.ts'
import { SimulatedKubeApiserver } from '../../src/drill/simulator/kube-apiserver.ts'
import type { SimulatedMaster } from '../../src/drill/simulator/master.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import type { Member, World } from './composition.ts'

/** Something that happens to a fleet: what was done, in words; undefined when it has no meaning in this fleet. */
type Fault = (world: World, tools: FaultTools) => Promise<string | undefined> | string | undefined

interface FaultTools {
  readonly random: Random
  /** Lets time pass, while what must hold is watched. */
  readonly advance: (ms: number) => Promise<void>
}

/** Does one thing to the fleet, or undoes what is wrong with a part of it. What it did, in words. */
export async function disturb(world: World, tools: FaultTools): Promise<string> {
  for (;;) {
    const fault = pick(tools.random, tools.random.next() < 0.35 ? repairs : faults)
    const done = await fault(world, tools)
    if (done !== undefined) return done
  }
}

const withMaster =
  (fault: (master: SimulatedMaster, tools: FaultTools, world: World) => ReturnType<Fault>): Fault =>
  (world, tools) => {
    const masters = world.fleet.masters.filter((master) => !world.retired.has(master))
    return fault(pick(tools.random, masters), tools, world)
  }

const withKubeApiserver =
  (fault: (one: SimulatedKubeApiserver, tools: FaultTools) => ReturnType<Fault>): Fault =>
  ({ kubeApiservers }, tools) =>
    kubeApiservers.length === 0 ? undefined : fault(pick(tools.random, kubeApiservers), tools)

const damaged: Fault = async ({ fleet }, { random }) => {
  const damage = pick(random, Object.keys(damages) as DamageName[])
  await fleet.damage(async () => damages[damage](fleet.api).catch(() => {}))
  return damage
}

/** Sidecars. */
const processFaults: readonly Fault[] = [
  withMaster((master) => {
    master.kill()
    return `kill ${master.name}`
  }),
  withMaster((master) => {
    if (!master.running) return undefined
    master.terminate()
    return `terminate ${master.name}`
  }),
  withMaster((master) => {
    if (!master.running) return undefined
    master.freeze()
    return `freeze ${master.name}`
  }),
  withMaster(async (master, { random, advance }) => {
    if (!master.running) return undefined
    if (randomInteger(random, 4) === 0) master.server.etcdCheck = false
    master.kill()
    const pauseMs = randomInteger(random, 3) * 500
    if (pauseMs > 0) await advance(pauseMs)
    master.start()
    const check = master.server.etcdCheck ? '' : ', while its etcd check fails'
    return `kill ${master.name} and start it again after ${pauseMs} ms${check}`
  }),
  async ({ fleet }, { random, advance }) => {
    const stopped = fleet.masters.filter((master) => master.running && randomInteger(random, 4) > 0)
    if (stopped.length < 2) return undefined
    for (const master of stopped) master.terminate()
    await advance(500 * (1 + randomInteger(random, 6)))
    for (const master of stopped) if (master.life?.ended !== false) master.start()
    return `terminate ${stopped.map(({ name }) => name).join(', ')} at the same moment, and start them again`
  },
  withMaster(async (master, { random, advance }) => {
    const { life, server } = master
    // Nobody ends the old one before the new one is ready.
    if (!master.well || !server.etcdCheck) return undefined
    master.start()
    await advance(500 * (1 + randomInteger(random, 8)))
    life?.stop.abort(new Error('SIGTERM'))
    return `restart ${master.name}, its lives overlapping`
  }),
  async ({ fleet }, { advance }) => {
    const restarted = fleet.masters.filter((master) => master.running)
    for (const master of restarted) {
      master.terminate()
      for (let waitedMs = 0; waitedMs < 5_000 && master.life?.ended === false; waitedMs += 500) await advance(500)
      if (master.life?.ended !== false) master.start()
      await advance(2_500)
    }
    return `restart ${restarted.map(({ name }) => name).join(', then ')}`
  },
  withMaster((master, { random }) => {
    const skewMs = randomInteger(random, 2) === 0 ? 0 : randomInteger(random, 7_200_001) - 3_600_000
    master.setWallClock(skewMs)
    return `set the wall clock of ${master.name} ${skewMs} ms off`
  }),
  withMaster(async (master, { random, advance }, world) => {
    if (world.retired.size >= 2) return undefined
    master.kill()
    master.server.kill()
    world.retired.add(master)
    const pauseMs = 500 * randomInteger(random, 2 * (master.options.leaseTtlMs / 1000 + 4))
    if (pauseMs > 0) await advance(pauseMs)
    const { name, address, skewMs } = master
    const next = world.fleet.add({ name: `${name}-anew`, addresses: [address], skewMs: skewMs + 60_000 })
    next.start()
    return `${name} dies, and ${pauseMs} ms later ${next.name} comes with its address`
  }),
]

/** API servers, and the ways to them. */
const serverFaults: readonly Fault[] = [
  withMaster(({ name, server }) => {
    server.cut = true
    return `cut ${name} off from its server`
  }),
  withMaster(({ name, server }) => {
    server.kill()
    return `stop the server of ${name}`
  }),
  withMaster(({ name, server }) => {
    server.ready = false
    return `${name} is not ready`
  }),
  withMaster(async ({ name, server }, { advance }) => {
    for (let flap = 0; flap < 6; flap++) {
      server.ready = flap % 2 === 1
      await advance(1_500)
    }
    return `the readiness of ${name} flapped for 9 s`
  }),
  ({ fleet }) => {
    for (const { server } of fleet.masters) server.ready = false
    return 'nobody is ready'
  },
  withMaster(({ name, server }) => {
    server.silent = true
    return `/readyz of ${name} hangs`
  }),
  ({ fleet }) => {
    for (const { server } of fleet.masters) server.etcdCheck = false
    return 'the etcd check fails everywhere'
  },
  withMaster(({ name, server }) => {
    server.etcdCheck = false
    return `the etcd check of ${name} fails`
  }),
  withMaster(({ name, server, etcd }) => {
    server.breakStreams()
    etcd?.breakStreams()
    return `reset the connections of ${name}`
  }),
]

/** What everything is stored in. */
const storeFaults: readonly Fault[] = [
  (world) => {
    const { fleet } = world
    for (const { server } of allOf(world)) {
      if (fleet.etcd === undefined) server.cut = true
      else server.storeless = true
    }
    fleet.etcd?.stop()
    return 'the datastore is away'
  },
  withMaster(({ name, etcd }, { random }) => {
    if (etcd === undefined) return undefined
    if (randomInteger(random, 2) === 0) etcd.cut = true
    else etcd.refused = true
    etcd.breakStreams()
    return `cut ${name} off from etcd, ${etcd.cut ? 'without an answer' : 'refused'}`
  }),
  (world) => {
    if (world.fleet.etcd === undefined) return undefined
    for (const { etcd } of allOf(world)) if (etcd !== undefined) etcd.cut = true
    return 'cut everybody off from etcd'
  },
  ({ fleet: { etcd } }) => {
    if (etcd === undefined) return undefined
    etcd.full = true
    return 'etcd is full'
  },
  ({ fleet: { etcd } }) => {
    if (etcd === undefined) return undefined
    etcd.store.compact()
    return 'etcd is compacted'
  },
]

/** API servers that keep their leases themselves. */
const kubeApiserverFaults: readonly Fault[] = [
  withKubeApiserver((one) => {
    one.kill()
    return `kill ${one.name}`
  }),
  withKubeApiserver((one) => {
    if (!one.running) return undefined
    one.terminate()
    return `terminate ${one.name}`
  }),
  withKubeApiserver((one) => {
    one.etcd.cut = true
    return `cut ${one.name} off from etcd`
  }),
]

const faults: readonly Fault[] = [
  ...processFaults,
  ...serverFaults,
  ...storeFaults,
  ...kubeApiserverFaults,
  damaged,
  damaged,
  damaged,
  damaged,
]

const repairs: readonly Fault[] = [
  (world, { random }) => {
    const broken = allOf(world).filter((member) => !member.well)
    if (broken.length === 0) return undefined
    const member = pick(random, broken)
    repairMember(member)
    return `repair ${member.name}`
  },
  (world, { random }) => {
    if (allOf(world).every(({ well }) => well)) return undefined
    if (randomInteger(random, 2) === 0) {
      repairStore(world)
      return 'the datastore is back'
    }
    repairAll(world)
    return 'repair everybody'
  },
  damaged,
]

/** Undoes whatever was done, to all but those that have died for good. */
export function repairAll(world: World): void {
  repairStore(world)
  for (const member of allOf(world)) repairMember(member)
}

function repairStore(world: World): void {
  const { etcd } = world.fleet
  if (etcd !== undefined) etcd.full = false
  etcd?.start()
  for (const member of allOf(world)) {
    member.server.storeless = false
    if (member.server.cut) member.server.heal()
    if (member.etcd?.broken) member.etcd.heal()
  }
}

function repairMember(member: Member): void {
  const { server } = member
  if (server.cut) server.heal()
  server.start()
  server.ready = true
  server.silent = false
  server.etcdCheck = true
  if (member.etcd?.broken) member.etcd.heal()
  member.thaw()
  if (member.running) return
  // Two of the same server cannot be: they listen on one port. Two sidecars can.
  if (member instanceof SimulatedKubeApiserver) member.kill()
  member.start()
}

function allOf({ fleet, kubeApiservers, retired }: World): readonly Member[] {
  return [...fleet.masters, ...kubeApiservers].filter((member) => !retired.has(member))
}

function pick<T>(random: Random, from: readonly T[]): T {
  return from[randomInteger(random, from.length)] as T
}
