import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EtcdError } from '../../src/etcd/kv.ts'
import { Informer } from '../../src/kube/informer.ts'
import { services } from '../../src/kube/resources.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import { parseCidr } from '../../src/net/cidr.ts'
import { clusterIpClaims } from '../../src/repair/bitmap/claims.ts'
import { BitmapUse } from '../../src/repair/bitmap/use.ts'
import { ClusterIpRepair } from '../../src/repair/cluster-ip-repair.ts'
import { MemoryRangeRegistry } from '../../src/repair/registries/memory.ts'
import { noneRegistry, type RangeName, type RangeRegistry } from '../../src/repair/registries/range-registry.ts'
import type { Repair } from '../../src/repair/repair.ts'
import { trimService } from '../../src/repair/service-claims.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { abortable, aborted } from '../../src/runtime/signals.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger, silentLogger } from '../../src/telemetry/logger.ts'
import { Embedded } from '../apiserver/embedded.ts'

/** A repair that the test controls. */
class ScriptedRepair implements Repair {
  served: 'unknown' | 'served' | 'absent' = 'unknown'
  running = false
  reason: string | undefined
  readonly #settled = Promise.withResolvers<void>()
  readonly #failed = Promise.withResolvers<never>()

  get settled(): Promise<void> {
    return this.#settled.promise
  }

  settle(): void {
    this.#settled.resolve()
  }

  fail(error: Error): void {
    this.#failed.reject(error)
  }

  fault(): string | undefined {
    return this.reason
  }

  async run(signal: AbortSignal): Promise<void> {
    this.running = true
    await Promise.race([aborted(signal), this.#failed.promise]).finally(() => {
      this.running = false
    })
  }
}

function start(registry: RangeRegistry, servesBeta = false) {
  const time = new VirtualClock()
  const ipAddresses = new ScriptedRepair()
  const bitmaps = new ScriptedRepair()
  const stop = new AbortController()
  let missing = 0
  let used = Promise.withResolvers<void>()
  let unused = Promise.withResolvers<void>()
  const use = {
    proven: (signal: AbortSignal) => abortable(used.promise, signal),
    unused: (signal: AbortSignal) => abortable(unused.promise, signal),
  }
  let made = 0
  const logger = memoryLogger()
  const repair = new ClusterIpRepair({
    ipAddresses,
    servesBeta: async () => servesBeta,
    makeBitmaps() {
      made++
      return bitmaps
    },
    registry,
    services: { whenSynced: async () => {} },
    onMissingRegistry(isMissing) {
      missing += isMissing ? 1 : -1
    },
    use,
    clock: time.view(),
    random: seededRandom(1, 'master'),
    logger,
    availability: { failed() {}, interrupted() {}, succeeded() {}, forget() {} },
    intervalMs: 180_000,
  })
  let settled = false
  void repair.settled.then(() => {
    settled = true
  })
  const end = repair.run(stop.signal)
  return {
    time,
    lines: logger.lines,
    missing: () => missing,
    ipAddresses,
    bitmaps,
    repair,
    settled: () => settled,
    made: () => made,
    use: () => used.resolve(),
    /** No server uses the bitmap any more, until `use` is called again. */
    disuse() {
      used = Promise.withResolvers()
      unused.resolve()
      unused = Promise.withResolvers()
    },
    async end() {
      stop.abort(new Error('the test is over'))
      await time.advance(1)
      await end
      assert.deepEqual([ipAddresses.running, bitmaps.running], [false, false])
    },
    failure: end,
  }
}

class OrderedRegistry extends MemoryRangeRegistry {
  readonly ordered = true
}

for (const servesBeta of [true, false]) {
  test(`a server that serves IPAddresses ${servesBeta ? 'only as v1beta1 gets its bitmap repaired, and a warning' : 'not at all causes no warning'}`, async () => {
    const { time, ipAddresses, bitmaps, lines, end } = start(await stored('serviceips'), servesBeta)
    ipAddresses.served = 'absent'
    await time.advance(4_000)
    assert.equal(bitmaps.running, true)
    const warnings = lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
    assert.deepEqual(
      warnings.map((message) => /only as v1beta1.*MultiCIDRServiceAllocator.*1\.33/.test(message)),
      servesBeta ? [true] : [],
    )
    await end()
  })
}

async function stored(name: 'serviceips'): Promise<MemoryRangeRegistry> {
  const registry = new OrderedRegistry()
  const { signal } = new AbortController()
  await registry.write(name, { range: '10.0.0.0/24', data: new Uint8Array() }, { type: 'absent' }, signal)
  return registry
}

for (const [code, firstMs, longestMs] of [
  ['Unreachable', 2, 1_000],
  ['Refused', 10, 10_000],
] as const) {
  test(`reads of a registry that fail with ${code} are retried after ${firstMs} to ${longestMs} ms`, async () => {
    const readsMs: number[] = []
    let fails = true
    const registry: RangeRegistry = {
      ...noneRegistry,
      writable: true,
      async read(name, signal) {
        readsMs.push(time.nowMs)
        if (fails) throw new EtcdError(code, 'no')
        return noneRegistry.read(name, signal)
      },
    }
    const { time, ipAddresses, settled, end } = start(registry)
    ipAddresses.served = 'served'
    ipAddresses.settle()
    await time.advance(600_000)
    const waitsMs = readsMs.slice(1).map((ms, index) => ms - (readsMs[index] ?? 0))
    const doubled = waitsMs.map((_, index) => Math.min(firstMs * 2 ** index, longestMs))
    assert.deepEqual(waitsMs, doubled)
    assert.ok((readsMs.at(-1) ?? 0) > 600_000 - longestMs)
    fails = false
    await time.advance(10_000)
    assert.equal(settled(), true)
    await end()
  })
}

test('on a server with IPAddresses and no bitmap only the IPAddresses are repaired', async () => {
  const { time, ipAddresses, bitmaps, settled, end } = start(new MemoryRangeRegistry())
  await time.advance(5_000)
  assert.equal(bitmaps.running, false)
  ipAddresses.served = 'served'
  await time.advance(600_000)
  assert.deepEqual([ipAddresses.running, bitmaps.running, settled()], [true, false, false])
  ipAddresses.settle()
  await time.advance(1)
  assert.equal(settled(), true)
  await end()
})

test('on a server with IPAddresses and a bitmap the bitmap is repaired only once a server uses it', async () => {
  const { time, ipAddresses, bitmaps, settled, use, end } = start(await stored('serviceips'))
  ipAddresses.served = 'served'
  ipAddresses.settle()
  await time.advance(600_000)
  assert.equal(bitmaps.running, false, 'the unused bitmap of an upgraded cluster is not repaired')
  assert.equal(settled(), true)
  use()
  await time.advance(1)
  assert.equal(bitmaps.running, true)
  await end()
})

test('the repair of a bitmap ends when no server uses it any more, and begins again when one does', async () => {
  const { time, ipAddresses, bitmaps, repair, settled, use, disuse, made, end } = start(await stored('serviceips'))
  ipAddresses.served = 'absent'
  await time.advance(5_000)
  assert.deepEqual([bitmaps.running, made()], [true, 1])
  bitmaps.settle()
  bitmaps.reason = 'a range that differs'
  disuse()
  await time.advance(1)
  assert.equal(bitmaps.running, true, 'without IPAddresses the bitmap is repaired again')
  ipAddresses.served = 'served'
  ipAddresses.settle()
  await time.advance(1)
  assert.deepEqual([bitmaps.running, settled()], [true, true])
  disuse()
  await time.advance(600_000)
  assert.deepEqual([bitmaps.running, repair.fault(), ipAddresses.running], [false, undefined, true])
  use()
  await time.advance(1)
  assert.deepEqual([bitmaps.running, repair.fault(), made()], [true, 'a range that differs', 2])
  await end()
})

test('while both repairs run, one alone does not settle the whole', async () => {
  const { time, ipAddresses, bitmaps, settled, use, end } = start(await stored('serviceips'))
  use()
  ipAddresses.served = 'served'
  await time.advance(1_000)
  bitmaps.settle()
  await time.advance(1_000)
  assert.deepEqual([bitmaps.running, settled()], [true, false])
  ipAddresses.settle()
  await time.advance(1)
  assert.equal(settled(), true)
  await end()
})

test('a server that lacks IPAddresses only briefly does not start the repair of bitmaps', async () => {
  const { time, ipAddresses, bitmaps, end } = start(new MemoryRangeRegistry())
  ipAddresses.served = 'absent'
  await time.advance(2_000)
  ipAddresses.served = 'served'
  await time.advance(180_100)
  ipAddresses.served = 'absent'
  await time.advance(1_000)
  assert.equal(bitmaps.running, false, 'the repair does not start within a second')
  ipAddresses.served = 'served'
  await time.advance(181_000)
  assert.equal(bitmaps.running, false)
  await end()
})

test('a bitmap that appears later is repaired within an interval', async () => {
  const registry = new OrderedRegistry()
  const { time, ipAddresses, bitmaps, use, end } = start(registry)
  use()
  ipAddresses.served = 'served'
  await time.advance(1_000)
  const { signal } = new AbortController()
  await registry.write('serviceips', { range: '10.0.0.0/24', data: new Uint8Array() }, { type: 'absent' }, signal)
  await time.advance(180_000)
  assert.equal(bitmaps.running, true)
  await end()
})

for (const [what, registry, reports] of [
  ['with a registry', new MemoryRangeRegistry(), 0],
  ['without one', noneRegistry, 1],
] as const) {
  test(`with or without a registry (here ${what}), the bitmap repair starts once IPAddresses are absent for a while`, async () => {
    const { time, ipAddresses, bitmaps, settled, missing, end } = start(registry)
    ipAddresses.served = 'absent'
    await time.advance(2_000)
    assert.deepEqual([bitmaps.running, missing()], [false, 0])
    ipAddresses.served = 'served'
    await time.advance(400)
    ipAddresses.served = 'absent'
    await time.advance(181_000)
    await time.advance(5_000)
    assert.deepEqual([bitmaps.running, missing()], [true, reports])
    bitmaps.settle()
    await time.advance(1)
    assert.equal(settled(), true)
    await end()
  })
}

test('the fault of a repair that is not in use is not reported', async () => {
  const { time, ipAddresses, bitmaps, repair, end } = start(new MemoryRangeRegistry())
  ipAddresses.reason = 'no default ServiceCIDR'
  bitmaps.reason = 'not begun'
  assert.equal(repair.fault(), 'no default ServiceCIDR')
  ipAddresses.served = 'absent'
  assert.equal(repair.fault(), undefined)
  await time.advance(5_000)
  assert.equal(repair.fault(), 'not begun')
  ipAddresses.served = 'served'
  assert.equal(repair.fault(), 'no default ServiceCIDR; not begun')
  await end()
})

test('without a registry the bitmap is reported as missing only until the server has IPAddresses', async () => {
  const { time, ipAddresses, bitmaps, missing, made, end } = start(noneRegistry)
  ipAddresses.served = 'absent'
  await time.advance(200_000)
  assert.deepEqual([bitmaps.running, missing()], [true, 1])
  ipAddresses.served = 'served'
  await time.advance(180_000)
  assert.deepEqual([bitmaps.running, missing(), made()], [false, 0, 1])
  await end()
})

test('when one of the two repairs fails, the other ends and the error is passed on', async () => {
  const { time, ipAddresses, bitmaps, failure } = start(await stored('serviceips'))
  ipAddresses.served = 'absent'
  await time.advance(5_000)
  bitmaps.fail(new Error('a mistake in the program'))
  await assert.rejects(failure, /a mistake in the program/)
  assert.equal(ipAddresses.running, false)
})

/**
 * A cluster whose bitmap has the addresses that end in these numbers, of which .1 and .2 belong to Services. The bitmap
 * and the Services have revisions of the same etcd.
 */
async function watched(...taken: readonly number[]) {
  const embedded = await Embedded.started(undefined, { serviceAllocators: 'none' })
  const { api, clock, time } = embedded
  const registry = new MemoryRangeRegistry()
  const latest = async (): Promise<string> => (await api.list(services)).metadata.resourceVersion ?? ''
  let revision = ''
  const gaps: ((error?: Error) => void)[] = []
  const revised: RangeRegistry = {
    ...noneRegistry,
    watch(options) {
      gaps.push((error) => (error === undefined ? options.onChange(undefined) : options.report(error)))
      const onChange: typeof options.onChange = (change) => {
        const stored = change?.stored
        options.onChange(change && stored?.type === 'range' ? { ...change, stored: { ...stored, revision } } : change)
      }
      return registry.watch({ ...options, onChange })
    },
  }
  const set = async (
    numbers: readonly number[],
    {
      name = 'serviceips' as RangeName,
      range = '10.96.0.0/24',
      at = latest(),
    }: { name?: RangeName; range?: string; at?: string | Promise<string> } = {},
  ): Promise<void> => {
    const bitmap = new Bitmap(254)
    for (const number of numbers) bitmap.add(number - 1)
    revision = await at
    registry.put(name, { range, data: bitmap.toBytes() })
  }
  const make = (number: number, name = `s${number}`) =>
    api.create(services, {
      metadata: { namespace: 'default', name },
      spec: { clusterIP: `10.96.${number >> 8}.${number & 255}`, ports: [{ port: 80 }] },
    })
  await set(taken)
  await make(1)
  await make(2)
  const availability = { failed() {}, interrupted() {}, succeeded() {}, forget() {} }
  const context = { api, clock, random: seededRandom(1, 'test'), logger: silentLogger, availability }
  const informer = new Informer({ ...context, resource: services, transform: trimService })
  const claims = clusterIpClaims([parseCidr('10.96.0.0/24')])
  const use = new BitmapUse({ ...context, registry: revised, claims, services: informer, intervalMs: 10_000 })
  const stop = new AbortController()
  const following = informer.run(stop.signal)
  const known = { proven: false, unused: false }
  const ended = (['proven', 'unused'] as const).map((what) =>
    use[what](stop.signal).then(
      () => {
        known[what] = true
      },
      () => {},
    ),
  )
  await time.advance(1_000)
  // The first reported state of a bitmap is only the base with which others are compared.
  await set(taken)
  return {
    time,
    latest,
    set,
    make,
    remove: (name: string) => api.delete(services, { namespace: 'default', name }),
    /** The watches broke and are established again; with an error, they are not established yet. */
    gap(error?: Error): void {
      for (const gap of gaps) gap(error)
    },
    proven: () => known.proven,
    unused: () => known.unused,
    async end() {
      stop.abort(new Error('the test is over'))
      await time.advance(1)
      await Promise.all([following, ...ended])
    },
  }
}

test('a bit that is set before its Service is stored proves that a server uses the bitmap, even if it arrives later', async () => {
  for (const bitFirst of [true, false]) {
    const cluster = await watched(1, 2)
    const at = await cluster.latest()
    if (bitFirst) await cluster.set([1, 2, 7], { at })
    await cluster.make(7)
    await cluster.time.advance(9_000)
    if (!bitFirst) await cluster.set([1, 2, 7], { at })
    await cluster.time.advance(1)
    assert.equal(cluster.proven(), true)
    await cluster.end()
  }
})

test('a bit that is set after its Service was stored proves nothing: a repair may have set it', async () => {
  const cluster = await watched(1, 2)
  await cluster.make(7)
  await cluster.set([1, 2, 7])
  await cluster.time.advance(30_000)
  assert.equal(cluster.proven(), false)
  await cluster.end()
})

test('neither old Services and bits, nor new ones without their counterparts, prove use of the bitmap', async () => {
  const cluster = await watched(1)
  await cluster.make(3)
  await cluster.set([1, 2, 8])
  await cluster.time.advance(61_000)
  await cluster.set([1, 2, 3, 8])
  await cluster.make(8)
  await cluster.time.advance(1)
  assert.equal(cluster.proven(), false)
  await cluster.end()
})

test('a bit that arrives long after its Service proves nothing', async () => {
  const cluster = await watched(1, 2)
  const at = await cluster.latest()
  await cluster.make(7)
  await cluster.time.advance(11_000)
  await cluster.set([1, 2, 7], { at })
  await cluster.time.advance(1)
  assert.equal(cluster.proven(), false)
  await cluster.end()
})

test('bits that may have been set in a gap of the watch prove nothing; later bits prove use', async () => {
  const cluster = await watched(1, 2)
  cluster.gap()
  await cluster.set([1, 2, 7])
  await cluster.make(7)
  await cluster.time.advance(1)
  assert.equal(cluster.proven(), false)
  await cluster.set([1, 2, 7, 8])
  await cluster.make(8)
  await cluster.time.advance(1)
  assert.equal(cluster.proven(), true)
  await cluster.end()
})

test('bits of NodePorts, of other addresses and of another range prove nothing', async () => {
  const cluster = await watched(1, 2)
  await cluster.set([], { name: 'servicenodeports', range: '30000-30253' })
  await cluster.set([7], { name: 'servicenodeports', range: '30000-30253' })
  await cluster.set([1, 2, 9])
  await cluster.set([1, 2, 7], { range: '10.97.0.0/24' })
  await cluster.make(7)
  await cluster.time.advance(1)
  assert.equal(cluster.proven(), false)
  await cluster.end()
})

/** A cluster in which a master sets the bits of new Services, after they were stored. */
async function repaired() {
  const cluster = await watched(1, 2)
  const taken = [1, 2]
  return {
    ...cluster,
    taken,
    async make(...numbers: readonly number[]): Promise<void> {
      for (const number of numbers) {
        await cluster.make(number)
        taken.push(number)
        await cluster.set(taken)
      }
    },
    /** As a server does it. */
    async makeWithBit(number: number): Promise<void> {
      taken.push(number)
      await cluster.set(taken)
      await cluster.make(number)
    },
    makeWithoutBit: cluster.make,
  }
}

test('a bitmap is unused after five new ClusterIPs in a row and three intervals without a bit from a server', async () => {
  const cluster = await repaired()
  const { time } = cluster
  await time.advance(40_000)
  await cluster.make(11, 12, 13, 14)
  await time.advance(30_000)
  assert.equal(cluster.unused(), false)
  // The bit of a server: now five more are needed, and three intervals.
  await cluster.makeWithBit(15)
  await time.advance(31_000)
  await cluster.make(16)
  await time.advance(11_000)
  assert.equal(cluster.unused(), false)
  await cluster.makeWithBit(17)
  await cluster.make(18, 19, 20, 21, 22)
  await time.advance(11_000)
  assert.equal(cluster.unused(), false)
  await time.advance(20_000)
  await cluster.make(23)
  await time.advance(9_000)
  assert.equal(cluster.unused(), false)
  await time.advance(2_000)
  assert.equal(cluster.unused(), true)
  await cluster.end()
})

test('ClusterIPs are no evidence of disuse if their bits may have been missed or cannot be in the bitmap', async () => {
  const cluster = await repaired()
  const { time } = cluster
  await time.advance(40_000)
  // Addresses of another range.
  for (const number of [1, 2, 3, 4, 5]) await cluster.makeWithoutBit(256 + number, `outside${number}`)
  await time.advance(30_000)
  assert.equal(cluster.unused(), false)
  // Between the moment when the watch breaks and the one when it is established again.
  cluster.gap(new Error('broken'))
  for (const number of [21, 22, 23, 24, 25]) await cluster.makeWithoutBit(number)
  await time.advance(30_000)
  cluster.gap()
  assert.equal(cluster.unused(), false)
  // Services whose bits may arrive while the watch is broken.
  await cluster.set(cluster.taken)
  for (const number of [26, 27, 28, 29, 30]) await cluster.makeWithoutBit(number)
  cluster.gap()
  await time.advance(30_000)
  assert.equal(cluster.unused(), false)
  // Bits that belong to the first known state, or were seen long before the Services.
  const late = [31, 32, 33, 34, 35]
  await cluster.set([...cluster.taken, 31, 32])
  await cluster.set([...cluster.taken, ...late])
  await time.advance(61_000)
  for (const number of late) await cluster.makeWithoutBit(number)
  await time.advance(30_000)
  assert.equal(cluster.unused(), false)
  cluster.taken.push(...late)
  await cluster.make(41, 42, 43, 44, 45)
  await time.advance(11_000)
  assert.equal(cluster.unused(), true)
  await cluster.end()
})

test('the bit of a deleted Service, and one of many bits set at once, prove nothing for another Service', async () => {
  const cluster = await repaired()
  await cluster.make(7)
  await cluster.remove('s7')
  await cluster.makeWithoutBit(7, 'again')
  const many = Array.from({ length: 17 }, (_, index) => 20 + index)
  await cluster.set([...cluster.taken, ...many])
  await cluster.makeWithoutBit(20)
  await cluster.set([1, 2])
  await cluster.set([1, 2, 9])
  await cluster.set([1, 2])
  await cluster.makeWithoutBit(9)
  await cluster.time.advance(1)
  assert.equal(cluster.proven(), false)
  await cluster.end()
})
