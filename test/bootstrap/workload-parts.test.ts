import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { KubeApi } from '../../src/kube/api.ts'
import { KubeError } from '../../src/kube/errors.ts'
import { type EndpointSlice, endpointSlices, endpoints, leases, services } from '../../src/kube/resources.ts'
import type { Metrics } from '../../src/telemetry/metrics.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { passedOn } from '../kube/passed-on.ts'
import { createPods, createService, readinessOf, serving } from './composed-workloads.ts'

const LEASE = { namespace: 'kube-system', name: 'apiserver-bootstrap' }

test('without a selected controller nothing runs, and each controller is reported as inactive', async (t) => {
  const { compose } = await serving(t)
  const none = compose('one', { controllers: 'auto' })
  assert.equal(none.workloads, undefined)
  assert.deepEqual([await none.known(), await none.active()], [4, []])
})

test('without leader election the selected controllers are active from start to end, the others never', async (t) => {
  const { api, compose } = await serving(t)
  const one = compose('one', { controllers: 'endpoints,service-cidr', leaderElect: 'false' })
  assert.deepEqual(await one.active(), [])
  await one.start()
  assert.deepEqual(await one.active(), ['endpoints', 'service-cidr'])
  assert.equal(await one.known(), 4)
  assert.deepEqual((await api.list(leases)).items, [])
  await one.end()
  assert.deepEqual(await one.active(), [])
})

test('a controller is done when it has listed all its resources, not when its term begins', async (t) => {
  const { time, transport, compose } = await serving(t)
  const one = compose('one', { controllers: 'endpoints,service-cidr', leaderElect: 'false' })
  transport.faults.add({ fault: { type: 'delay', ms: 5_000 }, pathPrefix: '/api/v1/pods' })
  await one.start()
  const begun = ['endpoints begun', 'service-cidr begun']
  // A process that does not lead has nothing to do.
  assert.deepEqual(one.reported(), [...begun, ...begun, 'endpoints done', 'service-cidr done', 'service-cidr done'])
  await time.advance(10_000)
  assert.deepEqual(one.reported(), ['endpoints done'])
  await one.end()
  assert.deepEqual(one.reported(), [...begun, 'endpoints done', 'service-cidr done'])
})

test('of two processes one is active, and the other takes over when it ends', async (t) => {
  const { time, api, compose } = await serving(t)
  const [one, two] = ['one', 'two'].map((host) => compose(host, { controllers: 'endpoints' }))
  assert.ok(one !== undefined && two !== undefined)
  await one.start()
  await two.start()
  assert.deepEqual([await one.active(), await two.active()], [['endpoints'], []])
  assert.deepEqual(two.reported(), ['endpoints begun', 'endpoints done'])
  const holder = (await api.get(leases, LEASE)).spec?.holderIdentity
  assert.match(holder ?? '', /^one_[0-9a-f-]{36}$/)
  await one.end()
  await time.advance(5_000)
  assert.deepEqual([await one.active(), await two.active()], [[], ['endpoints']])
  assert.deepEqual(two.reported(), ['endpoints begun', 'endpoints done'])
})

test('two processes on one host are separate candidates', async (t) => {
  const { compose } = await serving(t)
  const [one, two] = [1, 2].map(() => compose('same', { controllers: 'endpoints' }))
  await one?.start()
  await two?.start()
  assert.deepEqual([await one?.active(), await two?.active()], [['endpoints'], []])
})

test('a leader that loses its Lease becomes inactive, and active again later', async (t) => {
  const { time, transport, compose } = await serving(t)
  const one = compose('one', { controllers: 'endpoints' })
  await one.start()
  one.reported()
  transport.faults.add({ fault: { type: 'status', status: 500 }, pathPrefix: '/apis/coordination.k8s.io' })
  await time.advance(30_000)
  assert.deepEqual(await one.active(), [])
  assert.deepEqual(one.reported(), ['endpoints begun', 'endpoints done'])
  transport.faults.clear()
  await time.advance(30_000)
  assert.deepEqual(await one.active(), ['endpoints'])
  assert.deepEqual(one.reported(), ['endpoints begun', 'endpoints done'])
})

test('a dry run takes part in no election: it is active and creates no Lease', async (t) => {
  const { api, compose } = await serving(t)
  const dry = compose('dry', { controllers: 'endpoints', dryRun: 'true' })
  await dry.start()
  assert.deepEqual(await dry.active(), ['endpoints'])
  assert.deepEqual((await api.list(leases)).items, [])
})

test('an unexpected error in a shared part ends the term of all controllers, and another term begins', async (t) => {
  const { time, api, compose } = await serving(t)
  let broken = true
  const watching = passedOn(api, {
    watch: (resource, query) => {
      if (broken) throw new TypeError('a bug')
      return api.watch(resource, query)
    },
  })
  const settings = { controllers: 'endpoints,service-cidr', leaderElect: 'false' }
  const one = compose('one', settings, { api: watching })
  await one.start()
  const crashes = one.reported().filter((line) => line.includes('crashed'))
  assert.deepEqual(crashes.slice(0, 2), ['endpoints crashed: a bug', 'service-cidr crashed: a bug'])
  broken = false
  await time.advance(60_000)
  assert.deepEqual(await one.active(), ['endpoints', 'service-cidr'])
  assert.deepEqual(one.reported().slice(-2).sort(), ['endpoints done', 'service-cidr done'])
})

test('Endpoints of many Pods are written once a second, of few Pods more often; EndpointSlices do not depend on the number', async (t) => {
  const { time, api, ports, compose } = await serving(t)
  const writes: (readonly [plural: string, atMs: number])[] = []
  const update: KubeApi['update'] = (resource, object, options) => {
    writes.push([resource.plural, ports.clock.monotonicMs()])
    return api.update(resource, object, options)
  }
  const setReady = readinessOf(api)
  await createPods(api, 60, (index) => (index < 5 ? { all: 'all', few: 'few' } : { all: 'all' }))
  /** The milliseconds between the writes of two changes, by what is written. */
  const pauses = async (selector: Readonly<Record<string, string>>): Promise<Readonly<Record<string, number>>> => {
    const [name = ''] = Object.keys(selector)
    await createService(api, name, selector)
    await time.advance(5_000)
    writes.length = 0
    await setReady('pod-0', false)
    await time.advance(10)
    await setReady('pod-1', false)
    await time.advance(5_000)
    const of = (plural: string): number => {
      const [first, second, ...more] = writes.filter(([one]) => one === plural).map(([, atMs]) => atMs)
      assert.ok(first !== undefined && second !== undefined && more.length === 0, `${plural}: ${writes}`)
      return second - first
    }
    await api.delete(services, { namespace: 'default', name })
    for (const pod of ['pod-0', 'pod-1']) await setReady(pod, true)
    await time.advance(5_000)
    return { endpoints: of('endpoints'), slices: of('endpointslices') }
  }
  const settings = { controllers: 'endpoints,endpointslice', leaderElect: 'false' }
  const one = compose('one', settings, { api: passedOn(api, { update }) })
  await one.start()
  assert.deepEqual(await pauses({ few: 'few' }), { endpoints: 100, slices: 13.5 })
  assert.deepEqual(await pauses({ all: 'all' }), { endpoints: 1_000, slices: 13.5 })
})

test('a process that was frozen past the expiry of its Lease writes nothing until it leads again', async (t) => {
  const { time, api, compose } = await serving(t)
  await createPods(api, 2, () => ({ app: 'web' }))
  await createService(api, 'web', { app: 'web' })
  const listed = async (): Promise<readonly (number | undefined)[]> => {
    const { subsets } = await api.get(endpoints, { namespace: 'default', name: 'web' })
    return [subsets?.[0]?.addresses?.length, subsets?.[0]?.notReadyAddresses?.length]
  }
  const clock = time.view()
  const one = compose('one', { controllers: 'endpoints' }, { clock })
  await one.start()
  assert.deepEqual(await listed(), [2, undefined])
  // Its timers do not fire, but it receives the events of its watches.
  clock.freeze()
  await time.advance(60_000)
  await readinessOf(api)('pod-0', false)
  await time.advance(1_000)
  assert.deepEqual(await listed(), [2, undefined])
  clock.thaw()
  await time.advance(60_000)
  assert.deepEqual(await listed(), [1, 1])
})

test('an unexpected error in one controller ends only its term, and that controller restarts', async (t) => {
  const { time, api, compose } = await serving(t)
  const metrics = prometheusMetrics()
  let broken = false
  const counter: Metrics['counter'] = (options) => {
    const counted = metrics.counter(options)
    return {
      add(labels, by) {
        if (broken && (labels as Readonly<Record<string, string>>).name === 'endpoint_slice') throw new Error('a bug')
        counted.add(labels, by)
      },
    }
  }
  await createPods(api, 2, () => ({ app: 'web' }))
  await createService(api, 'web', { app: 'web' })
  const settings = { controllers: 'endpoints,endpointslice', leaderElect: 'false' }
  const one = compose('one', settings, { metrics: { ...metrics, expose: () => metrics.expose(), counter } })
  await one.start()
  one.reported()
  broken = true
  await readinessOf(api)('pod-0', false)
  await time.advance(10)
  broken = false
  assert.deepEqual(one.reported(), ['endpointslice crashed: a bug'])
  await time.advance(30_000)
  assert.deepEqual(one.reported(), ['endpointslice begun', 'endpointslice done'])
  await readinessOf(api)('pod-1', false)
  await time.advance(5_000)
  const slices = await api.list(endpointSlices, { namespace: 'default' })
  const ready = slices.items.flatMap(({ endpoints }) => (endpoints ?? []).map(({ conditions }) => conditions?.ready))
  assert.deepEqual(ready, [false, false])
})

test('when the server returns, failed syncs are retried at once, and controllers record Events under their upstream names', async (t) => {
  const { time, api, logger, compose } = await serving(t)
  await createPods(api, 1, () => ({ app: 'web' }))
  await createService(api, 'web', { app: 'web' })
  const tried = new Set<string>()
  const create: KubeApi['create'] = async (resource, object, options) => {
    if (resource.group === '' && resource.kind !== 'Endpoints') return api.create(resource, object, options)
    tried.add(resource.kind)
    throw new KubeError('ServerError', 'full')
  }
  const settings = { controllers: 'endpoints,endpointslice', leaderElect: 'false' }
  const one = compose('one', settings, { api: passedOn(api, { create }) })
  await one.start()
  await time.advance(300_000)
  assert.deepEqual([...one.recorded].sort(), ['endpoint-controller', 'endpoint-slice-controller'])
  const loggers = logger.lines.filter(({ message }) => message.startsWith('a sync failed'))
  assert.deepEqual([...new Set(loggers.map(({ fields }) => fields.controller))].sort(), ['endpoints', 'endpointslice'])
  tried.clear()
  one.availability.failed('a test', new KubeError('Unreachable', 'gone'))
  await time.advance(100)
  assert.deepEqual([...tried], [])
  one.availability.succeeded('a test')
  await time.advance(100)
  assert.deepEqual([...tried].sort(), ['EndpointSlice', 'Endpoints'])
  assert.equal(one.followers(), 1)
  await one.end()
  assert.equal(one.followers(), 0)
})

const ADDRESS = '192.0.2.9'
const MASTERS = { 'endpointslice.kubernetes.io/skip-mirror': 'true' }

interface Found {
  /** The labels of the Endpoints. */
  readonly endpoints?: Readonly<Record<string, string>>
  /** The labels of the slice that bears the name of the Service. */
  readonly slice?: Readonly<Record<string, string>>
  /** Whether the Services select a Pod. @default true */
  readonly selecting?: boolean
}

/**
 * What controllers write for `kubernetes` and for `web` if both have the objects in `found`: `E` if they overwrite the
 * Endpoints, `S` if they create a slice.
 */
async function writtenBy(t: TestContext, controllers: string, found: Found): Promise<readonly string[]> {
  const { time, api, compose } = await serving(t)
  await createPods(api, 1, () => ({ app: 'web' }))
  const names = ['kubernetes', 'web']
  for (const name of names) {
    const metadata = { namespace: 'default', name }
    await createService(api, name, found.selecting === false ? undefined : { app: 'web' })
    if (found.endpoints !== undefined) {
      const subsets = [{ addresses: [{ ip: ADDRESS }], ports: [{ port: 80 }] }]
      await api.create(endpoints, { metadata: { ...metadata, labels: found.endpoints }, subsets })
    }
    if (found.slice !== undefined) {
      const listed = { addressType: 'IPv4', endpoints: [{ addresses: [ADDRESS] }], ports: [] } as const
      await api.create(endpointSlices, { metadata: { ...metadata, labels: found.slice }, ...listed } as EndpointSlice)
    }
  }
  const one = compose('one', { controllers, leaderElect: 'false' })
  await one.start()
  await time.advance(5_000)
  const written: string[] = []
  for (const name of names) {
    const labelSelector = `kubernetes.io/service-name=${name}`
    const slices = await api.list(endpointSlices, { namespace: 'default', labelSelector })
    const { items } = await api.list(endpoints, { namespace: 'default', fieldSelector: `metadata.name=${name}` })
    const ip = items[0]?.subsets?.[0]?.addresses?.[0]?.ip
    written.push(`${ip === undefined || ip === ADDRESS ? '' : 'E'}${slices.items.length > 0 ? 'S' : ''}`)
  }
  return written
}

const marks: readonly (readonly [what: string, controllers: string, found: Found, kubernetes: string, web: string])[] =
  [
    ['Endpoints with the mark of masters', 'endpoints', { endpoints: MASTERS }, '', 'E'],
    ['Endpoints without the mark of masters', 'endpoints', { endpoints: {} }, 'E', 'E'],
    [
      'Endpoints with another value of the mark',
      'endpoints',
      { endpoints: { [Object.keys(MASTERS)[0] ?? '']: 'false' } },
      'E',
      'E',
    ],
    [
      'Endpoints without the mark, beside a master in this process',
      'kubernetes-service,endpoints',
      { endpoints: {} },
      '',
      'E',
    ],
    ['a slice of masters', 'endpointslice', { slice: {} }, '', 'S'],
    [
      'a slice of another controller',
      'endpointslice',
      { slice: { 'endpointslice.kubernetes.io/managed-by': 'another' } },
      'S',
      'S',
    ],
    ['no slice', 'endpointslice', {}, 'S', 'S'],
    ['no slice, beside a master in this process', 'kubernetes-service,endpointslice', {}, '', 'S'],
    ['Endpoints to mirror', 'endpointslice-mirroring', { endpoints: {}, selecting: false }, 'S', 'S'],
    [
      'Endpoints to mirror, beside a master in this process',
      'kubernetes-service,endpointslice-mirroring',
      { endpoints: {}, selecting: false },
      '',
      'S',
    ],
  ]

for (const [what, controllers, found, kubernetes, web] of marks) {
  const does = kubernetes === '' ? 'left alone' : 'taken over'
  test(`${what}: default/kubernetes is ${does}, other Services are managed as usual`, async (t) => {
    assert.deepEqual(await writtenBy(t, controllers, found), [kubernetes, web])
  })
}
