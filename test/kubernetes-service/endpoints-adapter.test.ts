import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KubeError } from '../../src/kube/errors.ts'
import { noEvents } from '../../src/kube/event-object.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  type KubeObject,
} from '../../src/kube/resources.ts'
import { ServedResources } from '../../src/kube/served-resources.ts'
import { EndpointsAdapter, type ListPlan, NoLiveMasters } from '../../src/kubernetes-service/endpoints-adapter.ts'
import { planEndpoints, secondSliceOf, sliceOf } from '../../src/kubernetes-service/endpoints-plan.ts'
import { FIGHT } from '../../src/kubernetes-service/guarded-writes/contention.ts'
import { ForeignOverwrites } from '../../src/kubernetes-service/guarded-writes/foreign-overwrites.ts'
import { ObjectWriter, type Written } from '../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { addressesIn, addressesInSlice, endpointPorts } from '../../src/kubernetes-service/identity.ts'
import type { ObservedEndpoints } from '../../src/kubernetes-service/reconcilers/endpoint-reconciler.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { type Asked, ScriptedApi } from '../kube/scripted-api.ts'

const { signal } = new AbortController()
const conflict = new KubeError('Conflict', 'conflict', { httpStatus: 409 })
const forbidden = new KubeError('Forbidden', 'forbidden', { httpStatus: 403 })
const away = new KubeError('Unreachable', 'connection refused')

/** The plan that lists these addresses. */
const planOf = (
  { endpoints: current }: Pick<ObservedEndpoints, 'endpoints'>,
  addresses: readonly string[],
  secondAddresses: readonly string[] = [],
): ListPlan => ({
  endpoints: planEndpoints({
    addresses,
    current,
    ports: endpointPorts(6443),
    reconcilePorts: true,
    mayBecomeEmpty: false,
  }),
  secondAddresses,
})

interface OpenOptions {
  readonly backsOff?: boolean
  readonly serves?: () => boolean
  readonly onWritten?: (written: Written) => void
}

/**
 * An adapter for a server that holds one version of each object. `refuse` decides which calls it refuses, and `mutate`
 * what it stores.
 */
function open({ backsOff = false, serves, onWritten }: OpenOptions = {}) {
  const api = new ScriptedApi()
  const objects = new Map<string, KubeObject>()
  const server: {
    refuse: (call: string) => Error | undefined | Promise<void>
    mutate: (object: KubeObject) => KubeObject
    version: number
  } = {
    refuse: () => undefined,
    mutate: (object) => object,
    version: 0,
  }
  const calls: string[] = []
  api.answer = async ({ call, resource, of }: Asked) => {
    const { name = '' } = 'metadata' in of ? ((of as KubeObject).metadata ?? {}) : (of as { name: string })
    const key = `${resource.plural} ${name}`
    calls.push(`${call} ${key}`)
    const refusal = await server.refuse(`${call} ${key}`)
    if (refusal instanceof Error) throw refusal
    const found = objects.get(key)
    if (call === 'get' || call === 'delete') {
      if (found === undefined) throw new KubeError('NotFound', 'not found', { httpStatus: 404 })
      if (call === 'delete') objects.delete(key)
      return found
    }
    if (call === 'create' && found !== undefined) throw new KubeError('AlreadyExists', 'exists', { httpStatus: 409 })
    const metadata = { uid: key, ...(of as KubeObject).metadata, resourceVersion: `${++server.version}` }
    const stored = server.mutate({ ...of, metadata } as KubeObject)
    objects.set(key, stored)
    return stored
  }
  const time = new VirtualClock()
  const clock = time.view()
  const metrics = prometheusMetrics()
  const overwrites = new ForeignOverwrites({
    clock,
    metrics,
    logger: silentLogger,
    events: noEvents,
    intervalMs: 10_000,
  })
  const writer = new ObjectWriter({ api, metrics, overwrites: backsOff ? overwrites : undefined, onWritten })
  const served =
    serves &&
    new ServedResources({
      clock,
      logger: silentLogger,
      isReady: () => true,
      discovery: { serves: async () => serves() },
    })
  const adapter = new EndpointsAdapter({ api, writer, served })
  const list = (addresses: readonly string[], seconds: readonly string[] = []) =>
    adapter.reconcile(async (stored) => planOf(stored, addresses, seconds), signal)
  /** The addresses in each object; undefined if there is no such object. */
  const listed = () =>
    [
      'endpoints kubernetes',
      'endpointslices kubernetes',
      'endpointslices kubernetes-ipv4',
      'endpointslices kubernetes-ipv6',
    ]
      .map((key) => objects.get(key))
      .map((object, index) =>
        object === undefined
          ? undefined
          : index === 0
            ? addressesIn(object as Endpoints)
            : addressesInSlice(object as EndpointSlice),
      )
  const writes = () => calls.splice(0).filter((call) => !call.startsWith('get '))
  return { api, adapter, writer, served, server, objects, calls, writes, list, listed, time }
}

const one = ['192.0.2.1']
const two = ['192.0.2.1', '192.0.2.2']

test('a read returns the Endpoints and every slice; missing objects are undefined', async () => {
  const { adapter, list, api } = open()
  assert.equal(await adapter.getEndpoints(signal), undefined)
  assert.deepEqual(await adapter.read(signal), { endpoints: undefined, slice: undefined, secondSlices: [] })
  await list(one, ['2001:db8::1'])
  const found = await adapter.read(signal)
  assert.deepEqual(addressesIn(found.endpoints), one)
  assert.deepEqual(addressesInSlice(found.slice), one)
  assert.deepEqual(
    found.secondSlices.map(({ metadata }) => metadata?.name),
    ['kubernetes-ipv6'],
  )
  for (const asked of api.asked) assert.equal(asked.signal, signal, `${asked.call} ends with the signal`)
})

test('a read rejects if the Endpoints cannot be read', async () => {
  const { adapter, server } = open()
  server.refuse = (call) => (call === 'get endpoints kubernetes' ? away : undefined)
  await assert.rejects(adapter.read(signal), away)
})

test('while slices cannot be read, the Endpoints are written and the slices stay; then the reconciliation rejects', async () => {
  for (const failing of ['endpointslices kubernetes', 'endpointslices kubernetes-ipv6']) {
    const { adapter, server, list, listed, writes } = open()
    await list(one)
    writes()
    server.refuse = (call) => (call === `get ${failing}` ? away : undefined)
    await assert.rejects(list(two, ['2001:db8::1', '2001:db8::2']), away, failing)
    assert.deepEqual([writes(), listed()], [['update endpoints kubernetes'], [two, one, undefined, undefined]])
    assert.equal((await adapter.read(signal)).slicesError, away)
  }
})

test('while slices cannot be read, the watched ones are used', async () => {
  const { adapter, server, list, listed, calls } = open()
  await list(one)
  const watched = { ...(await adapter.read(signal)), suffices: false }
  server.refuse = (call) => (call.startsWith('get endpointslices') ? away : undefined)
  calls.length = 0
  await adapter.reconcile(async (stored) => planOf(stored, two, []), signal, watched)
  assert.deepEqual(calls.slice(0, 4).toSorted(), [
    'get endpoints kubernetes',
    'get endpointslices kubernetes',
    'get endpointslices kubernetes-ipv4',
    'get endpointslices kubernetes-ipv6',
  ])
  assert.deepEqual(listed().slice(0, 2), [two, two])
})

test('slices that are known from watches are not read, and their resourceVersions guard the writes', async () => {
  const { adapter, api, list, listed, calls } = open()
  await list(one)
  const watched = { ...(await adapter.read(signal)), suffices: true }
  const listWatched = (addresses: readonly string[]) =>
    adapter.reconcile(async (stored) => planOf(stored, addresses, []), signal, watched)
  calls.length = 0
  await listWatched(two)
  assert.deepEqual(calls, [
    'get endpoints kubernetes',
    'update endpoints kubernetes',
    'update endpointslices kubernetes',
  ])
  assert.deepEqual(listed().slice(0, 2), [two, two])
  // The watch has not delivered that write yet.
  await listWatched(['192.0.2.3'])
  const updates = api.asked.filter(({ call, resource }) => call === 'update' && resource === endpointSlices)
  assert.deepEqual(
    updates.map(({ of }) => (of as EndpointSlice).metadata?.resourceVersion),
    ['2', '2'],
  )
})

test('a reconciliation plans from the stored objects, writes the differences, and returns whether a plan existed', async () => {
  const { adapter, list, listed, writes } = open()
  assert.equal(await list(one), true)
  assert.deepEqual(writes(), ['create endpoints kubernetes', 'create endpointslices kubernetes'])
  assert.equal(await list(two, ['2001:db8::1', '2001:db8::2']), true)
  assert.deepEqual(listed(), [two, two, undefined, ['2001:db8::1', '2001:db8::2']])
  assert.equal(await list(two, ['2001:db8::1', '2001:db8::2']), true)
  writes()
  assert.equal(await adapter.reconcile(async () => undefined, signal), false)
  assert.deepEqual(writes(), [])
})

test('the plan is made after the read, and its writes carry the resourceVersions of that read', async () => {
  const { adapter, list, objects, api, server } = open()
  await list(one)
  await adapter.reconcile(async (stored) => {
    server.version = 41
    await api.update(endpoints, { ...stored.endpoints } as Endpoints)
    await api.update(endpointSlices, { ...stored.slice } as EndpointSlice)
    return planOf(stored, two)
  }, signal)
  for (const [plural, version] of [
    ['endpoints', '1'],
    ['endpointslices', '2'],
  ]) {
    const update = api.asked.findLast(({ call, resource }) => call === 'update' && resource.plural === plural)
    assert.equal(
      (update?.of as KubeObject | undefined)?.metadata?.resourceVersion,
      version,
      'the update has the resourceVersion of the read',
    )
  }
  assert.ok(objects.has('endpoints kubernetes'))
})

test('a failed write of Endpoints rejects; the slices are then written if the server failed, not after a mistake', async () => {
  for (const [error, slices] of [
    [away, two],
    [new TypeError('a mistake'), one],
    [new KubeError('Timeout', 'a webhook hangs'), two],
    [new KubeError('TooManyRequests', 'refused by a webhook', { httpStatus: 429 }), two],
    [new KubeError('ServerError', 'etcd leader changed', { httpStatus: 503 }), two],
    [new KubeError('ServerError', 'failed calling webhook', { httpStatus: 500 }), two],
    [forbidden, two],
    [new KubeError('Invalid', 'a policy denied the request', { httpStatus: 422 }), two],
  ] as const) {
    const { list, listed, server } = open()
    await list(one, ['2001:db8::1'])
    server.refuse = (call) => (call === 'update endpoints kubernetes' ? error : undefined)
    await assert.rejects(list(two, slices === two ? ['2001:db8::1', '2001:db8::2'] : ['2001:db8::1']), error)
    const seconds = slices === two ? ['2001:db8::1', '2001:db8::2'] : ['2001:db8::1']
    assert.deepEqual(listed(), [one, slices, undefined, seconds], error.message)
  }
})

test('if a webhook removes addresses from the Endpoints, the slices still have them', async () => {
  const { list, listed, server } = open()
  server.mutate = (object) => ('subsets' in object ? { ...object, subsets: [] } : object)
  await list(two)
  assert.deepEqual(listed().slice(0, 2), [[], two])
})

test('after a conflict the slices follow only if nobody has written the Endpoints since they were read', async () => {
  for (const [happens, slices] of [
    ['nothing', two],
    ['update', one],
    ['replacement', one],
    ['deletion', one],
    ['failed read', one],
  ] as const) {
    const { list, listed, server, objects } = open()
    await list(one)
    const key = 'endpoints kubernetes'
    let isRefused = false
    server.refuse = (call) => {
      if (isRefused && happens === 'failed read' && call === `get ${key}`) return away
      if (call !== `update ${key}`) return undefined
      isRefused = true
      const found = objects.get(key) as KubeObject
      const changed = happens === 'update' ? { resourceVersion: '99' } : happens === 'replacement' ? { uid: 'new' } : {}
      if (happens === 'deletion') objects.delete(key)
      else objects.set(key, { ...found, metadata: { ...found.metadata, ...changed } })
      return conflict
    }
    await assert.rejects(list(two), conflict)
    assert.deepEqual(listed()[1], slices, happens)
  }
})

test('if a webhook refuses the creation of missing Endpoints with a conflict, the slices are written', async () => {
  for (const [happens, slices] of [
    ['nothing', two],
    ['creation', one],
    ['failed read', one],
  ] as const) {
    const { list, listed, server, objects } = open()
    await list(one)
    const key = 'endpoints kubernetes'
    const before = objects.get(key) as KubeObject
    objects.delete(key)
    let isRefused = false
    server.refuse = (call) => {
      if (isRefused && happens === 'failed read' && call === `get ${key}`) return away
      if (call !== `create ${key}`) return undefined
      isRefused = true
      if (happens === 'creation') objects.set(key, before)
      return conflict
    }
    await assert.rejects(list(two), conflict)
    assert.deepEqual(listed()[1], slices, happens)
  }
})

test('Endpoints that another client has just created are a conflict, and no slice is written', async () => {
  const { list, server, writes, listed, objects } = open()
  await list(one, ['2001:db8::1'])
  for (const key of ['endpoints kubernetes', 'endpointslices kubernetes']) objects.delete(key)
  writes()
  server.refuse = (call) =>
    call === 'create endpoints kubernetes' ? new KubeError('AlreadyExists', 'exists', { httpStatus: 409 }) : undefined
  await assert.rejects(list(one), { code: 'Conflict', nature: 'conflict' })
  assert.deepEqual(writes(), ['create endpoints kubernetes'])
  assert.deepEqual(listed(), [undefined, undefined, undefined, ['2001:db8::1']])
})

test('each slice is written even if another write fails; the first failure rejects after all writes have ended', async () => {
  for (const failing of ['kubernetes', 'kubernetes-ipv6']) {
    const { list, listed, server } = open()
    await list(one, ['2001:db8::1'])
    const slow = Promise.withResolvers<void>()
    server.refuse = (call) => {
      if (call === `update endpointslices ${failing}`) return forbidden
      return call.startsWith('update endpointslices') ? slow.promise : undefined
    }
    let ended = false
    const listing = list(two, ['2001:db8::1', '2001:db8::2']).finally(() => {
      ended = true
    })
    listing.catch(() => {})
    await new Promise(setImmediate)
    assert.equal(ended, false)
    slow.resolve()
    await assert.rejects(listing, forbidden)
    const [, slice, , second] = listed()
    assert.deepEqual([slice?.length, second?.length], failing === 'kubernetes' ? [1, 2] : [2, 1])
  }
})

test('each request carries the signal of the caller', async () => {
  const { list, api } = open()
  await list(one, ['2001:db8::1'])
  await list(two, ['2001:db8::2'])
  assert.equal(api.asked.filter(({ call }) => call !== 'get').length, 6)
  for (const asked of api.asked) assert.equal(asked.signal, signal, `${asked.call} ${asked.resource.plural}`)
})

test('an empty list is refused, and nothing is written', async () => {
  const { adapter, list, writes } = open()
  await list(one)
  writes()
  await assert.rejects(list([]), NoLiveMasters)
  assert.deepEqual(writes(), [])
  const stored = await adapter.read(signal)
  assert.equal(adapter.isSettled(planOf(stored, []), stored), false)
})

test('a leftover second slice is removed, whichever family it has', async () => {
  const { list, listed } = open()
  await list(one, ['2001:db8::1'])
  await list(['2001:db8::1'], ['192.0.2.1'])
  assert.deepEqual(listed(), [['2001:db8::1'], ['2001:db8::1'], ['192.0.2.1'], undefined])
  await list(['2001:db8::1'])
  assert.deepEqual(listed(), [['2001:db8::1'], ['2001:db8::1'], undefined, undefined])
})

test('the adapter is settled when Endpoints and each slice are as planned', async () => {
  const { adapter, list } = open()
  await list(one, ['2001:db8::1'])
  const stored = await adapter.read(signal)
  const isSettled = (observed: Partial<ObservedEndpoints>, addresses = one, seconds = ['2001:db8::1']): boolean => {
    const all = { ...stored, ...observed }
    return adapter.isSettled(planOf(all, addresses, seconds), all)
  }
  const other = { subsets: [{ addresses: [{ ip: '192.0.2.9' }], ports: [...endpointPorts(6443)] }] }
  assert.equal(isSettled({}), true)
  assert.equal(isSettled({}, two), false)
  assert.equal(isSettled({ endpoints: undefined }), false)
  assert.equal(isSettled({ slice: undefined }), false)
  assert.equal(isSettled({ slice: sliceOf(other) }), false)
  assert.equal(isSettled({ secondSlices: [] }), false)
  assert.equal(isSettled({ secondSlices: [secondSliceOf(other, ['2001:db8::9']) as EndpointSlice] }), false)
  assert.equal(isSettled({}, one, []), false, 'the second slice is left over')
  const none = { endpoints: undefined, slice: undefined, secondSlices: [] }
  assert.equal(adapter.isSettled({ endpoints: { type: 'none' }, secondAddresses: [] }, none), true)
})

test('in a fight for Endpoints the slices follow the plan; the adapter is settled while only the fight waits', async () => {
  const { adapter, list, listed, api, writer, writes } = open({ backsOff: true })
  const release = writer.holdBack(() => {})
  await list(one)
  const overwrite = async (last: number): Promise<ObservedEndpoints> => {
    const stored = await adapter.read(signal)
    const subsets = [{ ...stored.endpoints?.subsets?.[0], addresses: [{ ip: `198.51.100.${last}` }] }]
    await api.update(endpoints, { ...stored.endpoints, subsets } as Endpoints)
    return adapter.read(signal)
  }
  for (let fight = 1; fight <= FIGHT.burst; fight++) {
    await overwrite(fight)
    await list(one)
    const now = await adapter.read(signal)
    assert.equal(adapter.isSettled(planOf(now, one), now), true)
  }
  const theirs = await overwrite(99)
  writes()
  await list(one)
  assert.deepEqual(writes(), [])
  const waiting = await adapter.read(signal)
  assert.equal(adapter.isSettled(planOf(waiting, one), waiting), true)
  // A slice that agrees with the Endpoints of the other writer is not settled: our slice must not follow them.
  await api.update(endpointSlices, {
    ...waiting.slice,
    endpoints: sliceOf(theirs.endpoints as Endpoints).endpoints,
  } as EndpointSlice)
  const mirrored = await adapter.read(signal)
  assert.equal(adapter.isSettled(planOf(mirrored, one), mirrored), false)
  await list(one)
  assert.deepEqual(listed().slice(0, 2), [['198.51.100.99'], one])
  release()
})

test('a slice found in sync counts as such; the adapter is settled while a fight for the slice waits', async () => {
  const { adapter, list, listed, api, writer } = open({ backsOff: true })
  writer.holdBack(() => {})
  await list(one)
  const overwrite = async (last: number): Promise<void> => {
    const stored = await adapter.read(signal)
    assert.equal(adapter.isSettled(planOf(stored, one), stored), true)
    await api.update(endpointSlices, {
      ...stored.slice,
      endpoints: [{ addresses: [`198.51.100.${last}`] }],
    } as EndpointSlice)
  }
  for (let fight = 1; fight <= FIGHT.burst; fight++) {
    await overwrite(fight)
    await list(one)
    assert.deepEqual(listed()[1], one)
  }
  await overwrite(99)
  await list(one)
  assert.deepEqual(listed()[1], ['198.51.100.99'])
  const waiting = await adapter.read(signal)
  assert.equal(adapter.isSettled(planOf(waiting, one), waiting), true)
})

test('restoring Endpoints that were only seen in sync before counts as a correction', async () => {
  const written: Written[] = []
  const { adapter, api, list } = open({ backsOff: true, onWritten: (one) => written.push(one) })
  const made = planOf({ endpoints: undefined }, one).endpoints
  if (made.type !== 'create') throw new Error('missing Endpoints must be made')
  await api.create(endpoints, made.object)
  const seen = await adapter.read(signal)
  assert.equal(adapter.isSettled(planOf(seen, one), seen), false, 'there is no slice')
  await api.update(endpoints, {
    ...seen.endpoints,
    subsets: [{ addresses: [{ ip: '198.51.100.1' }], ports: [...endpointPorts(6443)] }],
  } as Endpoints)
  await list(one)
  const correction = written.find(({ resource }) => resource.plural === 'endpoints')?.correction
  assert.notEqual(correction, undefined)
})

test('while the server does not serve Endpoints, a reconciliation sends no request', async () => {
  let serves = true
  const { list, calls, served, time } = open({ serves: () => serves })
  assert.equal(await list(one), true)
  assert.ok(calls.length > 0)
  serves = false
  await served?.confirmUnserved(endpoints, signal)
  await time.advance(4_000)
  await served?.confirmUnserved(endpoints, signal)
  assert.equal(served?.isUnserved(endpoints), true)
  calls.length = 0
  assert.equal(await list(one), true)
  assert.deepEqual(calls.splice(0), [])
  serves = true
  assert.equal(await list(two), true)
  assert.ok(calls.includes('update endpoints kubernetes'))
})
