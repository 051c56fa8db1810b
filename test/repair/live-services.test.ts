import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ListQuery } from '../../src/kube/api.ts'
import { Informer } from '../../src/kube/informer.ts'
import { type Service, services } from '../../src/kube/resources.ts'
import { keyOfObject } from '../../src/kube/store.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import { parseCidr } from '../../src/net/cidr.ts'
import { parsePortRange } from '../../src/net/host-port.ts'
import { clusterIpClaims, nodePortClaims, type RangeClaims } from '../../src/repair/bitmap/claims.ts'
import { RangeReader, readServices } from '../../src/repair/live-services.ts'
import { trimService } from '../../src/repair/service-claims.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { passedOn } from '../kube/passed-on.ts'
import { portsText, RangeWorld } from './bitmap/world.ts'

const { signal } = new AbortController()
const refOf = ({ metadata }: Service) => ({ namespace: 'default', name: metadata?.name ?? '' })

function numbers(...offsets: readonly number[]): Bitmap {
  const bitmap = new Bitmap(100)
  for (const offset of offsets) bitmap.add(offset)
  return bitmap
}

/** Services, an informer that may lag behind, and the requests that are sent. */
async function opened() {
  const world = await RangeWorld.start()
  const requests: string[] = []
  const api = passedOn(world.api, {
    get: (resource, ref, options) => {
      requests.push(`get ${ref.name}`)
      return world.api.get(resource, ref, options)
    },
    list: (resource, options) => {
      requests.push('list')
      return world.api.list(resource, options)
    },
  })
  const clock = world.time.view()
  const informer = new Informer<Service>({
    ...{ api: world.api, clock, random: seededRandom(1, 'test'), logger: memoryLogger() },
    resource: services,
  })
  const live = (claims: RangeClaims = nodePortClaims(parsePortRange(portsText)), index = 0): RangeReader =>
    new RangeReader({ api, services: informer, claims, index, clock })
  /** Lets the informer catch up. After that it receives nothing more. */
  const follow = async (): Promise<void> => {
    const stop = new AbortController()
    const run = informer.run(stop.signal)
    await world.time.advance(1_000)
    stop.abort()
    await run
  }
  return { world, api, live, follow, requests }
}

test('few Services are read one by one, many with one list, and missing ones are omitted', async () => {
  const { world, api, requests } = await opened()
  const made: Service[] = []
  for (let port = 1; port <= 12; port++) made.push(await world.service(30_000 + port))
  const gone = { namespace: 'default', name: 'gone' }
  const few = made.slice(0, 7).map(refOf)
  const read = await readServices(api, [...few, gone], signal)
  assert.deepEqual(
    [...read.keys()],
    few.map(({ name }) => `default/${name}`),
  )
  assert.deepEqual(
    requests.splice(0),
    [...few, gone].map(({ name }) => `get ${name}`),
  )
  const many = made.slice(0, 8).map(refOf)
  const listed = await readServices(api, [...many, gone], signal)
  assert.deepEqual([...listed.keys()].sort(), many.map(({ name }) => `default/${name}`).sort())
  assert.deepEqual(requests, ['list'])
})

test('a live read requests and returns only the fields that the repairs need', async () => {
  const { world, api } = await opened()
  const queries: ListQuery[] = []
  const recording = passedOn(api, {
    list: (resource, query = {}) => {
      queries.push(query)
      return api.list(resource, query)
    },
  })
  const made: Service[] = []
  for (let port = 1; port <= 9; port++) {
    const { metadata, ...rest } = await world.service(30_000 + port)
    const managedFields = [{ manager: 'kubectl', operation: 'Update' }]
    const changed = {
      ...rest,
      metadata: { ...metadata, managedFields },
      spec: { ...rest.spec, selector: { app: 'a' } },
    }
    made.push(await world.api.update(services, changed as Service))
  }
  assert.deepEqual(made[0]?.spec?.selector, { app: 'a' })
  for (const refs of [made, made.slice(0, 2)]) {
    const read = await readServices(recording, refs.map(refOf), signal)
    assert.equal(read.size, refs.length)
    for (const service of refs) {
      const found = read.get(keyOfObject(service)) as Service
      assert.deepEqual(found, trimService(service))
      assert.ok(!('managedFields' in (found.metadata ?? {})) && !('selector' in (found.spec ?? {})))
    }
  }
  assert.equal(queries.length, 1)
  assert.equal(queries[0]?.dropsManagedFields, true)
  assert.equal(queries[0]?.protobuf, trimService.protobuf)
})

test('all holders of a number are read; a deleted one does not hide another one', async () => {
  const { world, live, follow, requests } = await opened()
  const first = await world.service(30_001)
  const second = await world.service(30_001, 30_002)
  await follow()
  await world.delete(first)
  const { held, checked } = await live().holders(numbers(1), false, signal)
  assert.deepEqual(requests.sort(), [first, second].map((one) => `get ${one.metadata?.name}`).sort())
  assert.deepEqual([...held.numbers], [1, 2])
  assert.equal(checked, undefined)
  const [finding, ...more] = await held.findings(numbers(1))
  assert.equal(more.length, 0)
  assert.equal(finding?.regarding?.metadata?.name, second.metadata?.name)
  assert.match(finding?.note ?? '', /; repairing$/)
})

test('a Service that holds several of the numbers is read once', async () => {
  const { world, live, follow, requests } = await opened()
  const { metadata } = await world.service(30_001, 30_002, 30_003)
  await follow()
  await live().holders(numbers(1, 2, 3), false, signal)
  assert.deepEqual(requests, [`get ${metadata?.name}`])
})

test('of many numbers only the holders of eight are read, and these numbers are returned, unless all are requested', async () => {
  const { world, live, follow, requests } = await opened()
  for (let port = 1; port <= 20; port++) await world.service(30_000 + port)
  await follow()
  const wanted = numbers(...Array.from({ length: 20 }, (_, index) => index + 1))
  const few = await live().holders(wanted, false, signal)
  assert.equal(few.checked?.length, 8)
  assert.deepEqual(
    [...few.held.numbers],
    [...(few.checked ?? [])].sort((a, b) => a - b),
  )
  assert.equal(requests.splice(0).length, 8)
  const all = await live().holders(wanted, true, signal)
  assert.equal(all.checked, undefined)
  assert.equal([...all.held.numbers].length, 20)
  assert.deepEqual(requests, ['list'])
})

test('a read of all numbers returns those that Services on the server hold, whatever the informer has', async () => {
  const { world, live, follow } = await opened()
  const gone = await world.service(30_001)
  await follow()
  await world.delete(gone)
  await world.service(30_007)
  const { held, checked } = await live().all(signal)
  assert.deepEqual([...held.numbers], [7])
  assert.equal(checked, undefined)
})

test('numbers from the informer are reported as not allocated, without a mention of repairing', async () => {
  const { world, live, follow } = await opened()
  const { metadata } = await world.service(30_001)
  await follow()
  const [finding] = await live().notAllocated(numbers(1, 2))
  assert.equal(finding?.regarding?.metadata?.name, metadata?.name)
  assert.doesNotMatch(finding?.note ?? '', /repairing/)
})

test('the reader of each of two ranges finds only the numbers of its own range', async () => {
  const { world, live, follow } = await opened()
  await world.api.create(services, {
    metadata: { namespace: 'default', name: 'dual' },
    spec: {
      ipFamilyPolicy: 'RequireDualStack',
      clusterIP: '10.0.0.5',
      clusterIPs: ['10.0.0.5', 'fd00::9'],
      ports: [{ port: 80 }],
    },
  } as Service)
  await follow()
  const claims = clusterIpClaims([parseCidr('10.0.0.0/24'), parseCidr('fd00::/120')])
  const offsets = await Promise.all(
    [0, 1].map(async (index) => [...(await live(claims, index).all(signal)).held.numbers]),
  )
  assert.deepEqual(offsets, [[4], [8]])
  const wanted = new Bitmap(254)
  wanted.add(8)
  const second = await live(claims, 1).notAllocated(wanted)
  assert.deepEqual(
    second.map(({ item }) => item),
    ['fd00::9'],
  )
  assert.deepEqual(await live(claims, 0).notAllocated(wanted), [])
})
