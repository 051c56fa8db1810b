import { createHash } from 'node:crypto'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import { damages } from './damage.ts'
import { Fleet, type SimulatedMaster } from './fleet.ts'

/** How a random schedule went. */
export interface Outcome {
  /** What was done, in order. */
  readonly schedule: readonly string[]
  /** What must never happen, and did. */
  readonly violations: readonly string[]
  /** A digest of everything that was listed, logged and asked. */
  readonly digest: string
}

const SAMPLE_MS = 500
/** How much later than its lease's end a dead master may still be listed. */
const MARGIN_MS = 2_000
/** How soon a master that is well again must be listed: two seconds of readiness, probes and back-offs included. */
const LISTED_WITHIN_MS = 6_000

/** Three to five masters under random faults for a minute and a half; the same for the same seed. */
export async function runScenario(seed: number): Promise<Outcome> {
  const short = seed % 2 === 0
  const ttlMs = short ? 6_000 : 15_000
  const fleet = new Fleet({
    seed,
    masters: 3 + (seed % 3),
    master: {
      leaseTtlMs: ttlMs,
      reconcileIntervalMs: short ? 4_000 : 10_000,
      readinessGate: seed % 5 === 0 ? 'startup' : 'continuous',
      onShutdown: seed % 7 === 0 ? 'keep' : 'withdraw',
    },
  })
  const { random } = fleet
  const watch = new Invariants(fleet, ttlMs)
  const schedule: string[] = []
  for (const master of fleet.masters) master.start()
  await watch.advance(8_000)
  while (fleet.time.nowMs < 60_000) {
    schedule.push(`${Math.round(fleet.time.nowMs)} ${await disturb(fleet, random)}`)
    await watch.advance(SAMPLE_MS * (1 + randomInteger(random, 16)))
  }
  for (const master of fleet.masters) repair(master)
  await watch.advance(2 * ttlMs + 10_000)
  watch.expectAllListed()
  await fleet.close()
  return { schedule, violations: watch.violations, digest: digestOf(fleet) }
}

async function disturb(fleet: Fleet, random: Random): Promise<string> {
  const master = fleet.masters[randomInteger(random, fleet.masters.length)] as SimulatedMaster
  const { name, server, life } = master
  switch (randomInteger(random, 10)) {
    case 0:
      master.kill()
      return `kill ${name}`
    case 1:
      if (life === undefined || life.ended) {
        master.start()
        return `start ${name}`
      }
      master.terminate()
      return `terminate ${name}`
    case 2:
      if (life?.clock.frozen === true) master.thaw()
      else master.freeze()
      return `freeze or thaw ${name}`
    case 3:
      if (server.cut) server.heal()
      else server.cut = true
      return `cut or heal ${name}`
    case 4:
      if (server.serving) server.kill()
      else server.start()
      return `stop or start the server of ${name}`
    case 5:
      server.ready = !server.ready
      return `turn the readiness of ${name}`
    case 6:
      server.breakStreams()
      return `reset the connections of ${name}`
    case 7: {
      const away = fleet.masters.every((one) => one.server.cut)
      for (const one of fleet.masters) {
        if (away) one.server.heal()
        else one.server.cut = true
      }
      return away ? 'the datastore is back' : 'the datastore is away'
    }
    default: {
      const names = Object.keys(damages)
      const damage = names[randomInteger(random, names.length)] as string
      await fleet.damage(async () => damages[damage]?.(fleet.api).catch(() => {}))
      return damage
    }
  }
}

/** Undoes whatever was done to a master. */
function repair(master: SimulatedMaster): void {
  const { server } = master
  server.heal()
  server.start()
  server.ready = true
  master.thaw()
  if (master.life === undefined || master.life.ended || master.life.stop.signal.aborted) master.start()
}

/** Looks every half second whether what must hold does. */
class Invariants {
  readonly violations: string[] = []
  readonly #fleet: Fleet
  readonly #ttlMs: number
  /** Since when each master has been well; undefined while it is not. */
  readonly #wellSince = new Map<string, number>()
  /** Since when each master cannot renew its lease. */
  readonly #goneSince = new Map<string, number>()
  #seen = 0

  constructor(fleet: Fleet, ttlMs: number) {
    this.#fleet = fleet
    this.#ttlMs = ttlMs
  }

  async advance(ms: number): Promise<void> {
    this.#note()
    for (let passed = 0; passed < ms; passed += SAMPLE_MS) {
      await this.#fleet.advance(SAMPLE_MS)
      this.#check()
    }
  }

  expectAllListed(): void {
    const all = this.#fleet.masters.map((master) => master.address).sort()
    for (const object of ['endpoints', 'slice'] as const) {
      const listed = this.#fleet.listed(object)
      if (JSON.stringify(listed) !== JSON.stringify(all)) this.#violated(`at the end ${object} lists ${listed}`)
    }
  }

  #note(): void {
    const { masters, time } = this.#fleet
    for (const master of masters) {
      const { name, life, server } = master
      if (!master.well) this.#wellSince.delete(name)
      else if (!this.#wellSince.has(name)) this.#wellSince.set(name, time.nowMs)
      const renews = life !== undefined && !life.ended && !life.clock.frozen && server.serving && !server.cut
      if (renews) this.#goneSince.delete(name)
      else if (!this.#goneSince.has(name)) this.#goneSince.set(name, time.nowMs)
    }
  }

  #check(): void {
    const { masters, time, listings } = this.#fleet
    const nowMs = time.nowMs
    for (const listing of listings.slice(this.#seen)) {
      const empty = listing.addresses === undefined || listing.addresses.length === 0
      if (empty && !listing.byDamage) this.#violated(`${listing.object} became empty at ${listing.atMs}`)
    }
    this.#seen = listings.length
    for (const { name, address } of masters) {
      const since = this.#goneSince.get(name)
      const observed = masters.some(
        (other) => other.name !== name && (this.#wellSince.get(other.name) ?? nowMs) <= (since ?? -1),
      )
      const late = since !== undefined && observed && nowMs - since > this.#ttlMs + MARGIN_MS
      if (late && this.#isListed(address)) this.#violated(`${name}, gone since ${since}, is still listed at ${nowMs}`)
      const wellSince = this.#wellSince.get(name)
      const due = wellSince !== undefined && nowMs - wellSince > LISTED_WITHIN_MS
      if (due && !this.#isListed(address)) this.#violated(`${name}, well since ${wellSince}, is not listed at ${nowMs}`)
    }
    for (const { name, life } of masters) {
      if (life?.failure !== undefined) this.#violated(`${name} failed: ${life.failure}`)
    }
  }

  #isListed(address: string): boolean {
    return this.#fleet.listed('slice')?.includes(address) === true
  }

  #violated(what: string): void {
    if (this.violations.length < 10) this.violations.push(what)
  }
}

function digestOf(fleet: Fleet): string {
  const hash = createHash('sha256')
  hash.update(JSON.stringify(fleet.listings))
  for (const { atMs, by, request } of fleet.requests) hash.update(`${atMs} ${by} ${request.method} ${request.path}\n`)
  for (const { name, lives } of fleet.masters) {
    for (const life of lives) {
      for (const line of life.logger.lines) hash.update(`${name} ${line.level} ${line.message}\n`)
    }
  }
  return hash.digest('hex')
}
