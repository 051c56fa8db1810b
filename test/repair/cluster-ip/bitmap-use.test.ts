import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Informer } from '../../../src/kube/informer.ts'
import { services } from '../../../src/kube/resources.ts'
import { Bitmap } from '../../../src/net/bitmap.ts'
import { parseCidr } from '../../../src/net/cidr.ts'
import { BitmapUse } from '../../../src/repair/cluster-ip/bitmap-use.ts'
import { clusterIpClaims } from '../../../src/repair/cluster-ip/cluster-ip-claims.ts'
import { MemoryRangeRegistry } from '../../../src/repair/registries/memory.ts'
import type { RangeName } from '../../../src/repair/registries/range-registry.ts'
import { keptOfService } from '../../../src/repair/service-claims.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { Embedded } from '../../apiserver/embedded.ts'

/** A cluster whose bitmap has the addresses that end in these numbers, of which .1 and .2 belong to Services. */
async function watched(...taken: readonly number[]) {
  const embedded = await Embedded.started(undefined, { serviceAllocators: 'none' })
  const { api, clock, time } = embedded
  const registry = new MemoryRangeRegistry()
  const set = (numbers: readonly number[], name: RangeName = 'serviceips', range = '10.96.0.0/24'): void => {
    const bitmap = new Bitmap(254)
    for (const number of numbers) bitmap.add(number - 1)
    registry.put(name, { range, data: bitmap.toBytes() })
  }
  const make = (number: number, name = `s${number}`) =>
    api.create(services, {
      metadata: { namespace: 'default', name },
      spec: { clusterIP: `10.96.0.${number}`, ports: [{ port: 80 }] },
    })
  set(taken)
  await make(1)
  await make(2)
  const availability = { failed() {}, succeeded() {}, forget() {} }
  const context = { api, clock, random: seededRandom(1, 'test'), logger: silentLogger, availability }
  const informer = new Informer({ ...context, resource: services, transform: keptOfService })
  const claims = clusterIpClaims([parseCidr('10.96.0.0/24')])
  const use = new BitmapUse({ ...context, registry, claims, services: informer })
  const stop = new AbortController()
  const following = informer.run(stop.signal)
  let proven = false
  const ended = use.proven(stop.signal).then(
    () => {
      proven = true
    },
    () => {},
  )
  await time.advance(1_000)
  // The first that is told of a bitmap is only what others are compared with.
  set(taken)
  return {
    time,
    set,
    make,
    proven: () => proven,
    async end() {
      stop.abort(new Error('the test is over'))
      await time.advance(1)
      await Promise.all([following, ended])
    },
  }
}

test('a Service that is made with its bit proves that a server uses the bitmap, whichever is heard of first', async () => {
  for (const bitFirst of [true, false]) {
    const cluster = await watched(1, 2)
    if (bitFirst) cluster.set([1, 2, 7])
    await cluster.make(7)
    await cluster.time.advance(30_000)
    if (!bitFirst) cluster.set([1, 2, 7])
    await cluster.time.advance(1)
    assert.equal(cluster.proven(), true)
    await cluster.end()
  }
})

test('neither old Services and bits nor new ones without each other prove anything', async () => {
  const cluster = await watched(1)
  await cluster.make(3)
  cluster.set([1, 2, 8])
  await cluster.time.advance(61_000)
  cluster.set([1, 2, 3, 8])
  await cluster.make(8)
  await cluster.time.advance(1)
  assert.equal(cluster.proven(), false)
  await cluster.end()
})

test('the bits of NodePorts and of other addresses prove nothing', async () => {
  const cluster = await watched(1, 2)
  cluster.set([], 'servicenodeports', '30000-30253')
  cluster.set([7], 'servicenodeports', '30000-30253')
  cluster.set([1, 2, 9])
  cluster.set([1, 2, 7], 'serviceips', '10.97.0.0/24')
  await cluster.make(7)
  await cluster.time.advance(1)
  assert.equal(cluster.proven(), false)
  await cluster.end()
})
